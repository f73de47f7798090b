"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headrace.client import Connection

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
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def open_connection(workspace: str) -> Connection:
    """A connection to what `--workspace` names."""
    from headrace.client import connect  # brings the parts that read answers, which --help need not wait for

    return connect(workspace)
