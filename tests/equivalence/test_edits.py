"""Edits at every point of a beat and of a build, on real Spark: the rows that go on are the right ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.define.sql import parse
from headrace.maintain.batch import Sizes
from headrace.reconcile import reconcile_views
from headrace.store.base import Version

from .bench import Bench
from .test_batch import STREAM, feed

PLAIN = "SELECT name, count(*) AS n, sum(n) AS total, max(n) AS most FROM events GROUP BY name, window(at, '1 minute')"
FREE = [
    PLAIN.replace("AS n,", "AS hits,"),
    PLAIN.replace(", max(n) AS most", ", count(*) AS again"),
    PLAIN.replace("count(*) AS n, ", "").replace(", max(n) AS most", ""),
    PLAIN.replace("count(*) AS n, ", "").replace(", max(n) AS most", "").replace("AS total", "AS s, sum(n) AS total"),
]


@pytest.fixture
def bench(spark: Any, tmp_path: Path) -> Iterator[Bench]:
    opened = Bench(spark, tmp_path, STREAM, sizes=Sizes(slice_events=20))  # several slices a build
    yield opened
    opened.close()


def edit(bench: Bench, select: str) -> None:
    catalog = parse(f"{STREAM}; CREATE MATERIALIZED VIEW v AS {select};")
    reconcile_views(bench.store, catalog, {"events": bench.table.state})


def serving(bench: Bench) -> Version:
    with bench.store.snapshot() as snapshot:
        found = snapshot.serving("v")
    assert found is not None
    return found


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
        assert (now.number, now.horizon, now.alarm) == (start + 1, now.applied_to, None)
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
    edit(bench, PLAIN)  # what was dropped is not there any more: a build, and the same number
    bench.batch.run_once()
    while bench.batch.run_once():
        pass
    assert (serving(bench).home, total(bench)) == (now.number + 1, whole)
