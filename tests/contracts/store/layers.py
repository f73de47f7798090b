"""Fills a store as the two layers do, by the methods of the protocol alone."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path

from headrace.define.model import View
from headrace.store.partial_columns import EVENTS
from headrace.store.selection import Selection
from headrace.store.step_changes import Changes
from headrace.store.store_contract import Audit, Comparison, Step, Store, StoreReader
from headrace.store.version import Point, Version
from headrace.transport.position import Position
from tests.unit.store.partial_files import Event, make_view, write_partials

VIEW = make_view("traffic")
TOTAL = Selection(by=(), bucket_ms=None)


def step(start: int, end: int) -> Step:
    return Step("events", start, end, position=Position.at(end * 10), newest_us=end * 60_000_000, at_us=end)


def point(commit: int) -> Point:
    return Point(commit, Position.at(commit * 10), commit * 60_000_000 or None)


def versions(store: Store) -> list[Version]:
    with store.snapshot() as snapshot:
        return snapshot.versions()


def states(store: Store) -> list[tuple[int, str]]:
    return [(version.number, version.state) for version in versions(store)]


def serving(store: StoreReader, view: str = "traffic") -> Version:
    with store.snapshot() as snapshot:
        version = snapshot.serving(view)
    assert version is not None
    return version


def find(store: Store, version: Version) -> Version:
    """The version as it is now."""
    return next(each for each in versions(store) if each.id == version.id)


def counted(store: StoreReader, version: Version) -> int:
    """How many events are in all rows of a version of VIEW; reads every one of them."""
    with store.snapshot() as snapshot:
        return sum(snapshot.fold(version, Selection(by=("k0",), bucket_ms=60_000))[EVENTS].to_pylist())


def write(folder: Path, view: View, events: Iterable[Event]) -> Path:
    """A file of partials."""
    return Path(write_partials(folder / f"{secrets.token_hex(4)}.parquet", view, events))


def merge(store: Store, folder: Path, version: Version, events: Iterable[Event]) -> Changes:
    """The next commit of a version, by the speed layer."""
    at = find(store, version).bases[0].applied_to
    return store.apply(step(at, at + 1), {version.id: [str(write(folder, version.view, events))]})


def build(
    store: Store, folder: Path, commits: Sequence[Iterable[Event]], view: View = VIEW, fingerprint: str = "a"
) -> Version:
    """A new version whose commits up to the horizon are in a batch table: it is ready."""
    version = store.register(view, fingerprint, {"events": 5}, {"events": point(len(commits))})
    files = [write(folder, view, events) for events in commits]
    store.build(view.name, version.number, "events", len(commits))
    store.fill(view.name, version.number, "events", store.make_batch_table(version, (0, len(commits)), files))
    return find(store, version)


def audit(version: Version, comparison: Comparison = Comparison(0, 0, ()), at_us: int = 1) -> Audit:  # noqa: B008
    assert version.bases[0].next_horizon is not None
    rest = (at_us, 1, comparison.events, comparison.rows, comparison.drift)
    return Audit(*version.id, "events", version.bases[0].horizon, version.bases[0].next_horizon, *rest)


def end_beat(store: Store, folder: Path, begun: Version, events: Iterable[Event], *, merged: bool = False) -> Version:
    """End a beat onto a table of these events beside the earlier ones, or merged with them."""
    assert begun.bases[0].next_horizon is not None
    earlier = begun.batch if merged else ()
    commits = (earlier[0].from_commit if earlier else begun.bases[0].horizon, begun.bases[0].next_horizon)
    table = store.make_batch_table(begun, commits, [write(folder, begun.view, events)], earlier)
    store.end_beat(begun, [table] if merged else [*begun.batch, table], audit(begun))
    return find(store, begun)
