"""A workspace without a running server: reads from the store, writes to the journal; Spark only reads the lake."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.asof.questions import LakeQuestions
from headrace.client.folder import Folder
from headrace.client.stopped import StoppedWorkspace, stopped_freshness
from headrace.client.without import DOWN, START_IT, WithoutServer
from headrace.define.catalog import load
from headrace.define.model import Stream
from headrace.errors import (
    CorruptionError,
    HeadraceError,
    NotReadyError,
)
from headrace.follow.change_question import ChangeQuestion
from headrace.follow.events import EventLog
from headrace.follow.failed import FailedCalls, stream_of_view
from headrace.follow.logs import open_derived, read_events
from headrace.follow.page import EventPage, EventQuestion
from headrace.follow.table_rows import TableChanges
from headrace.ingest.door import Ingest, refuse_derived
from headrace.ingest.formats.layout import Layout
from headrace.ingest.receiver import IngestReply, SentStatus
from headrace.lake.dead import DeadLetters
from headrace.plan.change import Plan, RollbackStep
from headrace.plan.cost import Costs, Size, lake_size, unread_size
from headrace.plan.differences import checked_plan, compare
from headrace.plan.ways import choose_way
from headrace.serve.answer import Answer
from headrace.serve.as_of import AsOf
from headrace.serve.cell_question import CellQuestion
from headrace.serve.change import Change
from headrace.serve.evaluate import answer, question_limit
from headrace.serve.explanation import Explanation
from headrace.serve.question import Question
from headrace.server.describe import (
    describe_definition,
)
from headrace.server.logical import refuse_logical
from headrace.server.state import (
    RefreshStatus,
    SkipStatus,
    StreamDefinition,
)
from headrace.server.stored import take_lease
from headrace.spark.jobs import Job
from headrace.sql.answer import SqlAnswer, SqlLimit
from headrace.sql.children import Children
from headrace.sql.logical import ask_logical
from headrace.sql.pages import Pages
from headrace.sql.query import run_sql
from headrace.store.version import NOT_PINNED, Pinned
from headrace.transport.opening import open_transport
from headrace.transport.position import START
from headrace.transport.sent import FilePiece
from headrace.workspace.applied import write_running
from headrace.workspace.lease import Lease, in_turn
from headrace.workspace.local_spark import local_session
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Offline(StoppedWorkspace, WithoutServer):
    """The reading methods of a server, and ingestion of events that it processes when it starts."""

    url: None = None

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(Folder(workspace))
        self._workspace = workspace
        self.on_wait: Callable[[HeadraceError, float], None] | None = None  # called while another process writes
        self._lease: Lease | None = None
        self._spark: SparkSession | None = None
        self._questions: LakeQuestions | None = None
        self._resources = ExitStack()  # Spark and its temporary files, once a question needs them
        self._ingests: dict[str, Ingest] = {}
        self._logs: dict[str, EventLog] = {}
        self._pages = Pages()
        self._changes = TableChanges(cache(self._folder.base_and_lake))

    def __repr__(self) -> str:
        return f"the folder {self._workspace.folder.resolve()}, without a server"

    def close(self) -> None:
        """Release all resources, so that a server can start."""
        self._resources.close()
        self.release()
        self._folder.close()

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
        logical = self._folder.catalog.logical.get(question.view)
        if logical is not None:
            return ask_logical(logical, question, partial(self._sql_as_of, job), self._pages)
        store = self._folder.store_of(question.view)
        if question.as_of is not None:
            return self._lake_questions().ask(question, job)
        with question_limit(self._workspace.settings.question_timeout_s).watch():
            return answer(store, question, stopped_freshness, datetime.now(UTC))

    def changes(self, question: ChangeQuestion) -> Generator[Change, None, None]:
        """Without a server no changes come."""
        refuse_logical(self._folder.catalog.logical, question.view, "changes")
        if question.view not in self._folder.catalog.views:
            raise self._folder.unknown_view(question.view)
        raise NotReadyError(
            f"{DOWN}, so view '{question.view}' does not change",
            fix="`headrace up` starts it; `headrace ask` shows the rows that there are",
        )

    def explain(self, question: CellQuestion, job: Job | None = None) -> Explanation:
        """The events behind a cell, read from the lake by a local Spark session, which takes some seconds to start."""
        self._folder.store_of(question.view)
        return self._lake_questions().explain(question, job)

    def _lake_questions(self) -> LakeQuestions:
        """Answers questions from the lake; created on first use."""
        if self._questions is None:
            store = self._folder.need_store("no view has ever been computed")
            scratch = Path(self._resources.enter_context(tempfile.TemporaryDirectory(prefix="headrace-past-")))
            self._questions = LakeQuestions(
                store, self._folder.base_and_lake, self._session, stopped_freshness, scratch
            )
            self._resources.callback(self._questions.close)
        return self._questions

    def _session(self) -> SparkSession:
        if self._spark is None:
            self._spark = self._resources.enter_context(local_session(self._workspace))
        return self._spark

    def sql(self, query: str, limit: SqlLimit = None, job: Job | None = None) -> SqlAnswer:
        """Run a SELECT over the views as the server left them."""
        return self._sql_as_of(job, query, limit, None)

    def _sql_as_of(self, job: Job | None, query: str, limit: SqlLimit, as_of: AsOf | None) -> SqlAnswer:
        store = self._folder.need_store("no view has ever been computed")
        children, find = Children.of(self._workspace.settings), partial(self._lake_questions().as_of, job=job)
        try:
            logical, now = self._folder.catalog.logical, datetime.now(UTC)
            return run_sql(store, children, query, limit, stopped_freshness, now, find, logical, as_of)
        finally:
            children.close()

    def plan(self) -> Plan:
        """The changes from the last applied definitions to the definitions folder."""
        return compare(self._folder.catalog, load(self._workspace.definitions), self._costs())

    def apply(self, expect: str | None = None) -> Plan:
        """Apply the definitions folder; the next `headrace up` runs them."""
        catalog = load(self._workspace.definitions)
        plan = checked_plan(self._folder.catalog, catalog, expect, self._costs())
        self.hold()
        write_running(self._workspace.catalog_file, catalog)
        self._folder.catalog = catalog
        return plan

    def _costs(self) -> Costs:
        versions = self._folder.versions()
        return Costs(self._size, way_of=lambda view, patience_ms: choose_way(versions, view, patience_ms))

    def _size(self, stream: str) -> Size | None:
        """How much a build of a view over a stream would read."""
        if stream not in self._folder.catalog.base_streams:
            return unread_size(self._workspace.lake(stream))
        with suppress(CorruptionError):
            table = self._folder.lake(self._folder.catalog.streams[stream])
            return lake_size(table) if table else Size(0, 0)
        return None

    def rollback(self, view: str, to: int | None = None, *, dry_run: bool = False) -> RollbackStep:
        """Not possible without a server."""
        self._folder.store_of(view)
        raise NotReadyError(f"view '{view}' cannot be rolled back: {DOWN}", fix=START_IT)

    def skip(self, stream: str, to: str, *, dry_run: bool = False) -> SkipStatus:
        """Not possible without a server."""
        self._stream(stream)
        raise NotReadyError(f"stream '{stream}' cannot skip offsets: {DOWN}", fix=START_IT)

    def refresh(self, view: str, *, full: bool = False, tables: str | None = None) -> RefreshStatus:
        """Not possible without a server."""
        self._folder.store_of(view)
        raise NotReadyError(f"view '{view}' cannot be refreshed: {DOWN}", fix=START_IT)

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
        view = None if stream in self._folder.catalog.streams else self._folder.catalog.views.get(stream)
        if view is not None:
            versions = self._folder.versions()
            version = next((each for each in versions if each.view.name == stream and each.serving), None)
            left_out = stream_of_view(version.view if version else view)
            return self._failed_calls(left_out, version.pinned if version else NOT_PINNED, "view")
        definition = self._stream(stream)
        if definition.relation is not None:
            return self._failed_calls(definition)
        return DeadLetters(stream, self._folder.lake(definition))

    def _failed_calls(self, stream: Stream, pinned: Pinned = NOT_PINNED, kind: str = "stream") -> FailedCalls:
        bases = [self._stream(name) for name in (stream.relation.streams if stream.relation else ())]
        lakes = {base.name: (partial(_same, base), self._folder.lake(base)) for base in bases}
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
            table = self._folder.lake(stream)
            if table is None:
                raise NotReadyError(
                    f"stream '{stream.name}' has no events yet", fix="`headrace up` processes what was sent"
                )
            self._logs[stream.name] = EventLog(table, lambda: stream)
        return self._logs[stream.name]

    def stream(self, name: str) -> StreamDefinition:
        """The definition of a stream."""
        return describe_definition(self._stream(name))

    def _stream(self, name: str) -> Stream:
        """A stream; before writing, definitions that only create are applied, as a server does when it starts."""
        if self._lease is not None and name not in self._folder.catalog.streams:
            waiting = name in load(self._workspace.definitions).streams
            if waiting and self.plan().only_creates:
                self.apply()
        return self._folder.stream(name)

    def _ingest(self, name: str) -> Ingest:
        if name not in self._ingests:
            lease, stream = self.hold(), self._stream(name)
            refuse_derived(stream)
            table = self._folder.lake(stream)
            lake_end = table.state.position if table else START
            transport = open_transport(
                self._workspace, stream, fence=lease.fence, lake_end=lake_end, still_mine=lease.check
            )
            self._ingests[name] = Ingest(stream, transport, self._workspace.settings.max_body_mb << 20)
            self._ingests[name].lake_position = lake_end
        return self._ingests[name]

    def hold(self) -> Lease:
        """Take the lease, after other processes that write without a server; it is released by `release` or `close`."""
        if self._lease is None:
            take = partial(take_lease, self._workspace, None)
            self._lease = in_turn(take, self._workspace.lease_file, self.on_wait)
            self._folder.reload()  # an earlier process may have changed it
        return self._lease


def _same(stream: Stream) -> Stream:
    return stream
