"""Edits at every point of a beat and of a build, on real Spark: the rows that are taken over are the right ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.define.catalog import parse
from headrace.maintain.batch_layer import BatchSizes
from headrace.server.reconcile import reconcile_views
from headrace.store.version import Version
from tests.waiting import wait_until

from .bench import Bench
from .few_events import STREAM, feed

PLAIN = "SELECT name, count(*) AS n, sum(n) AS total, max(n) AS most FROM events GROUP BY name, window(at, '1 minute')"
FREE = [
    PLAIN.replace("AS n,", "AS hits,"),
    PLAIN.replace(", max(n) AS most", ", count(*) AS again"),
    PLAIN.replace("count(*) AS n, ", "").replace(", max(n) AS most", ""),
    PLAIN.replace("count(*) AS n, ", "").replace(", max(n) AS most", "").replace("AS total", "AS s, sum(n) AS total"),
]


@pytest.fixture
def bench(spark: Any, tmp_path: Path) -> Iterator[Bench]:
    opened = Bench(spark, tmp_path, STREAM, sizes=BatchSizes(slice_events=20))  # several slices a build
    yield opened
    opened.close()


def edit(bench: Bench, select: str) -> None:
    catalog = parse(f"{STREAM}; CREATE MATERIALIZED VIEW v AS {select};")
    reconcile_views(bench.store, catalog, {"events": bench.table.state})


def serving(bench: Bench) -> Version:
    with bench.store.snapshot() as snapshot:
        version = snapshot.serving("v")
    assert version is not None
    return version


def total(bench: Bench) -> Any:
    (row,) = bench.answer("v", by="", window="1d", every="1d").rows()
    return row["total"]


def test_free_edits_between_the_steps_of_a_beat(bench: Bench) -> None:
    edit(bench, PLAIN)
    for seed, select in enumerate(FREE[::2]):
        feed(bench, seed, 3)
        bench.maintain()
        before, start = total(bench), serving(bench).number
        bench.batch.refresh("v")
        steps = 0
        while bench.batch.run_once():
            steps += 1
            if steps == 1 + seed % 2:
                edit(bench, select)
                assert total(bench) == before
        now = serving(bench)
        assert (now.number, now.bases[0].horizon, now.alarm) == (start + 1, now.bases[0].applied_to, None)
        assert total(bench) == before
        assert bench.answer("v").events["speed"] == 0


def test_free_edits_between_the_steps_of_a_build(bench: Bench) -> None:
    edit(bench, PLAIN.replace("GROUP BY", "WHERE n < 0 GROUP BY"))
    feed(bench, 1, 12)
    bench.maintain()
    edit(bench, PLAIN)
    edits = iter(FREE)
    while bench.batch.run_once():
        with bench.store.snapshot() as snapshot:
            building = [version for version in snapshot.versions() if version.state == "building"]
        select = next(edits, None) if building else None
        if select:
            edit(bench, select)
    assert next(edits, None) is None, "there was a build for each edit"
    now = serving(bench)
    assert (now.home, now.number) == (2, 2 + len(FREE))
    assert [column.name for column in now.view.columns] == ["s", "total"]
    whole = total(bench)
    edit(bench, PLAIN)  # the dropped column no longer exists: a build, and the same number
    bench.batch.run_once()
    while bench.batch.run_once():
        pass
    assert (serving(bench).home, total(bench)) == (now.number + 1, whole)


def test_an_edit_comes_between_two_steps(spark: Any, tmp_path: Path) -> None:
    """During a step of Spark, it would make the result of that step useless."""
    bench = Bench(spark, tmp_path, STREAM, fused=False)
    edit(bench, PLAIN)
    feed(bench, 1, 2)
    commits: list[int] = []

    def visit() -> None:
        with bench.speed.between_steps():
            commits.append(serving(bench).bases[0].applied_to)

    visitor, stepper = threading.Thread(target=visit), threading.Thread(target=bench.speed.run_once)
    with bench.speed.between_steps():
        visitor.start()
        wait_until(bench.speed._entering.locked)
        stepper.start()  # it is later: the next step waits for the visitor
    visitor.join()
    stepper.join()
    assert (commits, serving(bench).bases[0].applied_to) == ([0], 2)
    bench.close()


@pytest.mark.parametrize("lost", [0, 2, 3])
def test_a_build_catches_up_before_its_version_is_ready(bench: Bench, lost: int) -> None:
    """Commits since the horizon do not delay the speed layer for the serving version.

    The batch layer computes those whose partials are lost, the fused lane merges the others.
    """
    bench.batch._sizes = BatchSizes(slice_events=20, near_events=0)
    edit(bench, PLAIN)
    feed(bench, 1, 2)
    bench.maintain()
    edit(bench, PLAIN.replace("max(n)", "min(n)"))
    feed(bench, 2, 3)
    for commit in range(2, 2 + lost):
        bench.fused.withdraw(commit)
    while (building := coming(bench)).state != "ready":
        assert bench.batch.run_once()
    assert (building.bases[0].horizon, building.bases[0].applied_to) == (2, 2 + lost)
    bench.maintain()
    bench.work()
    assert serving(bench).number == building.number
    assert sum(bench.answer("v").events.values()) == bench.table.rows()


def coming(bench: Bench) -> Version:
    with bench.store.snapshot() as snapshot:
        (next_version,) = [version for version in snapshot.versions() if version.live and not version.serving]
    return next_version
