"""Partials of the events that a worker has in memory, by DuckDB: what the fused lane runs beside the append.

A file holds the partials of one range: for each version an Arrow stream, one after the other. It is not made durable:
a version whose partials are lost catches up from the lake.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self

import duckdb
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from headrace.aggregate import Aggregate, ArrowFunction
from headrace.aggregate.kernels import unchunked
from headrace.call_limits import LATE, call_limit_s, limit_calls
from headrace.define.model import Stream, View
from headrace.define.relation import PLACE, Relation
from headrace.engine.duckdb_relations import join_rows, limits, rows_sql
from headrace.engine.duckdb_session import DuckdbSession
from headrace.engine.duckdb_terms import duckdb_name
from headrace.engine.duckdb_views import duckdb_view
from headrace.faults import fault_point
from headrace.lake.table_schema import ARRIVED, POSITION
from headrace.language.terms import Expression, quote
from headrace.language.user_functions import UserFunction, functions_of
from headrace.maintain.table_versions import TableAt, forget_tables, show_table
from headrace.spark.failures import one_line
from headrace.store.key_ids import key_id_duckdb
from headrace.store.partial_columns import (
    CORRECTIONS,
    EVENTS,
    KEY_ID,
    OWN_NEWEST,
    PANE,
    partial_columns,
    session_columns,
)
from headrace.store.version import VersionId

EVENTS_TABLE = "events"
MEMORY = "1GB"  # that DuckDB may use in a worker: beyond it, Spark computes the view

_session = DuckdbSession(memory=MEMORY, spill="", preserve_insertion_order=False)


@dataclass(frozen=True)
class Prepared:
    """A column that is computed of a field once for all views."""

    field: str
    function: ArrowFunction

    @property
    def name(self) -> str:
        """The name of the column; no field has a name that begins with _."""
        return f"_{self.function.name} of {self.field}"


@dataclass(frozen=True)
class LiftedView:
    """How DuckDB computes the partials of one version."""

    home: VersionId  # the name of the view, and the number that the version's tables were made under
    sql: str
    reads: tuple[str, ...]  # columns of the events
    functions: tuple[ArrowFunction, ...]
    prepared: tuple[Prepared, ...]
    own: tuple[UserFunction, ...] = ()
    tables: tuple[TableAt, ...] = ()  # that its rows are joined to
    # SQL with the same result for all events, which fails for no row that an earlier step leaves out; `sql` is for
    # events whose fields are within limits.
    step_by_step: str | None = None
    limits: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class LiftedPart:
    """The partials of a version of one range, or why there are none."""

    home: VersionId
    path: str = ""
    start: int = 0
    size: int = 0
    digest: int = 0
    error: str | None = None

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Self:
        """The part that `asdict` wrote as JSON."""
        return cls(**{**fields, "home": tuple(fields["home"])})

    def read(self) -> pa.Table | None:
        """The partials; None if the file is lost or has changed."""
        try:
            with Path(self.path).open("rb") as file:
                file.seek(self.start)
                content = file.read(self.size)
        except OSError:
            return None
        if len(content) != self.size or xxhash.xxh3_64_intdigest(content) != self.digest:
            return None
        return pa.ipc.open_stream(content).read_all()


@dataclass(frozen=True)
class Lifting:
    """What a worker does with the events of a range once they are in the lake's file."""

    views: tuple[LiftedView, ...]
    folder: str
    call_limit_s: float = field(default_factory=call_limit_s)  # of the server, for its workers

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that it needs of the events."""
        return tuple(dict.fromkeys(name for view in self.views for name in view.reads))

    def run(self, events: pa.Table) -> str:
        """The parts, as JSON. A view that fails has an error; the others have their partials."""
        limit_calls(self.call_limit_s)
        path = Path(self.folder) / f"{uuid.uuid4().hex}.partials"
        parts: list[LiftedPart] = []
        try:
            with _session.showing(**{EVENTS_TABLE: self._prepare(events)}) as connection, path.open("wb") as file:
                for view in self.views:
                    fault_point("fused.in_worker")
                    try:
                        content = _lift(connection, view, events)
                    except Exception as error:  # of DuckDB, Arrow or a function of an aggregate: only this view fails
                        parts.append(LiftedPart(view.home, error=one_line(error)))
                        continue
                    digest = xxhash.xxh3_64_intdigest(content)
                    parts.append(LiftedPart(view.home, str(path), file.tell(), len(content), digest))
                    file.write(content)
        except Exception as error:  # a full disk, for example: the lake's file is what counts
            parts = [LiftedPart(view.home, error=one_line(error)) for view in self.views]
        return orjson.dumps([asdict(part) for part in parts]).decode()

    def _prepare(self, events: pa.Table) -> pa.Table:
        for prepared in {prepared.name: prepared for view in self.views for prepared in view.prepared}.values():
            values = unchunked(events.column(prepared.field))
            events = events.append_column(prepared.name, prepared.function.run(values))
        return events


def _lift(connection: duckdb.DuckDBPyConnection, view: LiftedView, events: pa.Table) -> pa.Buffer:
    _session.give((*view.own, *view.functions))
    for at in view.tables:
        show_table(connection, at)
    table = _partials(connection, view, events)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def _partials(connection: duckdb.DuckDBPyConnection, view: LiftedView, events: pa.Table) -> pa.Table:
    def run(sql: str) -> pa.Table:
        table: pa.Table = connection.sql(sql).to_arrow_table()
        return table

    if view.step_by_step is None:
        return run(view.sql)
    if all(_is_within(events.column(name), limit) for name, limit in view.limits):
        try:
            return run(view.sql)
        except duckdb.Error as error:
            if LATE in str(error):
                raise
    return run(view.step_by_step)


def _is_within(numbers: pa.ChunkedArray, limit: int) -> bool:
    least, most = pc.min_max(numbers).as_py().values()
    return least is None or (-limit <= least and most <= limit)


def close_connection() -> None:
    """Close the connection of this process, which a later lift opens again. Workers end without it."""
    _session.close()
    forget_tables()


def lift_view(stream: Stream, view: View, home: int, patience_ms: int, newest_us: int | None) -> LiftedView:
    """How DuckDB computes the partials of a version of events that came after one with the time `newest_us`.

    Raises DefinitionError if only Spark computes the view.
    """
    query = _write(stream, view)
    corrections = _corrections(view, patience_ms, None if view.has_own_time(stream.name) else newest_us)

    def of_groups(groups: str) -> str:
        return f"SELECT {query.key_id} AS {KEY_ID}, *, {corrections} AS {CORRECTIONS} FROM ({groups})"

    return LiftedView(
        (view.name, home),
        of_groups(query.groups),
        query.reads,
        query.functions,
        query.prepared,
        tuple(functions_of([*view.expressions, *(view.relation.calling() if view.relation else ())])),
        step_by_step=of_groups(query.step_by_step) if query.step_by_step else None,
        limits=query.limits,
    )


@dataclass(frozen=True)
class _Written:
    """What is the same for every commit."""

    key_id: str
    groups: str  # a query: a row for each key and pane, but for its id and its corrections
    step_by_step: str | None  # the same for events beyond the limits, if that is another query
    limits: tuple[tuple[str, int], ...]
    reads: tuple[str, ...]
    functions: tuple[ArrowFunction, ...]
    prepared: tuple[Prepared, ...]


@lru_cache(maxsize=1024)
def _write(stream: Stream, view: View) -> _Written:
    written = duckdb_view(stream, view)
    ordered = any(column.aggregate.ordered for column in view.columns)
    position = [POSITION] if ordered or (view.relation and view.relation.by_position) else []
    own_time = view.has_own_time(stream.name)
    reads = [*(name for name, _ in view.reads_of(stream.name)), stream.time_column, ARRIVED, *position]
    tables, time_column, of_fields = [EVENTS_TABLE], stream.time_column, dict[str, int]()
    plain = {quote(name): name for name in stream.types()}
    if view.relation is not None:
        time_column, plain = view.rows_of(stream).time_column, {}
        reserved = _reserved(view.relation, ordered=ordered)
        rows = partial(rows_sql, view.relation, stream, reserved, EVENTS_TABLE, joins=join_rows)
        tables = [f"({sql})" for sql in dict.fromkeys([rows(fewer_steps=True), rows()])]
        of_fields = limits(view.relation, stream)
    time_us = f"epoch_us({duckdb_name(time_column)})"
    partials: dict[str, str] = {}  # equal aggregates are computed once
    functions: list[ArrowFunction] = []
    prepared: list[Prepared] = []
    for column, translated in zip(view.columns, written.columns, strict=True):
        names = [name for name, _ in partial_columns(column.aggregate)]
        aggregate, function = translated.aggregate, column.aggregate.prepares
        if function is not None:
            field = plain.get(column.aggregate.argument.sql)
            if field is not None:
                prepared.append(Prepared(field, function))
                aggregate = _over(aggregate, duckdb_name(prepared[-1].name))
            else:
                functions.append(function)
                aggregate = _over(aggregate, f"{function.name}({aggregate.argument.sql})")
        functions += column.aggregate.lifts
        partials.update(zip(names, aggregate.duckdb_sql(time_us, POSITION, PLACE), strict=True))
    size_us = view.window.pane_ms * 1000 if view.window else 0
    pane = f"({time_us} - {time_us} % {size_us}) // 1000" if size_us else "CAST(0 AS BIGINT)"
    columns = [f"{key.expression.sql} AS {duckdb_name(key.name)}" for key in written.keys]
    columns += [f"{pane} AS {PANE}", f"count(*) AS {EVENTS}"]
    columns += [f"max(least({time_us}, epoch_us({ARRIVED}))) AS {OWN_NEWEST}"] if own_time else []
    partials |= session_columns(written.window, time_us)
    columns += [f"{sql} AS {duckdb_name(name)}" for name, sql in partials.items()]
    where = f" WHERE {written.where.sql}" if written.where else ""
    places = ", ".join(str(place + 1) for place in range(len(view.keys) + 1))
    groups, *others = (f"SELECT {', '.join(columns)} FROM {table}{where} GROUP BY {places}" for table in tables)
    return _Written(
        key_id_duckdb(view),
        groups,
        next(iter(others), None),
        tuple(of_fields.items()),
        tuple(dict.fromkeys(reads)),
        tuple(functions),
        tuple(prepared),
    )


def _reserved(relation: Relation, *, ordered: bool) -> tuple[str, ...]:
    """Columns of ours that the partials of a view need beside the fields of its relation."""
    order = (POSITION, *([PLACE] if relation.repeats else [])) if ordered else (POSITION,) * relation.by_position
    return (ARRIVED, *order)


def _over(aggregate: Aggregate, sql: str) -> Aggregate:
    """The aggregate over another argument."""
    return replace(aggregate, arguments=(Expression.raw(sql, aggregate.argument.type), *aggregate.arguments[1:]))


def _corrections(view: View, patience_ms: int, newest_us: int | None) -> str:
    """SQL for how many events of a row came when their pane was settled: all of them, or none."""
    if view.window is None or newest_us is None:
        return "CAST(0 AS BIGINT)"
    settled_ms = view.window.pane_ms + patience_ms
    return f"CASE WHEN ({PANE} + {settled_ms}) * 1000 <= {newest_us} THEN {EVENTS} ELSE 0 END"


def parts_of(texts: Sequence[str]) -> list[LiftedPart]:
    """The parts of all ranges of a commit, from what `Lifting.run` returned for each."""
    return [LiftedPart.of(fields) for text in texts for fields in orjson.loads(text)]
