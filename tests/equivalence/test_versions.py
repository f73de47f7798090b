"""Versions: a broken view stalls alone, an edited one is swapped when it has caught up, history is read in steps."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.aggregate.numeric import Count
from headrace.aggregate.ordered import Max
from headrace.define.fingerprint import fingerprint
from headrace.define.model import Column
from headrace.lake.upkeep import Compaction
from headrace.language.terms import Expression
from headrace.maintain.speed_layer import Speed
from headrace.store.version import Version
from headrace.types import BIGINT, STRING

from .bench import Bench
from .generate import STREAM

VIEW = "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM events GROUP BY window(at, '1 minute')"


def post_and_commit(bench: Bench, number: int) -> None:
    bench.post([b'{"id":%d,"at":"2026-03-01T12:00:00Z"}' % number], str(number), keep_bad=False)
    bench.commit()


def versions(bench: Bench) -> dict[tuple[str, int], Version]:
    with bench.store.snapshot() as snapshot:
        return {(v.view.name, v.number): v for v in snapshot.versions()}


def test_a_broken_view_stalls_alone(spark: Any, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path, STREAM)
    good = bench.add_view(VIEW)
    # A definition can no longer contain this; an older release accepted it.
    pattern = Expression.stored("regexp_extract(CAST(id AS STRING), '(?=1)', 0)", STRING)
    broken = replace(good, name="broken", columns=(Column("x", Max((pattern,))),))
    bench.store.register(broken, fingerprint(broken), {"events": 0})
    for number in range(2):
        post_and_commit(bench, number)
        bench.maintain()
    by_name = versions(bench)
    assert by_name["v", 1].bases[0].applied_to == 2
    assert by_name["v", 1].stalled is None
    assert by_name["broken", 1].bases[0].applied_to == 0
    assert "look-around is not available" in str(by_name["broken", 1].stalled)
    assert [row["n"] for row in bench.ask("v", random.Random(0))] == [2]
    assert str(bench.answer("broken").stalled).startswith("the pattern of regexp_extract cannot be used: look-around")
    bench.close()


def test_an_edited_view_serves_its_old_version_until_the_new_one_is_built(spark: Any, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path, STREAM)
    view = bench.add_view(VIEW)
    for number in range(3):
        post_and_commit(bench, number)
    bench.maintain()
    ids = Column("ids", Count((Expression.field("id", BIGINT),)))
    edited = replace(view, columns=(*view.columns, ids), reads=(*view.reads, ("id", BIGINT)))
    bench.edit_view(edited)
    assert list(bench.answer("v").rows()[0]) == ["window_start", "window_end", "n", "settled"]
    bench.work()
    assert bench.answer("v").version == 2
    assert bench.answer("v").rows()[0]["ids"] == 3
    assert [(v.number, v.state) for v in versions(bench).values()] == [(1, "retired"), (2, "serving")]
    assert bench.answer("v").events == {"batch": 3, "speed": 0}
    bench.close()


def test_history_is_read_in_steps_of_whole_commits(spark: Any, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path, STREAM)
    for number in range(5):
        post_and_commit(bench, number)
    bench.add_view(VIEW)
    speed = Speed(lambda: spark, bench.stream, bench.table, bench.store, tmp_path, most_rows=2)
    reached = []
    while speed.run_once():
        reached.append(versions(bench)["v", 1].bases[0].applied_to)
    assert reached == [2, 4, 5]
    assert [row["n"] for row in bench.ask("v", random.Random(0))] == [5]
    speed.close()
    bench.close()


def test_a_view_that_is_behind_takes_small_steps_and_does_not_delay_others(spark: Any, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path, STREAM)
    for number in range(3):
        post_and_commit(bench, number)
    first = bench.add_view(VIEW)
    bench.maintain()
    second = replace(first, name="w")
    bench.store.register(second, fingerprint(second), {"events": 0})
    speed = Speed(lambda: spark, bench.stream, bench.table, bench.store, tmp_path, most_rows=10, lagging_rows=1)
    reached = []
    for number in range(3, 8):
        post_and_commit(bench, number)
        assert speed.run_once()
        by_name = versions(bench)
        reached.append((by_name["v", 1].bases[0].applied_to, by_name["w", 1].bases[0].applied_to))
    assert reached == [(4, 1), (5, 2), (6, 3), (7, 4), (8, 5)]
    while speed.run_once():
        pass
    assert bench.answer("w").rows() == bench.answer("v").rows()
    speed.close()
    bench.close()


def test_steps_begin_and_end_inside_of_compacted_files(spark: Any, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path, STREAM)
    for number in range(5):
        post_and_commit(bench, number)
    bench.add_view(VIEW)
    compaction = Compaction(bench.table, gather=2)
    speed = Speed(lambda: spark, bench.stream, bench.table, bench.store, tmp_path, most_rows=2)
    reached = []
    assert compaction.run_once()
    while speed.run_once():
        reached.append(versions(bench)["v", 1].bases[0].applied_to)
        if len(reached) == 1:
            post_and_commit(bench, 5)
            post_and_commit(bench, 6)
            assert compaction.run_once()
    assert [(file.first_commit, file.last_commit) for file in bench.table.files(0, 7)] == [(0, 4), (5, 6)]
    assert reached == [2, 4, 6, 7]
    assert [row["n"] for row in bench.ask("v", random.Random(0))] == [7]
    speed.close()
    bench.close()
