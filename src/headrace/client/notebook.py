"""A view and a stream of a workspace as objects, and lists of them, which notebooks show as HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.cells import moment_text
from headrace.language.durations import format_duration
from headrace.errors import HeadraceError, unknown
from headrace.format import count, freshness, span
from headrace.html import Html, Part, tag
from headrace.serve.notebook import answer_html, bars_svg, block, facts_html, heading, quiet, table

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.client.connect import Connection, Events
    from headrace.ingest.receiver import IngestReply
    from headrace.serve.answer import Answer
    from headrace.server.state import StreamStatus, ViewStatus

Status = TypeVar("Status", "StreamStatus", "ViewStatus")
NEWEST_ROWS = 40  # that are asked for to show a view


class Listing(list[dict[str, Any]]):
    """A list of dictionaries that a notebook shows as a table."""

    def __init__(self, items: Iterable[dict[str, Any]], render: Callable[[Sequence[dict[str, Any]]], Html]) -> None:
        super().__init__(items)
        self._render = render

    def _repr_html_(self) -> str:
        return self._render(self)


class ConnectedView:
    """A view of a connected workspace: `ask`, `lookup`, `df`, `arrow`."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self.name = name

    def __repr__(self) -> str:
        return f"view {self.name}"

    @property
    def status(self) -> ViewStatus:
        """Its definition and its state."""
        return _find("view", self.name, self._connection.verbs.views())

    def ask(self, **question: Any) -> Answer:
        """The answer to a question; the parameters are those of `Connection.ask`."""
        return self._connection.ask(self.name, **question)

    def lookup(self, keys: Sequence[Mapping[str, Any]], **options: Any) -> Answer:
        """The rows of many keys, in their order; see `Connection.lookup`."""
        return self._connection.lookup(self.name, keys, **options)

    def df(self, **question: Any) -> Any:
        """The rows of a question as a pandas data frame; without parameters, all rows."""
        return self.ask(**question).pandas()

    def arrow(self, **question: Any) -> pa.Table:
        """The rows of a question as an Arrow table."""
        return self.ask(**question).arrow()

    def _repr_html_(self) -> str:
        if any(view.name == self.name for view in self._connection.verbs.logical_views()):
            return answer_html(self.ask(limit=NEWEST_ROWS))
        status = self.status
        try:
            newest = {"order": "newest", "limit": NEWEST_ROWS}
            rows: Html = answer_html(self.ask(**newest), chart_of=self.ask(by=[], **newest) if status.window else None)
        except HeadraceError as error:  # it is being built, for example
            rows = tag("p", str(error))
        return block(heading(status.name, "view"), facts_html(_view_facts(status)), rows)


class ConnectedStream:
    """A stream of a connected workspace: `send`, `status`."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self.name = name

    def __repr__(self) -> str:
        return f"stream {self.name}"

    @property
    def status(self) -> StreamStatus:
        """Its definition and its numbers."""
        return _find("stream", self.name, self._connection.verbs.streams())

    def send(self, events: Events, *, key: str | None = None, again: bool = False) -> IngestReply:
        """Send events to it; see `Connection.send`."""
        return self._connection.send(self.name, events, key=key, again=again)

    def _repr_html_(self) -> str:
        status = self.status
        fields = [[f.name, f.type, "" if f.nullable else "NOT NULL", f.computed or ""] for f in status.fields]
        return block(
            heading(status.name, "stream"),
            facts_html(_stream_facts(status)),
            _lateness_chart(status),
            table(["field", "type", "", "computed"], fields),
        )


def views_html(views: Sequence[Mapping[str, Any]]) -> Html:
    """The views of a workspace."""
    titles = ["view", "stream", "keys", "freshness", "version", "rows", "corrections", "settled until (UTC)"]
    rows: list[list[Part]] = [
        [
            view["name"],
            view["stream"],
            ", ".join(view["keys"]),
            freshness(view["freshness_ms"], view["freshness_reason"]),
            count(view["applied_to"] if view["table"] else view["version"]),
            count(view["rows"]),
            count(view["corrections"]),
            moment_text(view["settled_until"], zone=""),
        ]
        for view in views
    ]
    return block(table(titles, rows, ["version", "rows", "corrections"]) if rows else quiet("no views"))


def streams_html(streams: Sequence[Mapping[str, Any]]) -> Html:
    """The streams of a workspace."""
    titles = ["stream", "events", "dead letters", "events/s", "newest event"]
    rows: list[list[Part]] = [
        [
            stream["name"],
            count(stream["events"]),
            count(stream["dead_letters"]),
            count(stream["events_per_second"]),
            moment_text(stream["newest_event"]),
        ]
        for stream in streams
    ]
    advice = [quiet(f"{s['name']}: {s['lateness']['advice']}") for s in streams if s["lateness"]]
    return block(table(titles, rows, titles[1:4]) if rows else quiet("no streams"), *advice)


def _view_facts(view: ViewStatus) -> list[tuple[str, Part]]:
    window = view.window
    sizes = [format_duration(ms) for ms in window] if window else []
    facts: list[tuple[str, Part]] = [
        ("stream", view.stream),
        ("keys", ", ".join(view.keys) or "none"),
        ("columns", ", ".join(f"{column.name} {column.type}" for column in view.columns)),
        ("window", "all time" if not sizes else " every ".join(dict.fromkeys(sizes))),
        ("where", view.where or "all events"),
        ("freshness", freshness(view.freshness_ms, view.freshness_reason)),
        ("rows", count(view.rows)),
        ("events", f"{count(view.on_time)} on time, corrections: {count(view.corrections)}"),
    ]
    return [*facts, ("stalled", view.stalled)] if view.stalled else facts


def _stream_facts(stream: StreamStatus) -> list[tuple[str, Part]]:
    late = stream.lateness
    facts: list[tuple[str, Part]] = [
        ("events", f"{count(stream.events)}, {count(stream.dead_letters)} dead letters"),
        ("newest event", moment_text(stream.newest_event)),
        ("freshness", freshness(stream.freshness_ms, "not known")),
        ("event time", f"{stream.event_time or 'arrival'}, patience {format_duration(stream.patience_ms)}"),
    ]
    if stream.idle_timeout_ms is not None:
        facts.append(("idle time-out", format_duration(stream.idle_timeout_ms)))
    if stream.unique is not None:
        names, within = ", ".join(stream.unique.columns), format_duration(stream.unique.within_ms)
        facts.append(("unique", f"{names} within {within}, {count(stream.duplicates)} duplicates"))
    if late:
        facts += [("lateness", late.advice), ("since", f"{late.since}: {late.on_time:,} on time + {late.late:,} late")]
    return [*facts, ("error", stream.error)] if stream.error else facts


def _lateness_chart(stream: StreamStatus) -> Html | None:
    if not stream.lateness:
        return None
    quantiles = stream.lateness.lateness_ms
    bars = [(f"{name.replace('_', '.')} ({span(ms)})", ms / 1000, True) for name, ms in quantiles.items()]
    names = ", ".join(f"{name.replace('_', '.')} {span(ms)}" for name, ms in quantiles.items())
    return bars_svg(f"lateness: {names}", bars)


def _find(kind: str, name: str, statuses: Sequence[Status]) -> Status:
    for status in statuses:
        if status.name == name:
            return status
    raise unknown(kind, name, [status.name for status in statuses])
