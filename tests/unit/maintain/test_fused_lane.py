"""Which lane updates a version, and why: with a real lake and store, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint
from headrace.lake.delta_table import LakeTable
from headrace.maintain import fused_lane as module
from headrace.maintain.fused_lane import RETRY_S, Fused
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.version import Point, Version
from headrace.transport.position import Position
from tests import wording

CATALOG = parse("""
CREATE STREAM visits (page STRING, bytes INT);
CREATE MATERIALIZED VIEW quick AS SELECT page, count(*) AS n FROM visits GROUP BY page;
CREATE MATERIALIZED VIEW slow AS SELECT count(*) AS n FROM visits WHERE page ILIKE 'a%';
""")
STREAM = CATALOG.streams["visits"]
ONLY_SPARK = "WHERE: only Spark computes page ILIKE 'a%'"


class Lane:
    """A fused lane over an empty lake and a store with both views."""

    def __init__(self, folder: Path) -> None:
        self.now = 1000.0
        self.suspects: set[str] = set()
        self.table = LakeTable(folder / "lake", STREAM, fence=1)
        self.store = DuckStore.open(folder / "views.duckdb", 1)
        for view in CATALOG.views.values():
            self.store.register(view, fingerprint(view), CATALOG.patience_ms(view))
        self.fused = Fused(
            "visits",
            self.table,
            self.store,
            folder,
            is_suspect=lambda version: version.view.name in self.suspects,
            now=lambda: self.now,
        )

    def versions(self) -> dict[str, Version]:
        with self.store.snapshot() as snapshot:
            return {version.view.name: version for version in snapshot.versions()}

    def reason(self, view: str = "quick") -> str | None:
        version = self.versions()[view]
        return self.fused.lanes(STREAM, [version])[version.id]

    def applied(self, number: int) -> int:
        with self.store.snapshot() as snapshot:
            (version,) = [each for each in snapshot.versions() if each.id == ("quick", number)]
        return version.bases[0].applied_to

    def commit(self, **part: Any) -> None:
        """A commit whose workers returned this part for the view `quick`."""
        state = self.table.state
        lifting = self.fused.plan(STREAM, state, {})
        assert lifting is not None
        self.fused.offer(state.next_commit, [orjson.dumps([{"home": ["quick", 1], **part}]).decode()])
        self.table.commit(state, Position.at(state.next_commit + 1), None, [])


@pytest.fixture
def lane(tmp_path: Path) -> Any:
    lane = Lane(tmp_path)
    yield lane
    lane.store.close()


def test_a_definition_that_only_spark_computes_is_a_reason(lane: Lane) -> None:
    versions = lane.versions().values()
    assert lane.fused.lanes(STREAM, versions) == {("quick", 1): None, ("slow", 1): ONLY_SPARK}
    lifting = lane.fused.plan(STREAM, lane.table.state, {})
    assert lifting is not None
    assert [view.home for view in lifting.views] == [("quick", 1)]


def test_a_failure_of_duckdb_is_a_reason_until_it_is_tried_again(lane: Lane) -> None:
    lane.commit(error="Out of Memory Error: too much")
    wording.check(lane.reason(), 60)
    assert lane.fused.plan(STREAM, lane.table.state, {}) is None
    lane.now += RETRY_S
    assert lane.reason() is None
    assert lane.fused.plan(STREAM, lane.table.state, {}) is not None


def test_failures_of_dropped_views_are_forgotten(lane: Lane) -> None:
    lane.commit(error="broken")
    lane.fused.run_once()
    assert list(lane.fused.failures) == [("quick", 1)]
    lane.store.drop("quick")
    lane.fused.run_once()
    assert not lane.fused.failures


def test_all_versions_of_a_view_use_one_lane(lane: Lane) -> None:
    old = lane.versions()["quick"]
    new = replace(old, number=2, view=replace(CATALOG.views["slow"], name="quick"))
    assert lane.fused.lanes(STREAM, [old, new]) == {
        ("quick", 1): f"version 2 of the view needs Spark: {ONLY_SPARK}",
        ("quick", 2): ONLY_SPARK,
    }
    stalled = replace(new, bases=(replace(new.bases[0], stalled="broken"),))
    assert lane.fused.lanes(STREAM, [old, stalled]) == {("quick", 1): None, ("quick", 2): "it is stalled"}


def test_a_version_that_neither_lane_updates_has_no_lane(lane: Lane) -> None:
    version = lane.versions()["quick"]
    quarantined = replace(version, bases=(replace(version.bases[0], stalled="broken", quarantined=True),))
    assert lane.fused.lanes(STREAM, [quarantined]) == {}
    changed = parse("CREATE STREAM visits (page BIGINT, bytes INT);").streams["visits"]
    assert lane.fused.lanes(changed, [version]) == {}


def test_other_reasons(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    lane.suspects.add("quick")
    wording.check(lane.reason())
    lane.suspects.clear()
    assert lane.fused.plan(STREAM, lane.table.state, {}) is not None
    lane.fused.withdraw(0)
    wording.check(lane.reason(), 60)
    lane.now += RETRY_S
    assert lane.reason() is None
    monkeypatch.setattr(module, "MOST_COMMITS", 1)
    lane.commit()
    wording.check(lane.reason())
    lane.fused.withdraw(0)
    lane.commit()
    lane.fused.withdraw(1)
    wording.check(lane.reason(), 2)


def test_partials_of_a_version_that_is_being_built_are_kept_until_it_is_whole(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_COMMITS", 2)
    nothing = {"home": ["dropped", 1]}  # so that the partials of both versions are empty
    lane.commit(**nothing)
    view = parse("""
        CREATE STREAM visits (page STRING, bytes INT);
        CREATE MATERIALIZED VIEW quick AS SELECT page, sum(bytes) AS n FROM visits GROUP BY page;
        """).views["quick"]
    version = lane.store.register(view, "other", CATALOG.patience_ms(view), {"visits": Point(1, Position.at(1), None)})
    assert (version.state, version.moves) == ("registered", False)
    for _ in range(3):
        lane.commit(**nothing)
        lane.fused.run_once()
    assert lane.fused.next_commit(version, 1) == 1
    assert (lane.applied(1), lane.applied(2)) == (4, 1), "it waits for its build, and nobody waits for it"
    lane.store.build("quick", 2, "visits", 1)
    lane.store.fill("quick", 2, "visits", lane.store.make_batch_table(version, (0, 1), []))
    while lane.fused.run_once():
        pass
    assert lane.applied(2) == 4
    assert not lane.fused._commits, "nobody needs them any more"


def test_a_version_that_fails_while_it_is_built_is_not_computed_again_until_then(lane: Lane) -> None:
    lane.commit()
    view = CATALOG.views["quick"]
    lane.store.register(view, "other", CATALOG.patience_ms(view), {"visits": Point(1, Position.at(1), None)})
    lane.commit(home=["quick", 2], error="it hangs")
    lane.now += 10 * RETRY_S
    lifting = lane.fused.plan(STREAM, lane.table.state, {})
    assert lifting is not None
    assert [view.home for view in lifting.views] == [("quick", 1)], "the one that serves is"
