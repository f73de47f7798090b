"""Which events of a stream, or changes of a view, a reader wants: a condition, and values of fields or keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from headrace.define.expression.check import Scope, check_condition
from headrace.define.model import Stream
from headrace.define.own import functions_in
from headrace.engine.duckdb_session import DuckdbSession
from headrace.engine.duckdb_views import duckdb_expression
from headrace.engine.python_evaluation import Evaluate, compile_expression
from headrace.errors import DefinitionError, QuestionError, did_you_mean
from headrace.language.expressions import parse_tree
from headrace.language.source_text import SourceText, each
from headrace.serve.change_batch import ChangeBatch, Columns
from headrace.serve.json_values import key_value
from headrace.store.selection import rank
from headrace.types import Expression

LONGEST = 4_000  # characters of a condition
Keys = tuple[tuple[str, tuple[Any, ...]], ...]


class EventFilter:
    """Selects events of a stream. A condition that is NULL for an event does not select it."""

    def __init__(self, stream: Stream, where: Expression | None, keys: Keys) -> None:
        self._types = stream.types()
        self._where = where
        self._keys = keys
        self._session = DuckdbSession()
        self._duckdb_sql, self._face = _faces(where, stream) if where else (None, None)

    def select(self, events: pa.Table) -> pa.Table:
        """Those of these events that it selects, in their order."""
        for name, values in self._keys:
            events = events.filter(_equals(events.column(name), values))
        if self._where is None or not events.num_rows:
            return events
        if self._duckdb_sql is not None:
            try:
                query = f"SELECT {self._duckdb_sql} AS selected FROM events"
                return events.filter(self._session.query(query, events=events.select(list(self._types))).column(0))
            except duckdb.Error:  # a value for which DuckDB's result may not be Spark's
                if self._face is None:
                    raise
        assert self._face is not None, "one of both is checked when it is made"
        columns = [events.column(name).to_pylist() for name in self._types]
        return events.filter(pa.array([self._face(row) for row in zip(*columns, strict=True)], pa.bool_()))


@lru_cache(maxsize=256)
def _cached(stream: Stream, where: str | None, keys: Keys) -> EventFilter | None:
    expression = _read_condition(stream, where) if where else None
    return EventFilter(stream, expression, keys) if expression or keys else None


def make_filter(stream: Stream, where: str | None, key: Mapping[str, Any] | None = None) -> EventFilter | None:
    """The filter for a condition and values of fields; None selects all. Equal arguments give the same object.

    Raises QuestionError if the condition or a value does not fit the stream.
    """
    where = where.strip() if where else None
    if where and len(where) > LONGEST:
        raise QuestionError("where is too long", found=f"{len(where):,} characters", expected=f"at most {LONGEST:,}")
    return _cached(stream, where or None, _read_keys(stream, key or {}))


def _read_condition(stream: Stream, where: str) -> Expression:
    source = SourceText(where)
    try:
        expression = check_condition(source, parse_tree(source), Scope(stream.types()), "where")
    except DefinitionError as error:
        first = each(error)[0]
        raise QuestionError(
            f"where: {first.message}", found=first.found, expected=first.expected, fix=first.fix
        ) from error
    if functions_in(expression.sql):
        raise QuestionError("where: functions of the workspace are for definitions only", fix="use built-in functions")
    return expression


def _read_keys(stream: Stream, key: Mapping[str, Any]) -> Keys:
    types = {field.name: field.type for field in stream.fields}
    keys = []
    for name, value in key.items():
        if name not in types:
            raise QuestionError(
                f"stream '{stream.name}' has no field '{name}'",
                expected=", ".join(types),
                fix=did_you_mean(name, types),
            )
        if types[name].is_nested:
            raise QuestionError(f"field '{name}' is of type {types[name]}", fix="use `where` for such fields")
        values = value if isinstance(value, list | tuple) else [value]
        keys.append((name, tuple(key_value(name, types[name], each_value) for each_value in values)))
    return tuple(sorted(keys))


def _faces(where: Expression, stream: Stream) -> tuple[str | None, Evaluate | None]:
    """The condition for DuckDB, and as a function for events where only Python computes the value that Spark would."""
    types = stream.types()
    sql, face = None, None
    try:
        sql = duckdb_expression(where, types)
    except DefinitionError as error:
        refusal = error
    try:
        face = compile_expression(where, tuple(types.items()))
    except DefinitionError:
        if sql is None:
            raise QuestionError(f"where: {refusal.message}", fix="write the condition without it") from refusal
    return sql, face


def _equals(column: pa.ChunkedArray, values: tuple[Any, ...]) -> pa.ChunkedArray:
    return pc.is_in(column, pa.array(values, column.type))  # NULL is in it if it is one of the values


Row = tuple[Any, ...]
MOST_KNOWN = 200_000  # rows of which a reader with a condition is known to have them, or not


@dataclass
class ChangeFilter:
    """Selects the changes that one reader gets. It remembers which rows the reader has, to delete only these."""

    key: tuple[tuple[str, tuple[Any, ...]], ...]
    where: str | None
    fresh: bool  # the reader has no row yet; else it may have any
    _known: dict[Row, bool] = field(default_factory=dict)  # by row: whether the reader has it
    _columns: Columns | None = None
    _selected: list[tuple[int, set[Any]]] = field(default_factory=list)
    _face: Evaluate | None = None

    def select(self, batch: ChangeBatch) -> tuple[Sequence[Row], Sequence[Row]]:
        """Upserts and deletes of a batch."""
        self.prepare(batch)
        upserts = [row for row in batch.upserts if self._has_key(row)]
        deletes = [row for row in batch.deletes if self._has_key(row)]
        if self._face is None:
            return upserts, deletes
        if batch.restarted:
            self._known.clear()
            self.fresh = True
        width = len(batch.deletes[0]) if batch.deletes else 0
        places = _places(batch)
        left = [row[: len(places)] for row in upserts if not self._face(row)]
        kept = [row for row in upserts if self._face(row)]
        removed = [row for row in (*(row[:width] for row in deletes), *left) if self._may_have(_place(row, places))]
        removed = [] if batch.first else removed
        for row in removed:
            self._known[_place(row, places)] = False
        for row in kept:
            self._known[_place(row, places)] = True
        if len(self._known) > MOST_KNOWN:  # from now on the reader may have any row
            self._known.clear()
            self.fresh = False
        return kept, removed

    def prepare(self, batch: ChangeBatch) -> None:
        """Check it against the columns of a batch; raises QuestionError if it does not fit."""
        if self._columns == batch.columns:
            return
        types, names = dict(batch.columns), [name for name, _ in batch.columns]
        keys = [name for name in batch.keys if name not in ("window_start", "window_end")]
        self._selected = []
        for name, values in self.key:
            if name not in keys:
                raise QuestionError(
                    f"view '{batch.view}' has no key '{name}'",
                    expected=", ".join(f"'{key}'" for key in keys) or "no key: the view has none",
                    fix=did_you_mean(name, keys),
                )
            values_of_key = {rank(key_value(name, types[name], value)) for value in values}
            self._selected.append((names.index(name), values_of_key))
        self._face = _compile(self.where, batch.columns) if self.where else None
        self._columns = batch.columns

    def _has_key(self, row: Row) -> bool:
        return all(rank(row[place]) in values_of_key for place, values_of_key in self._selected)

    def _may_have(self, place: Row) -> bool:
        return self._known.get(place, not self.fresh)


def _places(batch: ChangeBatch) -> range:
    """The places of what a row is known by: they come first."""
    last = max(
        (place for place, (name, _) in enumerate(batch.columns) if name in (*batch.keys, "window_end")), default=0
    )
    return range(last + 1)


def _place(row: Row, places: Iterable[int]) -> Row:
    return tuple(rank(row[place]) for place in places)


def _compile(where: str, columns: Columns) -> Evaluate:
    source = SourceText(where)
    try:
        expression = check_condition(source, parse_tree(source), Scope(dict(columns)), "where")
        if functions_in(expression.sql):
            raise QuestionError("where: functions of the workspace are for definitions", fix="use built-in functions")
        return compile_expression(expression, columns)
    except DefinitionError as error:
        first = each(error)[0]
        raise QuestionError(
            f"where: {first.message}", found=first.found, expected=first.expected, fix=first.fix
        ) from error
