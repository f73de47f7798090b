"""`headrace versions` and `headrace rollback`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.options import JsonOption, NoWaitOption, WorkspaceOption, complete_view, open_connection
from headrace.cli.output import console, count, print_json
from headrace.cli.overview import fit_table
from headrace.cli.plan import agree
from headrace.cli.until import wait_until_serving

if TYPE_CHECKING:
    from headrace.plan.change import RollbackStep
    from headrace.server.state import VersionStatus

CHANGES = "changes to it"

ViewArgument = Annotated[str, typer.Argument(help="View.", metavar="VIEW", autocompletion=complete_view)]


def versions(view: ViewArgument, workspace: WorkspaceOption = ".", as_json: JsonOption = False) -> None:
    """List the versions of a view. Newest first, with progress and changes."""
    with open_connection(workspace) as connection:
        found = connection.verbs.versions(view)
    if as_json:
        print_json(found)
        return
    out = console()
    left = ("state", "since", "definition", CHANGES)
    wide = ("since", "horizon", "batch events", "speed events", "definition")
    out.print(fit_table([_cells(version) for version in found], out.width, left=left, wide=wide))


def _cells(version: VersionStatus) -> dict[str, str]:
    rows = version.batch_rows + version.speed_rows
    return {
        "version": str(version.version),
        "state": version.state,
        "since": version.since.replace("T", " ")[:19],
        "horizon": count(version.horizon),
        "commits": count(version.built_to if version.state in ("registered", "building") else version.applied_to),
        "rows": count(rows if version.has_rows else None),
        "batch events": count(version.batch_events if version.has_rows else None),
        "speed events": count(version.speed_events if version.has_rows else None),
        "definition": version.fingerprint,
        "replaced": "–" if version.replaces is None else str(version.replaces),
        CHANGES: version.alarm or version.stalled or version.error or _changes(version),
    }


def _changes(version: VersionStatus) -> str:
    said = "; ".join(version.changes) or "nothing: rebuilt"
    if version.changed_from is None:
        said = "–" if version.replaces is None else f"version {version.replaces} is no longer kept"
    return said if version.has_rows else f"{said} (a free edit took its rows)"


def rollback(
    view: ViewArgument,
    to: Annotated[
        int | None,
        typer.Option("--to", metavar="VERSION", help="Version to roll back to.", show_default="the previous one"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    no_wait: NoWaitOption = False,
    workspace: WorkspaceOption = ".",
    as_json: JsonOption = False,
) -> None:
    """Roll a view back to an earlier version. The current version serves until then; asks on a terminal.

    The definitions folder is not changed; `headrace plan` shows how it differs from what is applied.
    """
    with open_connection(workspace) as connection:
        found = connection.verbs.rollback(view, to, dry_run=True)
        if not as_json:
            _print(found)
        agree("rollback", "Go back?", yes=yes, as_json=as_json)
        done = connection.verbs.rollback(view, found.to)
        shown = next(v for v in connection.verbs.views() if v.name == view)
        coming = shown.building
        if coming and not no_wait:
            wait_until_serving(connection, {view: coming.version})
            coming = None
    if as_json:
        print_json(done.as_dict())
    elif coming:
        typer.echo(f"Version {coming.version} is on its way: `headrace versions {view}` shows the progress.")
    else:
        typer.echo(f"View {view} is rolled back to version {done.to}.")


def _print(found: RollbackStep) -> None:
    from rich.text import Text

    out = console()
    head = f"~ view {found.view}, version {found.serving} → {found.to}"
    out.print(Text.assemble((head, "yellow"), f"  {found.change.reason}"), soft_wrap=True)
    for detail in found.change.details:
        out.print(Text(f"    {detail}", style="dim"), soft_wrap=True)
