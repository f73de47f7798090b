"""A workspace behind a URL: each verb is a request by its declaration; replies become the same values and errors."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import orjson

from headrace.api.declaration import Handlers, P, R, Verb
from headrace.api.encoding import encode_question, key_pairs
from headrace.api.remote_calls import ChangeCalls
from headrace.api.verbs import Backend, Verbs
from headrace.deliver.event_page import EventPage, EventQuestion
from headrace.errors import HeadraceError, RequestError, not_a_stream, unknown
from headrace.ingest.formats.format_detection import FileLayout, Format
from headrace.ingest.receiver import IngestReply, TokenState
from headrace.lazy import later
from headrace.serve.answer import Answer
from headrace.spark.jobs import Job
from headrace.workspace.lease_holder import live_holder

if TYPE_CHECKING:
    from concurrent import futures

    from headrace.serve import explanation
    from headrace.serve.question import Question
    from headrace.serve.sql import sql_answer
    from headrace.server.status import StreamDefinition
    from headrace.transport.journal import journal
    from headrace.transport.sent_files import FilePiece
else:  # not for most commands: they load logging, or Arrow
    futures, explanation = later("concurrent.futures"), later("headrace.serve.explanation")
    journal, sql_answer = later("headrace.transport.journal.journal"), later("headrace.serve.sql.sql_answer")

SLICE_S = 30.0  # of a wait for a token
_CONTENT_TYPES = {
    Format.NDJSON: "application/x-ndjson",
    Format.JSON: "application/json",
    Format.CSV: "text/csv",
    Format.PARQUET: "application/vnd.apache.parquet",
    Format.TEXT: "text/plain",
    None: "application/octet-stream",
}


class RemoteWorkspace(ChangeCalls, Backend):
    """A workspace behind a URL. Events are sent again, with the same idempotency key, until there is a reply."""

    def __init__(self, url: str, token: str | None = None, **options: Any) -> None:
        super().__init__(url, token, **options)
        self._special = Handlers()  # verbs whose request or reply is not plain JSON
        self._special.on(Verbs.ingest, self._send)
        self._special.on(Verbs.wait_token, self._wait)
        self._special.on(Verbs.events, self._read_events)
        self._special.on(Verbs.ask, self._ask)
        self._special.on(Verbs.explain, self._explain)
        self._special.on(Verbs.sql, self._select)
        self._special.on(Verbs.changes, self.follow_view)
        self._special.on(Verbs.stream, self._definition)

    def __repr__(self) -> str:
        return f"the server at {self.url}"

    def invoke(self, verb: Verb[P, R], /, *arguments: P.args, **options: P.kwargs) -> R:
        """Answer a verb by a request; it is repeated as the verb says."""
        special = self._special.find(verb)
        if special is not None:
            return special(*arguments, **options)
        fields, parameters = vars(verb.request(*arguments, **options)), verb.parameters()
        in_body: dict[str, Any] = {}
        for name, value in fields.items():
            if f"{{{name}}}" not in verb.path and value is not None:
                http = parameters.get(name)
                in_body[(http and http.name) or name] = http.write(value) if http and http.write else value
        request: dict[str, Any] = {} if verb.timeout_s is None else {"timeout": verb.timeout_s}
        if verb.in_query:
            request["params"] = {
                name: "true" if value is True else value for name, value in in_body.items() if value is not False
            }
        else:
            request["content"] = orjson.dumps(in_body)
        path = verb.url(**fields)
        if verb.repeat == "until replied":
            return verb.reply.read(self.until_replied(verb.method, path, **request))
        if verb.repeat == "until ready":
            return verb.reply.read(self.when_ready(lambda: self.call(verb.method, path, **request)))
        return verb.reply.read(self.call(verb.method, path, **request))

    def _send(
        self,
        stream: str,
        body: bytes | memoryview,
        *,
        layout: FileLayout,
        key: str | None,
        keep_bad: bool,
        file: FilePiece | None = None,
    ) -> futures.Future[IngestReply]:
        """Send a body in the background."""
        headers = {"idempotency-key": key or uuid.uuid4().hex, "content-type": _CONTENT_TYPES[layout.format]}
        if file:
            headers["headrace-file"] = json.dumps(file.as_dict())  # in ASCII, as headers are
        options = {
            "keep_bad": "true" if keep_bad else None,
            "delimiter": layout.delimiter,
            "fields": ",".join(layout.fields) or None,
        }
        params = {name: value for name, value in options.items() if value is not None}
        path = Verbs.ingest.url(stream=stream)

        def send() -> IngestReply:
            reply = self.until_replied("POST", path, params=params, content=body, headers=headers)
            return IngestReply(reply["accepted"], reply["refused"], reply["token"])

        return _in_background(send)

    def sent_on_disk(self, stream: str, name: str) -> dict[str, int] | None:
        """Return the stored events of a file by mark, if the server has ended and its folder is on this machine."""
        if self._workspace is None or live_holder(self._workspace.lease_file):
            return None
        try:
            sent = journal.read_sent(self._workspace.journal(stream))
            return {entry.mark: entry.events for entry in sent.contents(name)}
        except (HeadraceError, OSError):
            return None

    def _wait(self, token: str, timeout_s: float) -> TokenState:
        deadline, path = time.monotonic() + timeout_s, Verbs.wait_token.url(token=token)
        while True:
            remaining_s = max(0.0, deadline - time.monotonic())
            reply = self.call("GET", path, params={"wait": f"{min(remaining_s, SLICE_S):.3f}s"})
            state = Verbs.wait_token.reply.read(reply)
            if state.complete or time.monotonic() >= deadline:
                return state

    def _ask(self, question: Question, job: Job | None = None) -> Answer:
        """Ask with the question as JSON, which keeps the types of keys."""
        path, body = Verbs.ask.url(view=question.view), encode_question(question)
        if question.as_of is None:
            return Answer.from_dict(self.call("POST", path, content=body))
        return Answer.from_dict(self.when_ready(lambda: self.follow("POST", path, job or Job(), content=body)))

    def _explain(self, question: explanation.CellQuestion, job: Job | None = None) -> explanation.Explanation:
        """Find the events behind a cell. The server reads the log for it, so it may take long."""
        path, params = Verbs.explain.url(view=question.view), question.parameters()
        content = self.when_ready(lambda: self.follow("GET", path, job or Job(), params=params))
        return explanation.Explanation.from_dict(content)

    def _select(self, query: str, limit: sql_answer.SqlLimit = None, job: Job | None = None) -> sql_answer.SqlAnswer:
        """Run a SELECT; the reply is Arrow, which keeps all types. The server has a deadline for it."""
        body, arrow = orjson.dumps({"query": query, "limit": limit}), sql_answer.ARROW_STREAM

        def read_arrow() -> bytes:
            path, headers = Verbs.sql.url(), {"accept": arrow}
            reply = self.request("POST", path, content=body, headers=headers, timeout=None)
            if reply.headers.get("content-type") != arrow:
                self.read(reply)
            return reply.content

        return sql_answer.SqlAnswer.from_arrow(self.when_ready(read_arrow))

    def _definition(self, name: str) -> StreamDefinition:
        """Return the definition of a stream to which events can be sent."""
        streams = {stream.name: stream for stream in self.streams()}
        if name in streams:
            return streams[name]
        made_from = next((table.derived_from for table in self.tables() if table.name == name), ())
        if made_from:
            raise RequestError(
                f"table '{name}' is made from {', '.join(made_from)}: no rows can be sent to it",
                fix=f"send events to {' or '.join(made_from)}",
            )
        views = {*(view.name for view in self.views()), *(view.name for view in self.logical_views())}
        raise not_a_stream(name) if name in views else unknown("stream", name, streams)

    def _read_events(self, stream: str, question: EventQuestion, wait_s: float = 0.0) -> EventPage:
        """Read the next events of a stream, as JSON. Repeated while the server is restarted."""
        start = question.start.isoformat() if isinstance(question.start, date) else question.start
        options = {
            "cursor": question.cursor,
            "from": start,
            "last": question.last,
            "where": question.where,
            "limit": question.limit,
            "wait": f"{wait_s:.3f}s" if wait_s else None,
        }
        params = [(name, f"{value}") for name, value in options.items() if value is not None]
        params += key_pairs(question.key or {})
        path, headers = Verbs.events.url(stream=stream), {"accept": "application/json"}
        return EventPage.from_dict(stream, self.until_replied("GET", path, params=params, headers=headers))

    def batches(self, subscription: str, limit: int, credit: int) -> Generator[Mapping[str, Any], None, None]:
        """Return the batches of a subscription; connects again when the server was restarted."""
        params = {"limit": limit, "credit": credit}
        for name, content in self.received("GET", f"{_path_of(subscription)}/events", params=params):
            if name == "batch":
                yield content

    def acknowledge(self, subscription: str, leases: Sequence[str], events: Sequence[str] | None = None) -> None:
        """Say that batches, or some events of one, were processed. Repeated until the server has it on disk."""
        body = {"lease": leases[0], "events": list(events)} if events is not None else {"leases": list(leases)}
        self.until_replied("POST", f"{_path_of(subscription)}/ack", content=orjson.dumps(body))

    def give_back(self, subscription: str, leases: Sequence[str]) -> None:
        """Say that batches will not be processed."""
        self.until_replied("POST", f"{_path_of(subscription)}/nack", content=orjson.dumps({"leases": list(leases)}))


def _path_of(subscription: str) -> str:
    return Verbs.drop_subscription.url(name=subscription)


def _in_background(send: Callable[[], IngestReply]) -> futures.Future[IngestReply]:
    """Run in a daemon thread, so that an interrupted process does not wait for the server."""
    future: futures.Future[IngestReply] = futures.Future()

    def run() -> None:
        try:
            future.set_result(send())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="send", daemon=True).start()
    return future
