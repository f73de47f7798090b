"""The parts of the page with logical views: their list, and one with its SELECT and rows."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.format import count, freshness, plural, version_shown
from headrace.html import Html, Part, breakable, data, join, key_value, moment_text, plain_lines, tag
from headrace.serve.answer import Answer
from headrace.server.status import LogicalStatus
from headrace.web.page.page_selection import view_path
from headrace.web.page.page_tables import TableColumn, columns, table

MOST_SQL = 4000  # characters of a SELECT that are shown


def logical_table(views: Sequence[LogicalStatus]) -> Html:
    """A row per logical view."""
    rows = [
        [
            tag("a", breakable(view.name), href=view_path(view.name)),
            _links(view.reads),
            breakable(", ".join(column.name for column in view.columns)),
            _state(view),
        ]
        for view in views
    ]
    return table(columns("view", "reads", "columns", "freshness"), rows, label="logical views", stacked=True)


def logical_card(view: LogicalStatus) -> Html:
    """A logical view: what it reads, how fresh it is, and its SELECT."""
    what = tag("p", "logical view of ", _links(view.reads), " · ", _state(view), class_="quiet")
    stalled = tag("p", data(view.stalled, 2000), class_="bad") if view.stalled else None
    lines = [[data(line, MOST_SQL), "\n"] for line in plain_lines(view.sql, MOST_SQL)]
    query = tag("pre", tag("code", lines), class_="query")
    return tag("article", tag("h1", breakable(view.name)), what, stalled, query, class_="view")


def logical_rows(view: LogicalStatus, answer: Answer) -> Html:
    """The rows of a logical view, and the views that they were computed from."""
    heads = [TableColumn(name, of.is_numeric) for name, of in answer.columns]
    rows = [[key_value(cell) for cell in row] for row in answer.values]
    more = "" if not answer.next_cursor else " of more" if answer.more_rows is None else f" of {count(_all(answer))}"
    caption = tag("p", f"Shown: {plural(len(rows), 'row')}{more}.", class_="quiet")
    body = table(heads, rows, label=f"rows of {view.name}") if rows else tag("p", "No rows.", class_="quiet")
    parts = [
        [
            tag("a", breakable(name), href=view_path(name)),
            count(version_shown(name, part["version"], part["commits"])),
            ", ".join(f"{stream} {number:,}" for stream, number in part["commits"].items()),
            moment_text(part["newest_event"]),
            freshness(part["freshness_ms"], part["freshness_reason"]),
        ]
        for name, part in (answer.parts or {}).items()
    ]
    titles = columns("computed from", "version", "commits", "newest event", "freshness", numbers=["version"])
    return join(
        tag("section", body, caption, class_="rows", id="rows", aria_label="rows"),
        table(titles, parts, label="views that it is computed from", stacked=True),
    )


def _all(answer: Answer) -> int:
    return len(answer.values) + (answer.more_rows or 0)


def _links(names: Sequence[str]) -> list[Part]:
    links: list[Part] = []
    for name in names:
        links += [", "] if links else []
        links.append(tag("a", breakable(name), href=view_path(name)))
    return links


def _state(view: LogicalStatus) -> Html:
    if view.stalled:
        return tag("span", "stalled", class_="bad")
    mark = "warn" if view.freshness_ms is None else "brief"
    return tag("span", freshness(view.freshness_ms, view.freshness_reason), class_=mark)
