"""An event that makes a view's job fail, or that ends Java, is found and named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint
from headrace.define.model import View
from headrace.engine.spark_views import SparkView
from headrace.language.terms import Expression
from headrace.maintain import partials_job
from headrace.maintain.failing_event import Culprit, FailedCommits, find_culprit
from headrace.maintain.speed_layer import Speed
from headrace.maintain.suspects import Suspects
from headrace.maintain.trial import ENDED, TrialSettings
from headrace.spark.session import is_alive
from headrace.store.version import Base, Version
from headrace.types import BOOLEAN, STRING
from tests import wording

from ..equivalence.bench import Bench
from ..java import OPTIONS
from ..waiting import wait_until

STREAM = "CREATE STREAM lines (id BIGINT, s STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);"
VIEW = "CREATE MATERIALIZED VIEW per_minute AS SELECT count(*) AS n FROM lines GROUP BY window(at, '1 minute');"
OVERFLOW = "s RLIKE '^(a|b)*$'"  # Java's regular expressions recurse for each character
THOUSAND = "lpad('', 1000, '{}')"
GROWN = f"replace(replace(replace(s, 'x', {THOUSAND}), 'a', {THOUSAND}), 'b', {THOUSAND})".format("a", "b", "c")
TOO_LARGE = f"CASE WHEN s = 'exit' THEN length({GROWN}) > 0 ELSE true END"  # a text of 1 GB: out of memory
LONG = "a" * 500_000
COMMITS, ROWS = 3, 40
BAD = 1 * ROWS + 16  # the number of the bad event


def view_with(condition: str) -> View:
    """A view with a filter in Spark's SQL."""
    (view,) = parse(STREAM + VIEW).views.values()
    return replace(view, where=Expression.stored(condition, BOOLEAN), reads=(*view.reads, ("s", STRING)))


@pytest.fixture
def bench(spark: Any, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(spark, tmp_path, STREAM)
    yield bench
    bench.close()


@pytest.fixture
def suspects(spark: Any, bench: Bench, tmp_path: Path) -> Iterator[Suspects]:
    settings = TrialSettings("512m", OPTIONS, tmp_path / "trials", tmp_path / "trial.log")
    suspects = Suspects(lambda: spark, bench.table, bench.store, settings)
    yield suspects
    suspects.close()


def fill(bench: Bench, bad: str) -> int:
    """Some commits, one event of which has another text; its position."""
    for commit in range(COMMITS):
        numbers = range(commit * ROWS, (commit + 1) * ROWS)
        events = [{"id": n, "s": bad if n == BAD else "ab", "at": "2026-01-01T00:00:00Z"} for n in numbers]
        lines = [json.dumps(event).encode() for event in events]
        bench.post(lines, f"{commit}", keep_bad=False)
        bench.commit()
    return sorted(read_positions(bench))[BAD]


def version_of(bench: Bench) -> Version:
    with bench.store.snapshot() as snapshot:
        return snapshot.versions()[0]


@pytest.mark.parametrize("bad", [[], [0], [7], [99], [3, 50]])
def test_the_first_event_that_fails_alone_is_found(bench: Bench, bad: list[int]) -> None:
    fill(bench, "ab")
    case = FailedCommits(
        bench.stream,
        Version(view_with("true"), 1, "", "ready", (Base(bench.stream.name),)),
        bench.table.storage,
        bench.table.files(0, 3),
        (0, 3),
    )
    positions = sorted(read_positions(bench))

    def attempt(low: int, high: int) -> str | None:
        return "it fails" if any(low <= positions[index] < high for index in bad) else None

    culprit = find_culprit(case, attempt)
    assert (culprit.position if culprit else None) == (positions[bad[0]] if bad else None)
    if culprit:
        assert (culprit.commit, culprit.error) == (bad[0] // ROWS, "it fails")
        assert json.loads(culprit.value)["id"] == bad[0]


def read_positions(bench: Bench) -> list[int]:
    paths = [str(bench.table.folder / file.path) for file in bench.table.files(0, COMMITS)]
    return ds.dataset(paths).to_table(columns=["_position"]).column(0).to_pylist()


def test_no_event_is_blamed_for_what_fails_without_events(bench: Bench) -> None:
    fill(bench, "ab")
    version = Version(view_with("true"), 1, "", "ready", (Base(bench.stream.name),))
    case = FailedCommits(bench.stream, version, bench.table.storage, bench.table.files(0, COMMITS), (0, COMMITS))
    assert find_culprit(case, lambda low, high: "it cannot be planned") is None


def test_a_long_event_is_shown_in_part() -> None:
    text = str(Culprit(3, 1234, "x" * 100_000, "error"))
    assert text.startswith("the event at position 1234 (commit 3): xxx")
    assert "(100,000 characters)" in text
    assert len(text) < 200


def test_a_stack_overflow_stalls_its_view_alone_and_names_the_event(
    spark: Any, bench: Bench, suspects: Suspects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Patterns no longer run in Java: this one is passed to Spark unchanged.
    monkeypatch.setattr(partials_job, "spark_view", lambda stream, view: SparkView(view, ()))
    position = fill(bench, LONG)
    for name, condition in (("bad", OVERFLOW), ("good", "s = 'ab'")):
        view = replace(view_with(condition), name=name)
        bench.store.register(view, fingerprint(view), {bench.stream.name: bench.stream.patience_ms})
    speed = Speed(lambda: spark, bench.stream, bench.table, bench.store, tmp_path, suspects=suspects)
    while speed.run_once():
        pass
    with bench.store.snapshot() as snapshot:
        bad, good = snapshot.versions()
    assert "StackOverflowError" in (bad.stalled or "")
    assert (good.stalled, good.bases[0].applied_to) == (None, COMMITS)
    assert is_alive(spark)
    wait_until(
        lambda: f"the event at position {position} (commit 1)" in (version_of(bench).stalled or ""),
        60,
        lambda: version_of(bench),
    )
    assert not version_of(bench).quarantined  # it does no harm to others: it is retried
    speed.close()


def test_a_view_that_ends_java_is_quarantined_and_its_event_is_named(
    spark: Any, bench: Bench, suspects: Suspects
) -> None:
    position = fill(bench, "exit")
    view = view_with(TOO_LARGE)
    bench.store.register(view, fingerprint(view), {bench.stream.name: bench.stream.patience_ms})
    version = version_of(bench)
    for _ in range(2):  # two layers may have computed it at the same moment
        suspects.java_ended(spark, bench.stream, version, (0, 3))
    assert version in suspects  # computed alone next
    assert version_of(bench).stalled is None  # one crash is not attributed to a view
    suspects.java_ended(spark.newSession(), bench.stream, version, (0, 3))
    assert version_of(bench).quarantined
    wording.check(version_of(bench).stalled)
    assert not bench.speed.run_once()  # it is no longer computed
    wait_until(
        lambda: f"the event at position {position} (commit 1)" in (version_of(bench).stalled or ""),
        180,
        lambda: version_of(bench),
    )
    stalled = version_of(bench).stalled or ""
    assert ENDED in stalled
    assert "change the view" in stalled
    assert version_of(bench).quarantined


def test_a_view_that_ends_no_java_is_released_by_its_trial(spark: Any, bench: Bench, suspects: Suspects) -> None:
    fill(bench, "ab")
    view = view_with(TOO_LARGE)
    bench.store.register(view, fingerprint(view), {bench.stream.name: bench.stream.patience_ms})
    for _ in range(2):
        suspects.java_ended(spark.newSession(), bench.stream, version_of(bench), (0, 3))
    assert version_of(bench).quarantined
    wait_until(lambda: not version_of(bench).quarantined, 120)
    bench.maintain()
    assert bench.answer("per_minute").rows()[0]["n"] == COMMITS * ROWS


def test_only_live_versions_are_tried_again_after_a_restart(bench: Bench, suspects: Suspects) -> None:
    fill(bench, "ab")
    for name in ("old", "new"):
        view = replace(view_with("true"), name=name)
        bench.store.register(view, fingerprint(view), {bench.stream.name: bench.stream.patience_ms})
        bench.store.stall(name, 1, bench.stream.name, "it ends Java", quarantined=True)

    def quarantined() -> list[str]:
        with bench.store.snapshot() as snapshot:
            return [version.view.name for version in snapshot.versions() if version.quarantined]

    with bench.store.snapshot() as snapshot:
        versions = snapshot.versions()
    states = {"old": "retired", "new": "serving"}
    suspects.review(bench.stream, [replace(version, state=states[version.view.name]) for version in versions])
    wait_until(lambda: "new" not in quarantined(), 120)
    assert quarantined() == ["old"]


def test_a_view_is_not_refused_because_java_ended_during_its_analysis(
    spark: Any, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = view_with("no_such_function(s)")
    assert "no_such_function" in (partials_job.analyse(spark, bench.stream, view) or "")
    monkeypatch.setattr(partials_job, "is_alive", lambda spark: False)
    assert partials_job.analyse(spark, bench.stream, view) is None
