"""Freshness: how long after an event should have been sent every view has it."""

from __future__ import annotations

import json
import queue
import time
from functools import partial
from io import StringIO

from rich.console import Console

from bench.ours.events import STREAM, arrays, views
from bench.ours.figures import Figure, of_percentile
from bench.ours.load import Connection, at_rate, in_threads
from bench.ours.measure import PER_POST, start_empty_server
from bench.ours.progress import Progress
from bench.sizes import Sizes
from headrace.errors import HeadraceError
from headrace.tools.demo import run

LIMITS_S = {1: (0.5, 1.0), 20: (0.9, None)}  # p50 and p99, by the number of views
DEMO_S = 1.0
SWAP_S = 15.0  # from `apply` until the edited view of the demo answers


def freshness(sizes: Sizes, progress: Progress) -> list[Figure]:
    """Seconds from the intended time of a post until every view has its events, at a constant rate."""
    figures = []
    for count in sizes.fresh_views:
        name = f"freshness at {sizes.flow:,} events/s, {count} view{'s' if count > 1 else ''}"
        progress.tell(name)
        fresh_s = progress.keep(name, partial(_measure, count, sizes))
        p50, p99 = LIMITS_S.get(count, (None, None))
        figures += [of_percentile(name, fresh_s, 0.5, "s", p50), of_percentile(name, fresh_s, 0.99, "s", p99)]
    return figures


def demo(sizes: Sizes, progress: Progress) -> list[Figure]:
    """What `headrace demo` measures itself: six views, and one of them is edited meanwhile."""
    progress.tell("the demo")
    out = StringIO()
    if run(Console(file=out, width=1000), seconds=sizes.demo_s, json=True):
        raise HeadraceError(f"the demo failed: {out.getvalue()}")
    result = json.loads(out.getvalue())
    fresh, edit = result["freshness_ms"], result["edit"]
    spread = f"{fresh['max'] / 1000:.2f} s at most, {result['events']:,} events"
    estimate = f"estimated by the plan: {edit['estimated_s']:.1f} s, {edit['events_read']:,} events"
    return [
        Figure("freshness of the demo, median", fresh["p50"] / 1000, "s", spread, DEMO_S, False),
        Figure("an edited view of the demo, until it answers", edit["served_after_s"], "s", estimate, SWAP_S, False),
    ]


def _measure(count: int, sizes: Sizes) -> list[float]:
    bodies = arrays(min(100_000, int(sizes.flow * sizes.seconds)), PER_POST)
    with start_empty_server(STREAM + views(count)) as server:
        send_at_rate(server.url, bodies, sizes.flow, sizes.warm_s)  # while Java compiles
        return send_at_rate(server.url, bodies, sizes.flow, sizes.seconds)


def send_at_rate(url: str, bodies: list[bytes], flow: int, seconds: float) -> list[float]:
    """Seconds from the intended time of each post until every view has it: a delay of the sender counts too."""
    fresh_s: list[float] = []
    acknowledged: queue.SimpleQueue[tuple[str, float] | None] = queue.SimpleQueue()

    def act(role: int) -> None:
        connection = Connection(url)
        if role == 0:
            try:
                for number, due in at_rate(flow / PER_POST, seconds):
                    body = bodies[number % len(bodies)]
                    acknowledged.put((connection.post("/v1/streams/visits/events", body)["token"], due))
            finally:
                acknowledged.put(None)
        else:
            # Tokens complete in the order of their posts, so waiting for one after the other is exact.
            while post := acknowledged.get():
                connection.wait_for_token(post[0])
                fresh_s.append(time.monotonic() - post[1])

    in_threads(2, act)
    return fresh_s
