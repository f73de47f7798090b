"""kill -9 at named and random points: what was acknowledged is in every view exactly once.

`make test` lets a process of each layer die at each point; `make test-faults` lets a whole server die at each,
HEADRACE_FAULT_SEEDS times.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.faults import POINTS, VARIABLE
from headrace.store.duckdb import DuckStore
from headrace.transport.journal import Journal
from tests.unit.store.partial_files import simple_event, write_partials
from tests.unit.store.test_duckdb import VIEW, counted, serving

from ..server import UpServer
from .clicks import Clicks

IN_JOURNAL = ("journal.before_write", "journal.before_fsync", "journal.after_fsync")
IN_STORE = ("store.before_merge", "store.before_commit", "store.after_commit")
IN_SPARK = ("append.before_commit", "append.after_commit", "maintain.before_partials", "maintain.after_partials")
WORKER = "append.in_worker"  # this one kills a Spark worker, not the server: it goes on by itself
ELSEWHERE = ("load.", "replay.", "compact.", "upkeep.")  # points that no click reaches have tests of their own
SEEDS = int(os.environ.get("HEADRACE_FAULT_SEEDS", "0"))
KILLED = -9


def test_every_point_is_tried() -> None:
    here = {*IN_JOURNAL, *IN_STORE, *IN_SPARK, WORKER}
    assert here == {point for point in POINTS if not point.startswith(ELSEWHERE)}


def die_at(workspace: Path, point: str, clicks: Clicks) -> None:
    """A server that dies when it reaches the point."""
    server = UpServer(workspace, **{VARIABLE: point}).wait_for_http()
    deadline = time.monotonic() + 120
    while server.process.poll() is None:
        assert time.monotonic() < deadline, f"{point} was never reached: {server.said()}"
        clicks.post(server)
        time.sleep(0.05)
    assert server.process.returncode == KILLED, (point, server.said())


def die_at_random(workspace: Path, clicks: Clicks, chance: random.Random) -> None:
    """A server that dies while events flow and its workers die again and again."""
    server = UpServer(workspace, **{VARIABLE: f"{WORKER}:3"}).wait_until_ready()
    start, wanted = clicks.posts, chance.randint(10, 60)
    while clicks.posts < start + wanted:
        assert clicks.post(server), server.said()
    time.sleep(chance.uniform(0, 1.5))  # what it does when it dies is left to chance
    server.kill()


def check_all(workspace: Path, clicks: Clicks) -> None:
    """A last server has all of it, and takes nothing twice."""
    server = UpServer(workspace).wait_until_ready()
    while not clicks.post(server):
        time.sleep(0.05)
    for post in (0, clicks.posts // 2, clicks.posts - 1):
        clicks.repeat(server, post)
    clicks.check(server)
    assert server.stop() == 0


def test_a_server_killed_in_spark_and_at_random(workspace: Path) -> None:
    """Each process dies at one point; the next takes over what it left."""
    clicks = Clicks()
    for point in IN_SPARK:
        die_at(workspace, point, clicks)
    die_at_random(workspace, clicks, random.Random(5))
    check_all(workspace, clicks)


@pytest.mark.skipif(not SEEDS, reason="the whole matrix: make test-faults")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_server_killed_everywhere(workspace: Path, seed: int) -> None:
    clicks, chance = Clicks(), random.Random(seed)
    points = [*IN_JOURNAL, *IN_SPARK, *IN_STORE]
    chance.shuffle(points)
    for point in points:
        die_at(workspace, f"{point}:{chance.randint(1, 3)}", clicks)
        if chance.random() < 0.3:
            die_at_random(workspace, clicks, chance)
    check_all(workspace, clicks)


WRITE_JOURNAL = """
import sys
from pathlib import Path
from headrace.transport.journal import Journal
journal = Journal(Path(sys.argv[1]), fence=int(sys.argv[2]))
for number in range(10):
    key = f"{sys.argv[2]}-{number}"
    if journal.recall(key) is None:
        end = journal.submit(b'{"a":1}\\n' * 9, 9, [], key=key).result().end
        print(end, file=open(sys.argv[3], "a"), flush=True)
journal.close()
"""


@pytest.mark.parametrize("point", IN_JOURNAL)
def test_a_writer_of_the_journal_killed(tmp_path: Path, run_python: Callable[..., None], point: str) -> None:
    """What was acknowledged is there; what was not is there whole or not at all."""
    said, folder = tmp_path / "said", tmp_path / "journal"
    run_python(WRITE_JOURNAL, str(folder), "1", str(said), code=KILLED, **{VARIABLE: f"{point}:4"})
    acknowledged = [int(line) for line in said.read_text().split()]
    assert len(acknowledged) == 3
    journal = Journal(folder, fence=2)
    receipts = [journal.recall(f"1-{number}") for number in range(5)]
    assert [receipt.end for receipt in receipts[:3] if receipt] == acknowledged
    assert journal.end == (acknowledged[-1] if receipts[3] is None else receipts[3].end)
    assert receipts[4] is None
    journal.close()


MERGE = """
import sys
from headrace.store.duckdb import DuckStore
from tests.unit.store.test_duckdb import VIEW, serving, step
store = DuckStore.open(sys.argv[1], fence=1)
store.register(VIEW, "a", 5)
while (at := serving(store).applied_to) < 5:
    store.apply(step(at, at + 1), {("traffic", 1): [sys.argv[2]]})
store.close()
"""


@pytest.mark.parametrize("point", IN_STORE)
def test_a_writer_of_the_store_killed(tmp_path: Path, run_python: Callable[..., None], point: str) -> None:
    """A merge is there with its commit number, or neither is."""
    file = write_partials(tmp_path / "p", VIEW, [simple_event(f"/{i}", 0) for i in range(100)])
    run_python(MERGE, str(tmp_path / "store"), file, code=KILLED, **{VARIABLE: f"{point}:3"})
    store = DuckStore.open(tmp_path / "store", fence=2)
    version = serving(store)
    assert version.applied_to == (3 if point == "store.after_commit" else 2)
    assert counted(store, version) == version.applied_to * 100
    store.close()
