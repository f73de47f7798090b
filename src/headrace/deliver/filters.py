"""Which events of a stream, or changes of a view, a reader wants: a condition, and values of fields or keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from headrace.define.model import Stream
from headrace.engine.duckdb_session import DuckdbSession
from headrace.engine.duckdb_views import duckdb_expression
from headrace.engine.python_evaluation import Evaluate, compile_expression
from headrace.errors import DefinitionError, QuestionError, did_you_mean
from headrace.language.check import Scope, check_condition
from headrace.language.expressions import parse_tree
from headrace.language.source_text import SourceText, each
from headrace.language.terms import Expression
from headrace.language.user_functions import functions_of
from headrace.serve.change_batch import ChangeBatch, Columns
from headrace.serve.json_values import key_value
from headrace.store.selection import rank

LONGEST = 4_000  # characters of a condition
MOST_KNOWN = 200_000  # rows of which a reader with a condition is known to have them, or not
Keys = tuple[tuple[str, tuple[Any, ...]], ...]
Row = tuple[Any, ...]


class EventFilter:
    """Selects events of a stream. A condition that is NULL for an event does not select it."""

    def __init__(self, stream: Stream, where: Expression | None, keys: Keys) -> None:
        self._types = stream.types()
        self._where = where
        self._keys = keys
        self._session = DuckdbSession()
        self._duckdb_sql, self._evaluate = _compile_both(where, stream) if where else (None, None)

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
                if self._evaluate is None:
                    raise
        assert self._evaluate is not None, "one of both is checked when it is made"
        columns = [events.column(name).to_pylist() for name in self._types]
        return events.filter(pa.array([self._evaluate(row) for row in zip(*columns, strict=True)], pa.bool_()))


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
    if functions_of([expression]):
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


def _compile_both(where: Expression, stream: Stream) -> tuple[str | None, Evaluate | None]:
    """The condition for DuckDB, and as a function for events where only Python computes the value that Spark would."""
    types = stream.types()
    sql, evaluate = None, None
    try:
        sql = duckdb_expression(where, types)
    except DefinitionError as error:
        refusal = error
    try:
        evaluate = compile_expression(where, tuple(types.items()))
    except DefinitionError:
        if sql is None:
            raise QuestionError(f"where: {refusal.message}", fix="write the condition without it") from refusal
    return sql, evaluate


def _equals(column: pa.ChunkedArray, values: tuple[Any, ...]) -> pa.ChunkedArray:
    return pc.is_in(column, pa.array(values, column.type))  # NULL is in it if it is one of the values


class KnownRows:
    """Which rows a reader has, as far as that is known: if that is not known of all, it may have any other one."""

    def __init__(self, *, of_all: bool, most: int) -> None:
        self.of_all = of_all
        self.overflown = False
        self._most = most
        self._places: set[Row] = set()  # of rows that it has, if that is known of all; else of rows that it has not

    def may_have(self, place: Row) -> bool:
        """Whether the reader may have a row."""
        return (place in self._places) == self.of_all

    def note(self, place: Row, has: bool) -> None:
        """The reader has a row from now on, or not."""
        if has != self.of_all:
            self._places.discard(place)
            return
        self._places.add(place)
        if len(self._places) > self._most:
            self._places.clear()
            self.of_all, self.overflown = False, True


class ChangeFilter:
    """Selects the changes that one reader gets. It remembers which rows the reader has, to delete only these."""

    def __init__(
        self,
        key: Keys = (),
        where: str | Expression | None = None,
        *,
        fresh: bool,
        most: int = MOST_KNOWN,
        remembers_having: bool = False,
    ) -> None:
        """`fresh`: the reader has no row yet; else it may have any.

        `remembers_having`: remember rows also without a condition, if the view has HAVING.
        """
        self._key, self._where = key, where
        self._fresh, self._most, self._remembers_having = fresh, most, remembers_having
        self._known: KnownRows | None = None
        self._columns: Columns | None = None
        self._width = 0  # of what a row is known by: these columns come first
        self._values: list[tuple[int, set[Any]]] = []  # of keys
        self._passes: Evaluate | None = None

    def select(self, batch: ChangeBatch) -> tuple[Sequence[Row], Sequence[Row]]:
        """Upserts and deletes of a batch."""
        self.prepare(batch)
        known, left_out = self._known_rows(batch), [row for row in batch.deletes if self._has_key(row)]
        if known is None:
            return self.matching(batch), left_out
        kept = []
        for row in filter(self._has_key, batch.upserts):
            if self._passes is None or self._passes(row):
                kept.append(row)
            else:
                left_out.append(row[: self._width])
        removed = [] if batch.first else [row for row in left_out if known.may_have(self._place(row))]
        for rows, has in ((left_out, False), (kept, True)):
            for row in rows:
                known.note(self._place(row), has)
        return kept, removed

    def matching(self, batch: ChangeBatch) -> list[Row]:
        """The upserts of a batch that it selects, whatever the reader has."""
        self.prepare(batch)
        rows = [row for row in batch.upserts if self._has_key(row)]
        return rows if self._passes is None else [row for row in rows if self._passes(row)]

    @property
    def is_sure(self) -> bool:
        """Whether it is known of each row whether the reader has it, or cannot be: there are too many."""
        return self._known is not None and (self._known.of_all or self._known.overflown)

    def learn(self, pages: Iterable[ChangeBatch]) -> None:
        """The reader has the rows of these pages that are selected, and no others."""
        self._known = KnownRows(of_all=True, most=self._most)
        for page in pages:
            for row in self.matching(page):
                self._known.note(self._place(row), True)
            if self._known.overflown:
                return

    def remembers(self, batch: ChangeBatch) -> bool:
        """Whether it matters which rows the reader has."""
        return self._where is not None or (self._remembers_having and batch.having)

    def prepare(self, batch: ChangeBatch) -> None:
        """Check it against the columns of a batch; raises QuestionError if it does not fit."""
        if self._columns == batch.columns:
            return
        types, names = dict(batch.columns), [name for name, _ in batch.columns]
        keys = [name for name in batch.keys if name not in ("window_start", "window_end")]
        self._values = []
        for name, values in self._key:
            if name not in keys:
                raise QuestionError(
                    f"view '{batch.view}' has no key '{name}'",
                    expected=", ".join(f"'{key}'" for key in keys) or "no key: the view has none",
                    fix=did_you_mean(name, keys),
                )
            values_of_key = {rank(key_value(name, types[name], value)) for value in values}
            self._values.append((names.index(name), values_of_key))
        self._passes = _compile(self._where, batch.columns) if self._where else None
        known_by = (place for place, name in enumerate(names) if name in (*batch.keys, "window_end"))
        self._width = 1 + max(known_by, default=0)
        self._columns = batch.columns

    def _known_rows(self, batch: ChangeBatch) -> KnownRows | None:
        """What the reader has before a batch; None: it is given all deletes."""
        if self.remembers(batch) and (self._known is None or batch.restarted):
            self._known = KnownRows(of_all=self._fresh or batch.restarted, most=self._most)
        self._fresh = False
        return self._known if self.remembers(batch) else None

    def _has_key(self, row: Row) -> bool:
        return all(rank(row[place]) in values for place, values in self._values)

    def _place(self, row: Row) -> Row:
        return tuple(map(rank, row[: self._width]))


def _compile(where: str | Expression, columns: Columns) -> Evaluate:
    if isinstance(where, Expression):
        return compile_expression(where, columns)
    source = SourceText(where)
    try:
        expression = check_condition(source, parse_tree(source), Scope(dict(columns)), "where")
        if functions_of([expression]):
            raise QuestionError("where: functions of the workspace are for definitions", fix="use built-in functions")
        return compile_expression(expression, columns)
    except DefinitionError as error:
        first = each(error)[0]
        raise QuestionError(
            f"where: {first.message}", found=first.found, expected=first.expected, fix=first.fix
        ) from error
