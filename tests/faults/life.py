"""A version's whole life in the store, without Spark: merges, beats, a build, the swap, the old one's end.

Run as a process that forks one life after the other. Each dies at a named point; the next finds what it left, and goes
on from what the store says, to the same end.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from headrace.faults import VARIABLE
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Audit
from headrace.store.version import BatchTable, Point, Version
from headrace.transport.position import Position
from tests.contracts.store.layers import VIEW, counted, step

COMMITS = 6
KILLED = -9
EVENTS = 10  # of each commit: they are all the same


def versions(store: DuckStore) -> list[Version]:
    with store.snapshot() as snapshot:
        return snapshot.versions()


def make(
    store: DuckStore, version: Version, file: str, start: int, end: int, earlier: tuple[BatchTable, ...]
) -> BatchTable:
    """A batch table of these commits, and of earlier tables."""
    commits = (earlier[0].from_commit if earlier else start, end)
    return store.make_batch_table(version, commits, [Path(file)] * (end - start), earlier)


def live(store: DuckStore, file: str) -> None:
    """From the current state to the end: one version that serves, all in batch tables."""
    while True:
        all_versions = versions(store)
        if not all_versions:
            store.register(VIEW, "a", {"events": 5})
            continue
        version = next(v for v in all_versions if v.serving)
        behind = [v for v in all_versions if v.moves and v.bases[0].applied_to < COMMITS]
        other = next((v for v in all_versions if v is not version), None)
        if version.bases[0].next_horizon is not None:
            end_beat(store, version, file)
        elif version.bases[0].applied_to in (2, 4) and version.bases[0].horizon < version.bases[0].applied_to:
            store.begin_beat("traffic", version.number, "events")
        elif version.bases[0].applied_to == 3 and version.number == 1 and other is None:
            store.register(VIEW, "b", {"events": 5}, {"events": Point(3, Position.at(30), None)})
        elif other and other.state in ("registered", "building"):
            store.build("traffic", other.number, "events", 3)
            store.fill("traffic", other.number, "events", make(store, other, file, 0, 3, ()))
        elif other and other.state == "ready":
            store.promote("traffic", other.number)
        elif behind:
            at = min(v.bases[0].applied_to for v in behind)
            moving = [v for v in behind if v.bases[0].applied_to == at]
            store.apply(step(at, at + 1), {("traffic", v.number): [file] for v in moving})
        elif other:
            store.forget("traffic", other.number)
        else:
            return


def end_beat(store: DuckStore, version: Version, file: str) -> None:
    assert version.bases[0].next_horizon is not None
    start, end = version.bases[0].horizon, version.bases[0].next_horizon
    table = make(store, version, file, start, end, version.batch)
    store.end_beat(version, [table], Audit("traffic", version.number, "events", start, end, 0, 0, 0, 0))


def is_right(store: DuckStore) -> None:
    """Every version that can answer has each commit that it says it has, once."""
    all_versions = versions(store)
    assert not all_versions or [v for v in all_versions if v.serving], "no version serves"
    for version in all_versions:
        assert not version.complete or counted(store, version) == version.bases[0].applied_to * EVENTS, version


def go_on(store: DuckStore, file: str) -> None:
    """The state must be right at the start, and at the end."""
    is_right(store)
    live(store, file)
    (version,) = versions(store)
    assert (version.number, version.bases[0].applied_to, version.bases[0].horizon) == (2, COMMITS, 4), version
    is_right(store)


def apart(path: Path, fence: int, work: Callable[[DuckStore], None], fault: str = "") -> int:
    """Run it in a child process; returns its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.environ[VARIABLE] = fault
    try:
        work(DuckStore.open(path, fence))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main(folder: Path, file: str, faults: list[str]) -> None:
    """A store for each death."""
    fence = 0
    for fault in faults:
        path = folder / fault.replace(":", "-") / "store"
        path.parent.mkdir()
        fence += 2
        code = apart(path, fence, lambda store: live(store, file), fault)
        assert code == KILLED, (fault, code)
        assert apart(path, fence + 1, lambda store: go_on(store, file)) == 0, fault


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
