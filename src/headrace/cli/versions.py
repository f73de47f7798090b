"""`headrace versions` and `headrace rollback`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headrace.cli.options import JsonOption, NoWaitOption, WideOption, WorkspaceOption, complete_view, open_connection
from headrace.cli.output import console, count, print_json, record_table, say
from headrace.cli.overview import print_lanes
from headrace.names import shell

if TYPE_CHECKING:
    from headrace.plan.change import RollbackStep
    from headrace.server.state import VersionStatus

CHANGES = "changes to it"

ViewArgument = Annotated[str, typer.Argument(help="View.", metavar="VIEW", autocompletion=complete_view)]


def versions(
    view: ViewArgument, workspace: WorkspaceOption = ".", wide: WideOption = False, as_json: JsonOption = False
) -> None:
    """List the versions of a view. Newest first, with lane, progress and changes."""
    with open_connection(workspace) as connection:
        statuses = connection.verbs.versions(view)
    if as_json:
        print_json(statuses)
        return
    out = console(wide=wide)
    left = ("state", "lane", "since", "definition", CHANGES)
    optional = ("definition", "horizon", "speed events", "batch events", "lane", "since", "replaced", "commits")
    out.print(record_table([_cells(version) for version in statuses], left, optional))
    print_lanes({f"version {version.version}": version.lane_reason for version in statuses})


def _cells(version: VersionStatus) -> dict[str, str]:
    rows = version.batch_rows + version.speed_rows
    return {
        "version": str(version.version),
        "state": version.state,
        "lane": version.lane or "–",
        "since": version.since.replace("T", " ")[:19],
        "horizon": count(version.horizon),
        "commits": count(version.built_to if version.state in ("registered", "building") else version.applied_to),
        "stored rows": count(rows if version.has_rows else None),
        "batch events": count(version.batch_events if version.has_rows else None),
        "speed events": count(version.speed_events if version.has_rows else None),
        "definition": version.fingerprint,
        "replaced": "–" if version.replaces is None else str(version.replaces),
        CHANGES: version.alarm or version.stalled or version.error or _changes(version),
    }


def _changes(version: VersionStatus) -> str:
    text = "; ".join(version.changes) or "nothing: rebuilt"
    if version.changed_from is None:
        text = "–" if version.replaces is None else f"version {version.replaces} is no longer kept"
    return text if version.has_rows else f"{text} (a free edit took its rows)"


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
    # Not for `versions`.
    from headrace.cli.plan import confirm
    from headrace.cli.until import wait_until_serving

    with open_connection(workspace) as connection:
        step = connection.verbs.rollback(view, to, dry_run=True)
        if not as_json:
            _print(step)
        confirm("rollback", "Roll back?", yes=yes, as_json=as_json)
        result = connection.verbs.rollback(view, step.to)
        build = next(v for v in connection.verbs.views() if v.name == view).building
        if build and not no_wait:
            wait_until_serving(connection, {view: build.version})
            build = None
    if as_json:
        print_json(result.as_dict())
    elif build:
        say(f"Version {build.version} is being built: `headrace versions {shell(view)}` shows the progress.")
    else:
        say(f"View {view} is rolled back to version {result.to}.")


def _print(step: RollbackStep) -> None:
    out = console()
    head = f"~ view {step.view}, version {step.serving} → {step.to}"
    out.print(Text.assemble((head, "yellow"), f"  {step.change.reason}"))
    for detail in step.change.details:
        out.print(Text(f"    {detail}", style="dim"))
