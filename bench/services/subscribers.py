"""How soon a change of a view reaches its subscribers, many at once, over server-sent events."""

from __future__ import annotations

import re
import selectors
import socket
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from bench.ours.events import STREAM, arrays
from bench.ours.figures import Figure, of_percentile
from bench.ours.load import Connection, at_rate
from bench.ours.measure import start_empty_server
from bench.ours.progress import Progress
from bench.record import Part
from bench.services.broker import require
from bench.sizes import FullSizes

PER_POST = 500
P99_S = 1.0
MOST_S = 60.0
# One row, which each commit changes: every subscriber gets every change.
PULSE = "CREATE MATERIALIZED VIEW pulse AS SELECT count(*) AS hits FROM visits;\n"
HITS = re.compile(rb'"hits": ?(\d+)')
KEPT = 200  # bytes of a message that has not come whole


@dataclass
class Subscriber:
    """One open reply: what it has shown, and when."""

    socket: socket.socket
    seen: list[int] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)
    rest: bytes = b""

    def take(self, data: bytes, now: float) -> None:
        found = HITS.findall(self.rest + data)
        self.rest = (self.rest + data)[-KEPT:]
        newest = int(found[-1]) if found else 0
        if newest > (self.seen[-1] if self.seen else 0):
            self.seen.append(newest)
            self.at_s.append(now)

    def first_time(self, hits: int) -> float:
        """When it first showed so many."""
        return self.at_s[bisect_left(self.seen, hits)]


class Subscribers:
    """Reads all replies in one thread."""

    def __init__(self, url: str, count: int) -> None:
        host, _, port = urlsplit(url).netloc.partition(":")
        self._selector = selectors.DefaultSelector()
        self.all = [Subscriber(socket.create_connection((host, int(port)))) for _ in range(count)]
        for each in self.all:
            each.socket.sendall(f"GET /v1/views/pulse/changes HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            each.socket.setblocking(False)
            self._selector.register(each.socket, selectors.EVENT_READ, each)
        self._stopping = threading.Event()
        self.ended = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait_for(self, hits: int) -> None:
        """Until all have shown so many."""
        deadline = time.monotonic() + MOST_S
        while behind := sum(not each.seen or each.seen[-1] < hits for each in self.all):
            require(not self.ended, f"{self.ended} subscriptions were ended by the server")
            require(time.monotonic() < deadline, f"{behind} of {len(self.all)} subscribers did not get {hits} in time")
            time.sleep(0.05)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._selector.close()
        for each in self.all:
            each.socket.close()

    def _read(self) -> None:
        while not self._stopping.is_set():
            for key, _ in self._selector.select(0.1):
                data = key.data.socket.recv(65_536)
                if data:
                    key.data.take(data, time.monotonic())
                else:
                    self._selector.unregister(key.fileobj)
                    self.ended += 1


@contextmanager
def subscribe(url: str, count: int) -> Iterator[Subscribers]:
    """All are closed afterwards."""
    subscribers = Subscribers(url, count)
    try:
        yield subscribers
    finally:
        subscribers.close()


def subscribers(sizes: FullSizes, progress: Progress) -> Part:
    """Seconds from when a view has a change until a subscriber has it, and from when its events were due."""
    count = sizes.subscribers
    name = f"change to subscriber, {count:,} at once"
    progress.tell(name)
    values = progress.keep(name, lambda: _measure(count, sizes))
    spread = f"p50 {values['due_p50']:.2f} s"
    return Part(
        [
            of_percentile(name, values["sample"], 0.5, "s", None),
            Figure(f"{name}, p99", values["p99"], "s", f"{values['count']:,} deliveries", P99_S, False),
            Figure(f"event to subscriber, {count:,} at once, p99", values["due_p99"], "s", spread, None, False),
        ],
        {},
    )


def _measure(count: int, sizes: FullSizes) -> dict[str, float | int | list[float]]:
    bodies = arrays(min(100_000, int(sizes.ours.flow * sizes.ours.seconds)), PER_POST)
    with ExitStack() as stack:
        server = stack.enter_context(start_empty_server(STREAM + PULSE))
        poster = Poster(server.url, bodies)
        poster.run(1, 1.0)
        readers = stack.enter_context(subscribe(server.url, count))
        readers.wait_for(poster.sent)
        poster.run(sizes.ours.flow / PER_POST, sizes.ours.warm_s)
        posts = poster.run(sizes.ours.flow / PER_POST, sizes.ours.seconds)
        readers.wait_for(poster.sent)
        late, whole = [], []
        for hits, due, has in posts:
            for each in readers.all:
                at = each.first_time(hits)
                late.append(max(0.0, at - has))
                whole.append(at - due)
    late.sort()
    whole.sort()
    return {
        "count": len(late),
        "p99": late[int(0.99 * len(late))],
        "due_p50": whole[len(whole) // 2],
        "due_p99": whole[int(0.99 * len(whole))],
        "sample": late[:: max(1, len(late) // 1000)],
    }


class Poster:
    """Sends events at a constant rate, and notes when every view has them."""

    def __init__(self, url: str, bodies: list[bytes]) -> None:
        self.sent = 0
        self._url, self._bodies = url, bodies

    def run(self, per_second: float, seconds: float) -> list[tuple[int, float, float]]:
        """Of each post: the number of events so far, when it was due, and when every view had it."""
        waiting: list[tuple[str, int, float]] = []
        posting = threading.Thread(target=self._post, args=(per_second, seconds, waiting))
        posting.start()
        connection, posts = Connection(self._url), []
        while posting.is_alive() or waiting:
            if waiting:
                token, hits, due = waiting.pop(0)
                connection.wait_for_token(token)
                posts.append((hits, due, time.monotonic()))
            else:
                time.sleep(0.005)
        posting.join()
        return posts

    def _post(self, per_second: float, seconds: float, waiting: list[tuple[str, int, float]]) -> None:
        connection = Connection(self._url)
        for number, due in at_rate(per_second, seconds):
            reply = connection.post("/v1/streams/visits/events", self._bodies[number % len(self._bodies)])
            self.sent += reply["accepted"]
            waiting.append((reply["token"], self.sent, due))
