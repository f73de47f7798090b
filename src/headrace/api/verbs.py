"""The methods of a workspace: one protocol for its server, a URL and its folder."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headrace.errors import HeadraceError
from headrace.ingest.receiver import IngestReply, Receiver, SentStatus, TokenState

if TYPE_CHECKING:
    from concurrent.futures import Future

    from headrace.api.local import LocalWorkspace
    from headrace.api.remote import RemoteWorkspace
    from headrace.deliver.change_question import ChangeQuestion
    from headrace.deliver.delivery_status import AlertStatus, SilenceStatus, SubscriptionStatus
    from headrace.deliver.event_page import EventPage, EventQuestion
    from headrace.ingest.formats.format_detection import FileLayout
    from headrace.lake.dead_letters import DeadLetter, DeadLetterPage, DeadLetterReason, ReplayStep
    from headrace.plan.planned_change import Plan, RollbackStep
    from headrace.serve.answer import Answer
    from headrace.serve.change_batch import ViewChange
    from headrace.serve.explanation import CellQuestion, Explanation
    from headrace.serve.question import Question
    from headrace.serve.sql.sql_answer import SqlAnswer, SqlLimit
    from headrace.server.runtime import Runtime
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


class DeadLetterBackend(Protocol):
    """The methods for the dead letters of a stream."""

    def page(self, limit: int = ..., cursor: int | None = None, reason: str | None = None) -> DeadLetterPage:
        """A page of dead letters, newest first."""

    def reasons(self) -> list[DeadLetterReason]:
        """Number of dead letters per reason."""

    def show(self, position: int) -> DeadLetter:
        """The complete dead letter at a position."""

    def replay(self, cursor: str | None = None, *, dry_run: bool = False) -> ReplayStep:
        """Parse a batch of them again; the `cursor` of the reply continues."""


class Verbs(Protocol):
    """The methods of a workspace. For each there is an HTTP endpoint and a command."""

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
        """Ingest a body, which may be a piece of a file."""

    def sent(self, stream: str, name: str, first: str) -> SentStatus:
        """How far a file was sent to a stream."""

    def wait_token(self, token: str, timeout_s: float) -> TokenState:
        """Wait until every serving view has the events of a token."""

    def ask(self, question: Question, job: Job | None = None) -> Answer:
        """Answer a question."""

    def changes(self, question: ChangeQuestion) -> Generator[ViewChange, None, None]:
        """The changes of a view as they come."""

    def explain(self, question: CellQuestion, job: Job | None = None) -> Explanation:
        """Find the events behind a cell."""

    def sql(self, query: str, limit: SqlLimit = None, job: Job | None = None) -> SqlAnswer:
        """Answer a SELECT over views."""

    def plan(self) -> Plan:
        """What `apply` would change."""

    def apply(self, expect: str | None = None) -> Plan:
        """Apply the definitions folder."""

    def dead_letters(self, stream: str) -> DeadLetterBackend:
        """The dead letters of a stream."""

    def skip(self, stream: str, to: str, *, dry_run: bool = False) -> SkipStatus:
        """Leave out offsets of a stream in Kafka; with `dry_run`, only say which."""

    def versions(self, view: str) -> list[VersionStatus]:
        """The versions of a view, newest first."""

    def audits(self, view: str) -> list[AuditStatus]:
        """The audits of a view, newest first."""

    def rollback(self, view: str, to: int | None = None, *, dry_run: bool = False) -> RollbackStep:
        """Roll back to an earlier version."""

    def refresh(self, view: str, *, full: bool = False, tables: str | None = None) -> RefreshStatus:
        """Move the rows of the speed layer to the batch layer, or rebuild the view."""

    def alerts(self) -> list[AlertStatus]:
        """All alerts with their incidents and silences."""

    def silence(self, alert: str, for_ms: int, values: Mapping[str, object], reason: str = "") -> SilenceStatus:
        """Send no notices for a time."""

    def end_silence(self, alert: str, id: str | None = None) -> int:
        """End a silence, or all of an alert."""

    def stream(self, name: str) -> StreamDefinition:
        """The definition of a stream."""

    def events(self, stream: str, question: EventQuestion, wait_s: float = 0.0) -> EventPage:
        """The next events of a stream; without any, wait for some."""

    def subscriptions(self) -> list[SubscriptionStatus]:
        """The named subscriptions."""

    def create_subscription(self, name: str, **terms: Any) -> SubscriptionStatus:
        """Create a named subscription, or find the one with these terms."""

    def drop_subscription(self, name: str) -> None:
        """Drop a named subscription."""

    def streams(self) -> list[StreamStatus]:
        """All streams and their metrics."""

    def views(self) -> list[ViewStatus]:
        """All views with their versions and freshness."""

    def tables(self) -> list[TableStatus]:
        """All tables with rows, version and freshness."""

    def logical_views(self) -> list[LogicalStatus]:
        """All logical views with their freshness."""

    def graph(self) -> GraphStatus:
        """What reads what, with rates and freshness."""

    def sinks(self) -> list[SinkStatus]:
        """All sinks with their state and lag."""

    def change_sink(self, name: str, action: str) -> SinkStatus:
        """Pause a sink, resume it, or have a stalled one try again now."""

    def status(self) -> WorkspaceStatus:
        """State of the server, streams, views and sinks."""


class Backend(Verbs, Receiver, Protocol):
    """What a connection uses: the methods of a workspace, and those that only a client needs."""

    on_wait: Callable[[HeadraceError, float], None] | None  # called before each pause

    @property
    def url(self) -> str | None:
        """URL of the server; None without a server."""

    def batches(self, subscription: str, limit: int, credit: int) -> Generator[Mapping[str, Any], None, None]:
        """The batches of a subscription for a new member, as JSON shows them; closing it ends the membership."""

    def acknowledge(self, subscription: str, leases: Sequence[str], events: Sequence[str] | None = None) -> None:
        """Batches, or some events of one, were processed."""

    def give_back(self, subscription: str, leases: Sequence[str]) -> None:
        """Batches will not be processed."""

    def hold(self) -> object:
        """Become the writer of the workspace, if there is no server."""

    def release(self) -> None:
        """Let other processes write to the workspace."""

    def close(self) -> None:
        """Release all resources."""


if TYPE_CHECKING:

    def _all_satisfy_it(
        runtime: Runtime, offline: LocalWorkspace, remote: RemoteWorkspace
    ) -> tuple[Verbs, Backend, Backend]:
        """Never called: mypy reports an error if one of them does not have a method, or has other types."""
        return runtime, offline, remote
