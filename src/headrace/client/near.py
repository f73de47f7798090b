"""A workspace without a running server: reads from the store, writes to the journal; Spark only reads the lake."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake.exceptions import TableNotFoundError

from headrace.alert.state import read_state, state_file
from headrace.alert.status import AlertStatus, SilenceStatus, describe
from headrace.asof.questions import LakeQuestions
from headrace.client.without import WithoutServer
from headrace.define.catalog import load
from headrace.define.graph import graph_of
from headrace.define.model import Stream
from headrace.errors import (
    CorruptionError,
    HeadraceError,
    NotFoundError,
    NotReadyError,
    not_a_stream,
    not_a_view,
    unknown,
)
from headrace.follow.change_question import ChangeQuestion
from headrace.follow.events import EventLog
from headrace.follow.failed import FailedCalls, stream_of_view
from headrace.follow.logs import open_derived, read_events
from headrace.follow.page import EventPage, EventQuestion
from headrace.follow.table_rows import TableChanges
from headrace.format import iso_us
from headrace.ingest.door import Ingest, refuse_derived
from headrace.ingest.formats.layout import Layout
from headrace.ingest.receiver import IngestReply, SentStatus, TokenState
from headrace.lake.dead import DeadLetters
from headrace.lake.lateness_record import read_lateness
from headrace.lake.table import LakeTable
from headrace.lake.upkeep import lake_figures
from headrace.plan.change import Plan, RollbackStep
from headrace.plan.cost import Costs, Size, lake_size, unread_size
from headrace.plan.differences import checked_plan, compare
from headrace.plan.ways import choose_way
from headrace.serve.answer import Answer
from headrace.serve.as_of import AsOf
from headrace.serve.cell_question import CellQuestion
from headrace.serve.change import Change
from headrace.serve.evaluate import answer
from headrace.serve.explanation import Explanation
from headrace.serve.question import Question
from headrace.serve.streams import Fresh
from headrace.server.describe import (
    Layers,
    describe_audit,
    describe_damaged,
    describe_definition,
    describe_derived,
    describe_versions,
    describe_view,
    join_lanes,
    lanes_by_definition,
    no_own_log,
    read_layers,
    warnings,
)
from headrace.server.graph import describe_graph
from headrace.server.lateness import describe_lateness
from headrace.server.logical import describe_logical, refuse_logical
from headrace.server.sinks import describe_stopped
from headrace.server.state import (
    AuditStatus,
    GraphStatus,
    LogicalStatus,
    RefreshStatus,
    SinkStatus,
    SkipStatus,
    StreamDefinition,
    StreamStatus,
    TableStatus,
    VersionStatus,
    ViewStatus,
    WorkspaceStatus,
)
from headrace.server.stored import take_lease
from headrace.server.stream import Lanes
from headrace.server.tables import describe_tables
from headrace.sink.progress import read_progress
from headrace.spark.jobs import Job
from headrace.sql.answer import SqlAnswer, SqlLimit
from headrace.sql.children import Children
from headrace.sql.logical import ask_logical
from headrace.sql.pages import Pages
from headrace.sql.query import run_sql
from headrace.store.base import Store
from headrace.store.opening import open_to_read
from headrace.store.version import NOT_PINNED, Pinned, Version
from headrace.transport.opening import backlog_bytes, check_transport, open_transport
from headrace.transport.position import START
from headrace.transport.sent import FilePiece
from headrace.workspace.applied import read_running, write_running
from headrace.workspace.lease import Lease, in_turn
from headrace.workspace.local_spark import local_session
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOWN = "the server is not running"


class Offline(WithoutServer):
    """The reading methods of a server, and ingestion of events that it processes when it starts."""

    url: None = None

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._catalog = read_running(workspace.catalog_file)
        self._damage: CorruptionError | None = None  # of the store
        self.on_wait: Callable[[HeadraceError, float], None] | None = None  # called while another process writes
        self._lease: Lease | None = None
        self._spark: SparkSession | None = None
        self._questions: LakeQuestions | None = None
        self._resources = ExitStack()  # Spark and its temporary files, once a question needs them
        self._ingests: dict[str, Ingest] = {}
        self._logs: dict[str, EventLog] = {}
        self._pages = Pages()
        self._changes = TableChanges(cache(self._lake_of))

    @cached_property
    def _store(self) -> Store | None:
        """The store, opened on first use: a sender must not keep a server that starts from opening it."""
        try:
            return open_to_read(self.workspace)
        except CorruptionError as error:
            self._damage = error
            return None

    @classmethod
    def open(cls, workspace: Workspace) -> Offline:
        """Open the workspace as its last server left it."""
        return cls(workspace)

    def close(self) -> None:
        """Release all resources, so that a server can start."""
        self._resources.close()
        self.release()
        store = self.__dict__.get("_store")
        if store is not None:
            store.close()

    def release(self) -> None:
        """Let other processes write; the next write takes the lease again."""
        for ingest in self._ingests.values():
            ingest.transport.close()
        self._ingests.clear()
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def ask(self, question: Question, job: Job | None = None) -> Answer:
        """Answer from the store as the server left it; AS OF from the lake, by a local Spark session."""
        logical = self._catalog.logical.get(question.view)
        if logical is not None:
            return ask_logical(logical, question, partial(self._sql_as_of, job), self._pages)
        store = self._store_of(question.view)
        if question.as_of is not None:
            return self._lake_questions().ask(question, job)
        return answer(store, question, self._freshness, datetime.now(UTC))

    def changes(self, question: ChangeQuestion) -> Generator[Change, None, None]:
        """Without a server no changes come."""
        refuse_logical(self._catalog.logical, question.view, "changes")
        if question.view not in self._catalog.views:
            raise self._unknown_view(question.view)
        raise NotReadyError(
            f"{DOWN}, so view '{question.view}' does not change",
            fix="`headrace up` starts it; `headrace ask` shows the rows that there are",
        )

    def explain(self, question: CellQuestion, job: Job | None = None) -> Explanation:
        """The events behind a cell, read from the lake by a local Spark session, which takes some seconds to start."""
        self._store_of(question.view)
        return self._lake_questions().explain(question, job)

    def _lake_questions(self) -> LakeQuestions:
        """Answers questions from the lake; created on first use."""
        if self._questions is None:
            assert self._store is not None, "only for views that are in the store"
            scratch = Path(self._resources.enter_context(tempfile.TemporaryDirectory(prefix="headrace-past-")))
            self._questions = LakeQuestions(self._store, self._lake_of, self._session, self._freshness, scratch)
            self._resources.callback(self._questions.close)
        return self._questions

    def _store_of(self, view: str) -> Store:
        """The store, if it can answer for a view."""
        refuse_logical(self._catalog.logical, view, "rows, versions or events of its own")
        if view not in self._catalog.views:
            raise self._unknown_view(view)
        store = self._store
        if self._damage is not None:
            raise self._damage
        if store is None:
            raise NotReadyError(f"view '{view}' has never been computed", fix="run `headrace up` first")
        return store

    def _lake_of(self, stream: str) -> tuple[Stream, LakeTable | None]:
        definition = self._base(stream)
        return definition, self._table(definition)

    def _session(self) -> SparkSession:
        if self._spark is None:
            self._spark = self._resources.enter_context(local_session(self.workspace))
        return self._spark

    def sql(self, query: str, limit: SqlLimit = None, job: Job | None = None) -> SqlAnswer:
        """Run a SELECT over the views as the server left them."""
        return self._sql_as_of(job, query, limit, None)

    def _sql_as_of(self, job: Job | None, query: str, limit: SqlLimit, as_of: AsOf | None) -> SqlAnswer:
        if self._store is None:
            if self._damage is not None:
                raise self._damage
            raise NotReadyError("no view has ever been computed", fix="run `headrace up` first")
        children, find = Children.of(self.workspace.settings), partial(self._lake_questions().as_of, job=job)
        try:
            logical, now = self._catalog.logical, datetime.now(UTC)
            return run_sql(self._store, children, query, limit, self._freshness, now, find, logical, as_of)
        finally:
            children.close()

    def _unknown_view(self, name: str) -> NotFoundError:
        target = load(self.workspace.definitions)
        if name in {*target.views, *target.logical}:
            return NotFoundError(f"view '{name}' is declared but not applied yet", fix="`headrace up` applies it")
        if name in self._catalog.streams:
            return not_a_view(name)
        return unknown("view", name, [*self._catalog.views, *self._catalog.logical])

    def plan(self) -> Plan:
        """The changes from the last applied definitions to the definitions folder."""
        return compare(self._catalog, load(self.workspace.definitions), self._costs())

    def apply(self, expect: str | None = None) -> Plan:
        """Apply the definitions folder; the next `headrace up` runs them."""
        catalog = load(self.workspace.definitions)
        plan = checked_plan(self._catalog, catalog, expect, self._costs())
        self.hold()
        write_running(self.workspace.catalog_file, catalog)
        self._catalog = catalog
        return plan

    def _costs(self) -> Costs:
        versions = self._versions()
        return Costs(self._size, way_of=lambda view, patience_ms: choose_way(versions, view, patience_ms))

    def _size(self, stream: str) -> Size | None:
        """How much a build of a view over a stream would read."""
        if stream not in self._catalog.base_streams:
            return unread_size(self.workspace.lake(stream))
        with suppress(CorruptionError):
            table = self._table(self._catalog.streams[stream])
            return lake_size(table) if table else Size(0, 0)
        return None

    def versions(self, view: str) -> list[VersionStatus]:
        """The versions of a view as the server left them, newest first."""
        with self._store_of(view).snapshot() as snapshot:
            return describe_versions(snapshot, view, errors={}, lanes=self._lanes(snapshot.versions()))

    def audits(self, view: str) -> list[AuditStatus]:
        """How the two layers of a view compared, newest first."""
        with self._store_of(view).snapshot() as snapshot:
            return [describe_audit(audit) for audit in snapshot.audits(view)]

    def rollback(self, view: str, to: int | None = None, *, dry_run: bool = False) -> RollbackStep:
        """Not possible without a server."""
        self._store_of(view)
        raise NotReadyError(f"view '{view}' cannot be rolled back: {DOWN}", fix="start `headrace up`, then try again")

    def alerts(self) -> list[AlertStatus]:
        """All alerts as the server left them."""
        now_us = time.time_ns() // 1000
        states = {name: read_state(state_file(self.workspace.alerts, name)) for name in self._catalog.alerts}
        return [describe(alert, states[name], now_us, DOWN, None) for name, alert in self._catalog.alerts.items()]

    def silence(self, alert: str, for_ms: int, values: Mapping[str, object], reason: str = "") -> SilenceStatus:
        """Only a server sends notices."""
        raise NotReadyError(f"alert '{alert}' cannot be silenced: {DOWN}", fix="start `headrace up`, then try again")

    def end_silence(self, alert: str, id: str | None = None) -> int:
        """Only a server sends notices."""
        raise NotReadyError(f"alert '{alert}' cannot be changed: {DOWN}", fix="start `headrace up`, then try again")

    def skip(self, stream: str, to: str, *, dry_run: bool = False) -> SkipStatus:
        """Not possible without a server."""
        self._stream(stream)
        raise NotReadyError(f"stream '{stream}' cannot skip offsets: {DOWN}", fix="start `headrace up`, then try again")

    def refresh(self, view: str, *, full: bool = False, tables: str | None = None) -> RefreshStatus:
        """Not possible without a server."""
        self._store_of(view)
        raise NotReadyError(f"view '{view}' cannot be refreshed: {DOWN}", fix="start `headrace up`, then try again")

    def ingest(
        self,
        stream: str,
        body: bytes | memoryview,
        *,
        layout: Layout,
        key: str | None,
        keep_bad: bool,
        file: FilePiece | None = None,
    ) -> Future[IngestReply]:
        """Write to the journal; the events reach the views when the server runs."""
        return self._ingest(stream).take(body, layout=layout, key=key, keep_bad=keep_bad, file=file)

    def sent(self, stream: str, name: str, first: str) -> SentStatus:
        """How far a file was sent to a stream."""
        return self._ingest(stream).sent(name, first)

    def sent_on_disk(self, stream: str, name: str) -> None:
        """None: there is no server that could be lost."""

    def give_up(self) -> None:
        """Nothing to do: nothing is retried."""

    def dead_letters(self, stream: str) -> DeadLetters | FailedCalls:
        """The dead letters of a stream; of a derived one or a view, the rows that it leaves out."""
        view = None if stream in self._catalog.streams else self._catalog.views.get(stream)
        if view is not None:
            version = next((each for each in self._versions() if each.view.name == stream and each.serving), None)
            left_out = stream_of_view(version.view if version else view)
            return self._failed_calls(left_out, version.pinned if version else NOT_PINNED, "view")
        definition = self._stream(stream)
        if definition.relation is not None:
            return self._failed_calls(definition)
        return DeadLetters(stream, self._table(self._base(stream)))

    def _failed_calls(self, stream: Stream, pinned: Pinned = NOT_PINNED, kind: str = "stream") -> FailedCalls:
        bases = [self._stream(name) for name in (stream.relation.streams if stream.relation else ())]
        lakes = {base.name: (partial(_same, base), self._table(base)) for base in bases}
        return FailedCalls(stream, lakes, tables=self._changes, pinned=pinned, kind=kind)

    def events(self, stream: str, question: EventQuestion, wait_s: float = 0.0) -> EventPage:
        """The events that the lake has. Without a server no others come."""
        definition = self._stream(stream)
        if definition.relation is None:
            page = read_events(self._log(definition), question)
        else:
            bases = {name: self._stream(name) for name in definition.relation.streams}
            logs = {name: self._log(base) for name, base in bases.items()}
            streams = {name: partial(_same, base) for name, base in bases.items()}
            page = read_events(open_derived(lambda: definition, streams, logs, self._changes), question)
        if wait_s and not page.lines and not page.more:
            raise NotReadyError(
                f"no server is running, so no more events of stream '{stream}' come",
                fix="`headrace up` starts one; `--no-follow` shows the events that there are",
            )
        return page

    def _log(self, stream: Stream) -> EventLog:
        if stream.name not in self._logs:
            table = self._table(stream)
            if table is None:
                raise NotReadyError(
                    f"stream '{stream.name}' has no events yet", fix="`headrace up` processes what was sent"
                )
            self._logs[stream.name] = EventLog(table, lambda: stream)
        return self._logs[stream.name]

    def wait_token(self, token: str, timeout_s: float) -> TokenState:
        """Not possible without a server."""
        raise NotReadyError("no server is running, so views are not updated", fix="`headrace up` starts one")

    def stream(self, name: str) -> StreamDefinition:
        """The definition of a stream."""
        return describe_definition(self._stream(name))

    def streams(self) -> list[StreamStatus]:
        """The streams, with numbers of the lake and the journal."""
        tables, streams = self._catalog.tables, self._catalog.streams
        return [replace(self._describe(streams[name]), table=name in tables) for name in sorted(streams)]

    def views(self) -> list[ViewStatus]:
        """The views with their serving versions."""
        versions, layers = self._versions(), self._layers()
        lanes = self._lanes(versions)
        statuses = []
        for name in sorted(self._catalog.views):
            view = self._catalog.views[name]
            serving = next((v for v in versions if v.view.name == name and v.serving), None)
            fresh = self._freshness(serving) if serving else Fresh(None, DOWN)
            try:
                tables = [self._table(self._catalog.streams[stream]) for stream in view.streams]
            except CorruptionError as error:
                statuses.append(describe_view(view, versions, None, Fresh(None, str(error)), None, layers.get(name)))
                continue
            commits = sum(table.state.next_commit for table in tables if table)
            statuses.append(describe_view(view, versions, commits, fresh, None, layers.get(name), lanes=lanes))
        return [replace(status, table=status.name in self._catalog.tables) for status in statuses]

    def tables(self) -> list[TableStatus]:
        """The tables with their serving versions."""
        if self._store is None:
            return describe_tables(self._catalog.tables, self.streams(), self.views(), None)
        with self._store.snapshot() as snapshot:
            return describe_tables(self._catalog.tables, self.streams(), self.views(), snapshot)

    def logical_views(self) -> list[LogicalStatus]:
        """The logical views."""
        return describe_logical(self._catalog.logical, self.views()) if self._catalog.logical else []

    def graph(self) -> GraphStatus:
        """What reads what; before the first apply, of the definitions folder."""
        catalog = self._catalog if len(self._catalog) else load(self.workspace.definitions)
        return describe_graph(graph_of(catalog), self.status(), self.tables())

    def sinks(self) -> list[SinkStatus]:
        """The sinks as the server left them."""
        known = read_progress(self._store) if self._store is not None else {}
        return [describe_stopped(sink, known.get(name)) for name, sink in sorted(self._catalog.sinks.items())]

    def change_sink(self, name: str, action: str) -> SinkStatus:
        """Not possible without a server."""
        raise NotReadyError(f"sink '{name}' is not running: {DOWN}", fix="start `headrace up`, then try again")

    def status(self) -> WorkspaceStatus:
        """State of the workspace, streams, views and sinks."""
        return WorkspaceStatus(
            workspace=self.workspace.name,
            folder=str(self.workspace.folder),
            url=None,
            pid=None,
            state="stopped",
            warnings=warnings(self._versions()),
            heartbeat_ms=None,
            memory_mb=None,
            streams=tuple(self.streams()),
            views=tuple(self.views()),
            sinks=tuple(self.sinks()),
            logical=tuple(self.logical_views()),
        )

    def _versions(self) -> list[Version]:
        if self._store is None:
            return []
        with self._store.snapshot() as snapshot:
            return snapshot.versions()

    def _lanes(self, versions: Sequence[Version]) -> Lanes:
        """The lanes that a server would use."""
        streams, settings = self._catalog.base_streams.values(), self.workspace.settings
        return join_lanes(lanes_by_definition(settings, stream, versions) for stream in streams)

    def _layers(self) -> dict[str, Layers]:
        if self._store is None:
            return {}
        with self._store.snapshot() as snapshot:
            return read_layers(snapshot, snapshot.versions())

    def _freshness(self, version: Version) -> Fresh:
        return Fresh(None, DOWN)

    def _table(self, stream: Stream) -> LakeTable | None:
        with suppress(TableNotFoundError):
            return LakeTable(self.workspace.lake(stream.name), stream, fence=None)
        return None

    def _describe(self, stream: Stream) -> StreamStatus:
        if stream.relation is not None:
            return describe_derived(stream)
        try:
            check_transport(self.workspace, stream)
            table = self._table(stream)
        except CorruptionError as error:
            return describe_damaged(stream, str(error))
        figures = lake_figures(table)
        return StreamStatus(
            **vars(describe_definition(stream)),
            events=table.rows() if table else 0,
            dead_letters=table.rows(dead=True) if table else 0,
            commits=table.state.next_commit if table else 0,
            backlog_bytes=backlog_bytes(self.workspace, stream, table.state.position if table else START),
            newest_event=iso_us(table.state.newest_us) if table else None,
            lateness=describe_lateness(stream, read_lateness(table, stream)) if table else None,
            freshness_ms=None,
            events_per_second=0,
            commit_ms=None,
            maintain_ms=None,
            lake_files=figures.files,
            lake_bytes=figures.bytes,
            small_files=figures.small,
            last_upkeep=None,
            upkeep_error=None,
            error=None,
            duplicates=table.duplicates if table else 0,
        )

    def _stream(self, name: str) -> Stream:
        if name not in self._catalog.streams:
            waiting = name in load(self.workspace.definitions).streams
            if waiting and self._lease is not None and self.plan().only_creates:
                self.apply()  # before writing, as a server does when it starts
                return self._catalog.streams[name]
            if waiting:
                fix = "it is defined but not applied: `headrace apply`"
                raise NotFoundError(f"stream '{name}' does not exist", fix=fix)
            known = name in self._catalog.views or name in self._catalog.logical
            raise not_a_stream(name) if known else unknown("stream", name, self._catalog.streams)
        return self._catalog.streams[name]

    def _base(self, name: str) -> Stream:
        """A stream that has events of its own."""
        stream = self._stream(name)
        if stream.relation is not None:
            raise no_own_log(stream)
        return stream

    def _ingest(self, name: str) -> Ingest:
        if name not in self._ingests:
            lease, stream = self.hold(), self._stream(name)
            refuse_derived(stream)
            table = self._table(stream)
            lake_end = table.state.position if table else START
            transport = open_transport(
                self.workspace, stream, fence=lease.fence, lake_end=lake_end, still_mine=lease.check
            )
            self._ingests[name] = Ingest(stream, transport, self.workspace.settings.max_body_mb << 20)
            self._ingests[name].lake_position = lake_end
        return self._ingests[name]

    def hold(self) -> Lease:
        """Take the lease, after other processes that write without a server; it is released by `release` or `close`."""
        if self._lease is None:
            take = partial(take_lease, self.workspace, None)
            self._lease = in_turn(take, self.workspace.lease_file, self.on_wait)
            self._catalog = read_running(self.workspace.catalog_file)  # an earlier process may have changed it
        return self._lease


def _same(stream: Stream) -> Stream:
    return stream
