"""Requests to one server: connections kept, failures told apart, tried again where that may help."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson

from headrace.client.http import ConnectError, Http, Reply
from headrace.client.wire import read_error
from headrace.errors import HeadraceError, NotReadyError, OverloadError, StartingError, UnavailableError, UsageError
from headrace.spark.jobs import Job, Progress
from headrace.workspace.holder import live_holder
from headrace.workspace.settings import Workspace

RETRY_FOR_S = 60.0  # a server that is started again takes some seconds
START_S = 30.0  # how long a server that has its workspace may take until its port listens
BUSY_FOR_S = 600.0
LONGEST_PAUSE_S = 2.0
READY_PAUSE_S = 0.5
READY_FOR_S = 180.0  # how long Spark may take to start; it needs some seconds
PORT_PAUSE_S = 0.1
LAST_REPLY_S = 5.0  # for what is asked by a command that was interrupted
NDJSON = "application/x-ndjson"
Given = TypeVar("Given")


class UnreachableError(UnavailableError):
    """Nobody listens at the URL."""


class Calls:
    """A server at a URL. What it does not answer, or answers with "busy" or "starting", is asked again for a while."""

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

    def give_up(self) -> None:
        """Try nothing again any more."""
        self._stopping.set()

    def until_replied(self, method: str, path: str, **request: Any) -> Any:
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

    def follow(self, method: str, path: str, job: Job, **request: Any) -> dict[str, Any]:
        """What a server says in the end of work that may take long; the job hears how far it is."""
        with self._reaching(), self._http.stream(method, path, headers={"accept": NDJSON}, **request) as (reply, lines):
            if reply.headers.get("content-type") != NDJSON:
                self.read(replace(reply, content=b"".join(lines)))
            for line in lines:
                said = orjson.loads(line)
                if "answer" in said:
                    return dict(said["answer"])
                if "error" in said:
                    raise read_error(said["error"], reply.status)
                job.tell(Progress(**said["progress"]))
        raise UnavailableError(f"the server at {self.url} closed the connection before it answered", fix="ask again")

    def call(self, method: str, path: str, **request: Any) -> Any:
        """One request; what the server says, or its error."""
        return self.read(self.request(method, path, **request))

    def request(self, method: str, path: str, **request: Any) -> Reply:
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
                f"the server at {self.url} does not answer", fix="it may be busy; see its log"
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

    def read(self, reply: Reply) -> Any:
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
            reason = "port 0 cannot be connected to"
    except ValueError as error:
        reason = str(error)
    raise UsageError(f"'{url}' is not a URL of a server: {reason}", expected="such as http://127.0.0.1:8090")


def _seconds(text: str | None) -> float | None:
    """A Retry-After; the other form of it, a date, is not one that our server writes."""
    return float(text) if text and text.isdigit() else None
