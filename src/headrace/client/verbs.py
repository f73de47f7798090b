"""What a workspace can be asked and told, wherever it is: by its server, through HTTP, or from its folder."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from headrace.errors import HeadraceError
from headrace.ingest.receiver import IngestReply, Receiver

if TYPE_CHECKING:
    from headrace.client.far import RemoteDeadLetters
    from headrace.ingest.formats.layout import Layout
    from headrace.lake.dead import DeadLetters
    from headrace.plan.change import Plan
    from headrace.serve.answer import Answer
    from headrace.serve.cell_question import CellQuestion
    from headrace.serve.explanation import Explanation
    from headrace.serve.question import Question
    from headrace.spark.jobs import Job
    from headrace.sql.answer import SqlAnswer, SqlLimit
    from headrace.transport.sent import FilePiece


class Verbs(Receiver, Protocol):
    """What a server, near or far, and a folder without one have in common."""

    on_wait: Callable[[HeadraceError, float], None] | None

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

    def hold(self) -> object:
        """Be the one that writes to the workspace, if there is no server for that."""

    def stream(self, name: str) -> dict[str, Any]:
        """What a stream is declared to be."""

    def ask(self, question: Question, job: Job | None = None) -> Answer:
        """Answer a question."""

    def explain(self, asked: CellQuestion, job: Job | None = None) -> Explanation:
        """Find the events behind a cell."""

    def sql(self, query: str, limit: SqlLimit = None, job: Job | None = None) -> SqlAnswer:
        """Answer a SELECT over views."""

    def plan(self) -> Plan:
        """What `apply` would change."""

    def apply(self, expect: str | None = None) -> Plan:
        """Make the definitions folder what runs."""

    def dead_letters(self, stream: str) -> DeadLetters | RemoteDeadLetters:
        """What a stream could not read."""

    def versions(self, view: str) -> list[dict[str, Any]]:
        """The versions of a view, newest first."""

    def audits(self, view: str) -> list[dict[str, Any]]:
        """How the two layers of a view compared, newest first."""

    def rollback(self, view: str, to: int | None = None, *, dry_run: bool = False) -> dict[str, Any]:
        """Go back to an earlier version."""

    def refresh(self, view: str, *, full: bool = False) -> dict[str, Any]:
        """Have the batch layer take over what the speed layer has, or build all of it anew."""

    def streams(self) -> list[dict[str, Any]]:
        """All streams."""

    def views(self) -> list[dict[str, Any]]:
        """All views."""

    def status(self) -> dict[str, Any]:
        """The whole workspace."""

    def close(self) -> None:
        """Let go of it."""
