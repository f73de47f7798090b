"""A runtime's methods over HTTP: what a server says comes back as the same objects and the same errors."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

import orjson

from headrace.client.http import ConnectError, Http, Reply
from headrace.errors import (
    DefinitionError,
    DefinitionErrors,
    HeadraceError,
    Location,
    NotFoundError,
    NotReadyError,
    OverloadError,
    QuestionError,
    StartingError,
    UnavailableError,
    UsageError,
    did_you_mean,
)
from headrace.ingest.formats.layout import Format, Layout
from headrace.ingest.receiver import IngestReply, TokenState
from headrace.plan.change import Change, Plan, RollbackStep
from headrace.serve.answer import Answer
from headrace.serve.cell_question import CellQuestion
from headrace.serve.explanation import Explanation
from headrace.serve.question import ALL, NEWEST, OLDEST, Question
from headrace.serve.times import Bound, iso_ms
from headrace.server.state import (
    AuditStatus,
    RefreshStatus,
    StreamDefinition,
    StreamStatus,
    VersionStatus,
    ViewStatus,
    WorkspaceStatus,
)
from headrace.spark.jobs import Job, Progress
from headrace.transport.sent import FilePiece
from headrace.workspace.holder import live_holder
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from headrace.sql.answer import SqlAnswer, SqlLimit

RETRY_FOR_S = 60.0  # a server that is started again takes some seconds
START_S = 30.0  # how long a server that has its workspace may take until its port listens
BUSY_FOR_S = 600.0
LONGEST_PAUSE_S = 2.0
READY_PAUSE_S = 0.5
READY_FOR_S = 180.0  # how long Spark may take to start; it needs some seconds
PORT_PAUSE_S = 0.1
LAST_REPLY_S = 5.0  # for what is asked by a command that was interrupted
REPLAY_S = 600.0  # for one step
NDJSON = "application/x-ndjson"
Given = TypeVar("Given")
_CONTENT_TYPES = {
    Format.NDJSON: "application/x-ndjson",
    Format.JSON: "application/json",
    Format.CSV: "text/csv",
    Format.PARQUET: "application/vnd.apache.parquet",
    Format.TEXT: "text/plain",
    None: "application/octet-stream",
}


class UnreachableError(UnavailableError):
    """Nobody listens at the URL."""


class Remote:
    """A workspace behind a URL. Connections are kept; events are sent again, under one key, until one reply comes."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        workspace: Workspace | None = None,  # the folder that the server has, if it is of this machine
        retry_for_s: float = RETRY_FOR_S,
        busy_for_s: float = BUSY_FOR_S,
        ready_for_s: float = READY_FOR_S,
    ) -> None:
        self.url = _check_url(url.rstrip("/"))
        self._workspace = workspace
        self.on_wait: Callable[[HeadraceError, float], None] | None = None  # hears of each pause before a retry
        self._retry_for_s = retry_for_s
        self._busy_for_s = busy_for_s
        self._ready_for_s = ready_for_s
        self._reached = False  # a server that was never there is not waited for
        self._stopping = threading.Event()  # nothing is tried again any more
        self._http = Http(self.url, token)

    def close(self) -> None:
        """End the connections."""
        self._http.close()

    # Events

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
        """Send a body in the background."""
        key = key or uuid.uuid4().hex
        return _in_background(lambda: self._send(stream, body, layout, key, keep_bad, file))

    def _send(
        self, stream: str, body: bytes, layout: Layout, key: str, keep_bad: bool, file: FilePiece | None
    ) -> IngestReply:
        headers = {"idempotency-key": key, "content-type": _CONTENT_TYPES[layout.format]}
        if file:
            headers["headrace-file"] = json.dumps(file.as_dict())  # in ASCII, as headers are
        asked = {
            "keep_bad": "true" if keep_bad else None,
            "delimiter": layout.delimiter,
            "fields": ",".join(layout.fields) or None,
        }
        params = {name: value for name, value in asked.items() if value is not None}
        said = self._until_replied("POST", f"{_stream(stream)}/events", params=params, content=body, headers=headers)
        return IngestReply(said["accepted"], said["refused"], said["token"])

    def sent(self, stream: str, name: str, first: str) -> dict[str, Any]:
        """How far a file was sent to a stream."""
        return dict(self._until_replied("GET", f"{_stream(stream)}/files", params={"name": name, "first": first}))

    def sent_on_disk(self, stream: str, name: str) -> dict[str, int] | None:
        """How many events of a file are kept, by mark, if the server is dead and its folder is at hand."""
        if self._workspace is None or live_holder(self._workspace.lease_file):
            return None
        from headrace.transport.journal.journal import read_sent  # only when a server is lost

        try:
            return {sent.mark: sent.events for sent in read_sent(self._workspace.journal(stream)).contents(name)}
        except (HeadraceError, OSError):
            return None

    def hold(self) -> None:
        """The server is the one that writes."""

    def give_up(self) -> None:
        """Try nothing again any more."""
        self._stopping.set()

    def _until_replied(self, method: str, path: str, **request: Any) -> Any:
        """Ask until one reply comes. A server that says that it is busy is waited for longer than a silent one."""
        failing_since: float | None = None
        pause = 0.1
        while True:
            try:
                patience = {"timeout": LAST_REPLY_S} if self._stopping.is_set() else {}
                return self.call(method, path, **request, **patience)
            except (OverloadError, UnavailableError) as error:
                patience_s = self._busy_for_s if isinstance(error, OverloadError) else self._retry_for_s
                hopeless = isinstance(error, UnreachableError) and not self._reached
                pause = max(pause, error.retry_after_s or 0.0)
                failing_since = failing_since or time.monotonic()  # not before: a reply may be long in coming
                if isinstance(error, UnreachableError):
                    self._find_again()
                if hopeless or self._stopping.is_set() or time.monotonic() + pause > failing_since + patience_s:
                    raise
                if self.on_wait:
                    self.on_wait(error, pause)
                # Not all at the same moment, when many were sent away at once.
                if self._stopping.wait(pause * random.uniform(1.0, 1.3)):
                    raise
                pause = min(pause * 2, LONGEST_PAUSE_S)

    def wait_token(self, token: str, timeout_s: float) -> TokenState:
        """Wait until every serving view has the events of a token."""
        deadline = time.monotonic() + timeout_s
        while True:
            left = max(0.0, deadline - time.monotonic())
            said = self.call("GET", f"/v1/tokens/{_quote(token)}", params={"wait": f"{min(left, 30.0):.3f}s"})
            state = TokenState(said["complete"], said["stalled"])
            if state.complete or time.monotonic() >= deadline:
                return state

    # Questions and what the server says of itself

    def ask(self, question: Question, job: Job | None = None) -> Answer:
        """Ask; as JSON, which keeps the types of keys."""
        path = f"/v1/views/{_quote(question.view)}/lookup"
        if question.as_of is None:
            return Answer.from_dict(self.call("POST", path, content=_encode(question)))
        body = _encode(question)
        return Answer.from_dict(self.when_ready(lambda: self._follow("POST", path, job or Job(), content=body)))

    def explain(self, asked: CellQuestion, job: Job | None = None) -> Explanation:
        """The events behind a cell. The server reads the log for it, so it may take long."""
        path = f"/v1/views/{_quote(asked.view)}/explain"
        params = asked.parameters()
        return Explanation.from_dict(self.when_ready(lambda: self._follow("GET", path, job or Job(), params=params)))

    def sql(self, query: str, limit: SqlLimit = None, job: Job | None = None) -> SqlAnswer:
        """Run a SELECT; as Arrow, which keeps every type. The server has its own deadline for it."""
        from headrace.sql.answer import ARROW_STREAM, SqlAnswer  # Arrow, for which no other verb has a use

        body = orjson.dumps({"query": query, "limit": limit})
        return SqlAnswer.from_arrow(self.when_ready(lambda: self._sql(body, ARROW_STREAM)))

    def _sql(self, body: bytes, accepted: str) -> bytes:
        reply = self._request("POST", "/v1/sql", content=body, headers={"accept": accepted}, timeout=None)
        if reply.headers.get("content-type") != accepted:
            self._read(reply)
        return reply.content

    def plan(self) -> Plan:
        """What `apply` would change."""
        return _read_plan(self.call("POST", "/v1/plan"))

    def apply(self, expect: str | None = None) -> Plan:
        """Make the definitions folder what runs."""
        return _read_plan(self.call("POST", "/v1/apply", content=orjson.dumps({"expect": expect})))

    def stream(self, name: str) -> StreamDefinition:
        """What a stream is declared to be."""
        known = {stream.name: stream for stream in self.streams()}
        if name not in known:
            hint = did_you_mean(name, known)
            raise NotFoundError(
                f"stream '{name}' does not exist", fix=f"{hint + ' ' if hint else ''}`headrace streams` lists all"
            )
        return known[name]

    def streams(self) -> list[StreamStatus]:
        """All streams with their numbers."""
        return [StreamStatus.from_dict(shown) for shown in self.call("GET", "/v1/streams")["streams"]]

    def views(self) -> list[ViewStatus]:
        """All views with their versions and freshness."""
        return [ViewStatus.from_dict(shown) for shown in self.call("GET", "/v1/views")["views"]]

    def status(self) -> WorkspaceStatus:
        """The whole workspace at a glance."""
        return WorkspaceStatus.from_dict(self.call("GET", "/v1/status"))

    def versions(self, view: str) -> list[VersionStatus]:
        """The versions of a view, newest first."""
        reply = self.call("GET", f"/v1/views/{_quote(view)}/versions")
        return [VersionStatus.from_dict(shown) for shown in reply["versions"]]

    def audits(self, view: str) -> list[AuditStatus]:
        """How the two layers of a view compared, newest first."""
        reply = self.call("GET", f"/v1/views/{_quote(view)}/audits")
        return [AuditStatus.from_dict(shown) for shown in reply["audits"]]

    def rollback(self, view: str, to: int | None = None, *, dry_run: bool = False) -> RollbackStep:
        """Go back to an earlier version."""
        body = orjson.dumps({"to": to, "dry_run": dry_run})
        return RollbackStep.from_dict(self.call("POST", f"/v1/views/{_quote(view)}/rollback", content=body))

    def refresh(self, view: str, *, full: bool = False) -> RefreshStatus:
        """Have the batch layer take over what the speed layer has, or build all of it anew."""
        body = orjson.dumps({"full": full})
        path = f"/v1/views/{_quote(view)}/refresh"
        return RefreshStatus.from_dict(self.when_ready(lambda: self.call("POST", path, content=body)))

    def dead_letters(self, stream: str) -> RemoteDeadLetters:
        """What a stream could not read."""
        return RemoteDeadLetters(self, stream)

    def when_ready(self, ask: Callable[[], Given]) -> Given:
        """What a request that needs Spark gives; while the server starts Spark, it is repeated."""
        deadline = time.monotonic() + self._ready_for_s
        while True:
            try:
                return ask()
            except StartingError as error:
                pause = error.retry_after_s or READY_PAUSE_S
                if time.monotonic() + pause > deadline:
                    raise
                if self.on_wait:
                    self.on_wait(error, pause)
                time.sleep(pause)

    def _follow(self, method: str, path: str, job: Job, **request: Any) -> dict[str, Any]:
        """What a server says in the end of work that may take long; the job hears how far it is."""
        with self._reaching(), self._http.stream(method, path, headers={"accept": NDJSON}, **request) as (reply, lines):
            if reply.headers.get("content-type") != NDJSON:
                self._read(replace(reply, content=b"".join(lines)))
            for line in lines:
                said = orjson.loads(line)
                if "answer" in said:
                    return dict(said["answer"])
                if "error" in said:
                    raise read_error(said["error"], reply.status)
                job.tell(Progress(**said["progress"]))
        raise UnavailableError(f"the server at {self.url} has gone before it answered", fix="ask again")

    def call(self, method: str, path: str, **request: Any) -> Any:
        """One request; what the server says, or its error."""
        return self._read(self._request(method, path, **request))

    def _request(self, method: str, path: str, **request: Any) -> Reply:
        with self._reaching():
            return self._http.request(method, path, **request)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Failures of the way to the server come out as errors of ours."""
        if not self._reached and self._workspace:
            self._wait_for_port(self._workspace.lease_file)
        try:
            yield
            self._reached = True
        except TimeoutError as error:
            raise UnavailableError(
                f"the server at {self.url} does not answer", fix="is it very busy? its log may tell"
            ) from error
        except ConnectionError as error:
            kind = UnreachableError if isinstance(error, ConnectError) else UnavailableError
            raise kind(
                f"the server at {self.url} cannot be reached: {error}", fix="`headrace up` starts one"
            ) from error

    def _find_again(self) -> None:
        """Go on with the server that has the workspace now: one that was started again may listen elsewhere."""
        holder = live_holder(self._workspace.lease_file) if self._workspace else None
        if holder and holder.url:
            self.url = holder.url
            self._http.go_to(self.url)

    def _wait_for_port(self, lease_file: Path) -> None:
        """Until a server that has just taken its workspace listens, if it lives and does not take too long."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                socket.create_connection(self._http.address, timeout=1.0).close()
                return
            except OSError:
                holder = live_holder(lease_file)
                if holder is None or holder.url != self.url or self._stopping.is_set():
                    return
                if self.on_wait:
                    self.on_wait(NotReadyError(f"the server at {self.url} is starting"), PORT_PAUSE_S)
                self._stopping.wait(PORT_PAUSE_S)

    def _read(self, reply: Reply) -> Any:
        """What a reply says as JSON; raises the error that it says."""
        try:
            said = orjson.loads(reply.content)
        except orjson.JSONDecodeError as error:
            raise UnavailableError(
                f"'{self.url}' is not a Headrace server", found=f"a reply {reply.status} that is not JSON"
            ) from error
        if reply.status < 400:
            return said
        failure = read_error(said.get("error") if isinstance(said, Mapping) else None, reply.status)
        failure.retry_after_s = _seconds(reply.headers.get("retry-after"))
        raise failure


class RemoteDeadLetters:
    """The dead letters of a stream behind a URL, with the methods of the server's own."""

    def __init__(self, remote: Remote, stream: str) -> None:
        self._remote = remote
        self._path = f"/v1/streams/{_quote(stream)}/dead-letters"

    def page(self, limit: int | None = None, cursor: int | None = None, reason: str | None = None) -> dict[str, Any]:
        """The newest first."""
        asked = {"limit": limit, "cursor": cursor, "reason": reason}
        given = {name: value for name, value in asked.items() if value is not None}
        return dict(self._remote.call("GET", self._path, params=given))

    def reasons(self) -> list[dict[str, Any]]:
        """How many there are of each kind."""
        return list(self._remote.call("GET", f"{self._path}/reasons")["reasons"])

    def show(self, position: int) -> dict[str, Any]:
        """The one at a position, whole."""
        return dict(self._remote.call("GET", f"{self._path}/{position}"))

    def replay(self, cursor: str | None = None, *, dry_run: bool = False) -> dict[str, Any]:
        """Read some of them again; the reply's `cursor` takes the next step."""
        asked = {"cursor": cursor, "dry_run": "true" if dry_run else None}
        given = {name: value for name, value in asked.items() if value is not None}
        path, remote = f"{self._path}/replay", self._remote
        return dict(remote.when_ready(lambda: remote.call("POST", path, params=given, timeout=REPLAY_S)))


def _check_url(url: str) -> str:
    """A URL that names a host; its port, if it names one, is a number that ports have."""
    try:
        parts = urlsplit(url)
        if not parts.hostname:
            reason = "it names no host"
        elif not url.isprintable() or " " in url:
            reason = "it has spaces or control characters"
        elif parts.port != 0:
            return url
        else:
            reason = "port 0 is no port to connect to"
    except ValueError as error:
        reason = str(error)
    raise UsageError(f"'{url}' is not a URL of a server: {reason}", expected="such as http://127.0.0.1:8090")


def _in_background(send: Callable[[], IngestReply]) -> Future[IngestReply]:
    """In a thread that does not keep an interrupted process alive until its server answers."""
    done: Future[IngestReply] = Future()

    def run() -> None:
        try:
            done.set_result(send())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="send", daemon=True).start()
    return done


def _seconds(text: str | None) -> float | None:
    """A Retry-After; the other form of it, a date, is not one that our server writes."""
    return float(text) if text and text.isdigit() else None


def read_error(shown: Any, status: int) -> HeadraceError:
    """The error that a server showed, as the class that it was there."""
    if not isinstance(shown, Mapping) or "message" not in shown:
        return UnavailableError(f"the server replied {status} without a reason")
    if shown.get("errors"):
        errors = (read_error(one, status) for one in shown["errors"])
        return DefinitionErrors([error for error in errors if isinstance(error, DefinitionError)])
    made = _classes().get(str(shown.get("code")), HeadraceError)
    where = _read_where(shown.get("where"))
    return made(
        shown["message"], found=shown.get("found"), expected=shown.get("expected"), fix=shown.get("fix"), where=where
    )


def _read_where(text: str | None) -> Location | None:
    if not text:
        return None
    file, line, column = text.rsplit(":", 2)
    return Location(file, int(line), int(column))


def _classes() -> dict[str, type[HeadraceError]]:
    found: dict[str, type[HeadraceError]] = {}
    rest: list[type[HeadraceError]] = [HeadraceError]  # a base comes before what refines it
    while rest:
        one = rest.pop()
        found.setdefault(one.code, one)
        rest += one.__subclasses__()
    return found


def _read_plan(said: Mapping[str, Any]) -> Plan:
    return Plan(tuple(Change.from_dict(change) for change in said["changes"]), said["fingerprint"])


def _encode(question: Question) -> bytes:
    asked = {
        "key": list(question.where),
        "by": None if question.by is None else list(question.by),
        "start": _bound("start", question.start),
        "end": _bound("end", question.end),
        "window": ALL if question.all_time else question.window_ms and f"{question.window_ms}ms",
        "every": question.every_ms and f"{question.every_ms}ms",
        "order": NEWEST if question.newest_first else OLDEST,
        "limit": question.limit,
        "cursor": question.cursor,
        **(question.as_of.parameters() if question.as_of else {}),
    }
    return orjson.dumps({name: value for name, value in asked.items() if value is not None}, default=str)


def _bound(name: str, bound: Bound | None) -> str | None:
    if bound is None or not bound.relative:
        return None if bound is None else iso_ms(bound.ms)
    if bound.ms > 0:
        raise QuestionError(f"{name} lies after the newest event", fix="count back from it, as in '-1h'")
    return f"-{-bound.ms}ms" if bound.ms else "now"


def _stream(name: str) -> str:
    return f"/v1/streams/{_quote(name)}"


def _quote(text: str) -> str:
    return quote(text, safe="")
