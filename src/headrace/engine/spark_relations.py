"""The rows of a relation as Spark makes them of events, and columns that its workers compute.

`engine/duckdb_relations.py` is the same for DuckDB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.pandas.functions import arrow_udf

from headrace.define.model import ARRIVED, Stream
from headrace.define.relation import (
    PLACE,
    Branch,
    Explode,
    Filter,
    Join,
    Map,
    Project,
    Relation,
    RowStep,
    SampleRows,
    types_after,
)
from headrace.define.relation_rewrites import composed
from headrace.define.sampling import spark_condition
from headrace.engine.duckdb_relations import CALLED, VALUES
from headrace.engine.duckdb_session import DuckdbSession
from headrace.engine.spark_views import TEXT, Computed, PatternColumn, for_spark, unsure_times
from headrace.engine.udf_calls import outcome_type, run_outcomes, spark_function, spark_udf
from headrace.errors import DefinitionError
from headrace.language.terms import Expression, in_backticks
from headrace.language.user_functions import find_function
from headrace.types import STRING, TIMESTAMP, Type


@dataclass(frozen=True)
class SparkRows:
    """Rows in the making: the columns that expressions may name, and those of ours beside them."""

    frame: DataFrame
    types: Mapping[str, Type]
    reserved: tuple[str, ...]
    stream: str  # the base stream

    def computing(self, expressions: Sequence[Expression]) -> tuple[SparkRows, list[str]]:
        """The rows with what these expressions need, and their Spark SQL over these."""
        written, computed = for_spark(expressions, {**self.types, ARRIVED: TIMESTAMP})
        return replace(self, frame=with_computed(self.frame, computed)), [each.sql for each in written]

    def select(self, columns: Iterable[Column], types: Mapping[str, Type]) -> SparkRows:
        """Rows of these columns, and of those of ours."""
        return replace(self, frame=self.frame.select(*map(_column, self.reserved), *columns), types=types)

    def where(self, condition: str, before: SparkRows) -> SparkRows:
        """Those of the rows for which a condition is true, with the columns that they had before."""
        kept = replace(self, frame=self.frame.where(condition))
        return kept if self.frame is before.frame else kept.select(before.visible, before.types)

    @property
    def visible(self) -> list[Column]:
        """The columns that expressions may name."""
        return [_column(name) for name in self.types]


class Joins(Protocol):
    """The tables that rows are joined to, as they were at each commit."""

    def join(self, rows: SparkRows, step: Join) -> SparkRows:
        """The rows after a join."""


def rows_of(
    events: DataFrame, stream: Stream, relation: Relation, joins: Joins | None = None, *, places: bool = False
) -> DataFrame:
    """The rows that a relation makes of events of a base stream: its fields, and columns of ours that events have.

    With `places` they also have `PLACE`, the place of a row among those of the same event.
    """
    branches = relation.branches_of(stream.name)
    # Each step that becomes a data frame of its own is analysed anew by Spark, with all steps before it.
    frames = [
        _branch(events, stream, relation, composed(branch), number, joins, places)
        for number, branch in enumerate(branches)
    ]
    return reduce(DataFrame.unionAll, frames)


def _branch(
    events: DataFrame,
    stream: Stream,
    relation: Relation,
    branch: Branch,
    number: int,
    joins: Joins | None,
    places: bool,
) -> DataFrame:
    fields = {field.name for field in stream.fields}
    reserved = tuple(name for name in events.columns if name not in fields)
    reads, computed = for_spark(
        [Expression.field(name, of) for name, of in branch.reads],
        {**dict(branch.reads), ARRIVED: TIMESTAMP},
        unsure_times(stream),
    )
    assert not computed, "a field needs no computed column"
    columns = [F.expr(read.sql).alias(name) for read, (name, _) in zip(reads, branch.reads, strict=True)]
    rows = SparkRows(events, {}, reserved, stream.name).select(columns, dict(branch.reads))
    if places:
        frame = rows.frame.select(F.array(F.lit(number)).alias(PLACE), "*")
        rows = replace(rows, frame=frame, reserved=(PLACE, *reserved))
    for step in branch.steps:
        rows = _step(rows, step, joins)
    # All branches have the columns in the same order.
    names = [name for name, _ in relation.fields]
    if rows.frame.columns == [*rows.reserved, *names]:
        return rows.frame
    return rows.select(map(_column, names), dict(relation.fields)).frame


def _step(rows: SparkRows, step: RowStep, joins: Joins | None) -> SparkRows:
    match step:
        case Filter():
            computed, (condition,) = rows.computing([step.condition])
            return computed.where(condition, rows)
        case Project():
            computed, written = rows.computing([of for _, of in step.columns])
            columns = [F.expr(sql).alias(name) for sql, (name, _) in zip(written, step.columns, strict=True)]
            return computed.select(columns, {name: of.type for name, of in step.columns})
        case Explode():
            return _explode(rows, step)
        case Map():
            return map_rows(rows, step)
        case Join():
            if joins is None:
                raise DefinitionError(f"the join to table '{step.table}' is not supported here")
            return joins.join(rows, step)
        case SampleRows():
            computed, keys = rows.computing(step.keys)
            return computed.where(spark_condition(step, rows.stream, keys), rows)


def map_rows(rows: SparkRows, step: Map, *, failed: bool = False) -> SparkRows:
    """The rows with the result of a call, without those that it failed for; with `failed` the latter, and the error."""
    function = find_function(step.function)
    assert function is not None, f"{step.function} is known"
    computed, arguments = rows.computing(step.arguments)
    # A function that Spark takes for deterministic would be called again by each part of a query that uses its result.
    call = spark_udf(partial(run_outcomes, function), outcome_type(function)).asNondeterministic()
    frame = computed.frame.withColumn(CALLED, call(*map(F.expr, arguments)))
    called = replace(computed, frame=frame.where(f"{CALLED}.error IS {'NOT ' * failed}NULL"))
    (name, of), part = step.columns[0], "error" if failed else "value"
    result = F.col(f"{CALLED}.{part}").alias(name)
    return called.select([*rows.visible, result], {**rows.types, name: STRING if failed else of})


def _explode(rows: SparkRows, step: Explode) -> SparkRows:
    computed, (values,) = rows.computing([step.values])
    outer = "_outer" if step.outer else ""
    with_values = computed.select([*rows.visible, F.expr(values).alias(VALUES)], rows.types)
    names = ["_key", "_element"] if step.values.type.name == "MAP" else ["_element"]
    generator = F.expr(f"posexplode{outer}({VALUES})").alias("_number", *names)
    exploded = with_values.select([*rows.visible, generator], rows.types)
    columns = {name: _column(name) for name in rows.types}
    if step.position:
        columns[step.position] = F.col("_number")
    columns |= {name: F.col(part).alias(name) for name, part in zip(step.names, names, strict=True)}
    ours = {name: _column(name) for name in rows.reserved}
    if PLACE in ours:
        ours[PLACE] = F.expr(f"array_append({PLACE}, coalesce(_number, 0))")
    every = {**ours, **columns}
    frame = exploded.frame.select(*(column.alias(name) for name, column in every.items()))
    return replace(rows, frame=frame, types=types_after(rows.types, step))


def _column(name: str) -> Column:
    return F.col(in_backticks(name))


def with_computed(events: DataFrame, computed: Sequence[Computed]) -> DataFrame:
    """Return the events with columns that workers compute: functions of the workspace, and patterns.

    Patterns are run by RE2, since Java's recurse and a long text would overflow its stack.
    """
    for column in computed:
        if isinstance(column, PatternColumn):
            values = _matcher(column)(F.expr(column.text))
        else:
            values = spark_function(column.function)(*map(F.expr, column.arguments))
        events = events.withColumn(column.name, values)
    return events


def _matcher(match: PatternColumn) -> Any:
    def matched(texts: pa.Array) -> pa.Array:
        return run(match.duckdb, texts)

    # Spark's stub demands a function type, and Spark warns of one: the hints above say it.
    return arrow_udf(matched, str(match.type))  # type: ignore[call-overload]


def run(sql: str, texts: pa.Array) -> pa.Array:
    """Return the value of DuckDB's SQL for each text."""
    values = _session.query(f"SELECT {sql} AS value FROM texts", texts=pa.table({TEXT: texts}))
    return values.column(0).combine_chunks()


_session = DuckdbSession()
