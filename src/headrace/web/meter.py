"""Counts requests: how many, how large, how long. Around everything else, so that refusals count too."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

EVENTS_PATH = "/v1/streams/{stream}/events"
ANSWER_PATHS = ("/v1/views/{view}", "/v1/views/{view}/lookup")
EVENT_COUNTS = "headrace.counted"  # the ingest endpoint stores (accepted, refused) under this key of the scope
BODY_BYTES = "headrace.body_bytes"  # in the scope: the size of a body that was not received by `receive`
CLIENT_DISCONNECTED = 499  # the client disconnected before a reply was sent
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class RequestNumbers:
    """Metrics of requests since the process started."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "headrace_http_requests",
            "HTTP requests by endpoint (empty: unknown, or rejected earlier) and status.",
            ["endpoint", "status"],
            registry=registry,
        )
        self.ingest_requests = Counter(
            "headrace_ingest_requests",
            "Ingest requests by stream (empty: no such stream) and status.",
            ["stream", "status"],
            registry=registry,
        )
        self.ingest_bytes = Counter(
            "headrace_ingest_bytes", "Bytes of ingest request bodies.", ["stream"], registry=registry
        )
        self.accepted = Counter(
            "headrace_events_accepted",
            "Events acknowledged over HTTP; retried requests are counted again.",
            ["stream"],
            registry=registry,
        )
        self.refused = Counter("headrace_events_refused", "Events refused over HTTP.", ["stream"], registry=registry)
        self.ingest_seconds = Histogram(
            "headrace_ingest_seconds",
            "Time to acknowledge an ingest request.",
            registry=registry,
            buckets=SECONDS,
        )
        self.answers = Counter(
            "headrace_answers",
            "Queries of views by view (empty: no such view) and status.",
            ["view", "status"],
            registry=registry,
        )
        self.answer_seconds = Histogram(
            "headrace_answer_seconds", "Time to answer a query.", registry=registry, buckets=SECONDS
        )

    def note(self, scope: Scope, status: int, received: int, seconds: float) -> None:
        """Count one request that has ended; names come from routes and definitions only, never from the client."""
        path = getattr(scope.get("route"), "path", "")
        self.requests.labels(path, str(status)).inc()
        if path == EVENTS_PATH:
            stream = _label(scope, "stream", status)
            self.ingest_requests.labels(stream, str(status)).inc()
            self.ingest_seconds.observe(seconds)
            if stream:
                accepted, refused = scope.get(EVENT_COUNTS, (0, 0))
                self.ingest_bytes.labels(stream).inc(received)
                self.accepted.labels(stream).inc(accepted)
                self.refused.labels(stream).inc(refused)
        elif path in ANSWER_PATHS:
            self.answers.labels(_label(scope, "view", status), str(status)).inc()
            self.answer_seconds.observe(seconds)


class Meter:
    """The layer that counts; bare ASGI, since it is on the path of every request."""

    def __init__(self, app: ASGIApp, numbers: RequestNumbers) -> None:
        self._app = app
        self._numbers = numbers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status, received = CLIENT_DISCONNECTED, 0

        async def counted_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            return message

        async def counted_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, counted_receive, counted_send)
        finally:
            self._numbers.note(scope, status, scope.get(BODY_BYTES, received), time.perf_counter() - start)


def _label(scope: Scope, name: str, status: int) -> str:
    """The name if it is defined, else empty: clients must not be able to create labels."""
    return "" if status in (404, CLIENT_DISCONNECTED) else str(scope["path_params"][name])
