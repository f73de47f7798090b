"""The batch layer on real Spark: builds, beats, drift, edits; answers are the same before and after each."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.aggregate.approx_distinct import ApproxCountDistinct
from headrace.aggregate.numeric import Avg, Sum
from headrace.aggregate.ordered import Max
from headrace.define.model import Column
from headrace.duckdb_connections import run
from headrace.errors import NotReadyError
from headrace.language.terms import Expression
from headrace.store.duckdb.snapshot import speed_tables
from headrace.store.version import Version
from headrace.types import BIGINT

from .bench import Bench
from .few_events import STREAM, feed

VIEW = """CREATE MATERIALIZED VIEW v AS SELECT name, count(*) AS hits, sum(n) AS total, avg(n) AS mean,
approx_count_distinct(n) AS different FROM events GROUP BY name, window(at, '1 minute')"""


@pytest.fixture
def bench(spark: Any, tmp_path: Path) -> Iterator[Bench]:
    opened = Bench(spark, tmp_path, STREAM)
    yield opened
    opened.close()


def version(bench: Bench, number: int | None = None) -> Version:
    with bench.store.snapshot() as snapshot:
        versions = [v for v in snapshot.versions() if (v.serving if number is None else v.number == number)]
    return versions[0]


def rows(bench: Bench) -> list[dict[str, Any]]:
    return bench.ask("v", random.Random(1))


def test_beats_move_the_horizon_and_change_no_answer(bench: Bench) -> None:
    bench.add_view(VIEW)
    for beat in range(3):
        feed(bench, beat, 3)
        bench.maintain()
        before = rows(bench)
        bench.beat("v")
        assert rows(bench) == before
        serving = version(bench)
        assert (serving.bases[0].horizon, serving.bases[0].next_horizon, serving.alarm) == (
            serving.bases[0].applied_to,
            None,
            None,
        )
        assert bench.answer("v").events == {"batch": bench.table.rows(), "speed": 0}
    feed(bench, 9, 2)
    bench.maintain()
    answer = bench.answer("v")
    assert answer.events["speed"] > 0
    assert sum(answer.events.values()) == bench.table.rows() == sum(row["hits"] for row in rows(bench))
    with bench.store.snapshot() as snapshot:
        audits = snapshot.audits("v")
    assert [(a.from_commit, a.to_commit, a.agreed) for a in audits] == [(6, 9, True), (3, 6, True), (0, 3, True)]
    assert sum(audit.events for audit in audits) == version(bench).batch[-1].events


def test_a_view_over_history_is_built_and_equals_one_that_was_there_first(bench: Bench) -> None:
    view = bench.add_view(VIEW)
    feed(bench, 1, 4)
    bench.maintain()
    late = replace(view, name="late")
    bench.edit_view(late)
    with pytest.raises(NotReadyError, match="view 'late' is being built; found 0 of 4 commits read"):
        bench.answer("late")
    feed(bench, 2, 2)
    bench.maintain()
    bench.work()
    with pytest.raises(NotReadyError):  # the log grew while it was built
        bench.answer("late")
    bench.maintain()
    bench.work()
    assert bench.ask("late", random.Random(1)) == rows(bench)
    assert not list((bench.batch._folder).glob("*")), "slices are gone"


def test_a_view_whose_beats_are_always_due_does_not_block_other_builds(bench: Bench) -> None:
    view = bench.add_view(VIEW)
    feed(bench, 1, 2)
    bench.maintain()
    bench.edit_view(replace(view, name="late"))
    for turn in range(6):  # two slices, two tables, a promotion, and one more
        bench.maintain()
        with bench.store.snapshot() as snapshot:
            serving = snapshot.serving("v")
        assert serving is not None
        if serving.bases[0].horizon == serving.bases[0].applied_to:
            feed(bench, turn, 1)
            bench.maintain()
        bench.batch.refresh("v")
        assert bench.batch.run_once()
    bench.maintain()
    assert bench.ask("late", random.Random(1)) == rows(bench)


def test_a_corrupt_speed_row_refuses_the_swap_and_raises_the_alarm(bench: Bench) -> None:
    bench.add_view(VIEW)
    feed(bench, 3, 3)
    bench.maintain()
    (table,) = speed_tables(version(bench))
    with bench.store._transaction() as connection:
        run(connection, f"UPDATE {table} SET _events = _events + 1 WHERE rowid = 0")
    bench.beat("v")
    serving = version(bench)
    assert (serving.bases[0].horizon, serving.bases[0].next_horizon, serving.batch) == (0, 3, ())
    assert serving.alarm is not None
    assert "events: 1 rows" in serving.alarm
    with bench.store.snapshot() as snapshot:
        (audit,) = snapshot.audits("v")
    assert [drift.column for drift in audit.drift] == ["events"]
    (evidence,) = bench.batch._folder.glob("*")
    assert (evidence.name[:10], (evidence / "speed.parquet").exists()) == ("drift-v-1-", True)
    bench.beat("v")  # checked again, it is still wrong
    assert version(bench).alarm == serving.alarm
    with bench.store._transaction() as connection:
        run(connection, f"UPDATE {table} SET _events = _events - 1 WHERE rowid = 0")
    bench.beat("v")
    assert (version(bench).alarm, version(bench).bases[0].horizon) == (None, 3)


def test_a_view_with_drift_is_right_again_after_a_rebuild(bench: Bench) -> None:
    bench.add_view(VIEW)
    feed(bench, 3, 3)
    bench.maintain()
    with bench.store._transaction() as connection:
        run(connection, f"DELETE FROM {speed_tables(version(bench))[0]} WHERE rowid = 0")
    bench.beat("v")
    serving = version(bench)
    assert serving.alarm is not None
    feed(bench, 4, 2)
    bench.maintain()
    assert rows(bench), "it continues to answer"
    bench.edit_view(serving.view)  # rebuilt from the log, it is right
    bench.work()
    assert version(bench).alarm is None
    assert sum(row["hits"] for row in rows(bench)) == bench.table.rows()


def test_an_edit_while_it_serves(bench: Bench) -> None:
    view = bench.add_view(VIEW)
    feed(bench, 5, 3)
    bench.maintain()
    n = Expression.field("n", BIGINT)
    edits = [
        replace(view, columns=(*view.columns, Column("most", Max((n,))))),
        replace(view, columns=(Column("total", Sum((n,))), Column("mean", Avg((n,))))),
        replace(view, keys=(), columns=(Column("different", ApproxCountDistinct((n,))),)),
    ]
    for number, edit in enumerate(edits, 2):
        before = rows(bench)
        bench.edit_view(edit)
        assert rows(bench) == before
        feed(bench, number, 1)
        bench.maintain()
        bench.work()
        assert bench.answer("v").version == number - 1  # the new one has fewer commits
        bench.maintain()
        bench.work()
        assert bench.answer("v").version == number
        bench.add_view(f"CREATE MATERIALIZED VIEW fresh_{number} AS SELECT count(*) AS x FROM events")
    assert sum(bench.answer("v").events.values()) == bench.table.rows()


def test_a_newer_edit_supersedes_a_build(bench: Bench) -> None:
    view = bench.add_view(VIEW)
    feed(bench, 6, 3)
    bench.maintain()
    bench.edit_view(replace(view, columns=view.columns[:2]))
    bench.batch.run_once()
    assert version(bench, 2).state == "building"
    bench.edit_view(replace(view, columns=view.columns[:3]))
    bench.work()
    with bench.store.snapshot() as snapshot:
        assert [(v.number, v.state) for v in snapshot.versions()] == [(1, "retired"), (3, "serving")]


def test_a_free_edit_takes_the_rows_over(bench: Bench) -> None:
    view = bench.add_view(VIEW)
    feed(bench, 7, 3)
    bench.maintain()
    bench.beat("v")
    feed(bench, 8, 1)
    bench.maintain()
    before = rows(bench)
    renamed = replace(view, columns=(Column("all", view.columns[0].aggregate), view.columns[3]))
    bench.store.adopt(renamed, "f", {"events": 60_000}, version(bench).number)
    assert [(row["all"], row["different"]) for row in rows(bench)] == [
        (row["hits"], row["different"]) for row in before
    ]
    feed(bench, 9, 2)
    bench.maintain()
    bench.beat("v")
    assert version(bench).alarm is None
    assert sum(row["all"] for row in rows(bench)) == bench.table.rows()


def test_a_retired_version_is_caught_up_and_serves_again(bench: Bench) -> None:
    view = bench.add_view(VIEW)
    feed(bench, 10, 2)
    bench.maintain()
    bench.edit_view(replace(view, columns=view.columns[:1]))
    bench.work()
    feed(bench, 11, 2)
    bench.maintain()
    bench.store.revive("v", 1)
    assert bench.answer("v").version == 2
    bench.maintain()
    bench.work()
    assert bench.answer("v").version == 1
    assert sum(row["hits"] for row in rows(bench)) == bench.table.rows()
