"""The Spark jobs behind a view: partials of some commits, and of a long range by one task for each core."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from headrace.define.model import Stream, View
from headrace.define.relation import PLACE
from headrace.engine.spark_relations import Joins, rows_of, with_computed
from headrace.engine.spark_views import spark_view
from headrace.engine.udf_calls import give_lifts
from headrace.errors import UnavailableError
from headrace.lake.delta_table import LakeTable
from headrace.lake.health import check_files, check_footers
from headrace.lake.spark_events import event_columns, read_files
from headrace.lake.storage import Storage
from headrace.lake.table_files import LakeFile
from headrace.lake.table_schema import ARRIVED, COMMIT, NEWEST, POSITION, TABLES
from headrace.language.terms import in_backticks
from headrace.maintain.spark_joins import NO_LOGS, TableLogs
from headrace.spark.session import Session, is_alive
from headrace.spark.written import write_files
from headrace.store.key_ids import key_id_sql
from headrace.store.partial_columns import (
    CORRECTIONS,
    EVENTS,
    KEY_ID,
    OWN_NEWEST,
    PANE,
    partial_columns,
    session_columns,
)
from headrace.store.version import Version

SMALL_BYTES = 8 << 20  # of Parquet: below it one task, without an exchange, is quickest
OUR_COLUMNS = (COMMIT, ARRIVED, NEWEST)


def columns_for(views: Iterable[View]) -> tuple[str, ...]:
    """Our columns that the partials of these views are made of: positions only where they order or choose rows."""
    views = tuple(views)
    ordered = any(column.aggregate.ordered for view in views for column in view.columns)
    by_position = any(view.relation is not None and view.relation.by_position for view in views)
    joined = any(view.relation is not None and view.relation.tables for view in views)
    return (*OUR_COLUMNS, *([POSITION] if ordered or by_position else []), *([TABLES] if joined else []))


def read_events(
    spark: SparkSession,
    storage: Storage,
    stream: Stream,
    files: Sequence[LakeFile],
    commits: tuple[int, int],
    columns: Sequence[str] = OUR_COLUMNS,
    names: Collection[str] | None = None,
) -> DataFrame:
    """The good events of commits [from, to), read from the lake's files; `columns` are those of ours to read.

    `names` are those of the fields to read, None: all. One costs more where files were written before it was added.
    """
    fields = None if names is None else {*names, stream.time_column}
    events = read_files(spark, storage, stream, files, columns, fields=fields, commits=commits)
    return events.coalesce(1) if sum(file.size for file in files) < SMALL_BYTES else events


def damage_of(storage: Storage, files: Sequence[LakeFile]) -> str | None:
    """Describe the damage of files that are about to be read: a number made of them would be wrong."""
    damage = next(iter(check_files(storage, files) or check_footers(storage, files)), None)
    return f"lake file {damage}" if damage else None


def write_partials(
    events: DataFrame,
    stream: Stream,
    version: Version,
    folder: Path,
    joins: Joins | None = None,
    *,
    batch: bool = False,
    tasks: int | None = None,
) -> list[str]:
    """Compute a version's partials of these events, for a batch table or the speed layer; the files that hold them."""
    patience_ms = version.base(stream.name).patience_ms
    return write_files(partials(events, stream, version.view, patience_ms, joins, batch=batch, tasks=tasks), folder)


def partials(
    events: DataFrame,
    stream: Stream,
    view: View,
    patience_ms: int,
    joins: Joins | None = None,
    *,
    batch: bool = False,
    tasks: int | None = None,
) -> DataFrame:
    """One row per (key, pane), with the columns that a store merges; `batch`: also those of the batch layer alone.

    `tasks`: no stage that aggregates has more of them.
    """
    give_lifts(events.sparkSession, view)
    rows = view_rows(events, stream, view, joins)
    rows = rows.coalesce(tasks) if tasks else rows
    stream = view.rows_of(stream)
    translated = spark_view(stream, view)
    pane, _ = _pane(stream, view)
    event_time_us = f"unix_micros({in_backticks(stream.time_column)})"
    columns = [
        F.expr("count(*)").alias(EVENTS),
        F.expr(f"count_if({settled_when(stream, view, patience_ms)})").alias(CORRECTIONS),
    ]
    if view.has_own_time(stream.name):
        columns.append(F.expr(f"max(least({event_time_us}, unix_micros({ARRIVED})))").alias(OWN_NEWEST))
    lifted: dict[str, str] = {}  # equal aggregates are computed once
    for column, written in zip(view.columns, translated.view.columns, strict=True):
        names = [name for name, _ in partial_columns(column.aggregate)]
        sql = written.aggregate.batch_sql if batch else written.aggregate.spark_sql
        lifted.update(zip(names, sql(event_time_us, POSITION, PLACE), strict=True))
    lifted |= session_columns(translated.view.window, event_time_us)
    columns += [F.expr(sql).alias(name) for name, sql in lifted.items()]
    keys = [F.expr(key.expression.sql).alias(key.name) for key in translated.view.keys]
    grouped = rows.groupBy(*keys, F.expr(pane).alias(PANE)).agg(*columns)
    whole = grouped.select(F.expr(key_id_sql(view)).alias(KEY_ID), "*")
    return whole.coalesce(tasks) if tasks else whole


def view_rows(
    events: DataFrame, stream: Stream, view: View, joins: Joins | None = None, *, places: bool = False
) -> DataFrame:
    """The rows that a view summarizes, made of events of a base stream, with what its expressions need.

    Where one event can make several rows these have their places, if an aggregate needs them, or with `places`.
    """
    if view.relation is not None:
        needed = places or any(column.aggregate.ordered for column in view.columns)
        events = rows_of(events, stream, view.relation, joins, places=view.relation.repeats and needed)
    translated = spark_view(view.rows_of(stream), view)
    rows = with_computed(events, translated.computed)
    return rows if translated.view.where is None else rows.where(translated.view.where.sql)


def settled_when(stream: Stream, view: View, patience_ms: int) -> str:
    """SQL for whether the pane of an event, or of a row made of it, was settled when it arrived: it is a correction.

    By the time of the stream: what rows with an event time of their own had settled at each commit is not recorded.
    """
    _, end_us = (None, None) if view.has_own_time(stream.name) else _pane(stream, view)
    return f"coalesce({end_us} + {patience_ms * 1000}L <= unix_micros({NEWEST}), false)" if end_us else "false"


def _pane(stream: Stream, view: View) -> tuple[str, str | None]:
    """SQL for the start of an event's pane in ms, and for its end in us if it has one."""
    if view.window is None:
        return "0L", None
    us, size_us = f"unix_micros({in_backticks(stream.time_column)})", view.window.pane_ms * 1000
    start_us = f"({us} - {us} % {size_us}L)"
    return f"{start_us} div 1000L", f"{start_us} + {size_us}L"


def analyse(spark: SparkSession, stream: Stream, view: View) -> str | None:
    """The reason why Spark cannot run a view, a sentence; None if it can, or if Java ended meanwhile. Runs no job."""
    try:
        events = spark.createDataFrame([], event_columns(stream, columns_for([view])))
        with TableLogs().opened(spark, stream.name) as joins:
            partials(events, stream, view, 0, joins, batch=True)
    except Exception as error:  # AnalysisException and ParseException share no narrower base with a message
        return str(error).strip().splitlines()[0] if is_alive(spark) else None
    return None


POOL = "batch"
SLICE_ROWS = 5_000_000  # events of one job: planning it is then a tenth of its time, and its groups are few
WORTH_MEASURING = 500_000  # events: a smaller job says more of the planning than of the reading
LOOK_EVERY_S = 0.1  # whether work that waits for its turn was stopped
EXCHANGED_BYTES = 4 << 20  # of partials that one task folds
SETTINGS = {
    # As many tasks fold partials as these need: one for some thousand groups, dozens for a million.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(EXCHANGED_BYTES),
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": str(EXCHANGED_BYTES),
    "spark.sql.shuffle.partitions": "64",
    "spark.sql.files.openCostInBytes": str(1 << 20),
}


_turn = threading.Lock()  # of the jobs of this process, which has one Spark session


class BatchJob:
    """Reads long ranges of the lake, in a Spark session with settings of its own; for one thread."""

    def __init__(
        self, session: Session, logs: TableLogs = NO_LOGS, *, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        """`stopped`: whether a job that waits for its turn is no longer wanted."""
        self._session = session
        self._logs = logs
        self._stopped = stopped
        self._parent: SparkSession | None = None
        self._own: SparkSession | None = None
        self.rate: float | None = None  # events per second, of the last job that was worth measuring

    def write(
        self,
        table: LakeTable,
        stream: Stream,
        version: Version,
        files: Sequence[LakeFile],
        commits: tuple[int, int],
        target: Path,
        *,
        batch: bool = True,
    ) -> list[str]:
        """Compute a version's partials of commits [from, to) into Parquet files below `target`; these files.

        `batch`: for a batch table, else for the speed layer.
        """
        with self._in_turn():
            began = time.monotonic()
            written = self._write(table, stream, version, files, commits, target, batch=batch)
            rows = sum(file.rows for file in files)
            if rows >= WORTH_MEASURING:
                self.rate = rows / (time.monotonic() - began)
        return written

    def _write(
        self,
        table: LakeTable,
        stream: Stream,
        version: Version,
        files: Sequence[LakeFile],
        commits: tuple[int, int],
        target: Path,
        *,
        batch: bool,
    ) -> list[str]:
        spark = self._derived()
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        fields = [name for name, _ in version.view.reads_of(stream.name)]
        events = read_events(spark, table.storage, stream, files, commits, columns_for([version.view]), fields)
        tasks = spark.sparkContext.defaultParallelism
        with self._logs.opened(spark, stream.name, version.pinned, (table, commits)) as joins:
            return write_partials(events, stream, version, target, joins, batch=batch, tasks=tasks)

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        while not _turn.acquire(timeout=LOOK_EVERY_S):
            self._raise_if_stopped()
        try:
            self._raise_if_stopped()
            yield
        finally:
            _turn.release()

    def _raise_if_stopped(self) -> None:
        if self._stopped():
            raise UnavailableError("the work was stopped before its Spark job began", fix="repeat it")

    def _derived(self) -> SparkSession:
        """A session of the current one's context, with our settings."""
        parent = self._session()
        if self._own is None or parent is not self._parent:
            self._parent, self._own = parent, parent.newSession()
            for name, value in SETTINGS.items():
                self._own.conf.set(name, value)
        return self._own
