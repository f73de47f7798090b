"""The page of one cell: its values in the view, and the events of the log behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from headrace.format import iso, plural, span
from headrace.html import Html, brief_moment, data, key_value, moment, tag, value, window
from headrace.serve.explanation import ExplainedEvent, Explanation
from headrace.serve.question import key_text
from headrace.web.page.page_tables import TableColumn, columns, table

SUMMARY_CHARACTERS = 160  # of a long event; a click shows the rest


def explain_path(view_page: str, key: Mapping[str, Any], at: datetime | None, cursor: int | str | None = None) -> str:
    """The page of a cell, below that of its view."""
    parameters = {f"key.{name}": key_text(of) for name, of in key.items()}
    parameters |= {"at": iso(at)} if at else {}
    parameters |= {"cursor": str(cursor)} if cursor is not None else {}
    return f"{view_page}/explain?{urlencode(parameters)}"


def explanation_section(view_page: str, explanation: Explanation) -> Html:
    """A cell and the events behind it."""
    keys = [[" ", tag("code", f"{name}="), key_value(of)] for name, of in explanation.key.items()]
    start, end = explanation.window_start, explanation.window_end
    times = [" · ", window(start, end, dated=True), " UTC"] if start and end else None
    return tag(
        "section",
        tag("h1", tag("a", data(explanation.cell.view), href=view_page), keys, times),
        _cell(explanation),
        tag("p", _sentence(explanation), class_="quiet"),
        tag("p", explanation.note, class_="warn" if explanation.agrees else "bad") if explanation.note else None,
        _nearest(view_page, explanation),
        _events(explanation) if explanation.events else None,
        _more(view_page, explanation),
        class_="large",
        aria_label="events behind the cell",
    )


def _cell(explanation: Explanation) -> Html | None:
    if not explanation.cell.values:
        return None
    hidden = (*explanation.key, "window_start", "window_end", "settled")
    visible = [
        (at, TableColumn(name, of.is_numeric))
        for at, (name, of) in enumerate(explanation.cell.columns)
        if name not in hidden
    ]
    cells = [[value(explanation.cell.values[0][at]) for at, _ in visible]]
    return table([column for _, column in visible], cells, label="the cell")


def _sentence(explanation: Explanation) -> str:
    agrees = "the view has the same count" if explanation.agrees else "the view has a different count"
    corrections = plural(explanation.corrections, "correction")
    counts = f"{explanation.on_time:,} on time + {explanation.late:,} late, {corrections}"
    return f"{plural(explanation.found, 'event')} of the log: {counts}; {agrees}."


def _events(explanation: Explanation) -> Html:
    arguments = [TableColumn(name, of.is_numeric) for name, of in explanation.columns]
    delays = [TableColumn("delay", number=True), TableColumn("late by", number=True)]
    titles = [*columns("arrived (UTC)", "event time (UTC)"), *delays, TableColumn("state")]
    is_joined = any(event.joined for event in explanation.events)
    rows = [_row(event, [column.title for column in arguments], is_joined=is_joined) for event in explanation.events]
    return table(
        [*titles, *arguments, *[TableColumn("joined to")] * is_joined, TableColumn("event")], rows, label="events"
    )


def _row(event: ExplainedEvent, columns: Sequence[str], *, is_joined: bool) -> list[Html | str]:
    mark = "correction" if event.correction else ""
    late_by = span(event.behind_ms) if event.late else ""
    arguments = [value(event.arguments[name]) if name in event.arguments else "" for name in columns]
    times = [brief_moment(event.arrived), brief_moment(event.event_time), span(event.delay_ms), late_by]
    joined = [data(" · ".join(map(str, event.joined)), SUMMARY_CHARACTERS)] * is_joined
    return [*times, tag("span", mark, class_="warn" if mark else None), *arguments, *joined, _value(event)]


def _value(event: ExplainedEvent) -> Html:
    """The event as it was received; a long one is collapsed."""
    if event.whole and len(event.value) <= SUMMARY_CHARACTERS:
        return data(event.value)
    note = None if event.whole else f"the first {len(event.value):,} characters of {event.bytes:,} bytes"
    return tag(
        "details",
        tag("summary", data(event.value, SUMMARY_CHARACTERS)),
        tag("pre", data(event.value, len(event.value)), tabindex=0),
        tag("p", note, class_="quiet") if note else None,
        class_="event",
    )


def _nearest(view_page: str, explanation: Explanation) -> Html | None:
    if explanation.found or not explanation.nearest:
        return None
    links = [
        [" ", tag("a", moment(time), href=explain_path(view_page, explanation.key, time))]
        for time in explanation.nearest
    ]
    return tag("p", "The nearest windows of this key with events (UTC):", links)


def _more(view_page: str, explanation: Explanation) -> Html | None:
    if explanation.next_cursor is None:
        return None
    path = explain_path(view_page, explanation.key, explanation.window_start, explanation.next_cursor)
    return tag("p", tag("a", "More events", href=path))
