"""Options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from headrace.cli.waiting import say_waits
from headrace.errors import HeadraceError
from headrace.lazy import later
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from headrace.api import connect
    from headrace.api.shared_options import SharedOption
else:
    connect = later("headrace.api.connect")  # not for --help

Command = TypeVar("Command", bound=Callable[..., None])
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
WideOption = Annotated[bool, typer.Option("--wide", help="Show all columns; lines may be longer than the screen.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def shared_options(declared: Mapping[str, SharedOption]) -> Callable[[Command], Command]:
    """Give a command the declared options; it receives the values of those that were given as `options`."""

    def decorate(command: Command) -> Command:
        own = [each for each in signature(command, eval_str=True).parameters.values() if each.name != "options"]
        options = {
            name: typer.Option(metavar=each.metavar, help=each.help) for name, each in declared.items() if each.metavar
        }
        added = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, option])
            for name, option in options.items()
        ]

        def run(**values: Any) -> None:
            chosen_values = {name: values.pop(name) for name in options}
            command(**values, options={name: value for name, value in chosen_values.items() if value is not None})

        run.__doc__ = command.__doc__
        run.__signature__ = Signature([own[0], own[1], *added, *own[2:]])  # type: ignore[attr-defined]
        return cast("Command", run)

    return decorate


def complete_view(context: typer.Context, incomplete: str) -> list[str]:
    """The applied views, for shell completion."""
    return _applied_names(context, ("view", "table", "logical view"), incomplete)


def complete_stream(context: typer.Context, incomplete: str) -> list[str]:
    """The applied streams, for shell completion."""
    return _applied_names(context, ("stream",), incomplete)


def complete_sink(context: typer.Context, incomplete: str) -> list[str]:
    """The applied sinks, for shell completion."""
    return _applied_names(context, ("sink",), incomplete)


def _applied_names(context: typer.Context, kinds: tuple[str, ...], incomplete: str) -> list[str]:
    try:
        workspace = Workspace.open(context.params.get("workspace") or ".")
        definitions = json.loads(workspace.catalog_file.read_text())["definitions"]
        return sorted(d["name"] for d in definitions if d["kind"] in kinds and d["name"].startswith(incomplete))
    except (OSError, ValueError, KeyError, TypeError, HeadraceError):
        return []  # completion cannot report errors


def open_connection(workspace: str) -> connect.Connection:
    """A connection to the workspace of `--workspace`."""
    connection = connect.connect(workspace)
    connection.on_wait(say_waits())
    return connection
