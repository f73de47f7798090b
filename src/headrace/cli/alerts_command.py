"""`headrace alerts`: list them, silence them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headrace.cli.common_options import JsonOption, WideOption, WorkspaceOption, open_connection
from headrace.cli.fitted_table import FittedTable
from headrace.cli.output import console, plural, print_json, printable, record_table, say
from headrace.errors import NotFoundError, UsageError
from headrace.language.durations import parse_duration
from headrace.name_encoding import shell
from headrace.serve.question import key_text

if TYPE_CHECKING:
    from headrace.deliver.delivery_status import AlertStatus, IncidentStatus

NO_ALERTS = "no alerts yet: CREATE ALERT in definitions/ declares one, `headrace up` starts it"
WINDOW = ("window_start", "window_end")
TURNS = ("fired at", "resolved at")


def alerts(
    name: Annotated[str | None, typer.Argument(help="Alert; default: all.", metavar="[ALERT]")] = None,
    silence: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Send no notifications of ALERT for this time, such as 2h.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="COLUMN=VALUE", help="With --silence: only rows with this value."),
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="With --silence: the reason.", show_default=False)] = "",
    unsilence: Annotated[bool, typer.Option("--unsilence", help="End all silences of ALERT.")] = False,
    workspace: WorkspaceOption = ".",
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the alerts: state, incidents, silences.

    Shows the row that made an alert fire. With --silence no notifications are sent for some time; incidents are still
    recorded.
    """
    if (silence or unsilence or where or reason) and name is None:
        raise UsageError("no alert was given", fix="`headrace alerts ALERT --silence 2h`")
    if (where or reason) and not silence:
        raise UsageError("--where and --reason belong to --silence", fix="add --silence 2h")
    with open_connection(workspace) as connection:
        if name is not None and silence:
            values = dict(map(_pair, where or []))
            silence_status = connection.verbs.silence(name, parse_duration(silence), values, reason)
            print_json(silence_status) if as_json else say(f"Alert {name} is silenced until {silence_status.until}.")
            return
        if name is not None and unsilence:
            ended = connection.verbs.end_silences(name)
            print_json({"ended": ended}) if as_json else say(f"{ended} silences of alert {name} ended.")
            return
        statuses = [status for status in connection.verbs.alerts() if name in (None, status.name)]
    if name is not None and not statuses:
        raise NotFoundError(f"alert '{name}' does not exist", fix="`headrace alerts` lists all")
    if as_json:
        print_json(statuses)
        return
    _print(statuses, whole=name is not None, wide=wide)


def _pair(text: str) -> tuple[str, Any]:
    column, equals, value = text.partition("=")
    if not equals or not column:
        raise UsageError("--where is not COLUMN=VALUE", found=text, fix="for example --where page=/home")
    return column, None if value == r"\N" else value


def _print(statuses: list[AlertStatus], *, whole: bool, wide: bool) -> None:
    out = console(wide=wide)
    if not statuses:
        out.print(NO_ALERTS)
        return
    left = ("alert", "state", "last", "behind", "on", "condition", "problem")
    out.print(record_table(list(map(_cells, statuses)), left, ("silences", "pending", "on", "condition")))
    incidents = [(status, each) for status in statuses for each in status.incidents]
    incidents += [(status, each) for status in statuses if whole for each in status.resolved]
    rows = [[*_incident_cells(*each), *(_turn_cells(each[1]) if whole else ())] for each in incidents]
    if rows:
        out.print()
        titles = ["alert", "state", "key", "row", *WINDOW, "since", "silenced", *(TURNS if whole else ())]
        out.print(FittedTable(titles, rows, (), ("silenced", *reversed(WINDOW), *TURNS)))
    for status in statuses:
        for silence in status.silences:
            values = ", ".join(f"{name}={value}" for name, value in silence.values.items()) or "all rows"
            reason = f" ({silence.reason})" if silence.reason else ""
            out.print(Text(f"{status.name}: silent until {silence.until} for {values}{reason}", style="dim"))


def _cells(status: AlertStatus) -> dict[str, str]:
    """An alert in the overview. Its incidents are those that fire and those that are over."""
    times = [each.since or "" for each in (*status.incidents, *status.resolved) if each.state != "pending"]
    return {
        "alert": status.name,
        "state": status.state,
        "firing": str(status.firing),
        "pending": str(status.pending),
        "incidents": str(len(times)),
        "last": _time(max(times, default=None)),
        "behind": plural(status.behind_commits, "commit") if status.behind_commits else "–",
        "on": status.source,
        "condition": status.condition,
        "silences": str(len(status.silences)),
        "problem": status.error or status.delivery_error or "–",
    }


def _incident_cells(status: AlertStatus, incident: IncidentStatus) -> list[str]:
    key = ", ".join(printable(shell(f"{name}={key_text(value)}")) for name, value in incident.key.items()) or "–"
    others = {name: value for name, value in incident.row.items() if name not in (*incident.key, *WINDOW)}
    window = [_time(incident.row.get(name)) for name in WINDOW]
    silenced = "yes" if incident.silenced else "no"
    return [status.name, incident.state, key, _words(others), *window, _time(incident.since), silenced]


def _turn_cells(incident: IncidentStatus) -> list[str]:
    """When an incident began to fire, and when it was resolved."""
    return [_time(incident.fired_at), _time(incident.resolved_at)]


def _time(text: str | None) -> str:
    return (text or "–").replace("T", " ")[:19]


def _words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={'NULL' if value is None else printable(str(value))}" for name, value in values.items())
