"""`headrace versions`, `rollback`, `refresh` and `audit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headrace.cli.common_options import (
    JsonOption,
    NoWaitOption,
    WideOption,
    WorkspaceOption,
    complete_view,
    open_connection,
)
from headrace.cli.fitted_table import FittedTable
from headrace.cli.output import console, count, print_json, record_table, say, span
from headrace.cli.status_commands import print_lanes
from headrace.cli.waiting import wait_until_refreshed, wait_until_serving
from headrace.lazy import later
from headrace.name_encoding import shell

if TYPE_CHECKING:
    from headrace.cli import plan_commands, waiting
    from headrace.plan.planned_change import RollbackStep
    from headrace.server.status import AuditStatus, RefreshStatus, VersionStatus
else:  # loaded by their first use
    plan_commands = later("headrace.cli.plan_commands")
    waiting = later("headrace.cli.waiting")


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
    out.print(record_table([_version_cells(version) for version in statuses], left, optional))
    print_lanes({f"version {version.version}": version.lane_reason for version in statuses})


def _version_cells(version: VersionStatus) -> dict[str, str]:
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
    """Roll a view back to an earlier version. The current version serves until the earlier one is ready.

    On a terminal the command asks first.

    The definitions folder is not changed; `headrace plan` shows how it differs from what is applied.
    """
    with open_connection(workspace) as connection:
        step = connection.verbs.rollback(view, to, dry_run=True)
        if not as_json:
            _print_rollback(step)
        plan_commands.confirm("rollback", "Roll back?", yes=yes, as_json=as_json)
        result = connection.verbs.rollback(view, step.to)
        build = next(v for v in connection.verbs.views() if v.name == view).building
        if build and not no_wait:
            waiting.wait_until_serving(connection, {view: build.version})
            build = None
    if as_json:
        print_json(result.as_dict())
    elif build:
        say(f"Version {build.version} is being built: `headrace versions {shell(view)}` shows the progress.")
    else:
        say(f"View {view} is rolled back to version {result.to}.")


def _print_rollback(step: RollbackStep) -> None:
    out = console()
    head = f"~ view {step.view}, version {step.serving} → {step.to}"
    out.print(Text.assemble((head, "yellow"), f"  {step.change.reason}"))
    for detail in step.change.details:
        out.print(Text(f"    {detail}", style="dim"))


DRIFT_EXIT_CODE = 1
LAYERS_DIFFER = "the two layers do not agree"


def refresh(
    view: ViewArgument,
    full: Annotated[
        bool,
        typer.Option("--full", help="Rebuild the view from the complete log; the current version serves until then."),
    ] = False,
    tables: Annotated[
        str | None,
        typer.Option(
            "--tables",
            metavar="now|recorded|missing",
            help="With --full, for a view with joins: the rows of the tables to join. now: the current rows. recorded: "
            "the rows that each event was joined to before. missing: as recorded, but the current row if the key was "
            "missing then.",
        ),
    ] = None,
    no_wait: NoWaitOption = False,
    workspace: WorkspaceOption = ".",
    as_json: JsonOption = False,
) -> None:
    """Refresh a view. The batch layer reads the new events again and compares its rows with the speed layer.

    If they agree, the batch rows replace the speed rows; otherwise nothing is replaced and the command exits with 1.
    A view over a table is computed again from all rows of the table and compared; with --full it is rebuilt from them.
    """
    with open_connection(workspace) as connection:
        before = next(iter(connection.verbs.audits(view)), None)
        status = connection.verbs.refresh(view, full=full, tables=tables)
        audit = None
        if not no_wait and full:
            wait_until_serving(connection, {view: status.version})
        elif not no_wait and status.applied_to > status.horizon:
            audit = wait_until_refreshed(connection, view, status, before)
    if as_json:
        print_json({**status.as_dict(), "audit": audit})
    else:
        _print_refresh(view, status, audit, full=full, no_wait=no_wait)
    if audit and not audit.agreed:
        raise typer.Exit(DRIFT_EXIT_CODE)


def _print_refresh(view: str, status: RefreshStatus, audit: AuditStatus | None, *, full: bool, no_wait: bool) -> None:
    if full:
        serves = "is being built" if no_wait else "serves"
        source = f"the rows of table {status.over}" if status.over else "the log"
        say(f"Version {status.version} of view {view}, rebuilt from {source}, {serves}.")
    elif status.applied_to <= status.horizon:
        say(f"View {view} has nothing new: the batch layer has all its {count(status.horizon)} commits.")
    elif no_wait:
        say(f"The refresh of view {view} has started; `headrace audit {shell(view)}` shows the result.")
    elif audit and audit.agreed and status.over:
        say(
            f"View {view}: computed again from {count(audit.events)} rows of table {status.over} in "
            f"{span(audit.took_ms)}; {count(audit.rows)} rows compared, drift 0"
        )
    elif audit and audit.agreed:
        say(
            f"View {view}: {count(audit.events)} events of commits {audit.from_commit} to "
            f"{audit.to_commit - 1} read again in {span(audit.took_ms)}; "
            f"{count(audit.rows)} rows compared, drift 0"
        )
    elif audit:
        differs = f"it is not what the rows of table {status.over} give" if status.over else LAYERS_DIFFER
        say(f"View {view}: {differs}; nothing was replaced.", err=True)
        _print_drift(audit)


def audit(
    view: ViewArgument, workspace: WorkspaceOption = ".", wide: WideOption = False, as_json: JsonOption = False
) -> None:
    """List the audits of a view. Newest first; exits with 1 while there is an alarm."""
    with open_connection(workspace) as connection:
        audits = connection.verbs.audits(view)
        serving = next((v for v in connection.verbs.versions(view) if v.state == "serving"), None)
        alarm = serving and serving.alarm
    if as_json:
        print_json({"view": view, "alarm": alarm, "audits": audits})
    else:
        _print_audits(view, serving, audits, wide=wide)
    if alarm:
        raise typer.Exit(DRIFT_EXIT_CODE)


def _print_no_audits(view: str, serving: VersionStatus | None) -> None:
    if serving and serving.applied_to > serving.horizon:
        say(f"View {view} has had no audit yet: `headrace refresh {shell(view)}` runs one.")
        return
    say(
        f"View {view} has had no audit yet: the batch layer has computed all its rows. New events are compared "
        f"when the horizon moves, or by `headrace refresh {shell(view)}`."
    )


def _print_audits(view: str, serving: VersionStatus | None, audits: Sequence[AuditStatus], *, wide: bool) -> None:
    if serving and serving.alarm:
        say(f"ALARM: {serving.alarm}")
    if not audits:
        _print_no_audits(view, serving)
        return
    titles = ["when", "version", "commits", "events", "rows", "took", "drift"]
    rows = [
        [
            audit.at.replace("T", " ")[:19],
            str(audit.version),
            f"{audit.from_commit} to {audit.to_commit - 1}",
            count(audit.events),
            count(audit.rows),
            span(audit.took_ms),
            ", ".join(f"{d.column}: {count(d.rows)} rows" for d in audit.drift) or "0",
        ]
        for audit in audits
    ]
    console(wide=wide).print(FittedTable(titles, rows, titles[1:-1], ("took", "version", "commits")))
    for audit in audits[:1]:
        _print_drift(audit)


def _print_drift(audit: AuditStatus) -> None:
    for drift in audit.drift:
        say(f"  {drift.column}: {count(drift.rows)} rows, such as {drift.example}")
