"""The two lanes of the speed layer: equal rows whichever a view goes through, and no loss where one cannot go on.

HEADRACE_LANE_CASES sets how many views are compared.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.duckdb_relations import refuse_duckdb
from headrace.store.selection import Selection
from headrace.store.version import Version

from .bench import Bench
from .case import _disagreements
from .feed import Feed
from .generate import STREAM, make_events, make_shape
from .reference import differences

CASES = int(os.environ.get("HEADRACE_LANE_CASES", "40"))
AT_ONCE = 20  # views of one stream
EXPECTED = re.compile("special letters|[Oo]verflow|[Oo]ut of [Rr]ange")  # where DuckDB does not do as Spark does
COUNTS = "CREATE MATERIALIZED VIEW v AS SELECT word, count(*) AS n, sum(big) AS s FROM events GROUP BY word"


def version_of(bench: Bench, view: str) -> Version:
    with bench.store.snapshot() as snapshot:
        version = snapshot.serving(view)
    assert version is not None
    return version


def folded(bench: Bench, version: Version) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    window, keys = version.view.window, tuple(key.name for key in version.view.keys)
    with bench.store.snapshot() as snapshot:
        table = snapshot.fold(version, Selection(keys, bucket_ms=window.pane_ms if window else None))
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return {row[: 1 + len(keys)]: row[1 + len(keys) :] for row in rows}


def fused_only(bench: Bench) -> None:
    while bench.fused.run_once():
        pass


@pytest.mark.parametrize("seed", range(-(-CASES // AT_ONCE)))
def test_a_view_gives_equal_rows_in_each_lane(spark: Any, tmp_path: Path, seed: int) -> None:
    chance = random.Random(f"lanes {seed}")
    benches = [Bench(spark, tmp_path / str(lane), STREAM, fused=lane) for lane in (True, False)]
    stream, shapes = benches[0].stream, []
    while len(shapes) < AT_ONCE:
        shape = make_shape(chance, f"v{len(shapes)}", 5)
        view = benches[0].add_view(shape.sql)
        if refuse_duckdb(stream, view) is not None:
            benches[0].store.drop(view.name)
            continue
        benches[1].add_view(shape.sql)
        shapes.append(shape)
    events = make_events(chance, 120)
    for bench in benches:
        own = random.Random(seed)
        feed = Feed(bench, own)
        feed.send(events)
        while feed.commit_some():
            if own.random() < 0.6:
                bench.maintain()
    fused_only(benches[0])
    fused = [version_of(benches[0], shape.name).base("events").applied_to for shape in shapes]
    for bench in benches:
        bench.maintain()
    end = benches[0].table.state.next_commit
    assert sum(commit == end for commit in fused) >= AT_ONCE / 2, "most of the views never needed Spark"
    assert [each for each in benches[0].fused.failures.values() if not EXPECTED.search(each.reason)] == []
    for shape in shapes:
        both = [folded(bench, version_of(bench, shape.name)) for bench in benches]
        assert not _disagreements(version_of(benches[0], shape.name).view, *both), shape.sql
        wrong = differences(shape, benches[0].ask(shape.name, chance), events)
        assert not wrong, (seed, shape.sql, wrong[:3])
    for bench in benches:
        bench.close()


def test_a_commit_without_events_needs_no_spark(spark: Any, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path, STREAM)
    bench.add_view(COUNTS + ", window(at, '1 minute')")
    send(bench, 0, ["a", "b"])
    fused_only(bench)
    for _ in range(2):
        time_us = bench.be_idle(3_600_000_000)
        fused_only(bench)
        version = version_of(bench, "v")
        assert (version.base("events").applied_to, version.base("events").idle_us) == (
            bench.table.state.next_commit,
            time_us,
        )
        assert not bench.speed.run_once()
    assert {row["settled"] for row in bench.answer("v").rows()} == {True}
    send(bench, 1, ["a"])
    fused_only(bench)
    (row,) = [row for row in bench.answer("v").rows() if row["word"] == "a"]
    assert row["n"] == 2
    bench.close()


def send(bench: Bench, number: int, words: list[str]) -> None:
    lines = [
        b'{"id":%d,"word":"%s","big":%d,"at":"2026-03-01T12:00:00Z"}' % (i, w.encode(), i) for i, w in enumerate(words)
    ]
    bench.post(lines, str(number), keep_bad=False)
    bench.commit()


def counts(bench: Bench, view: str = "v") -> dict[str, int]:
    return {row["word"]: row["n"] for row in bench.answer(view).rows()}


@pytest.mark.parametrize("damage", ["lost", "cut", "changed"])
def test_partials_that_are_damaged_are_computed_from_the_lake(spark: Any, tmp_path: Path, damage: str) -> None:
    bench = Bench(spark, tmp_path, STREAM)
    bench.add_view(COUNTS)
    send(bench, 1, ["a", "b", "a"])
    (file,) = tmp_path.glob("fused-events/*.partials")
    match damage:
        case "lost":
            file.unlink()
        case "cut":
            os.truncate(file, file.stat().st_size // 2)
        case "changed":
            content = bytearray(file.read_bytes())
            content[-20] ^= 1
            file.write_bytes(content)
    assert not bench.fused.run_once()
    assert bench.speed.run_once()
    assert counts(bench) == {"a": 2, "b": 1}
    send(bench, 2, ["b"])
    assert bench.fused.run_once()
    assert counts(bench) == {"a": 2, "b": 2}
    assert not bench.fused.run_once()
    assert not list(tmp_path.glob("fused-events/*"))
    bench.close()


def test_a_view_that_duckdb_cannot_compute_goes_by_spark_alone(spark: Any, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path, STREAM)
    bench.add_view(COUNTS)
    bench.add_view(
        "CREATE MATERIALIZED VIEW u AS SELECT upper(word) AS word, count(*) AS n FROM events GROUP BY upper(word)"
    )
    send(bench, 1, ["a", "straße"])  # DuckDB and Spark write its capitals differently
    fused_only(bench)
    assert [version_of(bench, name).base("events").applied_to for name in ("v", "u")] == [1, 0]
    lanes = bench.fused.lanes(bench.stream, [version_of(bench, name) for name in ("v", "u")])
    assert lanes["v", 1] is None
    assert "upper() of a text with special letters" in str(lanes["u", 1])
    assert bench.speed.run_once()
    assert counts(bench, "u") == {"A": 1, "STRASSE": 1}
    send(bench, 2, ["a"])  # for a while it is not tried again
    fused_only(bench)
    assert [version_of(bench, name).base("events").applied_to for name in ("v", "u")] == [2, 1]
    bench.close()


def test_a_version_that_is_behind_rejoins_the_fused_lane(spark: Any, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path, STREAM)
    send(bench, 1, ["a"])
    bench.add_view(COUNTS)
    send(bench, 2, ["b"])
    assert not bench.fused.run_once()  # commit 0 has no partials
    assert bench.speed.run_once()
    assert version_of(bench, "v").base("events").applied_to == 1
    assert not bench.speed.run_once()
    assert bench.fused.run_once()
    assert counts(bench) == {"a": 1, "b": 1}
    bench.close()


def test_several_commits_are_merged_at_once(spark: Any, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path, STREAM)
    bench.add_view(COUNTS)
    for number, word in enumerate("abca"):
        send(bench, number, [word])
    assert bench.fused.run_once()
    assert not bench.fused.run_once()
    assert counts(bench) == {"a": 2, "b": 1, "c": 1}
    bench.close()


def test_an_append_that_fails_goes_on_without_the_fused_lane(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(spark, tmp_path, STREAM)
    bench.add_view(COUNTS)
    plan = bench.fused.plan
    monkeypatch.setattr(bench.fused, "plan", lambda *args: _Broken(plan(*args)))
    with pytest.raises(Exception, match="broken"):
        send(bench, 1, ["a"])
    monkeypatch.undo()
    bench.commit()
    assert not bench.fused.run_once()
    assert bench.speed.run_once()
    assert counts(bench) == {"a": 1}
    bench.close()


class _Broken:
    """A derivation that fails its task, as a worker that runs out of memory does."""

    def __init__(self, lifting: Any) -> None:
        self.reads = lifting.reads

    def run(self, events: Any) -> str:
        raise RuntimeError("broken")


def test_a_free_edit_takes_over_the_partials(spark: Any, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path, STREAM)
    bench.reconcile([COUNTS])
    send(bench, 1, ["a", "b"])
    bench.reconcile([COUNTS.replace("AS n", "AS n, count(*) AS again")])
    assert version_of(bench, "v").number == 2
    assert bench.fused.run_once()
    assert counts(bench) == {"a": 1, "b": 1}
    bench.close()
