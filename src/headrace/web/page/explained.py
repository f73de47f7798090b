"""The page of one cell: what the view says, and the events of the log behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from headrace.format import iso, plural, span
from headrace.serve.explanation import ExplainedEvent, Explanation
from headrace.serve.question import key_text
from headrace.web.page.cells import brief_moment, key_value, moment, value, window
from headrace.web.page.html import Html, data, tag
from headrace.web.page.tables import Column, columns, table

SUMMARY_CHARACTERS = 160  # of a long event; a click shows the rest


def explain_path(view_page: str, key: Mapping[str, Any], at: datetime | None, cursor: int | None = None) -> str:
    """The page of a cell, below that of its view."""
    asked = {f"key.{name}": key_text(of) for name, of in key.items()}
    asked |= {"at": iso(at)} if at else {}
    asked |= {"cursor": str(cursor)} if cursor is not None else {}
    return f"{view_page}/explain?{urlencode(asked)}"


def explained(view_page: str, said: Explanation) -> Html:
    """What is behind a cell."""
    keys = [[" ", tag("code", f"{name}="), key_value(of)] for name, of in said.key.items()]
    start, end = said.window_start, said.window_end
    times = [" · ", window(start, end, dated=True), " UTC"] if start and end else None
    return tag(
        "section",
        tag("h1", tag("a", data(said.cell.view), href=view_page), keys, times),
        _cell(said),
        tag("p", _sentence(said), class_="quiet"),
        tag("p", said.note, class_="warn" if said.agrees else "bad") if said.note else None,
        _nearest(view_page, said),
        _events(said) if said.events else None,
        _more(view_page, said),
        class_="large",
        aria_label="events behind the cell",
    )


def _cell(said: Explanation) -> Html | None:
    if not said.cell.values:
        return None
    hidden = (*said.key, "window_start", "window_end", "settled")
    shown = [(at, Column(name, of.is_numeric)) for at, (name, of) in enumerate(said.cell.columns) if name not in hidden]
    cells = [[value(said.cell.values[0][at]) for at, _ in shown]]
    return table([column for _, column in shown], cells, label="the cell")


def _sentence(said: Explanation) -> str:
    agrees = "the view has the same count" if said.agrees else "the view has a different count"
    corrections = plural(said.corrections, "correction")
    return f"{plural(said.found, 'event')} of the log: {said.late:,} late, {corrections}; {agrees}."


def _events(said: Explanation) -> Html:
    given = [Column(name, of.is_numeric) for name, of in said.columns]
    delays = [Column("delay", number=True), Column("late by", number=True)]
    titles = [*columns("arrived (UTC)", "event time (UTC)"), *delays, Column("state")]
    rows = [_row(event, [column.title for column in given]) for event in said.events]
    return table([*titles, *given, Column("event")], rows, label="events")


def _row(event: ExplainedEvent, columns: Sequence[str]) -> list[Html | str]:
    mark = "correction" if event.correction else ""
    late_by = span(event.behind_ms) if event.late else ""
    given = [value(event.arguments[name]) if name in event.arguments else "" for name in columns]
    times = [brief_moment(event.arrived), brief_moment(event.event_time), span(event.delay_ms), late_by]
    return [*times, tag("span", mark, class_="warn" if mark else None), *given, _value(event)]


def _value(event: ExplainedEvent) -> Html:
    """The event as it came; a long one opens on a click."""
    if event.whole and len(event.value) <= SUMMARY_CHARACTERS:
        return data(event.value)
    shown = None if event.whole else f"the first {len(event.value):,} characters of {event.bytes:,} bytes"
    return tag(
        "details",
        tag("summary", data(event.value, SUMMARY_CHARACTERS)),
        tag("pre", data(event.value, len(event.value)), tabindex=0),
        tag("p", shown, class_="quiet") if shown else None,
        class_="event",
    )


def _nearest(view_page: str, said: Explanation) -> Html | None:
    if said.found or not said.nearest:
        return None
    links = [[" ", tag("a", moment(time), href=explain_path(view_page, said.key, time))] for time in said.nearest]
    return tag("p", "The nearest windows of this key with events (UTC):", links)


def _more(view_page: str, said: Explanation) -> Html | None:
    if said.next_cursor is None:
        return None
    path = explain_path(view_page, said.key, said.window_start, said.next_cursor)
    return tag("p", tag("a", "More events", href=path))
