"""The Spark jobs that find the events behind one cell. Only counts and the rows of a page are sent to the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from headrace.aggregate import Aggregate
from headrace.define.model import Stream, View
from headrace.define.relation import PLACE
from headrace.engine.spark_relations import Joins
from headrace.engine.spark_views import spark_view
from headrace.lake.storage import Storage
from headrace.lake.table_files import LakeFile
from headrace.lake.table_schema import ARRIVED, COMMIT, NEWEST, POSITION, VALUE
from headrace.language.terms import Expression
from headrace.maintain.partials_job import OUR_COLUMNS, columns_for, read_events, settled_when, view_rows
from headrace.maintain.spark_joins import JOINED
from headrace.serve.read_plan import Cell
from headrace.store.version import Version
from headrace.types import BIGINT, STRING, Type

COLUMNS = (*OUR_COLUMNS, POSITION, VALUE)
SHOWN_BYTES = 10_000  # of an event


@dataclass(frozen=True)
class Counts:
    """How many events of the log belong to a cell."""

    events: int = 0
    in_view: int = 0
    late: int = 0
    corrections: int = 0

    def __add__(self, other: Counts) -> Counts:
        """Those of two base streams."""
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def key_events(
    spark: SparkSession,
    storage: Storage,
    stream: Stream,
    files: Sequence[LakeFile],
    commits: int,
    view: View,
    cell: Cell,
    joins: Joins | None = None,
) -> DataFrame:
    """The events of a cell's key, at any time, in commits [0, commits) of a lake's files.

    If the view has a relation, these are the rows that were made of them, with the bytes of the event.
    """
    names = [name for name, _ in view.reads_of(stream.name)]
    events = read_events(spark, storage, stream, files, (0, commits), columns=_columns(view), names=names)
    if view.relation is not None and view.relation.tables:
        events = events.withColumn(JOINED, F.array().cast("array<string>"))
    rows = view_rows(events, stream, view, joins, places=True)
    for key in spark_view(view.rows_of(stream), view).view.keys:
        target = F.lit(cell.key[key.name]).cast(str(key.expression.type))
        rows = rows.where(F.expr(key.expression.sql).eqNullSafe(target))
    return rows


def _columns(view: View) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*COLUMNS, *columns_for([view]))))


def in_window(events: DataFrame, stream: Stream, cell: Cell) -> DataFrame:
    """Those of them that lie in a cell's window.

    Bounds of event time are plain comparisons, so that row groups whose statistics lie outside are skipped.
    """
    if cell.start_ms is None or cell.end_ms is None:
        return events
    time = f"`{stream.time_column}`"
    start, end = (f"timestamp_micros({ms * 1000}L)" for ms in (cell.start_ms, cell.end_ms))
    return events.where(f"{time} >= {start} AND {time} < {end}")


def count_events(events: DataFrame, stream: Stream, version: Version) -> Counts:
    """The counts, in one job that does not read the bytes of events."""
    base = version.base(stream.name)
    row = events.agg(
        F.count("*"),
        F.count_if(F.col(COMMIT) < base.applied_to),
        F.count_if(F.lit(False) if version.view.has_own_time(stream.name) else _late(stream)),
        F.count_if(F.expr(settled_when(stream, version.view, base.patience_ms))),
    ).first()
    assert row is not None, "an aggregation has a row"
    return Counts(*row)


def read_page(
    events: DataFrame, stream: Stream, version: Version, after: int | None, most: int
) -> list[dict[str, Any]]:
    """The first of them after a position, all rows of an event or none; times in us since the epoch.

    Columns a0, a1, … are the arguments of the aggregates, and p0, p1, … whether the event passed their FILTER. `joined`
    has the rows of tables, if the view joins some.
    """
    if after is not None:
        events = events.where(F.col(POSITION) > after)
    columns = [
        F.col(POSITION).alias("position"),
        F.col(COMMIT).alias("commit"),
        F.unix_micros(ARRIVED).alias("arrived_us"),
        F.unix_micros(stream.time_column).alias("time_us"),
        (F.lit(None) if version.view.has_own_time(stream.name) else F.unix_micros(NEWEST)).alias("newest_us"),
        F.expr(settled_when(stream, version.view, version.base(stream.name).patience_ms)).alias("correction"),
        F.length(VALUE).alias("bytes"),
        F.expr(f"substring({VALUE}, 1, {SHOWN_BYTES})").alias("value"),
    ]
    for at, column in enumerate(spark_view(stream, version.view).view.columns):
        condition = column.aggregate.where
        columns.append(F.expr(_argument(column.aggregate).sql).alias(f"a{at}"))
        columns.append(F.expr(f"coalesce({condition.sql}, false)" if condition else "true").alias(f"p{at}"))
    if JOINED in events.columns:
        columns.append(F.col(JOINED).alias("joined"))
    if PLACE not in events.columns:
        rows = events.orderBy(POSITION).limit(most).select(*columns).toArrow().to_pylist()
        return sorted(rows, key=lambda row: int(row["position"]))
    # The event at which the page ends is in it as a whole.
    last = events.orderBy(POSITION).limit(most).agg(F.max(POSITION)).first()
    assert last is not None, "an aggregation has a row"
    rows = events.where(F.col(POSITION) <= last[0]).select(*columns, F.col(PLACE)).toArrow().to_pylist()
    return sorted(rows, key=lambda row: (int(row["position"]), row.pop(PLACE)))


def argument_columns(view: View) -> tuple[tuple[str, Type], ...]:
    """The names of a view's columns, each with the type of its argument in `read_page`."""
    return tuple((column.name, _argument(column.aggregate).type) for column in view.columns)


def _argument(aggregate: Aggregate) -> Expression:
    """The argument of an aggregate as one value; 1 if it has none."""
    arguments = aggregate.arguments
    if not arguments:
        return Expression.raw("1L", BIGINT)
    if len(arguments) == 1 and not arguments[0].type.is_nested:
        return arguments[0]
    value = arguments[0].sql if len(arguments) == 1 else f"struct({', '.join(a.sql for a in arguments)})"
    return Expression.raw(f"CAST({value} AS STRING)", STRING)


def nearest_times(events: DataFrame, stream: Stream, cell: Cell) -> tuple[int | None, int | None]:
    """The event times in us nearest to a cell that has none: the last before it, and the first after it."""
    assert cell.start_ms is not None, "a cell of all time has nothing beside it"
    time_us, start_us = f"unix_micros(`{stream.time_column}`)", f"{cell.start_ms * 1000}L"
    row = events.selectExpr(
        f"max({time_us}) FILTER (WHERE {time_us} < {start_us})",
        f"min({time_us}) FILTER (WHERE {time_us} >= {start_us})",
    ).first()
    assert row is not None, "an aggregation has a row"
    return row[0], row[1]


def _late(stream: Stream) -> Column:
    return F.expr(f"coalesce(`{stream.time_column}` < {NEWEST}, false)")
