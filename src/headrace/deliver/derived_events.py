"""The events of a derived stream, made of events of its base streams that were read from the lake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa

from headrace.define.model import ARRIVED, Stream
from headrace.define.relation import PLACE, Branch, Explode, Filter, Project, Relation, RowStep, types_after
from headrace.deliver.event_chunks import CHUNK_ROWS, ROW, Chunk, read_chunk
from headrace.deliver.event_page import EventCursor
from headrace.deliver.table_changes import PinnedJoins, TableChanges, in_parts
from headrace.engine.duckdb_relations import refuse_join, rows_sql
from headrace.engine.duckdb_session import DuckdbSession
from headrace.engine.duckdb_terms import duckdb_name
from headrace.engine.python_evaluation import compile_expression
from headrace.errors import DefinitionError, HeadraceError, QuestionError
from headrace.lake.delta_table import LakeTable
from headrace.lake.table_schema import COMMIT, POSITION, TABLES
from headrace.language.user_functions import functions_of
from headrace.parse.record_columns import utc_us
from headrace.types import TIMESTAMP, Type, arrow_type

OURS = (COMMIT, POSITION, ARRIVED)
Row = dict[str, Any]


class DerivedReader:
    """Makes the events of a derived stream of those of one of its base streams. For any thread.

    Where one event can make several, each has its number among these.
    """

    def __init__(self, stream: Stream, base: Stream, tables: TableChanges | None = None) -> None:
        """`tables` are what its rows are joined to, if they are."""
        assert stream.relation is not None, "a derived stream has a relation"
        self._name = stream.name
        self._relation = stream.relation
        self._base = base
        self.schema = pa.schema(
            [
                *((name, pa.int64()) for name in (COMMIT, POSITION)),
                (ARRIVED, utc_us()),
                *([(ROW, pa.int64())] if self._relation.repeats else []),
                *((name, arrow_type(of)) for name, of in self._relation.fields),
            ]
        )
        self._session = DuckdbSession()
        self._joins = PinnedJoins(tables, base.name) if tables and self._relation.tables else None
        self._ours = (*OURS, *([TABLES] if self._joins else []))
        self._sql, self._reason = self._write()

    @property
    def reads(self) -> list[str]:
        """The columns of the base stream that it needs."""
        return [*self._ours[len(OURS) :], *(name for name, _ in self._relation.reads_of(self._base.name))]

    def read(self, table: LakeTable, after: EventCursor, rows: int = CHUNK_ROWS) -> Chunk | None:
        """The events of the derived stream that are made of the next ones of the base stream after a cursor."""
        chunk = read_chunk(table, self._base, after, rows, self.reads)
        return replace(chunk, events=self.make(chunk.events)) if chunk else None

    def make(self, events: pa.Table) -> pa.Table:
        """Their rows, in the order of events, then of their places."""
        if self._sql is not None:
            try:
                return in_parts(events, partial(self._by_duckdb, sql=self._sql))
            except duckdb.Error as error:  # of a value for which DuckDB's result may not be Spark's
                self._reason = str(error).splitlines()[0]
        try:
            return self._by_python(events)
        except HeadraceError as error:
            raise QuestionError(
                f"the events of stream '{self._name}' cannot be listed: {self._reason or error.message}",
                fix="read a view over it",
            ) from error

    def _write(self) -> tuple[str | None, str]:
        repeats = self._relation.repeats
        try:
            ours = (*self._ours, *([PLACE] if repeats else []))
            joins = self._joins.join if self._joins else refuse_join
            rows = rows_sql(self._relation, self._base, ours, "events", joins=joins)
        except DefinitionError as error:
            return None, error.message
        place = f"row_number() OVER (PARTITION BY {COMMIT}, {POSITION} ORDER BY {PLACE}) - 1 AS {ROW}"
        fields = [duckdb_name(name) for name, _ in self._relation.fields]
        names = ", ".join([*OURS, *([place] if repeats else []), *fields])
        order = ", ".join([COMMIT, POSITION, *([ROW] if repeats else [])])
        return f"SELECT {names} FROM ({rows}) ORDER BY {order}", ""

    def _by_duckdb(self, events: pa.Table, sql: str) -> pa.Table:
        with self._session.showing(events=events.select([*OURS, *self.reads])) as connection:
            self._session.give(functions_of(self._relation.calling()))
            with self._joins.shown(connection) if self._joins else nullcontext():
                rows: pa.Table = connection.sql(sql).to_arrow_table().cast(self.schema)
                return rows

    def _by_python(self, events: pa.Table) -> pa.Table:
        rows = list(python_rows(self._relation, self._base, events.select([*OURS, *self.reads])))
        return pa.Table.from_pylist(rows, self.schema)  # which leaves out what is not in it


def python_rows(relation: Relation, base: Stream, events: pa.Table) -> Iterator[Row]:
    """The rows of a relation in plain Python: for few events, where DuckDB would make other rows than Spark.

    Raises DefinitionError if Python does not make a step.
    """
    for event in events.to_pylist(maps_as_pydicts="lossy"):
        number = 0
        for branch in relation.branches_of(base.name):
            for row in _branch_rows(branch, event):
                yield {
                    **{name: event[name] for name in OURS},
                    ROW: number,
                    **{name: row[name] for name, _ in relation.fields},
                }
                number += 1


def _branch_rows(branch: Branch, event: Row) -> list[Row]:
    types: dict[str, Type] = dict(branch.reads)
    rows = [{name: event[name] for name in (*types, ARRIVED)}]
    for step in branch.steps:
        rows, types = _step(rows, types, step)
    return rows


def _step(rows: list[Row], types: dict[str, Type], step: RowStep) -> tuple[list[Row], dict[str, Type]]:
    known = tuple({**types, ARRIVED: TIMESTAMP}.items())

    def values(row: Row) -> list[Any]:
        return [row[name] for name, _ in known]

    match step:
        case Filter():
            holds = compile_expression(step.condition, known)
            return [row for row in rows if holds(values(row)) is True], types
        case Project():
            evaluated = [(name, compile_expression(of, known)) for name, of in step.columns]
            projected = [
                {ARRIVED: row[ARRIVED], **{name: evaluate(values(row)) for name, evaluate in evaluated}} for row in rows
            ]
            return projected, {name: of.type for name, of in step.columns}
        case Explode():
            elements = compile_expression(step.values, known)
            exploded = [{**row, **added} for row in rows for added in _elements(step, elements(values(row)))]
            return exploded, types_after(types, step)
    raise DefinitionError("only Spark computes it")


def _elements(step: Explode, values: Any) -> Iterator[Row]:
    items = list(values.items()) if isinstance(values, dict) else [(value,) for value in values or ()]
    if not items and step.outer:
        yield {**dict.fromkeys(step.names), **({step.position: None} if step.position else {})}
    for number, item in enumerate(items):
        yield {**dict(zip(step.names, item, strict=True)), **({step.position: number} if step.position else {})}
