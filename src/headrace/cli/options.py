"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.waiting import say_waits

if TYPE_CHECKING:
    from headrace.client.connect import Connection

WorkspaceOption = Annotated[
    str,
    typer.Option(
        "-w",
        "--workspace",
        help="Folder of the workspace, or URL of its server.",
        metavar="FOLDER|URL",
        show_default="the current folder",
    ),
]
FolderOption = Annotated[
    Path,
    typer.Option(
        "-w", "--workspace", help="Folder of the workspace.", metavar="FOLDER", show_default="the current folder"
    ),
]
NoWaitOption = Annotated[bool, typer.Option("--no-wait", help="Return once it has started.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def complete_view(context: typer.Context, incomplete: str) -> list[str]:
    """The views that run, for the shell's completion."""
    return _running(context, "view", incomplete)


def complete_stream(context: typer.Context, incomplete: str) -> list[str]:
    """The streams that run, for the shell's completion."""
    return _running(context, "stream", incomplete)


def _running(context: typer.Context, kind: str, incomplete: str) -> list[str]:
    import json

    from headrace.errors import HeadraceError
    from headrace.workspace.settings import Workspace  # whose settings say where the data is

    try:
        workspace = Workspace.open(context.params.get("workspace") or ".")
        declared = json.loads(workspace.catalog_file.read_text())["definitions"]
        return sorted(d["name"] for d in declared if d["kind"] == kind and d["name"].startswith(incomplete))
    except (OSError, ValueError, KeyError, TypeError, HeadraceError):
        return []  # a shell has no place for errors


def open_connection(workspace: str) -> Connection:
    """A connection to what `--workspace` names."""
    from headrace.client.connect import connect  # brings the parts that read answers, which --help need not wait for

    connection = connect(workspace)
    connection.on_wait(say_waits())
    return connection
