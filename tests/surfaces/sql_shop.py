"""A workspace whose view has known rows, without Spark: partials are written directly to the store."""

from __future__ import annotations

from pathlib import Path

from headrace.server.runtime import Runtime
from headrace.store.store_contract import Step
from headrace.transport.position import Position
from headrace.workspace.settings import Workspace
from tests.unit.store.partial_files import Event, write_partials

NOON_MS = 1_772_366_400_000  # 1 March 2026, 12:00 UTC
MINUTE_MS = 60_000
NEWEST_US = (NOON_MS + 10 * MINUTE_MS) * 1000


def visit_of(page: str | None, minute: int, visitor: str = "ann", size: int = 100) -> Event:
    """A visit as the store's tests write it."""
    values = {"STRING": visitor, "INT": 200, "BIGINT": size}
    return Event((page,), NOON_MS + minute * MINUTE_MS, values)


VISITS = [
    visit_of("/home", 0),
    visit_of("/home", 0, "bob", 50),
    visit_of("/home", 1),
    visit_of("/cart", 1, "bob", 7),
    visit_of(None, 9),
]


def fill(runtime: Runtime, folder: Path, view: str = "traffic", visits: list[Event] = VISITS) -> None:
    """Put the visits into a view, as one commit."""
    with runtime._store.snapshot() as snapshot:
        version = snapshot.serving(view)
        assert version is not None
    file = write_partials(folder / f"{view}.parquet", version.view, visits)
    step = Step("visits", version.bases[0].applied_to, version.bases[0].applied_to + 1, Position.at(1), NEWEST_US, 0)
    runtime._store.apply(step, {(view, version.number): [file]})


def fill_stopped(folder: Path, *views: str) -> None:
    """The same in a workspace that no server holds afterwards."""
    runtime = Runtime.open(Workspace.open(folder), "http://127.0.0.1")
    try:
        lake = runtime.lookup.pipelines["visits"].table
        # A view that is ahead of its lake would be dropped at the next start.
        lake.commit(lake.state, Position.at(1), NEWEST_US, [])
        for view in views or ("traffic",):
            fill(runtime, folder, view)
    finally:
        runtime.stop()
