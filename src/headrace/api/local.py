"""A workspace without a running server: reads from the store, writes to the journal; Spark only reads the lake.

Each part is loaded by the first method that needs it, so that commands start quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.api.local_folder import WorkspaceFolder
from headrace.api.refusals import DOWN, START_IT, WithoutServer
from headrace.errors import HeadraceError, NotReadyError
from headrace.server.composed_status import refuse_logical
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from concurrent.futures import Future

    from headrace.api.local_events import LocalEvents
    from headrace.api.local_planning import LocalPlanning
    from headrace.api.local_questions import LocalQuestions
    from headrace.api.local_status import LocalStatus
    from headrace.api.local_writer import LocalWriter
    from headrace.deliver.change_question import ChangeQuestion
    from headrace.deliver.delivery_status import AlertStatus
    from headrace.deliver.event_page import EventPage, EventQuestion
    from headrace.deliver.failed_events import FailedCalls
    from headrace.ingest.formats.format_detection import FileLayout
    from headrace.ingest.receiver import IngestReply, SentStatus
    from headrace.lake.dead_letter_pages import DeadLetters
    from headrace.plan.planned_change import Plan, RollbackStep
    from headrace.serve.answer import Answer
    from headrace.serve.change_batch import ViewChange
    from headrace.serve.explanation import CellQuestion, Explanation
    from headrace.serve.question import Question
    from headrace.serve.sql.sql_answer import SqlAnswer, SqlLimit
    from headrace.server.status import (
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
    from headrace.spark.jobs import Job
    from headrace.transport.sent_files import FilePiece
    from headrace.workspace.lease import Lease


class LocalWorkspace(WithoutServer):
    """The reading methods of a server, and ingestion of events that it processes when it starts."""

    url: None = None

    def __init__(self, workspace: Workspace) -> None:
        self._folder = WorkspaceFolder(workspace)
        self.on_wait: Callable[[HeadraceError, float], None] | None = None  # called while another process writes

    def __repr__(self) -> str:
        return f"the folder {self._folder.workspace.folder.resolve()}, without a server"

    @cached_property
    def _state(self) -> LocalStatus:
        from headrace.api.local_status import LocalStatus  # only commands that use it load it

        return LocalStatus(self._folder)

    @cached_property
    def _questions(self) -> LocalQuestions:
        from headrace.api.local_questions import LocalQuestions  # only commands that use it load it

        return LocalQuestions(self._folder)

    @cached_property
    def _planning(self) -> LocalPlanning:
        from headrace.api.local_planning import LocalPlanning  # only commands that use it load it

        return LocalPlanning(self._folder)

    @cached_property
    def _events(self) -> LocalEvents:
        from headrace.api.local_events import LocalEvents  # only commands that use it load it

        return LocalEvents(self._folder, lambda name: self._writer.stream(name))

    @cached_property
    def _writer(self) -> LocalWriter:
        from headrace.api.local_writer import LocalWriter  # only commands that use it load it

        return LocalWriter(self._folder, self._apply_creates)

    def close(self) -> None:
        """Release all resources, so that a server can start."""
        if "_questions" in vars(self):
            self._questions.close()
        self.release()
        self._folder.close()

    def hold(self) -> Lease:
        """Take the lease, after other processes that write without a server; it is released by `release` or `close`."""
        return self._writer.hold(self.on_wait)

    def release(self) -> None:
        """Let other processes write; the next write takes the lease again."""
        if "_writer" in vars(self):
            self._writer.release()

    def ask(self, question: Question, job: Job | None = None) -> Answer:
        """Answer from the store as the server left it; AS OF from the lake, by a local Spark session."""
        return self._questions.ask(question, job)

    def explain(self, question: CellQuestion, job: Job | None = None) -> Explanation:
        """The events behind a cell, read from the lake by a local Spark session, which takes some seconds to start."""
        return self._questions.explain(question, job)

    def sql(self, query: str, limit: SqlLimit = None, job: Job | None = None) -> SqlAnswer:
        """Run a SELECT over the views as the server left them."""
        return self._questions.sql(query, limit, job)

    def changes(self, question: ChangeQuestion) -> Generator[ViewChange, None, None]:
        """Without a server no changes come."""
        refuse_logical(self._folder.catalog.logical, question.view, "changes")
        if question.view not in self._folder.catalog.views:
            raise self._folder.unknown_view(question.view)
        raise NotReadyError(
            f"{DOWN}, so view '{question.view}' does not change",
            fix="`headrace up` starts it; `headrace ask` shows the rows that there are",
        )

    def plan(self) -> Plan:
        """The changes from the last applied definitions to the definitions folder."""
        return self._planning.plan()

    def apply(self, expect: str | None = None) -> Plan:
        """Apply the definitions folder; the next `headrace up` runs them."""
        return self._planning.apply(expect, self.hold)

    def _apply_creates(self) -> None:
        if self.plan().only_creates:
            self.apply()

    def rollback(self, view: str, to: int | None = None, *, dry_run: bool = False) -> RollbackStep:
        """Not possible without a server."""
        self._folder.store_of(view)
        raise NotReadyError(f"view '{view}' cannot be rolled back: {DOWN}", fix=START_IT)

    def skip(self, stream: str, to: str, *, dry_run: bool = False) -> SkipStatus:
        """Not possible without a server."""
        self._folder.stream(stream)
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
        layout: FileLayout,
        key: str | None,
        keep_bad: bool,
        file: FilePiece | None = None,
    ) -> Future[IngestReply]:
        """Write to the journal; the events reach the views when the server runs."""
        return self._writer.ingest(stream, self.on_wait).take(
            body, layout=layout, key=key, keep_bad=keep_bad, file=file
        )

    def sent(self, stream: str, name: str, first: str) -> SentStatus:
        """How far a file was sent to a stream."""
        return self._writer.ingest(stream, self.on_wait).sent(name, first)

    def sent_on_disk(self, stream: str, name: str) -> None:
        """None: there is no server that could be lost."""

    def give_up(self) -> None:
        """Nothing to do: nothing is retried."""

    def dead_letters(self, stream: str) -> DeadLetters | FailedCalls:
        """The dead letters of a stream; of a derived one or a view, the rows that it leaves out."""
        return self._events.dead_letters(stream)

    def events(self, stream: str, question: EventQuestion, wait_s: float = 0.0) -> EventPage:
        """The events that the lake has. Without a server no others come."""
        return self._events.events(stream, question, wait_s)

    def stream(self, name: str) -> StreamDefinition:
        """The definition of a stream."""
        from headrace.server.describe_stream import describe_definition  # only commands that use it load it

        return describe_definition(self._writer.stream(name))

    def streams(self) -> list[StreamStatus]:
        """The streams, with numbers of the lake and the journal."""
        return self._state.streams()

    def views(self) -> list[ViewStatus]:
        """The views with their serving versions."""
        return self._state.views()

    def tables(self) -> list[TableStatus]:
        """The tables with their serving versions."""
        return self._state.tables()

    def logical_views(self) -> list[LogicalStatus]:
        """The logical views."""
        return self._state.logical_views()

    def versions(self, view: str) -> list[VersionStatus]:
        """The versions of a view as the server left them, newest first."""
        return self._state.versions(view)

    def audits(self, view: str) -> list[AuditStatus]:
        """How the two layers of a view compared, newest first."""
        return self._state.audits(view)

    def alerts(self) -> list[AlertStatus]:
        """All alerts as the server left them."""
        from headrace.api.local_alerts import describe_alerts  # only commands that use it load it

        return describe_alerts(self._folder)

    def sinks(self) -> list[SinkStatus]:
        """The sinks as the server left them."""
        return self._state.sinks()

    def graph(self) -> GraphStatus:
        """What reads what; before the first apply, of the definitions folder."""
        # Only commands that use them load them.
        from headrace.define.definitions import graph_of
        from headrace.server.composed_status import describe_graph

        applied = self._folder.catalog
        catalog = applied if len(applied) else self._folder.declared()
        return describe_graph(graph_of(catalog), self.status(), self.tables())

    def status(self) -> WorkspaceStatus:
        """State of the workspace, streams, views and sinks."""
        return self._state.status()
