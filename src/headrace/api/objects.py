"""Views, streams and tables of a connected workspace as objects, which notebooks show as HTML."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from headrace.define.model import JSON
from headrace.errors import HeadraceError, IngestError, NotReadyError, RequestError, SqlError, not_a_table, unknown
from headrace.format import count, freshness, span
from headrace.html import Html, Part, moment_text, tag
from headrace.ingest.formats.format_detection import ANY, FileLayout, format_of
from headrace.ingest.row_deletions import deletions
from headrace.language.durations import format_duration
from headrace.language.token_cursor import parse_type
from headrace.lazy import later
from headrace.serve.answer_html import answer_html, bars_svg, block, facts_html, heading, quiet, table
from headrace.serve.json_values import key_value

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.api.connect import Connection, Events
    from headrace.ingest.formats import byte_source, columnar_lines, stored_lines
    from headrace.ingest.receiver import IngestReply
    from headrace.serve.answer import Answer
    from headrace.serve.sql.sql_answer import SqlAnswer
    from headrace.server.status import StreamStatus, TableStatus, ViewStatus
else:  # loaded by their first use
    columnar_lines = later("headrace.ingest.formats.columnar_lines")
    byte_source = later("headrace.ingest.formats.byte_source")
    stored_lines = later("headrace.ingest.formats.stored_lines")


Item = TypeVar("Item")
Status = TypeVar("Status", "StreamStatus", "ViewStatus")
NEWEST_ROWS = 40  # that are asked for to show a view


class Listing(list[Item]):
    """A list that a notebook shows as a table."""

    def __init__(self, items: Iterable[Item], render: Callable[[Sequence[Item]], Html]) -> None:
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
            charted = status.window and not status.sessions
            rows: Html = answer_html(self.ask(**newest), chart_of=self.ask(by=[], **newest) if charted else None)
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


def views_html(views: Sequence[ViewStatus]) -> Html:
    """The views of a workspace."""
    titles = ["view", "stream", "keys", "freshness", "version", "rows", "corrections", "settled until (UTC)"]
    rows: list[list[Part]] = [
        [
            view.name,
            view.stream,
            ", ".join(view.keys),
            freshness(view.freshness_ms, view.freshness_reason),
            count(view.applied_to if view.table else view.version),
            count(view.rows),
            count(view.corrections),
            moment_text(view.settled_until, zone=""),
        ]
        for view in views
    ]
    return block(table(titles, rows, ["version", "rows", "corrections"]) if rows else quiet("no views"))


def streams_html(streams: Sequence[StreamStatus]) -> Html:
    """The streams of a workspace."""
    titles = ["stream", "events", "dead letters", "events/s", "newest event"]
    rows: list[list[Part]] = [
        [
            stream.name,
            count(stream.events),
            count(stream.dead_letters),
            count(stream.events_per_second),
            moment_text(stream.newest_event),
        ]
        for stream in streams
    ]
    advice = [quiet(f"{s.name}: {s.lateness.advice}") for s in streams if s.lateness]
    return block(table(titles, rows, titles[1:4]) if rows else quiet("no streams"), *advice)


def _view_facts(view: ViewStatus) -> list[tuple[str, Part]]:
    facts: list[tuple[str, Part]] = [
        ("stream", view.stream),
        ("keys", ", ".join(view.keys) or "none"),
        ("columns", ", ".join(f"{column.name} {column.type}" for column in view.columns)),
        ("window", view.window_text or "all time"),
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


UP_TO_DATE_S, PAUSE_S = 30.0, 0.1  # how long to wait for rows to have all changes


class ConnectedTable(ConnectedView):
    """A table of a connected workspace. Each change is kept, so that it can be asked as of an earlier commit."""

    def __repr__(self) -> str:
        return f"table {self.name}"

    @property
    def table_status(self) -> TableStatus:
        """Its definition and its state."""
        tables = self._connection.verbs.tables()
        for status in tables:
            if status.name == self.name:
                return status
        streams = [stream.name for stream in self._connection.verbs.streams()]
        raise not_a_table(self.name, [status.name for status in tables], streams)

    def upsert(self, rows: Any, *, key: str | None = None) -> IngestReply:
        """Insert rows, or replace those with the same primary key: mappings, a pandas DataFrame or an Arrow table.

        A row replaces the whole row: columns that it leaves out become NULL. `key` is an idempotency key.
        """
        self._writable()
        return self._connection.send(self.name, rows, key=key)

    def delete(self, keys: Any, *, key: str | None = None) -> IngestReply:
        """Delete the rows with these primary keys: mappings, plain values, a pandas DataFrame or an Arrow table."""
        status = self._writable()
        rows = _as_rows(keys)
        changes = deletions(self.name, status.key, status.latest_by, rows, may_repeat=key is not None)
        return self._connection.send(self.name, changes, key=key)

    def replace(self, rows: Any, *, key: str | None = None) -> IngestReply:
        """Make these rows the whole table: they are upserted, and rows with other keys are deleted, in one request.

        `rows` may also be the `Path` of a file. What is deleted is decided by the rows that an answer has now.
        """
        status = self._writable()
        sent = list(read_rows(rows, ANY, status) if isinstance(rows, Path) else _as_rows(rows))
        types = {column.name: parse_type(column.type) for column in status.columns}
        deletions(self.name, status.key, None, sent)  # refuses a row without its key
        kept = {tuple(key_value(name, types[name], row[name]) for name in status.key) for row in sent}
        present = [{name: row[name] for name in status.key} for row in self._keys(status.key)]
        others = [row for row in present if tuple(row.values()) not in kept]
        changes = deletions(self.name, status.key, status.latest_by, others)
        return self._connection.send(self.name, [*sent, *changes], key=key)

    def _keys(self, key: Sequence[str]) -> list[dict[str, Any]]:
        """The keys of all rows, with every change that was accepted before."""
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in key)
        query = f'SELECT {columns} FROM "{self.name}"'  # a name of a table has no quotes
        deadline = time.monotonic() + UP_TO_DATE_S
        while True:
            answer: Answer | SqlAnswer
            try:
                answer = self._connection.sql(query)  # pages of a large table take long
            except SqlError:
                answer = self.ask()  # there are more keys than one result holds
            if answer.freshness_ms == 0:
                return answer.rows()
            if time.monotonic() > deadline:
                raise NotReadyError(
                    f"table '{self.name}' has accepted changes that are not in its rows yet",
                    found=answer.freshness_reason or f"{answer.freshness_ms} ms behind",
                    fix="nothing was changed; try again when `headrace tables` says that it is up to date",
                )
            time.sleep(PAUSE_S)

    def _writable(self) -> TableStatus:
        status = self.table_status
        if status.derived_from:
            raise RequestError(
                f"table '{self.name}' is made from {', '.join(status.derived_from)}: no rows can be sent to it",
                fix=f"send events to {' or '.join(status.derived_from)}",
            )
        return status


def _as_rows(rows: Any) -> Iterable[Any]:
    """Mappings or values, of whatever holds some."""
    table = columnar_lines.as_table(rows)
    if table is not None:
        return table.to_pylist()
    several = isinstance(rows, Iterable) and not isinstance(rows, Mapping | str | bytes)
    return rows if several else [rows]


def read_rows(path: Path, layout: FileLayout, status: TableStatus) -> Iterator[dict[str, Any]]:
    """The rows of a file, in any format and compression of events."""
    types, number = {column.name: column.type for column in status.columns}, 0
    try:
        with path.open("rb") as file:
            source = byte_source.unpack(byte_source.ByteSource(file))
            form = layout.format or format_of(path.name, source.look(byte_source.LOOK_BYTES), JSON, types)
            for piece in stored_lines.read_lines(source, replace(layout, format=form), types):
                for line in filter(bytes.strip, piece.splitlines()):
                    number += 1
                    yield _object(line, number, path)
    except OSError as error:
        raise IngestError(f"'{path}' cannot be read: {error.strerror}", fix="nothing was changed") from error


def _object(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        row = None
    if not isinstance(row, dict):
        raise IngestError(
            f"row {number} of '{path}' is not an object", found=repr(line[:60]), fix="nothing was changed"
        )
    return row
