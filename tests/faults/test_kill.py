"""kill -9 at every named point: what was acknowledged is in every view exactly once, and answers never fail.

`make test-faults` lets servers die 25 times at each point: each seed is another order of points, other events and
other work under way. `make test` lets them die once, and at one of a kind where tests without Spark kill, too.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.faults import POINTS, VARIABLE
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.transport.journal.journal import Journal
from tests.contracts.store.layers import VIEW, counted, serving
from tests.unit.store.partial_files import simple_event, write_partials

from ..transports import SERVERS
from ..warm import Java
from .scene import IN_WORKERS, Scene
from .seeds import MANY, POINT_PREFIXES, SEEDS
from .tally import Tally

IN_JOURNAL = ("journal.before_write", "journal.before_fsync", "journal.after_fsync")
IN_KAFKA = ("kafka.before_produce", "kafka.after_produce")  # of a stream whose events are there
IN_STORE = ("store.before_merge", "store.before_commit", "store.after_commit")
OF_SINKS = "sink."  # these workspaces have none; tests of sinks kill there
A_DAY_LATER = "upkeep.before_reclaim"  # no server of a test runs that long; tests/unit/lake/test_upkeep.py kills there
# Otherwise tests without Spark cover them: those below, of a version's life, of edits, of upkeep and of replays.
ONLY_WITH_MANY = (
    "journal.before_write",
    "journal.before_fsync",
    "store.before_merge",
    "store.after_commit",
    "edit.after_catalog",
    "edit.after_commit",
    "compact.after_commit",
    "upkeep.before_delete",
    "replay.after_commit",
    "load.before_rename",
    "fill.before_commit",
    "swap.before_commit",
    "beat.before_begin",
    "beat.after_begin",
    "beat.after_end",
    "retire.after_drop",
)
KILLED = -9


def points_of(seed: int) -> list[str]:
    """The points to test, in an order that depends on the seed."""
    excluded = (A_DAY_LATER,) if MANY else (A_DAY_LATER, *ONLY_WITH_MANY)
    excluded += () if SERVERS else IN_KAFKA
    present = [point for point in POINTS if point not in excluded and not point.startswith(OF_SINKS)]
    points = [point for point in present if point.startswith(POINT_PREFIXES or ("",))]
    random.Random(seed).shuffle(points)
    return points


@pytest.mark.timeout(3600)  # some five minutes for all points, three times as long on a busy machine
@pytest.mark.parametrize("seed", SEEDS)
def test_servers_killed_at_every_point(java: Java, tmp_path: Path, tally: Tally, seed: int) -> None:
    """Each dies at one point; the next finds what it left, and must be right before it dies at another."""
    points = points_of(seed)
    scene = Scene(java, tmp_path, seed, tally)
    for number, point in enumerate(points, 1):
        began_s = time.monotonic()
        if point in IN_WORKERS:
            scene.workers_die(point)
        else:
            scene.die_at(point)
        took_s = time.monotonic() - began_s
        tally.say(f"seed {seed}: {number} of {len(points)}, {point}, {took_s:.1f} s")
    scene.end()
    tally.say(f"seed {seed}: all is there, once")


WRITE_JOURNAL = """
import sys
from pathlib import Path
from headrace.transport.journal.journal import Journal
journal = Journal(Path(sys.argv[1]), fence=int(sys.argv[2]))
for number in range(10):
    key = f"{sys.argv[2]}-{number}"
    if journal.recall(key) is None:
        end = journal.submit(b'{"a":1}\\n' * 9, 9, [], key=key).result().end
        print(end.offset(), file=open(sys.argv[3], "a"), flush=True)
journal.close()
"""


@pytest.mark.parametrize("point", IN_JOURNAL)
def test_a_writer_of_the_journal_killed(tmp_path: Path, run_python: Callable[..., None], point: str) -> None:
    """What was acknowledged is there; what was not is there whole or not at all."""
    output, folder = tmp_path / "output", tmp_path / "journal"
    run_python(WRITE_JOURNAL, str(folder), "1", str(output), code=KILLED, **{VARIABLE: f"{point}:4"})
    acknowledged = [int(line) for line in output.read_text().split()]
    assert len(acknowledged) == 3
    journal = Journal(folder, fence=2)
    receipts = [journal.recall(f"1-{number}") for number in range(5)]
    assert [receipt.end.offset() for receipt in receipts[:3] if receipt] == acknowledged
    assert journal.end.offset() == (acknowledged[-1] if receipts[3] is None else receipts[3].end.offset())
    assert receipts[4] is None
    journal.close()


MERGE = """
import sys
from headrace.store.duckdb.duckdb_store import DuckStore
from tests.contracts.store.layers import VIEW, serving, step
store = DuckStore.open(sys.argv[1], fence=1)
store.register(VIEW, "a", {"events": 5})
while (at := serving(store).bases[0].applied_to) < 5:
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
    assert version.bases[0].applied_to == (3 if point == "store.after_commit" else 2)
    assert counted(store, version) == version.bases[0].applied_to * 100
    store.close()
