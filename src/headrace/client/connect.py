"""`connect`: a workspace in Python, through its server if one runs, else straight from its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

import orjson

from headrace.client.far import Remote, RemoteDeadLetters
from headrace.client.whole import read_whole
from headrace.errors import HeadraceError, IngestError, InUseError, NotReadyError
from headrace.ingest.door import IngestReply, TokenState
from headrace.ingest.files import SourceFile, StreamShape, find_files
from headrace.ingest.formats.layout import ANY, Format, Layout
from headrace.ingest.sending import Receiver, Sending, SendProgress, SendReply, send_all
from headrace.ingest.tabular import as_table, send_table
from headrace.plan.differences import Plan
from headrace.serve import Answer, Question
from headrace.serve.cell import CellQuestion
from headrace.serve.explanation import Explanation
from headrace.serve.question import Keys
from headrace.spark.jobs import Job
from headrace.sql.answer import ALL_ROWS, SqlAnswer, SqlLimit
from headrace.transport.sent import FilePiece
from headrace.workspace.lease import live_holder
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from headrace.lake.dead import DeadLetters

Table: TypeAlias = Any  # a pandas DataFrame, an Arrow table, or another one that gives Arrow streams
Events: TypeAlias = Mapping[str, Any] | Iterable[Mapping[str, Any]] | Table | bytes | Path
SENDABLE = "an event (a mapping), many of them, a pandas DataFrame, an Arrow table, bytes, or a Path"


class Backend(Receiver, Protocol):
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
        """Apply the definitions folder."""

    def dead_letters(self, stream: str) -> DeadLetters | RemoteDeadLetters:
        """What a stream could not read."""

    def versions(self, view: str) -> list[dict[str, Any]]:
        """The versions of a view, newest first."""

    def audits(self, view: str) -> list[dict[str, Any]]:
        """The audits of a view, newest first."""

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


class Connection:
    """A connection to a workspace. Close it, or use it in a `with` block."""

    def __init__(self, backend: Backend, reconnect: Callable[[], Backend | None] | None = None) -> None:
        self._backend = backend
        self._reconnect = reconnect  # to the server that came, for a folder that had none

    @property
    def url(self) -> str | None:
        """URL of the server in use; None without a server."""
        return self._backend.url if isinstance(self._backend, Remote) else None

    def on_wait(self, hear: Callable[[HeadraceError, float], None]) -> None:
        """Set a function to call on each wait: for a server that is starting or busy, or for another process."""
        self._backend.on_wait = hear

    def ask(
        self,
        view: str,
        key: Keys | None = None,
        by: str | Iterable[str] | None = None,
        start: Any = None,
        end: Any = None,
        window: Any = None,
        every: Any = None,
        limit: int | None = None,
        cursor: str | None = None,
        version_as_of: int | None = None,
        timestamp_as_of: Any = None,
        order: str | None = None,
    ) -> Answer:
        """Query a view; docs/python.md describes the parameters.

        Returns all rows unless a limit is given; `next_cursor` then continues after the last row.
        """
        past = (version_as_of, timestamp_as_of)
        question = Question.of(view, key, by, start, end, window, every, limit, cursor, *past, order)
        return self.whole(question) if limit is None else self.answer(question)

    def answer(self, question: Question, job: Job | None = None) -> Answer:
        """One page of the answer to a question; the job reports progress of a question about an earlier state."""
        return self._backend.ask(question, job)

    def whole(self, question: Question, job: Job | None = None) -> Answer:
        """All rows from the question's cursor on, read page by page; see `headrace.client.whole`."""
        return read_whole(lambda page: self._backend.ask(page, job), question)

    def explain(
        self,
        view: str,
        key: Mapping[str, Any] | None = None,
        at: Any = None,
        window: Any = None,
        every: Any = None,
        limit: int | None = None,
        cursor: int | None = None,
    ) -> Explanation:
        """The events behind one cell of a view; `CellQuestion` describes the parameters."""
        return self.explained(CellQuestion.of(view, key, at, window, every, limit, cursor))

    def explained(self, asked: CellQuestion, job: Job | None = None) -> Explanation:
        """The same for a CellQuestion; the job reports progress when no server is running."""
        return self._backend.explain(asked, job)

    def sql(self, query: str, *, limit: int | None = None, job: Job | None = None) -> SqlAnswer:
        """Run a SELECT over the views; each view is a table. Returns all rows unless a limit is given."""
        return self.select(query, ALL_ROWS if limit is None else limit, job)

    def select(self, query: str, limit: SqlLimit, job: Job | None = None) -> SqlAnswer:
        """The same with a limit as in HTTP: a number, 'all', or None for 1,000 rows."""
        return self._backend.sql(query, limit, job)

    def send(self, stream: str, events: Events, *, key: str | None = None, again: bool = False) -> IngestReply:
        """Send one event, several events, a table, bytes in any format, or a file or folder.

        An event is a mapping. A table is a pandas DataFrame, an Arrow table, or another object that exports Arrow
        streams. A file or folder is a `Path`. Events of a file that cannot be parsed become dead letters; others are
        refused, and the reply says why. If a file was sent before, only new events are sent, unless `again` is true.
        """
        if isinstance(events, Path):
            return self.send_files(stream, [events], again=again)
        self._take_turn()
        if isinstance(events, bytes):
            return self._backend.ingest(stream, events, layout=ANY, key=key, keep_bad=False).result()
        table = as_table(events)
        if table is not None and table.num_rows:
            return send_table(table, partial(self._send_lines, stream), key)
        body = orjson.dumps([] if table is not None else _check_events(events), default=str)
        return self._backend.ingest(stream, body, layout=Layout(Format.JSON), key=key, keep_bad=False).result()

    def _send_lines(self, stream: str, lines: bytes, key: str | None) -> Future[IngestReply]:
        return self._backend.ingest(stream, lines, layout=Layout(Format.NDJSON), key=key, keep_bad=False)

    def send_files(
        self,
        stream: str,
        paths: Iterable[Path],
        progress: SendProgress | None = None,
        layout: Layout = ANY,
        *,
        again: bool = False,
    ) -> SendReply:
        """Send files and folders; of each file, only what was not sent before. The token covers all of them."""
        files = find_files(paths)
        sending = self.sending(stream, progress, again=again)
        return send_all(sending, (SourceFile(file, sending.declared, layout) for file in files))

    def sending(self, stream: str, progress: SendProgress | None = None, *, again: bool = False) -> Sending:
        """Send several files step by step; events that cannot be parsed become dead letters."""
        if progress:
            self._backend.on_wait = progress.waits
        self._take_turn()
        return Sending(self._backend, StreamShape.of(self._backend.stream(stream)), progress, again=again)

    def _take_turn(self) -> None:
        """Write through the server that has taken the workspace meanwhile, if one has."""
        try:
            self._backend.hold()
        except InUseError:
            found = self._reconnect() if self._reconnect else None
            if found is None:
                raise
            found.on_wait = self._backend.on_wait
            self._backend.close()
            self._backend = found

    def wait(self, token: str, timeout: float = 60.0) -> TokenState:
        """Wait up to `timeout` seconds until every serving view has the events of a token."""
        if not isinstance(self._backend, Remote):
            raise NotReadyError("no server is running, so views are not updated", fix="`headrace up` starts one")
        return self._backend.wait_token(token, timeout)

    def plan(self) -> Plan:
        """What `apply` would change."""
        return self._backend.plan()

    def apply(self, expect: str | None = None) -> Plan:
        """Apply the definitions folder; `expect` is the fingerprint of the plan to apply."""
        return self._backend.apply(expect)

    def dead_letters(self, stream: str) -> DeadLetters | RemoteDeadLetters:
        """The dead letters of a stream: `page()`, `reasons()`, `show(position)`, `replay()`."""
        return self._backend.dead_letters(stream)

    def versions(self, view: str) -> list[dict[str, Any]]:
        """The versions of a view, newest first: state, progress, and changes from the version it replaced."""
        return self._backend.versions(view)

    def rollback(self, view: str, to: int | None = None, *, dry_run: bool = False) -> dict[str, Any]:
        """Roll back to an earlier version (default: the previous one); `dry_run` only reports what it would do."""
        return self._backend.rollback(view, to, dry_run=dry_run)

    def refresh(self, view: str, *, full: bool = False) -> dict[str, Any]:
        """Start a refresh of a view; `full` rebuilds it from the whole log.

        `versions` and `audits` show the progress and the result.
        """
        return self._backend.refresh(view, full=full)

    def audits(self, view: str) -> list[dict[str, Any]]:
        """The audits of a view, newest first."""
        return self._backend.audits(view)

    def streams(self) -> list[dict[str, Any]]:
        """All streams and their metrics."""
        return self._backend.streams()

    def views(self) -> list[dict[str, Any]]:
        """All views with their versions and freshness."""
        return self._backend.views()

    def status(self) -> dict[str, Any]:
        """State of the server, streams and views."""
        return self._backend.status()

    def close(self) -> None:
        """Close the connection."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _check_events(events: Any) -> Any:
    """One event, or a list of them; refused by name if it is neither."""
    if isinstance(events, Mapping):
        return events
    found = f"a {type(events).__name__}"
    if not isinstance(events, str) and isinstance(events, Iterable):
        many = list(events)
        wrong = next((n for n, event in enumerate(many) if not isinstance(event, Mapping)), None)
        if wrong is None:
            return many
        found += f" whose item {wrong} is a {type(many[wrong]).__name__}"
    fix = "a file is sent by its Path, JSON text as bytes" if isinstance(events, str) else None
    raise IngestError("this value cannot be sent", found=found, expected=SENDABLE, fix=fix)


def connect(target: str | Path | None = None, *, token: str | None = None) -> Connection:
    """Connect to a workspace folder (default: the current one) or a server URL; token defaults to HEADRACE_TOKEN."""
    text = str(target or ".")
    if text.startswith(("http://", "https://")):
        return Connection(Remote(text, token or os.environ.get("HEADRACE_TOKEN")))
    workspace = Workspace.open(text)

    def server() -> Remote | None:
        holder = live_holder(workspace.lease_file)
        found = holder and holder.url
        return Remote(found, token or workspace.settings.token, workspace=workspace) if found else None

    running = server()
    if running:
        return Connection(running)
    # Only a folder without a server needs the parts that read and write its files.
    from headrace.client.near import Offline

    return Connection(Offline.open(workspace), server)
