"""A runtime's methods over HTTP: what a server says comes back as the same objects and the same errors."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from headrace.client.calls import Calls
from headrace.client.wire import encode_question
from headrace.errors import (
    HeadraceError,
    NotFoundError,
    did_you_mean,
)
from headrace.ingest.formats.layout import Format, Layout
from headrace.ingest.receiver import IngestReply, TokenState
from headrace.plan.change import Change, Plan, RollbackStep
from headrace.serve.answer import Answer
from headrace.serve.cell_question import CellQuestion
from headrace.serve.explanation import Explanation
from headrace.serve.question import Question
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
from headrace.transport.sent import FilePiece
from headrace.workspace.holder import live_holder

if TYPE_CHECKING:
    from headrace.sql.answer import SqlAnswer, SqlLimit

REPLAY_S = 600.0  # for one step
_CONTENT_TYPES = {
    Format.NDJSON: "application/x-ndjson",
    Format.JSON: "application/json",
    Format.CSV: "text/csv",
    Format.PARQUET: "application/vnd.apache.parquet",
    Format.TEXT: "text/plain",
    None: "application/octet-stream",
}


class Remote(Calls):
    """A workspace behind a URL. Connections are kept; events are sent again, under one key, until one reply comes."""

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
        said = self.until_replied("POST", f"{_stream(stream)}/events", params=params, content=body, headers=headers)
        return IngestReply(said["accepted"], said["refused"], said["token"])

    def sent(self, stream: str, name: str, first: str) -> dict[str, Any]:
        """How far a file was sent to a stream."""
        return dict(self.until_replied("GET", f"{_stream(stream)}/files", params={"name": name, "first": first}))

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

    def release(self) -> None:
        """The server stays the one that writes."""

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
            return Answer.from_dict(self.call("POST", path, content=encode_question(question)))
        body = encode_question(question)
        return Answer.from_dict(self.when_ready(lambda: self.follow("POST", path, job or Job(), content=body)))

    def explain(self, asked: CellQuestion, job: Job | None = None) -> Explanation:
        """The events behind a cell. The server reads the log for it, so it may take long."""
        path = f"/v1/views/{_quote(asked.view)}/explain"
        params = asked.parameters()
        return Explanation.from_dict(self.when_ready(lambda: self.follow("GET", path, job or Job(), params=params)))

    def sql(self, query: str, limit: SqlLimit = None, job: Job | None = None) -> SqlAnswer:
        """Run a SELECT; as Arrow, which keeps every type. The server has its own deadline for it."""
        from headrace.sql.answer import ARROW_STREAM, SqlAnswer  # Arrow, for which no other verb has a use

        body = orjson.dumps({"query": query, "limit": limit})
        return SqlAnswer.from_arrow(self.when_ready(lambda: self._sql(body, ARROW_STREAM)))

    def _sql(self, body: bytes, accepted: str) -> bytes:
        reply = self.request("POST", "/v1/sql", content=body, headers={"accept": accepted}, timeout=None)
        if reply.headers.get("content-type") != accepted:
            self.read(reply)
        return reply.content

    def plan(self) -> Plan:
        """What `apply` would change."""
        return _read_plan(self.call("POST", "/v1/plan"))

    def apply(self, expect: str | None = None) -> Plan:
        """Apply the definitions folder."""
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
        """All streams and their metrics."""
        return [StreamStatus.from_dict(shown) for shown in self.call("GET", "/v1/streams")["streams"]]

    def views(self) -> list[ViewStatus]:
        """All views with their versions and freshness."""
        return [ViewStatus.from_dict(shown) for shown in self.call("GET", "/v1/views")["views"]]

    def status(self) -> WorkspaceStatus:
        """State of the server, streams and views."""
        return WorkspaceStatus.from_dict(self.call("GET", "/v1/status"))

    def versions(self, view: str) -> list[VersionStatus]:
        """The versions of a view, newest first."""
        reply = self.call("GET", f"/v1/views/{_quote(view)}/versions")
        return [VersionStatus.from_dict(shown) for shown in reply["versions"]]

    def audits(self, view: str) -> list[AuditStatus]:
        """The audits of a view, newest first."""
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


def _read_plan(said: Mapping[str, Any]) -> Plan:
    return Plan(tuple(Change.from_dict(change) for change in said["changes"]), said["fingerprint"])


def _stream(name: str) -> str:
    return f"/v1/streams/{_quote(name)}"


def _quote(text: str) -> str:
    return quote(text, safe="")
