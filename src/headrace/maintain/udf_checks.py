"""Tries functions and aggregates of a workspace on real events, before a view that calls them is applied.

A function must give the same value for an event alone as next to others; an aggregate must not depend on the order of
events or on how they are split. The law of all views rests on that. A counter-example is shown as it was found.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.aggregate import Partial
from headrace.aggregate.udaf import UserAggregate
from headrace.define.model import Stream, View
from headrace.define.relation import Relation
from headrace.engine.duckdb_relations import calls_sql, rows_sql
from headrace.engine.duckdb_session import DuckdbSession
from headrace.engine.duckdb_views import duckdb_expression
from headrace.engine.udf_calls import run_function, run_outcomes
from headrace.errors import DefinitionError, HeadraceError
from headrace.lake.delta_table import LakeTable
from headrace.language.terms import Expression
from headrace.language.user_functions import UserFunction, find_function, functions_of

MOST_EVENTS = 256  # that functions are tried on
MOST_ALONE = 32  # of them that are also given alone
MOST_PARTIALS = 12  # of which all pairs and many triples are tried
EVENTS = "events"
Row = tuple[Any, ...]


class _OnlySparkError(Exception):
    """Rows that only Spark makes: nothing is tried on them."""


def newest_events(table: LakeTable, stream: Stream, names: Sequence[str]) -> pa.Table | None:
    """Some of the newest events of a stream, with these fields; None if there are none."""
    with table.reading(0, table.state.next_commit) as files:
        for file in reversed(files):
            with table.storage.open(file.path) as content, pq.ParquetFile(content) as parquet:
                there = set(parquet.schema_arrow.names)
                if not set(names) <= there:
                    continue  # written before a field was added
                for batch in parquet.iter_batches(MOST_EVENTS, columns=list(names)):
                    return pa.Table.from_batches([batch])
    return None


def refuse_code(stream: Stream, view: View, events: pa.Table) -> str | None:
    """Which law the code that a view calls breaks on these events, with the counter-example; None: no one."""
    session = DuckdbSession()
    try:
        if view.relation is not None:
            of_maps = _refuse_maps(session, stream, view.relation, events)
            if of_maps:
                return of_maps
            events = _rows_of(session, stream, view.relation, events)
            stream = view.rows_of(stream)
        session.give(functions_of(view.expressions))
        for function, arguments in _calls(stream, view):
            rows = _values(session, stream, arguments, events)
            reason = rows and _refuse_function(function, rows)
            if reason:
                return reason
        for aggregate in dict.fromkeys(column.aggregate for column in view.columns):
            if isinstance(aggregate, UserAggregate):
                rows = _values(session, stream, aggregate.arguments, events)
                reason = rows and _refuse_aggregate(aggregate, _rows(rows))
                if reason:
                    return reason
    except _OnlySparkError:
        return None
    except HeadraceError as error:
        return str(error)
    finally:
        session.close()
    return None


def _calls(stream: Stream, view: View) -> Iterator[tuple[UserFunction, list[Expression]]]:
    """Each call of a function of the workspace, with its arguments."""
    for expression in view.expressions:
        for term in expression.over(stream.types()).parts():
            function = find_function(term.op)
            if function:
                yield function, [Expression(arg) for arg in term.args]


def _values(
    session: DuckdbSession, stream: Stream, arguments: Sequence[Expression], events: pa.Table
) -> list[pa.Array] | None:
    """The arguments of each event; None if only Spark computes them."""
    try:
        columns = [duckdb_expression(argument, stream.types()) for argument in arguments]
    except DefinitionError:
        return None
    selected = ", ".join(f"{sql} AS a{at}" for at, sql in enumerate(columns))
    try:
        table = session.query(f"SELECT {selected} FROM {EVENTS}", **{EVENTS: events})
    except duckdb.Error:
        return None  # DuckDB differs from Spark here
    return [column.combine_chunks() for column in table.columns]


def _rows_of(session: DuckdbSession, stream: Stream, relation: Relation, events: pa.Table) -> pa.Table:
    """The derived rows of the events."""
    try:
        return session.query(rows_sql(relation, stream, (), EVENTS), **{EVENTS: events})
    except (DefinitionError, duckdb.Error) as error:
        raise _OnlySparkError(str(error)) from error


def _refuse_maps(session: DuckdbSession, stream: Stream, relation: Relation, events: pa.Table) -> str | None:
    """Which function that is called for derived rows fails for all of them, or depends on other rows."""
    session.give(functions_of(step.function for step in relation.maps))
    try:
        for step, sql in calls_sql(relation, stream, EVENTS):
            called = find_function(step.function)
            arguments = [column.combine_chunks() for column in session.query(sql, **{EVENTS: events}).columns]
            reason = _refuse_map(called, arguments) if called and len(arguments[0]) else None
            if reason:
                return reason
    except (DefinitionError, duckdb.Error) as error:
        raise _OnlySparkError(str(error)) from error
    return None


def _refuse_map(function: UserFunction, arguments: list[pa.Array]) -> str | None:
    errors = run_outcomes(function, *arguments).field("error")
    if not errors.null_count:
        return f"{errors[0].as_py()}; it failed for each of {len(errors)} events"
    if errors.null_count < len(errors):
        return None  # some fail: they are dead letters
    return _refuse_function(function, arguments)  # which raises if it fails for all of them together


def _refuse_function(function: UserFunction, arguments: list[pa.Array]) -> str | None:
    together = run_function(function, *arguments).to_pylist()
    for at, row in enumerate(_rows(arguments)[:MOST_ALONE]):
        alone = run_function(function, *(array.slice(at, 1) for array in arguments))[0].as_py()
        if not _equal(alone, together[at]):
            return (
                f"function '{function.name}' gives {alone!r} for {_shown(row)} alone and {together[at]!r} next to "
                "other events; expected the same value whatever other events are in the arrays"
            )
    return None


def _refuse_aggregate(aggregate: UserAggregate, rows: Sequence[Row]) -> str | None:
    name = aggregate.definition.name
    rows = [row for row in dict.fromkeys(map(_frozen, rows)) if aggregate.lift(*row) != aggregate.zero][:MOST_PARTIALS]
    lifted = [aggregate.lift(*row) for row in rows]
    for i in range(len(rows)):
        for j in range(i):
            both = (aggregate.merge(lifted[i], lifted[j]), aggregate.merge(lifted[j], lifted[i]))
            if not aggregate.agrees(*both):
                return (
                    f"merge of aggregate '{name}' depends on the order: events {_shown(rows[i])} and {_shown(rows[j])} "
                    f"give {_presented(aggregate, both)}; expected a merge that is commutative"
                )
    chance = random.Random(len(rows))
    for _ in range(4 * len(rows) if len(rows) > 2 else 0):
        a, b, c = chance.sample(range(len(rows)), 3)
        both = (
            aggregate.merge(aggregate.merge(lifted[a], lifted[b]), lifted[c]),
            aggregate.merge(lifted[a], aggregate.merge(lifted[b], lifted[c])),
        )
        if not aggregate.agrees(*both):
            texts = ", ".join(_shown(rows[at]) for at in (a, b, c))
            return (
                f"merge of aggregate '{name}' depends on how events are split: {texts} give "
                f"{_presented(aggregate, both)}; expected a merge that is associative"
            )
    return None


def _presented(aggregate: UserAggregate, partials: tuple[Partial, Partial]) -> str:
    return " and ".join(repr(aggregate.present(partial)) for partial in partials)


def _rows(arrays: Sequence[pa.Array]) -> list[Row]:
    return list(zip(*(array.to_pylist() for array in arrays), strict=True))


def _frozen(row: Row) -> Row:
    return tuple(tuple(value) if isinstance(value, list) else value for value in row)


def _shown(row: Row) -> str:
    return f"({', '.join(map(repr, row))})"


def _equal(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))
