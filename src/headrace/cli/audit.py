"""`headrace refresh` and `headrace audit`: the batch layer reads the events again and compares both layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.options import JsonOption, NoWaitOption, WideOption, WorkspaceOption, open_connection
from headrace.cli.output import console, count, print_json, say, span
from headrace.cli.table import FittedTable
from headrace.cli.until import wait_until_refreshed, wait_until_serving
from headrace.cli.versions import ViewArgument
from headrace.names import shell

if TYPE_CHECKING:
    from headrace.server.state import AuditStatus, RefreshStatus, VersionStatus

DRIFT_EXIT_CODE = 1
LAYERS_DIFFER = "the two layers do not agree"


def refresh(
    view: ViewArgument,
    full: Annotated[
        bool, typer.Option("--full", help="Rebuild the view from the whole log; the current version serves until then.")
    ] = False,
    tables: Annotated[
        str | None,
        typer.Option(
            "--tables",
            metavar="now|recorded|missing",
            help="With --full: join all events so far to tables as they are now, again as they were, or as they were "
            "but for missing keys, which are looked for in the tables of now.",
        ),
    ] = None,
    no_wait: NoWaitOption = False,
    workspace: WorkspaceOption = ".",
    as_json: JsonOption = False,
) -> None:
    """Refresh a view. The batch layer reads the new events again and compares its rows with the speed layer.

    If they agree, the batch rows replace the speed rows. Exits with 1 if they do not agree. A view over a table is
    computed again from all rows of the table and compared; with --full it is made of them anew.
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
        _print(view, serving, audits, wide=wide)
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


def _print(view: str, serving: VersionStatus | None, audits: Sequence[AuditStatus], *, wide: bool) -> None:
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
