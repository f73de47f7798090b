"""kill -9 at named and random points: what was acknowledged is in every view exactly once."""

from __future__ import annotations

import random
import time
from pathlib import Path

from headrace.faults import POINTS, VARIABLE

from ..server import UpServer
from .clicks import Clicks

# This one kills a Spark worker, not the server: it goes on by itself.
WORKER = "append.in_worker"
# Points that no click reaches: test_replay.py, tests/unit/lake/test_upkeep.py.
ELSEWHERE = ("replay.", "compact.", "upkeep.")


def test_killed_at_every_named_point(workspace: Path) -> None:
    """Each process dies at one point; the next takes over what it left."""
    clicks = Clicks()
    for point in [point for point in POINTS if point != WORKER and not point.startswith(ELSEWHERE)]:
        server = UpServer(workspace, **{VARIABLE: point}).wait_for_http()
        deadline = time.monotonic() + 120
        while server.process.poll() is None:
            assert time.monotonic() < deadline, f"{point} was never reached: {server.said()}"
            clicks.post(server)
            time.sleep(0.05)
        assert server.process.returncode == -9, (point, server.said())
    server = UpServer(workspace).wait_until_ready()
    while not clicks.post(server):
        time.sleep(0.05)
    for post in (0, clicks.posts // 2, clicks.posts - 1):
        clicks.repeat(server, post)
    clicks.check(server)
    assert server.stop() == 0


def test_killed_at_random_moments(workspace: Path) -> None:
    """Kills while events flow; once also Spark's own workers die again and again."""
    clicks = Clicks()
    chance = random.Random(5)
    for variables in ({}, {VARIABLE: f"{WORKER}:3"}):
        server = UpServer(workspace, **variables).wait_until_ready()
        start, wanted = clicks.posts, chance.randint(10, 60)
        while clicks.posts < start + wanted:
            assert clicks.post(server), server.said()
        time.sleep(chance.uniform(0, 1.5))  # what it does when it dies is left to chance
        server.kill()
    server = UpServer(workspace).wait_until_ready()
    while not clicks.post(server):
        time.sleep(0.05)
    clicks.check(server)
    assert server.stop() == 0
