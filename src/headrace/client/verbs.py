"""The verbs of a workspace, wherever it is: one protocol that its server, a URL and its folder all satisfy."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from headrace.errors import HeadraceError
from headrace.ingest.receiver import IngestReply, Receiver, TokenState

if TYPE_CHECKING:
    from headrace.client.far import Remote
    from headrace.client.near import Offline
    from headrace.ingest.formats.layout import Layout
    from headrace.plan.change import Plan, RollbackStep
    from headrace.serve.answer import Answer
    from headrace.serve.cell_question import CellQuestion
    from headrace.serve.explanation import Explanation
    from headrace.serve.question import Question
    from headrace.server.runtime import Runtime
    from headrace.server.state import (
        AuditStatus,
        RefreshStatus,
        StreamDefinition,
        StreamStatus,
        VersionStatus,
        ViewStatus,
        WorkspaceStatus,
    )
    from headrace.spark.jobs import Job
    from headrace.sql.answer import SqlAnswer, SqlLimit
    from headrace.transport.sent import FilePiece


class DeadLetterVerbs(Protocol):
    """What can be asked of the dead letters of a stream; the replies are JSON."""

    def page(self, limit: int = ..., cursor: int | None = None, reason: str | None = None) -> dict[str, Any]:
        """The newest first."""

    def reasons(self) -> list[dict[str, Any]]:
        """How many there are of each kind."""

    def show(self, position: int) -> dict[str, Any]:
        """The one at a position, whole."""

    def replay(self, cursor: str | None = None, *, dry_run: bool = False) -> dict[str, Any]:
        """Read some of them again; the reply's `cursor` takes the next step."""


class Verbs(Protocol):
    """What a workspace can be asked and told. HTTP has an endpoint, and the command line a command, for each."""

    def ingest(
        self,
        stream: str,
        body: bytes,
        *,
        layout: Layout,
        key: str | None,
        keep_bad: bool,
        file: FilePiece | None = None,
    ) -> Future[IngestReply]:
        """Take a body in, which may be a piece of a file."""

    def sent(self, stream: str, name: str, first: str) -> dict[str, Any]:
        """How far a file was sent to a stream."""

    def wait_token(self, token: str, timeout_s: float) -> TokenState:
        """Wait until every serving view has the events of a token."""

    def ask(self, question: Question, job: Job | None = None) -> Answer:
        """Answer a question."""

    def explain(self, asked: CellQuestion, job: Job | None = None) -> Explanation:
        """Find the events behind a cell."""

    def sql(self, query: str, limit: SqlLimit = None, job: Job | None = None) -> SqlAnswer:
        """Answer a SELECT over views."""

    def plan(self) -> Plan:
        """What `apply` would change."""

    def apply(self, expect: str | None = None) -> Plan:
        """Apply the definitions folder."""

    def dead_letters(self, stream: str) -> DeadLetterVerbs:
        """What a stream could not read."""

    def versions(self, view: str) -> list[VersionStatus]:
        """The versions of a view, newest first."""

    def audits(self, view: str) -> list[AuditStatus]:
        """The audits of a view, newest first."""

    def rollback(self, view: str, to: int | None = None, *, dry_run: bool = False) -> RollbackStep:
        """Go back to an earlier version."""

    def refresh(self, view: str, *, full: bool = False) -> RefreshStatus:
        """Have the batch layer take over what the speed layer has, or build all of it anew."""

    def stream(self, name: str) -> StreamDefinition:
        """What a stream is declared to be."""

    def streams(self) -> list[StreamStatus]:
        """All streams and their metrics."""

    def views(self) -> list[ViewStatus]:
        """All views with their versions and freshness."""

    def status(self) -> WorkspaceStatus:
        """State of the server, streams and views."""


class Backend(Verbs, Receiver, Protocol):
    """What a connection has behind it: the verbs, and what only a client needs."""

    on_wait: Callable[[HeadraceError, float], None] | None  # hears of each pause

    @property
    def url(self) -> str | None:
        """The server; None if there is none."""

    def hold(self) -> object:
        """Be the one that writes to the workspace, if there is no server for that."""

    def release(self) -> None:
        """Let others write to the workspace."""

    def close(self) -> None:
        """Let go of it."""


if TYPE_CHECKING:

    def _all_satisfy_it(runtime: Runtime, offline: Offline, remote: Remote) -> tuple[Verbs, Backend, Backend]:
        """Never called: mypy refuses it if one of them lacks a verb, or takes or gives something else."""
        return runtime, offline, remote
