"""Requests to one server: reuses connections, distinguishes failures, and retries where that may help."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

import orjson

from headrace.api.encoding import read_error
from headrace.api.http_client import EVENT_STREAM, ConnectError, HttpReply, HttpServer, ServerEvents
from headrace.errors import HeadraceError, NotReadyError, OverloadError, StartingError, UnavailableError, UsageError
from headrace.language.token_cursor import parse_type
from headrace.lazy import later
from headrace.secrets import host_only
from headrace.serve.json_values import decoder
from headrace.serve.question import key_text
from headrace.spark.jobs import Job, Progress
from headrace.workspace.lease_holder import live_holder

if TYPE_CHECKING:
    from headrace.deliver.change_question import ChangeQuestion
    from headrace.serve import change_batch
    from headrace.serve.change_batch import ViewChange
    from headrace.workspace.settings import Workspace
else:  # loaded by their first use
    change_batch = later("headrace.serve.change_batch")


RETRY_FOR_S = 60.0  # a restart of the server takes some seconds
START_S = 30.0  # between taking the workspace and listening on the port
BUSY_FOR_S = 600.0
LONGEST_PAUSE_S = 2.0
READY_PAUSE_S = 0.5
READY_FOR_S = 180.0  # for Spark to start, which normally takes some seconds
PORT_PAUSE_S = 0.1
LAST_REPLY_S = 5.0  # for requests of an interrupted command
NDJSON = "application/x-ndjson"
Result = TypeVar("Result")


class UnreachableError(UnavailableError):
    """No server listens at the URL."""


class ServerCalls:
    """A server at a URL. Requests that fail, or that it answers with "busy" or "starting", are retried for a while."""

    url: str = ""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        workspace: Workspace | None = None,  # the folder of the server, if it is on this machine
        retry_for_s: float = RETRY_FOR_S,
        busy_for_s: float = BUSY_FOR_S,
        ready_for_s: float = READY_FOR_S,
    ) -> None:
        self.url = _check_url(url.rstrip("/"))
        self._workspace = workspace
        self.on_wait: Callable[[HeadraceError, float], None] | None = None  # called before each pause
        self._retry_for_s = retry_for_s
        self._busy_for_s = busy_for_s
        self._ready_for_s = ready_for_s
        self._reached = False  # a server that was never reached is not waited for
        self._stopping = threading.Event()  # no more retries
        self._http = HttpServer(self.url, token)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def give_up(self) -> None:
        """Stop retrying."""
        self._stopping.set()

    def until_replied(self, method: str, path: str, **request: Any) -> Any:
        """Repeat a request until it is answered. A busy server is waited for longer than one that cannot be reached."""
        failing_since: float | None = None
        pause = 0.1
        while True:
            try:
                options = {"timeout": LAST_REPLY_S} if self._stopping.is_set() else {}
                return self.call(method, path, **request, **options)
            except (OverloadError, UnavailableError) as error:
                limit_s = self._busy_for_s if isinstance(error, OverloadError) else self._retry_for_s
                hopeless = isinstance(error, UnreachableError) and not self._reached
                pause = max(pause, error.retry_after_s or 0.0)
                failing_since = failing_since or time.monotonic()  # not before: a reply may take long
                if isinstance(error, UnreachableError):
                    self._find_again()
                if hopeless or self._stopping.is_set() or time.monotonic() + pause > failing_since + limit_s:
                    raise
                if self.on_wait:
                    self.on_wait(error, pause)
                # Random, so that clients that were refused together do not retry at the same time.
                if self._stopping.wait(pause * random.uniform(1.0, 1.3)):
                    raise
                pause = min(pause * 2, LONGEST_PAUSE_S)

    def when_ready(self, ask: Callable[[], Result]) -> Result:
        """The result of a request that needs Spark; it is repeated while the server starts Spark."""
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

    def follow(self, method: str, path: str, job: Job, **request: Any) -> dict[str, Any]:
        """The final answer of a long-running request; its progress is reported to the job."""
        with self._reaching(), self._http.stream(method, path, headers={"accept": NDJSON}, **request) as (reply, lines):
            if reply.headers.get("content-type") != NDJSON:
                self.read(replace(reply, content=b"".join(lines)))
            for line in lines:
                content = orjson.loads(line)
                if "answer" in content:
                    return dict(content["answer"])
                if "error" in content:
                    raise read_error(content["error"], reply.status)
                job.tell(Progress(**content["progress"]))
        raise UnavailableError(f"the server at {self.url} closed the connection before it answered", fix="retry")

    def received(self, method: str, path: str, **request: Any) -> Iterator[tuple[str, Any]]:
        """The server-sent events of a reply: name and content. It connects again when the connection is lost."""
        return self.reconnecting(lambda: self._received_once(method, path, **request))

    def reconnecting(self, read: Callable[[], Iterator[Result]]) -> Generator[Result, None, None]:
        """What a reply without end gives; it is read again when the connection is lost, for a while."""
        lost_at: float | None = None
        pause = 0.1
        while True:
            try:
                for each in read():
                    lost_at, pause = None, 0.1
                    yield each
                raise UnavailableError(f"the server at {self.url} ended the connection", fix="`headrace up` starts one")
            except (OverloadError, UnavailableError) as error:
                if isinstance(error, UnreachableError):
                    self._find_again()
                lost_at = lost_at or time.monotonic()
                never = isinstance(error, UnreachableError) and not self._reached
                if never or self._stopping.is_set() or time.monotonic() - lost_at > self._retry_for_s:
                    raise
                if self.on_wait:
                    self.on_wait(error, pause)
                # Random, so that clients that lost their server together do not come back at the same time.
                self._stopping.wait(max(pause, error.retry_after_s or 0.0) * random.uniform(1.0, 1.3))
                pause = min(pause * 2, LONGEST_PAUSE_S)

    def _received_once(self, method: str, path: str, **request: Any) -> Iterator[tuple[str, Any]]:
        headers = {"accept": EVENT_STREAM}
        with self._reaching(), self._http.stream(method, path, headers=headers, **request) as (reply, lines):
            self._reached = True
            if not reply.headers.get("content-type", "").startswith(EVENT_STREAM):
                self.read(replace(reply, content=b"".join(lines)))
            for name, _, data in ServerEvents().read(lines):
                content = orjson.loads(data) if data else None
                if name == "error" and content:
                    raise read_error(content["error"], reply.status)
                if data:
                    yield name, content

    def call(self, method: str, path: str, **request: Any) -> Any:
        """The content of the reply to one request; raises the error if it is one."""
        return self.read(self.request(method, path, **request))

    def request(self, method: str, path: str, **request: Any) -> HttpReply:
        with self._reaching():
            return self._http.request(method, path, **request)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Raise network failures as errors of Headrace."""
        if not self._reached and self._workspace:
            self._wait_for_port(self._workspace.lease_file)
        try:
            yield
            self._reached = True
        except TimeoutError as error:
            raise UnavailableError(
                f"the server at {self.url} does not answer", fix="it may be busy; see its log"
            ) from error
        except ConnectionError as error:
            kind = UnreachableError if isinstance(error, ConnectError) else UnavailableError
            raise kind(
                f"the server at {self.url} cannot be reached: {error}", fix="`headrace up` starts one"
            ) from error

    def _find_again(self) -> None:
        """Use the server that has the workspace now: after a restart it may listen on another port."""
        holder = live_holder(self._workspace.lease_file) if self._workspace else None
        if holder and holder.url:
            self.url = holder.url
            self._http.go_to(self.url)

    def _wait_for_port(self, lease_file: Path) -> None:
        """Wait until a server that has just taken its workspace listens, or ends, or the time is over."""
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

    def read(self, reply: HttpReply) -> Any:
        """The JSON content of a reply; raises the error if it is one."""
        try:
            content = orjson.loads(reply.content)
        except orjson.JSONDecodeError as error:
            raise UnavailableError(
                f"'{self.url}' is not a Headrace server", found=f"a reply {reply.status} that is not JSON"
            ) from error
        if reply.status < 400:
            return content
        failure = read_error(content.get("error") if isinstance(content, Mapping) else None, reply.status)
        failure.retry_after_s = _seconds(reply.headers.get("retry-after"))
        raise failure


def _check_url(url: str) -> str:
    """The URL, if it has a host and a valid port or none."""
    try:
        parts = urlsplit(url)
        if not parts.hostname:
            reason = "it names no host"
        elif not url.isprintable() or " " in url:
            reason = "it has spaces or control characters"
        elif parts.username is not None or parts.query or parts.fragment:
            reason = "it has a user, a query or a fragment; the token is given apart from it"
        elif parts.port != 0:
            return url
        else:
            reason = "port 0 cannot be connected to"
    except ValueError:  # its text would repeat a part of the URL
        reason = "its port or its brackets are not valid"
    raise UsageError(f"'{host_only(url)}' is not a URL of a server: {reason}", expected="such as http://127.0.0.1:8090")


def _seconds(text: str | None) -> float | None:
    """A Retry-After header in seconds; the server never sends one with a date."""
    return float(text) if text and text.isdigit() else None


class ChangeCalls(ServerCalls):
    """Requests for changes."""

    def follow_view(self, question: ChangeQuestion) -> Generator[ViewChange, None, None]:
        """Yield the changes of a view as they arrive; after a lost connection, those after the last change."""

        def read() -> Iterator[tuple[ViewChange | None, str | None]]:
            return self._changes_once(question)  # after the last change that came

        for change, cursor in self.reconnecting(read):
            if cursor:  # a batch that was lost in part is read again: its rows are upserts
                question = replace(question, cursor=cursor)
            if change:
                yield change

    def _changes_once(self, question: ChangeQuestion) -> Iterator[tuple[ViewChange | None, str | None]]:
        path = f"/v1/views/{quote(question.view, safe='')}/changes"
        headers = {"accept": EVENT_STREAM} | ({"last-event-id": question.cursor} if question.cursor else {})
        params = _change_parameters(question)
        with self._reaching(), self._http.stream("GET", path, params=params, headers=headers) as (reply, lines):
            self._reached = True
            if not reply.headers.get("content-type", "").startswith(EVENT_STREAM):
                self.read(replace(reply, content=b"".join(lines)))
            decoders: dict[str, Any] = {}
            for name, id, data in ServerEvents().read(lines):
                content = orjson.loads(data) if data else {}
                if name == "error":
                    raise read_error(content["error"], reply.status)
                if name == "columns":
                    decoders = {each["name"]: decoder(parse_type(each["type"])) for each in content["columns"]}
                elif name == "message" and content.get("op") in ("upsert", "delete", "restart", "caught_up"):
                    yield _read_change(content, decoders, id), id
                elif id:
                    yield None, id


def _read_change(content: dict[str, Any], decoders: dict[str, Any], cursor: str | None) -> ViewChange | None:
    if content["op"] == "caught_up":
        return None
    row = {
        name: value if value is None or decoders.get(name) is None else decoders[name](value)
        for name, value in content.get("row", {}).items()
    }
    return change_batch.ViewChange(content["op"], row, content["version"], content["commit"], cursor)


def _change_parameters(question: ChangeQuestion) -> list[tuple[str, str]]:
    pairs = [(f"key.{name}", key_text(value)) for name, values in question.key for value in values]
    if question.where:
        pairs.append(("where", question.where))
    if not question.snapshot:
        pairs.append(("snapshot", "false"))
    if question.settled_only:
        pairs.append(("settled_only", "true"))
    return pairs
