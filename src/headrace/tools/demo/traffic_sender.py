"""Sends the traffic of one stream over HTTP at the rate of the shop, some of it twice, and counts it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import orjson

from headrace.api.http_client import HttpServer
from headrace.errors import UnavailableError
from headrace.tools.demo.traffic import TICK_S, SentBatch, ShopOrder, Visit

PROBLEMS = 5
TIMEOUT_S = 60.0  # for one request with its retries


@dataclass
class Tally:
    """The counts of sent events and of the server's replies. One thread writes, others read."""

    events: int = 0
    accepted: int = 0
    refused: int = 0
    kept_bad: int = 0  # invalid events that were accepted with keep_bad and become dead letters
    late: int = 0
    posts: int = 0
    repeats: int = 0
    token: str | None = None
    truths: list[Visit | ShopOrder] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, truth: Visit | ShopOrder, token: str) -> None:
        """One late event that another thread sent."""
        self.events, self.accepted, self.late = self.events + 1, self.accepted + 1, self.late + 1
        self.truths.append(truth)
        self.token = token

    def add_problem(self, problem: str) -> None:
        """Add a problem; only the first few are kept."""
        if len(self.problems) < PROBLEMS:
            self.problems.append(problem)


class TrafficSender(threading.Thread):
    """Posts the first batch of a stream at once, and the others when they are due once `go` is set."""

    def __init__(
        self, url: str, stream: str, batches: Iterable[SentBatch], *, go: threading.Event, stopping: threading.Event
    ) -> None:
        super().__init__(name=f"send {stream}", daemon=True)
        self.tally = Tally()
        self.error: Exception | None = None
        self.first_reply = threading.Event()  # the first batch has its reply
        self.stream = stream
        self._batches = batches
        self._go = go
        self._stopping = stopping
        self._http = HttpServer(url)

    def run(self) -> None:
        """Send everything; `error` is set if it failed."""
        try:
            with closing(self._http), ThreadPoolExecutor(2) as pool:
                start = time.monotonic()
                for batch in self._batches:
                    if self._stopping.wait(max(0.0, start + batch.number * TICK_S - time.monotonic())):
                        return
                    if len(batch):
                        self._send(batch, pool)
                    if batch.number == 0:
                        self.first_reply.set()
                        self._go.wait()
                        start = time.monotonic()
        except Exception as error:
            self.error = error
        finally:
            self.first_reply.set()

    def _send(self, batch: SentBatch, pool: ThreadPoolExecutor) -> None:
        keep_bad = batch.number % 3 == 0
        if batch.number % 17 == 5:  # two at once: the second waits for the first
            reply, again = pool.map(lambda _: self._post(batch, keep_bad), range(2))
        elif batch.number % 9 == 4:  # once more, as after a lost reply
            reply, again = self._post(batch, keep_bad), self._post(batch, keep_bad)
        else:
            reply = again = self._post(batch, keep_bad)
        self._count(batch, keep_bad, reply)
        if again is not reply:
            self.tally.repeats += 1
            if again != reply:
                self.tally.add_problem(
                    f"{_name(batch)}: a repeated post was answered differently: {again}, not {reply}"
                )

    def _count(self, batch: SentBatch, keep_bad: bool, reply: dict[str, Any]) -> None:
        tally, broken = self.tally, batch.broken
        expected = [] if keep_bad else broken
        refused = [refusal["index"] for refusal in reply["refused"]]
        if refused != expected:
            tally.add_problem(f"{_name(batch)}: refused {refused}, expected {expected}")
        if any(not refusal["reason"] for refusal in reply["refused"]):
            tally.add_problem(f"{_name(batch)}: an event was refused without a reason")
        if reply["accepted"] != len(batch) - len(expected):
            tally.add_problem(f"{_name(batch)}: accepted {reply['accepted']} of {len(batch)}, {len(expected)} broken")
        tally.posts += 1
        tally.events += len(batch)
        tally.accepted += reply["accepted"]
        tally.refused += len(refused)
        tally.kept_bad += len(broken) if keep_bad else 0
        tally.late += batch.late
        tally.truths += [truth for truth in batch.truths if truth is not None]
        tally.token = reply["token"]

    def _post(self, batch: SentBatch, keep_bad: bool) -> dict[str, Any]:
        """The reply; retries are safe because of the idempotency key."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                reply = self._http.request(
                    "POST",
                    f"/v1/streams/{batch.stream}/events",
                    params={"keep_bad": "true"} if keep_bad else (),
                    content=batch.body,
                    headers={
                        "content-type": "application/x-ndjson",
                        "idempotency-key": f"demo-{batch.stream}-{batch.number}",
                    },
                    timeout=TIMEOUT_S,
                )
            except OSError as error:
                reason = f"{type(error).__name__}: {error}"
            else:
                if reply.status == 200:
                    value: dict[str, Any] = orjson.loads(reply.content)
                    return value
                reason = f"{reply.status}: {reply.content[:300].decode(errors='replace')}"
                if reply.status not in (429, 503):
                    raise UnavailableError(f"{_name(batch)} was not accepted: {reason}")
            if time.monotonic() > deadline or self._stopping.wait(0.3):
                raise UnavailableError(f"{_name(batch)} was not accepted in {TIMEOUT_S:.0f} s: {reason}")


def _name(batch: SentBatch) -> str:
    return f"post {batch.number} to stream '{batch.stream}'"
