"""The parts of the page: state, trouble, streams, views, and one view with its rows and chart."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from headrace.deliver.delivery_status import SubscriptionStatus
from headrace.format import count, freshness, plural, span, waiting, within
from headrace.html import Html, breakable, data, join, key_value, moment_text, tag, value, window
from headrace.lake.dead_letters import DeadLetterReason
from headrace.serve.question import key_text
from headrace.server.layer_text import alarm
from headrace.server.status import StreamStatus, TableStatus, ViewStatus, WorkspaceStatus
from headrace.web.page.cell_page import explain_path
from headrace.web.page.chart_series import Line
from headrace.web.page.charts import chart
from headrace.web.page.layers_section import alarm_box, building_bar, layers_line
from headrace.web.page.page_selection import WINDOW, PageSelection, view_path
from headrace.web.page.page_tables import TableColumn, columns, table
from headrace.web.page.view_content import ViewContent

MOST_REASON = 300
MOST_ERROR = 2000  # characters of an error that is shown
SLOW_MS = 10_000  # a freshness beyond this is marked


def state_line(status: WorkspaceStatus, reason: str | None, at: datetime) -> Html:
    """The name and the state of the workspace."""
    state = status.state
    facts = [
        ("memory", f"{count(status.memory_mb)} MB"),
        ("heartbeat", "none yet" if status.heartbeat_ms is None else f"{span(status.heartbeat_ms)} ago"),
        ("numbers from", f"{at:%H:%M:%S} UTC"),
    ]
    return tag(
        "header",
        tag("h1", data(status.workspace), " ", tag("span", state, class_=f"state {state}")),
        tag("p", reason, class_="quiet") if reason else None,
        _facts(facts),
        class_="workspace",
    )


def trouble(status: WorkspaceStatus) -> Html | None:
    """All problems, at the top of the page."""
    problems = [(f"Stream {s.name}", s.error) for s in status.streams if s.error]
    problems += [(f"Upkeep of stream {s.name}", s.upkeep_error) for s in status.streams if s.upkeep_error]
    problems += [(f"View {v.name} is stalled", v.stalled) for v in status.views if v.stalled]
    problems += [(f"Subscription {s.name}", s.error) for s in status.subscriptions if s.error]
    problems += [(f"View {v.name}: {alarm(v)}", f"{v.alarm}") for v in status.views if v.alarm]
    problems += [(f"Sink {s.name} is stalled", f"{s.reason}") for s in status.sinks if s.state == "stalled"]
    if not problems:
        return None
    items = [tag("li", tag("strong", source), ": ", data(message, MOST_ERROR)) for source, message in problems]
    return tag(
        "section",
        tag("h2", "Problems", id="trouble-title"),
        tag("ul", items),
        class_="trouble",
        aria_labelledby="trouble-title",
    )


def streams_table(streams: Sequence[StreamStatus]) -> Html:
    """A row per stream."""
    repeats = ["duplicates"] if any(stream.unique for stream in streams) else []
    titles = ["stream", "events/s", "events", "dead letters", *repeats, "freshness", "newest event", "backlog",
              "commits", "commit time", "maintain time", "files"]  # fmt: skip
    numbers = [title for title in titles if title not in ("stream", "freshness", "newest event")]
    rows = [_stream_cells(stream, titles) for stream in streams]
    advice = [
        tag("p", f"{s.name}: {s.lateness.advice}.", class_="quiet", id=f"late-{s.name}") for s in streams if s.lateness
    ]
    return join(table(columns(*titles, numbers=numbers), rows, label="streams", stacked=True), *advice)


def _stream_cells(stream: StreamStatus, titles: Sequence[str]) -> list[Any]:
    dead = stream.dead_letters
    cells = {
        "stream": join(tag("span", breakable(stream.name), id=f"stream-{stream.name}"), *_derivation(stream)),
        "events/s": count(stream.events_per_second),
        "events": count(stream.events),
        "freshness": "–" if stream.derived_from else _freshness(stream.freshness_ms, None),
        "newest event": "–" if stream.derived_from else moment_text(stream.newest_event),
        "backlog": waiting(stream.lag.events if stream.lag else None, stream.backlog_bytes),
        "commits": count(stream.commits),
        "commit time": span(stream.commit_ms),
        "maintain time": span(stream.maintain_ms),
        "files": count(stream.lake_files),
        # Producers repeat events every day; what cannot be parsed is a mistake.
        "dead letters": tag("span", count(dead), class_="warn")
        if (dead or 0) > (stream.duplicates or 0)
        else count(dead),
        "duplicates": count(stream.duplicates) if stream.unique else "–",
    }
    return [cells[title] for title in titles]


def _derivation(stream: StreamStatus) -> list[Html]:
    """Describe the source of a derived stream."""
    if not stream.derived_from:
        return []
    return [tag("small", f" derived from {', '.join(stream.derived_from)}", class_="quiet")]


def dead_letters(stream: str, total: int, reasons: Sequence[DeadLetterReason]) -> Html:
    """The reasons why events of a stream could not be parsed."""
    rows = [[count(why.count), data(why.reason, MOST_REASON), data(why.newest, MOST_REASON)] for why in reasons]
    return tag(
        "details",
        tag("summary", f"{plural(total, 'dead letter')} of {stream}: why"),
        table(columns("events", "reason", "the newest", numbers=["events"]), rows, label=f"dead letters of {stream}"),
        tag("p", tag("code", f"headrace dead-letters {stream}"), " shows them.", class_="quiet"),
        id=f"dead-{stream}",
    )


def views_table(views: Sequence[ViewStatus]) -> Html:
    """A row per view."""
    titles = ["view", "stream", "keys", "window", "freshness", "version", "commits", "rows", "corrections",
              "settled until (UTC)"]  # fmt: skip
    rows = [
        [
            tag("a", breakable(v.name), href=view_path(v.name)),
            breakable(v.stream),
            ", ".join(v.keys) or "none",
            window_words(v),
            _view_state(v),
            count(v.version),
            f"{count(v.applied_to)} of {count(v.commits)}",
            count(v.rows),
            count(v.corrections),
            moment_text(v.settled_until, zone="") if v.window_ms else tag("span", "never", class_="quiet"),
        ]
        for v in views
    ]
    numbers, minor = ["version", "commits", "rows", "corrections"], ["stream", "keys", "window", "commits"]
    return table(columns(*titles, numbers=numbers, minor=minor), rows, label="views", stacked=True)


def tables_table(tables: Sequence[TableStatus]) -> Html:
    """A row per table."""
    titles = ["table", "key", "made from", "rows", "changes", "dead letters", "version", "freshness", "newest change"]
    rows = [
        [
            tag("a", breakable(each.name), href=view_path(each.name)),
            breakable(", ".join(each.key)),
            breakable(", ".join(each.derived_from) or "–"),
            count(each.rows),
            count(each.changes),
            tag("span", count(each.dead_letters), class_="warn" if each.dead_letters else None),
            count(each.version),
            _freshness(each.freshness_ms, each.freshness_reason),
            moment_text(each.newest_change),
        ]
        for each in tables
    ]
    numbers = ["rows", "changes", "dead letters", "version"]
    return table(columns(*titles, numbers=numbers, minor=["key", "made from"]), rows, label="tables", stacked=True)


def subscriptions_table(subscriptions: Sequence[SubscriptionStatus]) -> Html:
    """A row per named subscription."""
    titles = ["subscription", "of", "guarantee", "where", "lag", "in flight", "members", "acknowledged", "redelivered"]
    rows = [
        [
            breakable(s.name),
            breakable(s.stream or s.view or ""),
            s.guarantee,
            data(s.error or s.where or "–", MOST_REASON),
            count(s.lag),
            count(s.in_flight),
            count(s.members),
            count(s.acknowledged),
            count(s.redelivered),
        ]
        for s in subscriptions
    ]
    return table(columns(*titles, numbers=titles[4:]), rows, label="subscriptions", stacked=True)


def view_card(view: ViewStatus, inside: Html | None, at: datetime, *, level: str = "h3") -> Html:
    """One view: its definition, state and contents."""
    name = view.name
    ident = f"view-{name}"
    title = tag(level, tag("a", breakable(name), href=view_path(name)), id=ident)
    keys = f" by {', '.join(view.keys)}" if view.keys else ""
    what = tag("p", f"{window_words(view)}{keys} of {view.stream} · ", _view_state(view), class_="quiet")
    layers = [layers_line(view, at), alarm_box(view), building_bar(view)]
    return tag("article", title, what, layers, inside, class_="view", aria_labelledby=ident)


def view_inside(view: ViewStatus, content: ViewContent) -> Html:
    """Chart and rows, side by side."""
    picture = chart(content.chart, f"chart-{view.name}") if content.chart else None
    return tag("div", picture, rows_table(view, content), class_="inside")


def view_rows(view: ViewStatus, content: ViewContent, selection: PageSelection) -> Html:
    """Chart and rows of a view's own page."""

    def alone(line: Line) -> str:
        """The page with the key of this line; conditions on other keys remain."""
        others = tuple((key, text) for key, text in selection.keys if key not in line.key)
        keys = tuple((key, key_text(value)) for key, value in line.key.items())
        return selection.with_(keys=(*others, *keys), by=()).path("chart")

    picture = tag("div", chart(content.chart, "drawn", alone), id="chart") if content.chart else None
    return tag("section", picture, rows_table(view, content, selection), class_="large", aria_label="rows")


def rows_table(view: ViewStatus, content: ViewContent, selection: PageSelection | None = None) -> Html:
    """The rows of a view with a caption; on its own page with links to sort them and to the events behind each."""
    if not content.rows:
        return tag("p", "No rows yet." if content.answer.newest_event is None else "No rows here.", class_="quiet")
    keys = len(view.keys)
    timed = view.window_ms is not None
    names = [name for name, _ in content.answer.columns]
    places = [*range(keys), *range(keys + 2, len(names) - 1)]
    heads = [_head(names[at], content, selection, number=content.answer.columns[at][1].is_numeric) for at in places]
    if timed:
        heads = [
            _head(WINDOW, content, selection, title="window (UTC)"),
            *heads,
            _head("settled", content, selection, title="state"),
        ]
    heads += [TableColumn("events")] if selection else []
    by_window = content.sort.removeprefix("-") == WINDOW  # else each row has its own window
    rows = []
    before: tuple[Any, ...] = (None, None)
    failed = {(id(content.answer.values[error.row]), error.column): error.reason for error in content.answer.errors}
    bounds = {
        (id(row), name): within(bound)
        for name, of_rows in content.answer.bounds.items()
        for row, bound in zip(content.answer.values, of_rows, strict=True)
    }
    for row in content.rows:
        cells: list[Any] = [
            key_value(row[at])
            if at < keys
            else join(value(row[at], failed.get((id(row), names[at]))), bounds.get((id(row), names[at])))
            for at in places
        ]
        if timed:
            start, end = row[keys : keys + 2]
            same, dated = (start, end) == before, before[0] is None or before[0].date() != start.date()
            before = (start, end) if by_window else (None, None)
            settled = tag("span", "settled", class_="quiet") if row[-1] else tag("span", "provisional", class_="warn")
            cells = [None, *cells, None] if same else [window(start, end, dated=dated), *cells, settled]
        if selection:
            key = dict(zip(view.keys, row, strict=False))
            path = explain_path(view_path(view.name), key, row[keys] if timed else None)
            cells.append(tag("a", "explain", href=path))
        rows.append(cells)
    caption = tag("p", _sentence(content), class_="quiet")
    body = table(heads, rows, label=f"rows of {view.name}")
    return tag("div", body, caption, class_="rows", id="rows" if selection else None)


def _head(
    name: str, content: ViewContent, selection: PageSelection | None, *, title: str | None = None, number: bool = False
) -> TableColumn:
    """The head of a column of rows. Its link sorts by it: numbers and windows first descending, then the other way."""
    if selection is None:
        return TableColumn(title or name, number)
    down = number or name == WINDOW
    order: Literal["ascending", "descending"] | None = None
    if content.sort.removeprefix("-") == name:
        order = "descending" if content.sort.startswith("-") else "ascending"
        down = order == "ascending"
    path = selection.with_(sort=f"{'-' * down}{name}").path("rows")
    return TableColumn(title or name, number, sort_path=path, sorted=order)


def window_words(view: ViewStatus) -> str:
    """The window of a view in words."""
    return view.window_text or "all time"


def _sentence(content: ViewContent) -> str:
    corrections = content.answer.corrections
    parts = [f"Shown: {content.what}"]
    if corrections:
        parts.append(f"{plural(corrections, 'correction')} by late events")
    parts += [f"{name} {error}" for name, error in content.answer.stated_errors().items()]
    parts += sorted({f"error in {error.column}: {error.reason}" for error in content.answer.errors})
    return "; ".join(parts) + "."


def _view_state(view: ViewStatus) -> Html:
    if view.stalled or view.alarm:
        return tag("span", "stalled" if view.stalled else alarm(view), class_="bad")
    return _freshness(view.freshness_ms, view.freshness_reason)


def _freshness(ms: int | None, reason: str | None) -> Html:
    mark = "warn" if ms is None or ms > SLOW_MS else None
    return tag("span", freshness(ms, reason), class_=mark if ms is None else f"{mark or ''} brief".strip())


def _facts(facts: Sequence[tuple[str, str]]) -> Html:
    return tag("dl", [tag("div", tag("dt", name), tag("dd", text)) for name, text in facts], class_="facts")
