"""SQL over the lake's events: one SELECT by Spark in this process. It only reads files; a server may run or not."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from deltalake.exceptions import TableNotFoundError
from pyspark.sql import DataFrame, SparkSession

from headrace.define.catalog import Catalog
from headrace.define.kafka_record import KEY
from headrace.define.model import Stream
from headrace.define.relation import Relation
from headrace.engine.spark_relations import rows_of
from headrace.errors import NotReadyError, SqlError, did_you_mean
from headrace.format import iso
from headrace.lake.delta_table import LakeTable
from headrace.lake.spark_events import event_columns, read_files
from headrace.lake.storage import LocalStorage
from headrace.lake.table_schema import ARRIVED, COMMIT, COMMITTED_AT, POSITION, REASON, TABLES, VALUE
from headrace.language.source_text import escape
from headrace.language.terms import in_backticks
from headrace.maintain.spark_joins import TableLogs
from headrace.parse.record_columns import COLUMNS, record_schema
from headrace.serve.sql.sql_answer import SqlAnswer, SqlLimit, within_years
from headrace.serve.sql.view_queries import HIGHEST_LIMIT, check_text
from headrace.spark.jobs import Progress
from headrace.transport.position import START
from headrace.transport.stored_transport import backlog_bytes
from headrace.workspace.applied_catalog import read_running
from headrace.workspace.local_spark import local_session
from headrace.workspace.settings import Workspace

DEAD_LETTERS = "_dead_letters"  # behind a stream's name: its other table
DERIVED_COLUMNS = (COMMIT, COMMITTED_AT, ARRIVED, POSITION)  # of the event that an event of a derived stream is made of
SYSTEM_COLUMNS = (COMMIT, COMMITTED_AT, ARRIVED, POSITION, VALUE)
GROUP = "headrace sql"
CATALYST = "org.apache.spark.sql.catalyst"
# Plans that are not queries: commands, statements, scripts, one that writes a folder, one that runs SQL from text.
REFUSED_PLANS = (
    "plans.logical.Command",
    "plans.logical.ParsedStatement",
    "plans.logical.CompoundPlanStatement",
    "plans.logical.InsertIntoDir",
    "analysis.UnresolvedExecuteImmediate",
)
_CONDITION = re.compile(r"^\[[\w.]+\] ")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+")
_PLACE = re.compile(r"\.?; line (\d+) pos (\d+);?$")
_TABLE = re.compile(r"\[TABLE_OR_VIEW_NOT_FOUND\].*?`((?:[^`]|``)+)`")
_COLUMN = re.compile(r"\[UNRESOLVED_COLUMN\b.*?with name ((?:`[^`]+`\.?)+)")


class LakeEvents:
    """The streams of a workspace as tables of a Spark session. The caller starts and stops Spark."""

    def __init__(self, workspace: Workspace, spark: SparkSession) -> None:
        self._workspace = workspace
        self._spark = spark
        self._catalog = running_streams(workspace)
        self._commits: dict[str, int] = {}
        self._behind: list[str] = []
        self._resources = ExitStack()  # files that are read stay on disk as long as the session is used

    def sql(self, query: str, limit: SqlLimit = None) -> SqlAnswer:
        """The rows of one SELECT. Ctrl-C cancels its jobs."""
        query, row_limit = check_text(query, limit)
        most = row_limit or HIGHEST_LIMIT
        start = time.monotonic()
        text = query.replace("``", "`")
        for name, stream in self._catalog.streams.items():
            # A false match only costs a listing of files; a missed stream would be an error.
            if re.search(rf"(?<!\w){re.escape(name)}({DEAD_LETTERS})?(?!\w)", text, re.IGNORECASE):
                self._add(stream)
        try:
            self._refuse_changes(query)
            self._spark.sparkContext.setJobGroup(GROUP, query[:200], interruptOnCancel=True)
            frame = self._spark.sql(query)
            table = within_years(frame.limit(most + 1).toArrow())
        except SqlError:
            raise
        except Exception as error:  # Spark's errors of analysis, parsing and running share no base
            raise self._failure(error) from error
        truncated = table.num_rows > most
        if truncated and row_limit is None:
            raise SqlError("the answer is too large", expected=f"at most {most:,} rows", fix="select less of it")
        return SqlAnswer(
            columns=tuple(zip(table.column_names, [_type(f.dataType) for f in frame.schema.fields], strict=True)),
            table=table.slice(0, most),
            truncated=truncated,
            more_rows=None if truncated else 0,
            views={},
            commits=self._commits,
            at=iso(datetime.now(UTC)),
            freshness_ms=None if self._behind else 0,
            freshness_reason="; ".join(self._behind) or None,
            took_ms=round((time.monotonic() - start) * 1000),
        )

    def close(self) -> None:
        """Let go of files."""
        self._resources.close()

    def progress(self) -> Progress:
        """Finished and known tasks; callable from any thread."""
        tracker = self._spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(GROUP)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        done, known = sum(s.numCompletedTasks for s in stages if s), sum(s.numTasks for s in stages if s)
        return Progress(done, known, "tasks")

    def _add(self, stream: Stream) -> None:
        """Create the two tables of a stream, over the current files of the lake; a derived one has no dead letters."""
        if stream.relation is not None:
            self._add_derived(stream, stream.relation)
            return
        storage = LocalStorage(self._workspace.lake(stream.name))
        table = self._table(stream)
        commits = table.state.next_commit if table else 0
        waiting = backlog_bytes(self._workspace, stream, table.state.position if table else START)
        if waiting:
            self._behind.append(
                f"{waiting:,} bytes of stream '{stream.name}' are in its journal and not yet in the lake"
            )
        system = (*SYSTEM_COLUMNS, *record_schema(stream).names)
        live = read_files(self._spark, storage, stream, table.files(0, commits) if table else [], system)
        letters = [storage.locate(file.path) for file in table.files(0, commits, dead=True)] if table else []
        columns = f"{event_columns(stream, system, ())}, {REASON} STRING"
        read = self._spark.read.schema(columns)
        dead = read.parquet(*letters) if letters else self._spark.createDataFrame([], columns)
        for name, rows in ((stream.name, live), (f"{stream.name}{DEAD_LETTERS}", dead)):
            fields = [field for field in rows.columns if not field.startswith("_") or field == REASON]
            system_columns = [COMMIT, COMMITTED_AT, ARRIVED, POSITION, f"CAST({VALUE} AS STRING) AS {VALUE}"]
            key = COLUMNS[KEY]
            names = record_schema(stream).names
            system_columns += [f"CAST({key} AS STRING) AS {key}" if name == key else name for name in names]
            rows = rows.selectExpr(*map(in_backticks, fields), *system_columns)
            rows.createOrReplaceTempView(in_backticks(name))
        self._commits[stream.name] = commits

    def _add_derived(self, stream: Stream, relation: Relation) -> None:
        """Create the table of a derived stream, of the files of its base streams."""
        parts = []
        for name in relation.streams:
            base = self._catalog.streams[name]
            self._add(base)
            table = self._table(base)
            files = table.files(0, self._commits[name]) if table else []
            storage = LocalStorage(self._workspace.lake(name))
            events = read_files(self._spark, storage, base, files, (*DERIVED_COLUMNS, TABLES))
            joins = self._resources.enter_context(TableLogs(self._find).opened(self._spark, name))
            rows = rows_of(events, base, relation, joins)
            fields = [in_backticks(field.name) for field in stream.fields if not field.name.startswith("_")]
            parts.append(rows.selectExpr(*fields, *DERIVED_COLUMNS, f"{escape(name)} AS _stream"))
        reduce(DataFrame.unionAll, parts).createOrReplaceTempView(in_backticks(stream.name))

    def _find(self, name: str) -> tuple[Stream, LakeTable] | None:
        stream = self._catalog.streams.get(name)
        table = self._table(stream) if stream else None
        return (stream, table) if stream and table else None

    def _table(self, stream: Stream) -> LakeTable | None:
        with suppress(TableNotFoundError):
            return LakeTable(self._workspace.lake(stream.name), stream, fence=None)
        return None

    def _refuse_changes(self, query: str) -> None:
        """Allow queries only: Spark runs a command as soon as it is parsed."""
        root = self._spark._jsparkSession.sessionState().sqlParser().parsePlan(query)
        jvm = self._spark._jvm
        assert jvm is not None, "a session has a JVM"
        plan_classes = [jvm.java.lang.Class.forName(f"{CATALYST}.{name}") for name in REFUSED_PLANS]
        rest = [root]
        while rest:
            plan = rest.pop()
            if any(kind.isInstance(plan) for kind in plan_classes):
                raise SqlError(
                    "only SELECT is supported: events are immutable",
                    found=str(plan.getClass().getSimpleName()),
                    expected="such as SELECT count(*) FROM visits WHERE status >= 500",
                )
            children = plan.children()
            rest += [children.apply(i) for i in range(children.size())]

    def _failure(self, error: Exception) -> SqlError:
        """A failure of Spark as one sentence; Spark's own text has many lines."""
        lines = str(error).strip().splitlines() or [type(error).__name__]
        if table := _TABLE.search(lines[0]):
            return self._unknown_table(table[1].replace("``", "`"))
        if column := _COLUMN.search(lines[0]):
            return self._unknown_column(column[1].replace("`", "").rsplit(".", 1)[-1])
        text = _SQLSTATE.sub("", _CONDITION.sub("", lines[0]))
        place = _PLACE.search(text)
        return SqlError(
            f"Spark cannot run the query: {_PLACE.sub('', text)}",
            found=f"line {place[1]}, character {int(place[2]) + 1} of the query" if place else None,
        )

    def _unknown_table(self, name: str) -> SqlError:
        if name in self._catalog.views:
            return SqlError(f"stream '{name}' does not exist", found=f"view '{name}'", fix="query it without --events")
        streams = list(self._catalog.streams)
        hint = did_you_mean(name, streams) or f"there are: {', '.join(streams)}"
        more = f"each also has a table NAME{DEAD_LETTERS}; query views without --events"
        return SqlError(f"stream '{name}' does not exist", fix=f"{hint}; {more}")

    def _unknown_column(self, name: str) -> SqlError:
        columns = {stream: self._spark.table(in_backticks(stream)).columns for stream in self._commits}
        hint = did_you_mean(name, [column for own in columns.values() for column in own])
        there = [f"stream '{stream}' has: {', '.join(own)}" for stream, own in columns.items()]
        return SqlError(f"column '{name}' does not exist", fix="; ".join(filter(None, [hint, *there])) or None)


def running_streams(workspace: Workspace) -> Catalog:
    """The applied catalog of a workspace; raises if it has no stream."""
    catalog = read_running(workspace.catalog_file)
    if not catalog.streams:
        raise NotReadyError("no stream is applied in this workspace", fix="run `headrace up` or `headrace apply` first")
    return catalog


@contextmanager
def open_events(workspace: Workspace) -> Iterator[LakeEvents]:
    """Start Spark for the events of a workspace, and stop it."""
    running_streams(workspace)  # fails before Spark is started
    with local_session(workspace) as spark:
        events = LakeEvents(workspace, spark)
        try:
            yield events
        finally:
            events.close()


def _type(of: Any) -> str:
    return str(of.simpleString()).upper()
