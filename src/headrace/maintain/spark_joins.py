"""Joins of rows to tables, by Spark: what a table was at each commit is computed from the log of its changes.

A change of commit k is part of every version above k. Of the changes of a key the latest counts, by event time, then
position; one that deletes leaves no row. So a change that comes late never replaces a newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from headrace.define.model import Field, Stream
from headrace.define.relation import PLACE, Join, TableLog
from headrace.define.table_parts import DELETED
from headrace.engine.spark_relations import SparkRows, rows_of
from headrace.errors import UnavailableError
from headrace.lake.commit_times import read_pins
from headrace.lake.delta_table import LakeTable
from headrace.lake.spark_events import event_columns, read_files
from headrace.lake.table_schema import ARRIVED, COMMIT, POSITION, TABLES, Pins
from headrace.language.terms import in_backticks
from headrace.store.version import NOT_PINNED, Pinned
from headrace.types import BOOLEAN, TIMESTAMP

PIN, AS_OF = "_pin", "_as_of"  # of a row: the version of the table that its commit saw, and the time in question
TIME, ROW, ORDER, CHANGES = "_time", "_row", "_order", "_changes"
JOINED = "_joined"  # of rows that have it: an array with the table, key and row of each join, as JSON
BEGINS, ENDS = "_begins", "_ends"  # a row is the latest of its key in the versions [begins, ends)
LAST = (1 << 63) - 1

FindLake = Callable[[str], tuple[Stream, LakeTable] | None]
Span = tuple[LakeTable, tuple[int, int]]  # commits of a lake


def no_lakes(stream: str) -> None:
    """Of jobs that are only analysed: every table is empty."""


@dataclass(frozen=True)
class TableLogs:
    """Where the logs of tables are."""

    find: FindLake = no_lakes

    @contextmanager
    def opened(
        self, spark: SparkSession, stream: str, pinned: Pinned = NOT_PINNED, span: Span | None = None
    ) -> Iterator[TableJoins]:
        """The tables for a job over commits of a stream, all or those of `span`; their files stay on disk meanwhile."""
        with ExitStack() as files:
            yield TableJoins(spark, stream, pinned, self.find, files, span)


NO_LOGS = TableLogs()


@dataclass(frozen=True)
class TableJoins:
    """Joins the rows of one job to tables."""

    spark: SparkSession
    stream: str
    pinned: Pinned
    find: FindLake
    files: ExitStack
    span: Span | None = None
    _bounds: dict[str, tuple[int, int]] = field(default_factory=dict)
    _pins: dict[int, Pins | None] = field(default_factory=dict)

    def join(self, rows: SparkRows, step: Join) -> SparkRows:
        """The rows after a join. A row matches one row of the table at most."""
        expressions = [*(of for of, _ in step.keys), *([step.as_of] if step.as_of else [])]
        computed, written = rows.computing(expressions)
        of_row = [F.expr(sql).alias(f"_key_{at}") for at, sql in enumerate(written[: len(step.keys)])]
        of_row.append(F.expr(self._pin(step.log)).alias(PIN))
        of_row += [F.expr(f"unix_micros({sql})").alias(AS_OF) for sql in written[len(step.keys) :]]
        left = computed.select([*rows.visible, *of_row], rows.types).frame
        same = [F.col(f"_key_{at}") == F.col(f"_of_{at}") for at in range(len(step.keys))]
        filling = self.pinned.filling(self.stream, step.log.stream) if step.kind != "anti" else None
        if step.as_of is None:
            right = self._versions(step, *self._versions_seen(step.log))
            same += [F.col(BEGINS) <= F.col(PIN), F.col(PIN) < F.col(ENDS)]
        else:
            right = self._histories(step, self._versions_seen(step.log)[1])
        how = "inner" if step.kind in ("inner", "semi") and filling is None else "left"
        joined = left.join(right, reduce(Column.__and__, same), how)
        if step.as_of is not None:
            joined = _latest_as_of(joined)
        if filling is not None:
            joined = self._fill(joined, step, *filling)
        return _finish(rows, joined, step)

    def _pin(self, log: TableLog) -> str:
        """SQL for the version of a table that the event of a row is joined to."""
        default = dict(self.pinned.versions).get(log.stream, 0)
        recorded = f"coalesce({TABLES}[{_text(log.stream)}], {default}L)"
        until = dict(self.pinned.until).get(self.stream)
        return recorded if until is None else f"CASE WHEN {COMMIT} < {until}L THEN {default}L ELSE {recorded} END"

    def _fill(self, joined: DataFrame, step: Join, until: int, version: int) -> DataFrame:
        """The joined rows; where a key is missing in a commit before `until`, with the row that this version has."""
        self._check(step.log, version)
        before = joined.drop(*_keys(step), BEGINS, ENDS, CHANGES, PIN).withColumnRenamed(ROW, "_before")
        key = f"CASE WHEN _before IS NULL AND {COMMIT} < {until}L THEN _key_{{}} END"
        keys = {f"_missing_{at}": F.expr(key.format(at)) for at in range(len(step.keys))}
        right = self._versions(step, version, version) if step.as_of is None else self._histories(step, version)
        same = [F.col(name) == F.col(of) for name, of in zip(keys, _keys(step), strict=True)]
        filled = before.withColumns({**keys, PIN: F.lit(version)}).join(right, reduce(Column.__and__, same), "left")
        if step.as_of is not None:
            filled = _latest_as_of(filled)
        return filled.withColumn(ROW, F.coalesce("_before", ROW))

    # The sides of tables

    def _versions(self, step: Join, first: int, last: int) -> DataFrame:
        """The rows of a table with the versions from `first` to `last` in which each is the latest of its key.

        Deleted ones are left out.
        """
        keys = _keys(step)
        # Of all versions up to the first that is asked for, only the latest row of a key counts.
        commit = F.greatest(F.col(COMMIT), F.lit(first - 1)).alias(COMMIT)
        changes = self._changes(step, last).groupBy(*keys, commit)
        latest = changes.agg(F.max_by(ROW, ORDER).alias(ROW), F.max(ORDER).alias(ORDER))
        if first == last:
            rows = latest.withColumns({BEGINS: F.lit(0), ENDS: F.lit(LAST)})
        else:
            by_commit = Window.partitionBy(*keys).orderBy(COMMIT)
            before = F.max(ORDER).over(by_commit.rowsBetween(Window.unboundedPreceding, -1))
            newer = latest.withColumn("_before", before).where(f"_before IS NULL OR {ORDER} > _before")
            begins = F.col(COMMIT) + 1
            rows = newer.withColumns({BEGINS: begins, ENDS: F.lead(begins, 1, LAST).over(by_commit)})
        return rows.where(f"NOT {ROW}.{DELETED}").select(*keys, ROW, BEGINS, ENDS)

    def latest(self, step: Join, version: int, known: tuple[Sequence[str], int] | None = None) -> DataFrame:
        """The latest change of each key among the commits [0, version), as a worker's DuckDB reads them.

        With `as_of`: the latest of each key and time. `known` are the files of an earlier result and its version.
        """
        keys = _keys(step)
        changes = self._changes(step, version, known[1] if known else 0)
        if step.as_of is not None:
            keys.append(f"_of_{len(keys)}")
            changes = changes.withColumn(keys[-1], F.col(f"{ORDER}.{TIME}"))
        changes = changes.select(*keys, ORDER, ROW)
        if known:
            before = self.spark.read.parquet(*known[0])
            row = F.struct(DELETED, *(f"_column_{at}" for at in range(len(step.columns)))).alias(ROW)
            changes = changes.unionByName(before.select(*keys, ORDER, row))
        rows = changes.groupBy(*keys).agg(F.max_by(ROW, ORDER).alias(ROW), F.max(ORDER).alias(ORDER))
        return rows.select(*keys, f"{ROW}.*", ORDER)

    def _histories(self, step: Join, version: int) -> DataFrame:
        """All changes of each key that are part of a version, in one array."""
        changes = self._changes(step, version)
        change = F.struct(F.col(COMMIT), F.col(ORDER), F.col(ROW))
        return changes.groupBy(*_keys(step)).agg(F.collect_list(change).alias(CHANGES))

    def _changes(self, step: Join, version: int, first: int = 0) -> DataFrame:
        """The changes of commits [first, version) of a table: its key, COMMIT, ORDER, ROW with what the join needs."""
        log = step.log
        events = self._events(step, (first, version))
        time = in_backticks(log.event_time) if log.event_time else ARRIVED
        order = [F.expr(f"unix_micros({time})").alias(TIME), F.col(POSITION)]
        order += [F.col(PLACE)] if PLACE in events.columns else []
        keys = [_column(name).cast(str(of.type)).alias(f"_of_{at}") for at, (of, name) in enumerate(step.keys)]
        columns = [_column(column).alias(f"_column_{at}") for at, (_, column, _) in enumerate(step.columns)]
        deleted = F.coalesce(F.col(DELETED), F.lit(False)) if log.relation is None else F.lit(False)
        row = F.struct(deleted.alias(DELETED), *columns).alias(ROW)
        return events.select(*keys, COMMIT, F.struct(*order).alias(ORDER), row)

    def _events(self, step: Join, commits: tuple[int, int]) -> DataFrame:
        """The rows of a table's log: events of its stream, or what its SELECT makes of them."""
        log = step.log
        stream = _log_stream(step)
        names = {field.name for field in stream.fields}
        reserved = (COMMIT, ARRIVED, POSITION, *([TABLES] if log.relation and log.relation.tables else []))
        lake = self.find(log.stream)
        if lake is None:
            events = self.spark.createDataFrame([], event_columns(stream, reserved, names))
        else:
            stream, table = lake
            files = self.files.enter_context(table.reading(*commits))
            events = read_files(self.spark, table.storage, stream, files, reserved, fields=names, commits=commits)
        if log.relation is None:
            return events
        inner = TableJoins(self.spark, log.stream, self.pinned, self.find, self.files)
        return rows_of(events, stream, log.relation, inner, places=log.relation.repeats)

    def _versions_seen(self, log: TableLog) -> tuple[int, int]:
        """The first and the last of the versions of a table that the events of the job are joined to."""
        if log.stream not in self._bounds:
            lake_of_log = self.find(log.stream)
            end = lake_of_log[1].state.next_commit if lake_of_log else 0
            versions = {0, end}
            if self.span is not None:
                versions = {
                    self.pinned.version(self.stream, commit, pins, log.stream)
                    for commit, pins in self._recorded(*self.span).items()
                }
            self._check(log, max(versions, default=0))
            self._bounds[log.stream] = (min(versions, default=0), max(versions, default=0))
        return self._bounds[log.stream]

    def _check(self, log: TableLog, version: int) -> None:
        lake = self.find(log.stream)
        end = lake[1].state.next_commit if lake else 0
        if version > end:
            raise UnavailableError(
                f"the log of changes '{log.stream}' has lost commits: events were joined to later ones",
                found=f"{end:,} commits", expected=f"{version:,}", fix="restore its lake from a backup",
            )  # fmt: skip

    def _recorded(self, lake: LakeTable, commits: tuple[int, int]) -> Mapping[int, Pins | None]:
        """The pins of the commits of the job, read once for all tables."""
        if not self._pins:
            files = self.files.enter_context(lake.reading(*commits))
            self._pins.update(read_pins((lake.storage.locate(file.path) for file in files), commits))
        return self._pins


def _latest_as_of(joined: DataFrame) -> DataFrame:
    """The rows with the latest of the changes that were known at the pin and are not after the time in question."""
    known = f"filter({CHANGES}, _c -> _c.{COMMIT} < {PIN} AND _c.{ORDER}.{TIME} <= {AS_OF})"
    later = f"CASE WHEN _b.{ORDER} > _a.{ORDER} THEN _b ELSE _a END"
    latest = f"aggregate({CHANGES}, {CHANGES}[0], (_a, _b) -> {later}).{ROW}"
    return (
        joined.withColumn(CHANGES, F.expr(known))
        .withColumn(ROW, F.expr(latest))
        .withColumn(ROW, F.expr(f"CASE WHEN NOT {ROW}.{DELETED} THEN {ROW} END"))
    )


def _finish(rows: SparkRows, joined: DataFrame, step: Join) -> SparkRows:
    """The joined rows with the columns of the table, by the kind of the join."""
    types = {**rows.types, **{name: of for name, _, of in step.columns}}
    columns = [F.col(f"{ROW}._column_{at}").alias(name) for at, (name, _, _) in enumerate(step.columns)]
    matched = F.col(ROW).isNotNull().alias("_matched")
    keys = [F.col(f"_key_{at}") for at in range(len(step.keys))] if JOINED in rows.reserved else []
    matches = replace(rows, frame=joined).select([*rows.visible, *columns, *keys, matched], types)
    if step.condition is not None:
        computed, (condition,) = matches.computing([step.condition])
        matched = F.expr(f"_matched AND coalesce({condition}, false)").alias("_matched")
        matches = computed.select([*matches.visible, *keys, matched], types)
    if keys:
        matches = replace(matches, frame=matches.frame.withColumn(JOINED, F.array_append(JOINED, _met(step))))
    if step.kind == "left":
        nulled = [F.when(F.col("_matched"), _column(name)).alias(name) for name, _, _ in step.columns]
        return matches.select([*rows.visible, *nulled], types)
    keeps = "NOT _matched" if step.kind == "anti" else "_matched"
    kept = replace(matches, frame=matches.frame.where(keeps))
    # A semi or anti join only chooses rows: the columns of the table were for its condition.
    return kept.select(matches.visible, types) if step.kind == "inner" else kept.select(rows.visible, rows.types)


def _met(step: Join) -> Column:
    """The table and the key of a join, and what the join reads of the row; NULL: the table has no such row."""
    key = F.struct(*(F.col(f"_key_{at}").alias(name) for at, (_, name) in enumerate(step.keys)))
    row = F.struct(*(_column(name).alias(column) for name, column, _ in step.columns)) if step.columns else key
    lookup = F.struct(F.lit(step.table).alias("table"), key.alias("key"), F.when(F.col("_matched"), row).alias("row"))
    return F.to_json(lookup, {"ignoreNullFields": "false"})


def _log_stream(step: Join) -> Stream:
    """What a join reads of the stream that has the changes of its table."""
    log = step.log
    if log.relation is not None:
        return Stream(log.stream, tuple(Field(name, of) for name, of in log.relation.reads_of(log.stream)))
    reads = dict(step.reads)
    if log.event_time:
        reads.setdefault(log.event_time, TIMESTAMP)
    return Stream(log.stream, tuple(Field(name, of) for name, of in {**reads, DELETED: BOOLEAN}.items()))


def _keys(step: Join) -> list[str]:
    return [f"_of_{at}" for at in range(len(step.keys))]


def _column(name: str) -> Column:
    return F.col(in_backticks(name))


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
