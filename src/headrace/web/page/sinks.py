"""The section of the page with the sinks."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.cells import moment_text
from headrace.format import count, span
from headrace.html import Html, breakable, tag
from headrace.server.status import SinkStatus
from headrace.web.page.tables import columns, table

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
