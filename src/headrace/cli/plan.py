"""`headrace plan` and `headrace apply`: what would change, and the change."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.options import JsonOption, NoWaitOption, WorkspaceOption, open_connection
from headrace.cli.output import console, print_json
from headrace.cli.until import wait_until_serving
from headrace.errors import DefinitionError, UsageError

if TYPE_CHECKING:
    from headrace.client.connect import Connection
    from headrace.plan.change import Plan
    from headrace.server.state import FieldStatus, StreamStatus

CHANGES_EXIT_CODE = 4
_MARKS = {"create": ("+", "green"), "change": ("~", "yellow"), "drop": ("-", "red"), "refuse": ("!", "red bold")}


def plan(
    workspace: WorkspaceOption = ".",
    as_json: JsonOption = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help=f"Exit with {CHANGES_EXIT_CODE} if there are changes.")
    ] = False,
) -> None:
    """Show what `apply` would change. Compares the definitions folder with the applied definitions.

    Changes nothing. Exits with 2 if a definition has an error or a change is refused, else with 0.
    """
    with open_connection(workspace) as connection:
        found = connection.plan()
    if as_json:
        print_json(found.as_dict())
    else:
        print_plan(found)
    if found.refused:
        raise typer.Exit(DefinitionError.exit_code)
    if exit_code and not found.empty:
        raise typer.Exit(CHANGES_EXIT_CODE)


def apply(
    workspace: WorkspaceOption = ".",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    no_wait: NoWaitOption = False,
    as_json: JsonOption = False,
) -> None:
    """Apply the definitions folder. Works on a running server; asks for confirmation on a terminal.

    Waits until all builds are done; the old versions serve until then. Ctrl-C stops waiting, not the builds.
    """
    with open_connection(workspace) as connection:
        offline = connection.url is None
        found = connection.plan()
        if not as_json:
            print_plan(found)
        if found.refused:
            first = found.refused[0]
            raise DefinitionError(
                f"{first.what} '{first.name}' cannot be changed this way", fix=f"nothing was changed; {first.reason}"
            )
        readable: dict[str, int] = {}
        coming: dict[str, int] = {}
        if not found.empty:
            agree("apply", "Apply?", yes=yes, as_json=as_json)
            before = {stream.name: stream.fields for stream in connection.verbs.streams()}
            connection.apply(found.fingerprint)
            readable = _perhaps_readable(before, connection.verbs.streams())
            coming = _coming(connection, found)
            if coming and not no_wait:
                wait_until_serving(connection, coming)
                coming = {}
    if as_json:
        print_json({**found.as_dict(), "applied": not found.empty, "perhaps_readable": readable})
    elif not found.empty:
        typer.echo("Applied.")
        if offline and found.reading:
            typer.echo("No server is running: the next `headrace up` runs the builds.")
        for view, version in coming.items():
            typer.echo(
                f"Version {version} of view {view} is being built: `headrace versions {view}` shows the progress."
            )
        for stream, dead in readable.items():
            typer.echo(
                f"{dead:,} dead letters of stream {stream} may be valid now: `headrace dead-letters {stream} replay`"
            )


def _perhaps_readable(before: Mapping[str, Sequence[FieldStatus]], streams: Sequence[StreamStatus]) -> dict[str, int]:
    """How many dead letters the streams have whose fields were loosened."""
    changed = [stream for stream in streams if any(field not in stream.fields for field in before.get(stream.name, ()))]
    return {stream.name: stream.dead_letters for stream in changed if stream.dead_letters}


def _coming(connection: Connection, found: Plan) -> dict[str, int]:
    """The versions of the plan's views that do not serve yet."""
    if connection.url is None:
        return {}  # without a server nothing moves
    names = {change.name for change in found.changes if change.what == "view"}
    building = {view.name: view.building for view in connection.verbs.views()}
    return {name: coming.version for name in sorted(names) if (coming := building.get(name))}


def agree(command: str, question: str, *, yes: bool, as_json: bool) -> None:
    """Go on only with a yes."""
    if yes:
        return
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"{command} asks for confirmation, but there is no terminal", fix="give --yes")
    if not typer.confirm(question):
        typer.echo("Nothing was changed.")
        raise typer.Exit(1)


def print_plan(found: Plan, *, stderr: bool = False) -> None:
    """A plan for people."""
    from rich.text import Text

    out = console(stderr=stderr)
    if found.empty:
        out.print("No changes: all definitions are applied.")
        return
    for change in found.changes:
        mark, style = _MARKS[change.kind]
        out.print(Text.assemble((f"{mark} {change.what} {change.name}", style), f"  {change.reason}"), soft_wrap=True)
        for detail in change.details:
            out.print(Text(f"    {detail}", style="dim"), soft_wrap=True)
    out.print(Text(_sum_up(found)))
    if found.refused:
        out.print("Nothing is applied while a change is refused.")


def _sum_up(found: Plan) -> str:
    from headrace.plan.cost import sum_up

    said = {"create": "to create", "change": "to change", "drop": "to drop", "refuse": "refused"}
    counts = {kind: sum(change.kind == kind for change in found.changes) for kind in said}
    kinds = ", ".join(f"{number} {said[kind]}" for kind, number in counts.items() if number)
    free = sum(change.kind == "change" and change.how == "free" for change in found.changes)
    builds = [change.cost for change in found.builds]
    known = [cost for cost in builds if cost is not None]
    costs = [f"{free} free"] if free else []
    if found.reading:
        total = f" ({sum_up(known)})" if len(known) == len(builds) else ""
        costs.append(f"{len(found.reading)} by a build{total}")
    return f"{kinds}: {', '.join(costs)}" if costs else kinds
