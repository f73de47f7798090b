"""An edit takes the cheapest way to its rows, whatever the store holds, and repeating it changes nothing."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.define.catalog import Catalog, parse
from headrace.errors import ConflictError, NotFoundError
from headrace.faults import VARIABLE
from headrace.lake.delta_table import LakeState
from headrace.plan.cost import Costs, Size
from headrace.plan.edits import choose_way
from headrace.plan.rollback import RollbackPlan, plan_rollback
from headrace.server.reconcile import reconcile_views
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Step
from headrace.store.version import BatchTable, Point, Version
from headrace.transport.position import Position
from tests import wording

STREAM = "CREATE STREAM s (id BIGINT, kind STRING, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT kind, count(*) AS n, sum(id) AS total FROM s GROUP BY kind;"
RENAMED = VIEW.replace("AS n", "AS hits")
GROWN = VIEW.replace("AS total", "AS total, max(id) AS most")
OTHER = VIEW.replace("FROM s", "FROM s WHERE id > 1")
AT = (5, Position.at(50), None)
LAKE = LakeState(*AT)
COSTS = Costs(lambda stream: Size(1_000_000, 10))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckStore]:
    opened = DuckStore.open(tmp_path / "store", fence=1)
    yield opened
    opened.close()


def catalog(view: str, stream: str = STREAM) -> Catalog:
    return parse(stream + view)


def edit(store: DuckStore, view: str, stream: str = STREAM, lake: LakeState = LAKE) -> list[tuple[int, str]]:
    reconcile_views(store, catalog(view, stream), {"s": lake})
    found = states(store)
    reconcile_views(store, catalog(view, stream), {"s": lake})
    assert states(store) == found, "to repeat it changes nothing"
    return found


def states(store: DuckStore) -> list[tuple[int, str]]:
    return [(version.number, version.state) for version in versions(store)]


def versions(store: DuckStore) -> list[Version]:
    with store.snapshot() as snapshot:
        return snapshot.versions()


def build(store: DuckStore, number: int) -> None:
    """As the batch layer does it."""
    store.build("v", number, "s", 0)
    store.fill("v", number, "s", BatchTable(f"{number}.duckdb", 0, LAKE.next_commit, 1, 1))
    store.promote("v", number)


@pytest.fixture
def served(store: DuckStore) -> DuckStore:
    """The view as version 1, which has its rows."""
    assert edit(store, VIEW) == [(1, "registered")]
    build(store, 1)
    return store


def test_over_no_events_every_edit_serves_at_once(store: DuckStore) -> None:
    nothing = LakeState(0, Position.at(0), None)
    assert edit(store, VIEW, lake=nothing) == [(1, "serving")]
    assert edit(store, GROWN, lake=nothing) == [(1, "retired"), (2, "serving")]


def test_a_free_edit_takes_the_rows_over(served: DuckStore) -> None:
    (before,) = versions(served)
    assert edit(served, RENAMED) == [(1, "retired"), (2, "serving")]
    old, new = versions(served)
    assert (new.home, new.batch, new.bases[0].applied_to) == (before.home, before.batch, before.bases[0].applied_to)
    assert (old.home, old.complete, new.complete) == (None, False, True)
    assert [column.name for column in new.view.columns] == ["hits", "total"]


def test_patience_is_a_free_edit(served: DuckStore) -> None:
    assert edit(served, VIEW, STREAM.replace("1 MINUTE", "1 HOUR")) == [(1, "retired"), (2, "serving")]
    assert [(v.patience_ms["s"], v.bases[0].patience_from) for v in versions(served)] == [(60_000, 0), (3_600_000, 5)]


def test_an_edit_that_needs_rows_is_built_beside_what_serves(served: DuckStore) -> None:
    assert edit(served, GROWN) == [(1, "serving"), (2, "registered")]
    assert edit(served, OTHER) == [(1, "serving"), (3, "registered")], "a newer edit takes its place"
    build(served, 3)
    assert states(served) == [(1, "retired"), (3, "serving")]


def test_an_edit_back_ends_the_build(served: DuckStore) -> None:
    edit(served, GROWN)
    assert choose(served, VIEW) == ("stop", 2)
    assert edit(served, VIEW) == [(1, "serving")]


def test_a_free_edit_of_what_serves_ends_the_build(served: DuckStore) -> None:
    edit(served, GROWN)
    assert edit(served, RENAMED) == [(1, "retired"), (3, "serving")]


def test_a_free_edit_of_what_is_built_goes_on_with_the_build(served: DuckStore) -> None:
    edit(served, GROWN)
    served.build("v", 2, "s", 3)
    assert edit(served, GROWN.replace("AS most", "AS largest")) == [(1, "serving"), (3, "building")]
    new = versions(served)[1]
    assert (new.home, new.bases[0].built_to) == (2, 3)


def test_applying_an_earlier_definition_reuses_its_kept_rows(served: DuckStore) -> None:
    edit(served, OTHER)
    build(served, 2)
    assert choose(served, GROWN) == ("build", None)
    assert edit(served, VIEW) == [(1, "ready"), (2, "serving")]
    served.promote("v", 1)
    assert choose(served, OTHER) == ("revive", 2)


def test_a_kept_version_is_taken_over_with_the_patience_of_today(served: DuckStore) -> None:
    edit(served, OTHER)
    build(served, 2)
    assert edit(served, VIEW, STREAM.replace("1 MINUTE", "1 HOUR")) == [(2, "serving"), (3, "ready")]
    assert (versions(served)[1].home, versions(served)[1].patience_ms) == (1, {"s": 3_600_000})


def test_an_edit_chooses_again_if_the_swap_comes_between(served: DuckStore, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(served, GROWN)
    forget = served.forget

    def forget_after_the_swap(view: str, number: int) -> None:
        build(served, number)
        served.promote(view, number)
        forget(view, number)

    monkeypatch.setattr(served, "forget", forget_after_the_swap)
    edit(served, VIEW)
    assert [version.view for version in versions(served) if version.live] == [catalog(VIEW).views["v"]]


def test_a_step_that_was_computed_before_an_edit_is_not_merged(served: DuckStore) -> None:
    edit(served, RENAMED)
    with wording.raises(ConflictError, 1):
        served.apply(Step("s", 5, 6, Position.at(60), None, 1), {("v", 1): []})
    served.apply(Step("s", 5, 6, Position.at(60), None, 1), {("v", 2): []})


def test_an_edit_that_failed_on_the_way_is_done_when_it_is_repeated(
    served: DuckStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for point in ("edit.before_commit", "edit.after_commit"):
        monkeypatch.setenv(VARIABLE, f"{point}=EIO")
        with pytest.raises(OSError, match=point) as failed:
            reconcile_views(served, catalog(RENAMED), {"s": LAKE})
        assert failed.value.errno == errno.EIO
        monkeypatch.delenv(VARIABLE)
    assert edit(served, RENAMED) == [(1, "retired"), (2, "serving")]


def choose(store: DuckStore, view: str) -> tuple[str, int | None] | None:
    way = choose_way(versions(store), catalog(view).views["v"], {"s": 60_000})
    return way and (way.kind, way.number)


# Going back


def rollback(store: DuckStore, number: int | None = None, stream: str = STREAM) -> RollbackPlan:
    return plan_rollback(versions(store), catalog(VIEW, stream), "v", number, COSTS)


def test_by_default_back_to_the_version_before(served: DuckStore) -> None:
    edit(served, GROWN)
    build(served, 2)
    assert rollback(served).step.as_dict() == {
        "view": "v",
        "from": 2,
        "to": 1,
        "how": "free",
        "reason": "free: version 1 has this definition and still has its rows; it catches up and then serves",
        "details": ["column removed: max(id) AS most"],
        "cost": None,
    }


def test_back_from_a_free_edit_is_a_free_edit(served: DuckStore) -> None:
    edit(served, RENAMED)
    found = rollback(served)
    assert (found.to.number, found.way.kind, found.change.how) == (1, "adopt", "free")
    assert found.change.details == ("column renamed: count(*) AS hits → n",)


def test_back_to_rows_that_are_gone_is_a_build(served: DuckStore) -> None:
    edit(served, RENAMED)
    edit(served, OTHER)
    build(served, 3)
    found = rollback(served, 1).step.as_dict()
    assert (found["how"], found["cost"]["events"]) == ("build", 1_000_000)
    wording.check(found["reason"], "1,000,000", 6)


def test_back_while_a_build_runs_is_to_end_it(served: DuckStore) -> None:
    edit(served, GROWN)
    found = rollback(served)
    assert (found.to.number, found.way.kind) == (1, "stop")
    with wording.raises(ConflictError, 2):
        rollback(served, 2)


def test_back_to_the_same_definition_built_anew(served: DuckStore) -> None:
    view = catalog(VIEW).views["v"]
    version = versions(served)[0]
    served.register(view, version.fingerprint, version.patience_ms, {"s": Point(*AT)})
    build(served, 2)
    assert rollback(served).way.kind == "revive"


def test_nothing_to_go_back_to(store: DuckStore) -> None:
    edit(store, VIEW)
    with wording.raises(ConflictError, "v"):
        rollback(store)
    build(store, 1)
    with wording.raises(ConflictError, 1):
        rollback(store)
    with wording.raises(NotFoundError, 7, 1, "headrace versions v"):
        rollback(store, 7)
    with wording.raises(ConflictError, 1):
        rollback(store, 1)


def test_a_version_that_read_another_type_is_not_gone_back_to(served: DuckStore) -> None:
    edit(served, OTHER)
    build(served, 2)
    with wording.raises(ConflictError, "id", "DOUBLE", "s", "BIGINT"):
        rollback(served, stream=STREAM.replace("BIGINT", "DOUBLE"))
