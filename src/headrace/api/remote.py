"""A runtime's methods over HTTP: replies become the same objects and the same errors."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from headrace.api.encoding import encode_question, key_pairs
from headrace.api.remote_calls import ChangeCalls
from headrace.deliver.delivery_status import AlertStatus, SilenceStatus, SubscriptionStatus
from headrace.deliver.event_page import EventPage, EventQuestion
from headrace.errors import (
    HeadraceError,
    RequestError,
    not_a_stream,
    unknown,
)
from headrace.ingest.formats.format_detection import FileLayout, Format
from headrace.ingest.receiver import IngestReply, SentStatus, TokenState
from headrace.plan.planned_change import Plan, PlannedChange, RollbackStep
from headrace.serve.answer import Answer
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
from headrace.workspace.lease_holder import live_holder

if TYPE_CHECKING:
    from concurrent.futures import Future

    from headrace.api.remote_dead_letters import RemoteDeadLetters
    from headrace.serve.explanation import CellQuestion, Explanation
    from headrace.serve.question import Question
    from headrace.serve.sql.sql_answer import SqlAnswer, SqlLimit
    from headrace.transport.sent_files import FilePiece

SUBSCRIPTIONS = "/v1/subscriptions"
_CONTENT_TYPES = {
    Format.NDJSON: "application/x-ndjson",
    Format.JSON: "application/json",
    Format.CSV: "text/csv",
    Format.PARQUET: "application/vnd.apache.parquet",
    Format.TEXT: "text/plain",
    None: "application/octet-stream",
}


class RemoteWorkspace(ChangeCalls):
    """A workspace behind a URL. Events are sent again, with the same idempotency key, until there is a reply."""

    def __repr__(self) -> str:
        return f"the server at {self.url}"

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
        """Send a body in the background."""
        key = key or uuid.uuid4().hex
        return _in_background(lambda: self._send(stream, body, layout, key, keep_bad, file))

    def _send(
        self,
        stream: str,
        body: bytes | memoryview,
        layout: FileLayout,
        key: str,
        keep_bad: bool,
        file: FilePiece | None,
    ) -> IngestReply:
        headers = {"idempotency-key": key, "content-type": _CONTENT_TYPES[layout.format]}
        if file:
            headers["headrace-file"] = json.dumps(file.as_dict())  # in ASCII, as headers are
        options = {
            "keep_bad": "true" if keep_bad else None,
            "delimiter": layout.delimiter,
            "fields": ",".join(layout.fields) or None,
        }
        params = {name: value for name, value in options.items() if value is not None}
        reply = self.until_replied("POST", f"{_stream(stream)}/events", params=params, content=body, headers=headers)
        return IngestReply(reply["accepted"], reply["refused"], reply["token"])

    def sent(self, stream: str, name: str, first: str) -> SentStatus:
        """How far a file was sent to a stream."""
        params = {"name": name, "first": first}
        return SentStatus.from_dict(self.until_replied("GET", f"{_stream(stream)}/files", params=params))

    def sent_on_disk(self, stream: str, name: str) -> dict[str, int] | None:
        """The stored events of a file by mark, if the server has ended and its folder is on this machine."""
        if self._workspace is None or live_holder(self._workspace.lease_file):
            return None
        from headrace.transport.journal.journal import read_sent  # loads Arrow, for the rare case of a lost server

        try:
            return {entry.mark: entry.events for entry in read_sent(self._workspace.journal(stream)).contents(name)}
        except (HeadraceError, OSError):
            return None

    def hold(self) -> None:
        """Nothing to do: the server writes."""

    def release(self) -> None:
        """Nothing to do: the server still writes."""

    def wait_token(self, token: str, timeout_s: float) -> TokenState:
        """Wait until every serving view has the events of a token."""
        deadline = time.monotonic() + timeout_s
        while True:
            remaining_s = max(0.0, deadline - time.monotonic())
            reply = self.call("GET", f"/v1/tokens/{_quote(token)}", params={"wait": f"{min(remaining_s, 30.0):.3f}s"})
            state = TokenState(reply["complete"], reply["stalled"])
            if state.complete or time.monotonic() >= deadline:
                return state

    # Questions and status

    def ask(self, question: Question, job: Job | None = None) -> Answer:
        """Ask, with the question as JSON, which keeps the types of keys."""
        path = f"/v1/views/{_quote(question.view)}/lookup"
        if question.as_of is None:
            return Answer.from_dict(self.call("POST", path, content=encode_question(question)))
        body = encode_question(question)
        return Answer.from_dict(self.when_ready(lambda: self.follow("POST", path, job or Job(), content=body)))

    def explain(self, question: CellQuestion, job: Job | None = None) -> Explanation:
        """The events behind a cell. The server reads the log for it, so it may take long."""
        from headrace.serve.explanation import Explanation  # only for `explain`

        path = f"/v1/views/{_quote(question.view)}/explain"
        params = question.parameters()
        return Explanation.from_dict(self.when_ready(lambda: self.follow("GET", path, job or Job(), params=params)))

    def sql(self, query: str, limit: SqlLimit = None, job: Job | None = None) -> SqlAnswer:
        """Run a SELECT; the reply is Arrow, which keeps all types. The server has a deadline for it."""
        from headrace.serve.sql.sql_answer import ARROW_STREAM, SqlAnswer  # loads Arrow, which only this method needs

        body = orjson.dumps({"query": query, "limit": limit})
        return SqlAnswer.from_arrow(self.when_ready(lambda: self._sql(body, ARROW_STREAM)))

    def _sql(self, body: bytes, media_type: str) -> bytes:
        reply = self.request("POST", "/v1/sql", content=body, headers={"accept": media_type}, timeout=None)
        if reply.headers.get("content-type") != media_type:
            self.read(reply)
        return reply.content

    def plan(self) -> Plan:
        """What `apply` would change."""
        return _read_plan(self.call("POST", "/v1/plan"))

    def apply(self, expect: str | None = None) -> Plan:
        """Apply the definitions folder."""
        return _read_plan(self.call("POST", "/v1/apply", content=orjson.dumps({"expect": expect})))

    def stream(self, name: str) -> StreamDefinition:
        """The definition of a stream."""
        streams = {stream.name: stream for stream in self.streams()}
        if name not in streams:
            made_from = next((table.derived_from for table in self.tables() if table.name == name), ())
            if made_from:
                raise RequestError(
                    f"table '{name}' is made from {', '.join(made_from)}: no rows can be sent to it",
                    fix=f"send events to {' or '.join(made_from)}",
                )
            views = {*(view.name for view in self.views()), *(view.name for view in self.logical_views())}
            raise not_a_stream(name) if name in views else unknown("stream", name, streams)
        return streams[name]

    def streams(self) -> list[StreamStatus]:
        """All streams and their metrics."""
        return [StreamStatus.from_dict(status) for status in self.call("GET", "/v1/streams")["streams"]]

    def views(self) -> list[ViewStatus]:
        """All views with their versions and freshness."""
        return [ViewStatus.from_dict(status) for status in self.call("GET", "/v1/views")["views"]]

    def tables(self) -> list[TableStatus]:
        """All tables with rows, version and freshness."""
        return [TableStatus.from_dict(status) for status in self.call("GET", "/v1/tables")["tables"]]

    def logical_views(self) -> list[LogicalStatus]:
        """All logical views with their freshness."""
        return [LogicalStatus.from_dict(status) for status in self.call("GET", "/v1/views").get("logical", ())]

    def graph(self) -> GraphStatus:
        """What reads what, with rates and freshness."""
        return GraphStatus.from_dict(self.call("GET", "/v1/graph"))

    def sinks(self) -> list[SinkStatus]:
        """All sinks with their state and lag."""
        return [SinkStatus.from_dict(status) for status in self.call("GET", "/v1/sinks")["sinks"]]

    def change_sink(self, name: str, action: str) -> SinkStatus:
        """Pause a sink, resume it, or have a stalled one try again now."""
        return SinkStatus.from_dict(self.call("POST", f"/v1/sinks/{_quote(name)}/{action}"))

    def status(self) -> WorkspaceStatus:
        """State of the server, streams and views."""
        return WorkspaceStatus.from_dict(self.call("GET", "/v1/status"))

    def versions(self, view: str) -> list[VersionStatus]:
        """The versions of a view, newest first."""
        reply = self.call("GET", f"/v1/views/{_quote(view)}/versions")
        return [VersionStatus.from_dict(status) for status in reply["versions"]]

    def audits(self, view: str) -> list[AuditStatus]:
        """The audits of a view, newest first."""
        reply = self.call("GET", f"/v1/views/{_quote(view)}/audits")
        return [AuditStatus.from_dict(status) for status in reply["audits"]]

    def rollback(self, view: str, to: int | None = None, *, dry_run: bool = False) -> RollbackStep:
        """Roll back to an earlier version."""
        body = orjson.dumps({"to": to, "dry_run": dry_run})
        return RollbackStep.from_dict(self.call("POST", f"/v1/views/{_quote(view)}/rollback", content=body))

    def skip(self, stream: str, to: str, *, dry_run: bool = False) -> SkipStatus:
        """Leave out offsets of a stream in Kafka; with `dry_run`, only say which."""
        body = orjson.dumps({"to": to, "dry_run": dry_run})
        return SkipStatus.from_dict(self.call("POST", f"/v1/streams/{_quote(stream)}/skip", content=body))

    def refresh(self, view: str, *, full: bool = False, tables: str | None = None) -> RefreshStatus:
        """Move the rows of the speed layer to the batch layer, or rebuild the view."""
        body = orjson.dumps({"full": full, **({"tables": tables} if tables else {})})
        path = f"/v1/views/{_quote(view)}/refresh"
        return RefreshStatus.from_dict(self.when_ready(lambda: self.call("POST", path, content=body)))

    def events(self, stream: str, question: EventQuestion, wait_s: float = 0.0) -> EventPage:
        """The next events of a stream; without any, wait for some. Repeated while the server is restarted."""
        start = question.start.isoformat() if isinstance(question.start, date) else question.start
        params = {
            "cursor": question.cursor,
            "from": start,
            "last": question.last,
            "where": question.where,
            "limit": question.limit,
            "wait": f"{wait_s:.3f}s" if wait_s else None,
        }
        pairs = [(name, f"{value}") for name, value in params.items() if value is not None]
        headers = {"accept": "application/json"}
        path = f"{_stream(stream)}/tail"
        pairs += key_pairs(question.key or {})
        return EventPage.from_dict(stream, self.until_replied("GET", path, params=pairs, headers=headers))

    def subscriptions(self) -> list[SubscriptionStatus]:
        """The named subscriptions."""
        return [SubscriptionStatus.from_dict(each) for each in self.call("GET", SUBSCRIPTIONS)["subscriptions"]]

    def create_subscription(self, name: str, **terms: Any) -> SubscriptionStatus:
        """Create a named subscription, or find the one with these terms."""
        fields = {"from" if field == "start" else field: value for field, value in terms.items() if value is not None}
        path = f"{SUBSCRIPTIONS}/{_quote(name)}"
        return SubscriptionStatus.from_dict(self.call("POST", path, content=orjson.dumps(fields)))

    def drop_subscription(self, name: str) -> None:
        """Drop a named subscription."""
        self.call("DELETE", f"{SUBSCRIPTIONS}/{_quote(name)}")

    def batches(self, subscription: str, limit: int, credit: int) -> Generator[Mapping[str, Any], None, None]:
        """The batches of a subscription; connects again when the server was restarted."""
        params = {"limit": limit, "credit": credit}
        path = f"{SUBSCRIPTIONS}/{_quote(subscription)}/events"
        for name, content in self.received("GET", path, params=params):
            if name == "batch":
                yield content

    def acknowledge(self, subscription: str, leases: Sequence[str], events: Sequence[str] | None = None) -> None:
        """Batches, or some events of one, were processed. Repeated until the server has it on disk."""
        body = {"lease": leases[0], "events": list(events)} if events is not None else {"leases": list(leases)}
        self.until_replied("POST", f"{SUBSCRIPTIONS}/{_quote(subscription)}/ack", content=orjson.dumps(body))

    def give_back(self, subscription: str, leases: Sequence[str]) -> None:
        """Batches will not be processed."""
        body = orjson.dumps({"leases": list(leases)})
        self.until_replied("POST", f"{SUBSCRIPTIONS}/{_quote(subscription)}/nack", content=body)

    def alerts(self) -> list[AlertStatus]:
        """All alerts with their incidents and silences."""
        return [AlertStatus.from_dict(status) for status in self.call("GET", "/v1/alerts")["alerts"]]

    def silence(self, alert: str, for_ms: int, values: Mapping[str, object], reason: str = "") -> SilenceStatus:
        """Send no notices for a time."""
        body = orjson.dumps({"for": f"{for_ms} ms", "values": dict(values), "reason": reason})
        return SilenceStatus.from_dict(self.call("POST", f"/v1/alerts/{_quote(alert)}/silences", content=body))

    def end_silence(self, alert: str, id: str | None = None) -> int:
        """End a silence, or all of an alert."""
        path = f"/v1/alerts/{_quote(alert)}/silences{f'/{_quote(id)}' if id else ''}"
        return int(self.call("DELETE", path)["ended"])

    def dead_letters(self, stream: str) -> RemoteDeadLetters:
        """The dead letters of a stream."""
        from headrace.api.remote_dead_letters import RemoteDeadLetters  # only for the commands that show them

        return RemoteDeadLetters(self, stream)


def _in_background(send: Callable[[], IngestReply]) -> Future[IngestReply]:
    """Run in a daemon thread, so that an interrupted process does not wait for the server."""
    from concurrent.futures import Future  # loads logging: only for commands that send

    future: Future[IngestReply] = Future()

    def run() -> None:
        try:
            future.set_result(send())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="send", daemon=True).start()
    return future


def _read_plan(content: Mapping[str, Any]) -> Plan:
    return Plan(tuple(PlannedChange.from_dict(change) for change in content["changes"]), content["fingerprint"])


def _stream(name: str) -> str:
    return f"/v1/streams/{_quote(name)}"


def _quote(text: str) -> str:
    return quote(text, safe="")
