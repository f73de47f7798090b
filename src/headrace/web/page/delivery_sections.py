"""The parts of the page with sinks, and with alerts and the rows that fired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.deliver.delivery_status import AlertStatus, IncidentStatus
from headrace.format import count, plural, span
from headrace.html import Html, breakable, data, join, moment_text, tag
from headrace.server.status import SinkStatus
from headrace.web.page.page_tables import columns, table

TITLES = ("sink", "from", "connector", "state", "rows", "errors", "lag", "last sent")


def sinks_table(sinks: Sequence[SinkStatus]) -> Html:
    """A row per sink."""
    rows = [
        [
            tag("span", breakable(sink.name), id=f"sink-{sink.name}"),
            breakable(sink.source),
            sink.connector,
            tag("span", sink.state, class_="warn") if sink.state in ("stalled", "paused") else sink.state,
            count(sink.rows),
            count(sink.errors),
            "–" if sink.lag_s is None else span(sink.lag_s * 1000),
            moment_text(sink.last_sent),
        ]
        for sink in sinks
    ]
    return table(columns(*TITLES, numbers=["rows", "errors", "lag"]), rows, label="sinks", stacked=True)


MOST_SHOWN = 50  # incidents of an alert
MOST_TEXT = 300


def alerts_badge(alerts: Sequence[AlertStatus]) -> Html | None:
    """The number of firing alerts, for the top of every page."""
    firing = sum(alert.firing > 0 for alert in alerts)
    text = f"{plural(firing, 'alert')} {'fires' if firing == 1 else 'fire'}"
    return tag("a", text, href="/#alerts", class_="state failing badge", id="firing") if firing else None


def alerts_section(alerts: Sequence[AlertStatus]) -> Html:
    """A row per alert, then one per incident."""
    titles = ["alert", "state", "firing", "pending", "on", "condition", "problem"]
    rows = [
        [
            tag("span", breakable(alert.name), id=f"alert-{alert.name}"),
            tag("span", alert.state, class_="warn" if alert.state != "ok" else None),
            count(alert.firing),
            count(alert.pending),
            breakable(alert.source),
            data(alert.condition, MOST_TEXT),
            data(alert.error or alert.delivery_error or "none", MOST_TEXT),
        ]
        for alert in alerts
    ]
    incidents = [_cells(alert, each) for alert in alerts for each in alert.incidents[:MOST_SHOWN]]
    titles_of = ["alert", "state", "key", "row", "since", "events"]
    return join(
        table(columns(*titles, numbers=["firing", "pending"]), rows, label="alerts", stacked=True),
        tag("p", "Incidents:", class_="quiet") if incidents else None,
        table(columns(*titles_of), incidents, label="incidents", stacked=True) if incidents else None,
    )


def _cells(alert: AlertStatus, incident: IncidentStatus) -> list[Any]:
    others = {name: value for name, value in incident.row.items() if name not in incident.key}
    return [
        breakable(alert.name),
        f"{incident.state}, silenced" if incident.silenced else incident.state,
        data(_words(incident.key) or "all", MOST_TEXT),
        data(_words(others), MOST_TEXT),
        moment_text(incident.since),
        tag("a", "explain", href=incident.explain) if incident.explain else "none",
    ]


def _words(values: Any) -> str:
    return ", ".join(f"{name} = {'NULL' if value is None else value}" for name, value in values.items())
