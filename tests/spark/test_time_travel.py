"""Time travel: the answer of a view as of an earlier commit, computed from the lake, equals its answer then."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.define.model import LogicalView
from headrace.errors import HeadraceError, NotFoundError, QuestionError, QuestionLimitError, SqlError, UnavailableError
from headrace.format import commits_of
from headrace.lake.commit_times import reading_commits, times_before
from headrace.lake.upkeep import Compaction
from headrace.language.terms import quote
from headrace.serve import evaluate
from headrace.serve.answer import Answer
from headrace.serve.evaluate import question_limit, read
from headrace.serve.freshness import up_to_date
from headrace.serve.past import past_build
from headrace.serve.past.past_questions import LakeQuestions, find_commits
from headrace.serve.question import Question
from headrace.serve.question_times import AsOf
from headrace.serve.read_plan import plan
from headrace.serve.sql.children import Children
from headrace.serve.sql.logical_answers import AnswerPages, ask_logical
from headrace.serve.sql.sql_answer import SqlAnswer
from headrace.serve.sql.view_queries import run_sql
from headrace.spark.jobs import Job
from headrace.store.partial_columns import COUNTED
from headrace.store.store_contract import Store
from headrace.types import BIGINT, BOOLEAN
from tests import wording
from tests.equivalence.bench import Bench
from tests.equivalence.generate import STREAM, make_events, make_shape, to_json
from tests.equivalence.reference import Sessions

COMMITS = 6
Rows = dict[tuple[Any, ...], tuple[Any, ...]]


@dataclass
class Snapshot:
    """The answer of a view right after a commit."""

    answer: Answer
    rows: Rows


@dataclass
class Log:
    bench: Bench
    history: LakeQuestions
    views: list[str]
    snapshots: dict[tuple[str, int], Snapshot] = field(default_factory=dict)
    newest: dict[int, int | None] = field(default_factory=dict)

    def ask(self, view: str, **options: Any) -> Answer:
        return self.history.ask(Question.of(view, limit=10_000, **options))

    def note(self) -> None:
        at = self.bench.table.state
        self.newest[at.next_commit] = at.newest_us
        for view in self.views:
            answer = self.bench.answer(view, limit=10_000)
            self.snapshots[view, at.next_commit] = Snapshot(answer, rows_of(self.bench.store, view))


def rows_of(store: Store, view: str) -> Rows:
    """The partials of each row, by window and keys."""
    with store.snapshot() as snapshot:
        version = snapshot.serving(view)
        assert version is not None
        planned = plan(Question(view), version)
        rows = read(snapshot, version, planned, 1_000_000)
    return {row[: 1 + len(planned.by)]: row for row in rows}


@pytest.fixture(scope="module")
def log(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """Six commits of late, null and out-of-order events; the answers of two views after each."""
    chance, folder = random.Random(8), tmp_path_factory.mktemp("past")
    bench = Bench(spark, folder, STREAM)
    shapes = (shape for i in itertools.count() if (shape := make_shape(chance, f"v{i}")).keys)  # of many rows
    chosen = [next(shape for shape in shapes if isinstance(shape.window, of)) for of in (tuple, Sessions)]
    views = [bench.add_view(replace(shape, name=f"v{i}").sql).name for i, shape in enumerate(chosen)]
    history = LakeQuestions(
        bench.store, lambda name: (bench.stream, bench.table), lambda: spark, up_to_date, folder / "pasts"
    )
    past = Log(bench, history, views)
    past.note()
    events = make_events(chance, 150)
    chance.shuffle(events)
    for number in range(COMMITS):
        bench.post([to_json(event, chance) for event in events[number::COMMITS]], str(number), keep_bad=True)
        bench.commit()
        bench.maintain()
        past.note()
    yield past
    history.close()
    bench.close()


def check(log: Log, view: str, commits: int) -> None:
    then = log.snapshots[view, commits]
    answer = log.ask(view, version_as_of=commits)
    assert [name for name, _ in answer.columns] == [name for name, _ in then.answer.columns]
    assert (answer.commits, answer.newest_event, answer.corrections) == (
        then.answer.commits,
        then.answer.newest_event,
        then.answer.corrections,
    )
    assert answer.events == {"batch": sum(then.answer.events.values()), "speed": 0}
    assert (answer.freshness_ms, answer.freshness_reason) == (None, f"as of {commits_of({'events': commits})}")
    settled = [name for name, _ in answer.columns].index("settled")
    assert [row[settled] for row in answer.values] == [row[settled] for row in then.answer.values]
    with log.bench.store.snapshot() as snapshot:
        version = snapshot.serving(view)
        assert version is not None
    with log.history.as_of(version, Question.of(view, version_as_of=commits).as_of, Job()) as (store, _):  # type: ignore[arg-type]
        rows = rows_of(store, view)
    assert list(rows) == list(then.rows)
    for key, row in rows.items():
        at = 1 + len(version.view.keys) + len(COUNTED)
        for column in version.view.columns:
            end = at + len(column.aggregate.columns)
            mine, theirs = row[at:end], then.rows[key][at:end]
            assert column.aggregate.agrees(mine, theirs), (view, commits, key, column.name)
            at = end


def test_the_past_is_what_was_answered_then(log: Log) -> None:
    for view, commits in [("v0", 1), ("v0", 4), ("v1", 3), ("v1", COMMITS), ("v0", 0)]:
        check(log, view, commits)


def test_an_answer_about_the_past_has_a_time_limit(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log.history, "_limit", question_limit(0.2).watch)
    monkeypatch.setattr(evaluate, "MOST_SHAPED", 1 << 60)
    with log.bench.store.snapshot() as snapshot:
        version = snapshot.serving("v0")
    assert version is not None
    assert version.view.window is not None
    name = quote(next(column.name for column in version.view.columns if not column.aggregate.type.is_nested))
    endless = {"window": "36500d", "every": f"{version.view.window.pane_ms // 1000}s", "having": f"{name} <> {name}"}
    with pytest.raises(QuestionLimitError):
        log.ask("v0", version_as_of=4, **endless)


def test_a_stop_ends_questions_that_spark_computes(
    log: Log, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, build_past = log.bench, past_build.build_as_of
    questions = LakeQuestions(
        bench.store, lambda name: (bench.stream, bench.table), lambda: spark, up_to_date, tmp_path
    )

    def stop_meanwhile(*arguments: Any) -> Store:
        questions.stop()
        return build_past(*arguments)

    monkeypatch.setattr(past_build, "build_as_of", stop_meanwhile)
    for _ in range(2):  # the second one begins after the stop
        with wording.raises(UnavailableError):
            questions.ask(Question.of("v0", version_as_of=2))
    questions.close()


def test_of_compacted_files_too(log: Log) -> None:
    before = len(log.bench.table.files(0, COMMITS))
    while Compaction(log.bench.table, gather=2).run_once():
        pass
    assert len(log.bench.table.files(0, COMMITS)) < before
    check(log, "v1", 2)
    for commits, newest_us in log.newest.items():
        log.bench.table._ends.clear()  # as after a restart
        assert times_before(log.bench.table, commits) == (newest_us, None)


def test_by_the_time_of_a_commit(log: Log) -> None:
    with reading_commits(log.bench.table) as commits:
        times = [facts.committed_at_us for k in range(COMMITS) if (facts := commits.at_or_after(k))]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    bench = log.bench
    for number, us in enumerate(times, 1):
        then = epoch + timedelta(microseconds=us)
        assert find_commits(AsOf(time=then), bench.stream, bench.table) == number
        if number > 1:
            assert find_commits(AsOf(time=then - timedelta(microseconds=1)), bench.stream, bench.table) == number - 1
    assert log.ask("v0", timestamp_as_of="2100-01-01").commits == {"events": COMMITS}
    with pytest.raises(QuestionError, match="had no commit then; found 2020-01-01T00:00:00Z; expected a time from its"):
        log.ask("v0", timestamp_as_of="2020-01-01")


def test_pages_windows_and_the_cache(log: Log) -> None:
    whole = log.ask("v0", version_as_of=4)
    pages, cursor = [], None
    while True:
        page = log.history.ask(Question.of("v0", limit=3, cursor=cursor, version_as_of=4))
        pages += page.values
        if (cursor := page.next_cursor) is None:
            break
    assert pages == whole.values
    entries = log.history._past._entries
    assert 0 < len(entries) <= 4
    assert all(each.users == 0 and each.store is not None for each in entries.values())
    first = log.history.ask(Question.of("v0", limit=1, version_as_of=4)).next_cursor
    assert first is not None
    with wording.raises(QuestionError):
        log.ask("v0", version_as_of=3, cursor=first)


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({"version_as_of": 7}, [7, 6]),
        ({"version_as_of": -1}, ["version_as_of", -1]),
        ({"version_as_of": "x"}, ["version_as_of", "x"]),
        ({"timestamp_as_of": "now"}, ["timestamp_as_of", "now"]),
        ({"version_as_of": 1, "timestamp_as_of": "2026-03-01"}, ["version_as_of", "timestamp_as_of"]),
        ({"version_as_of": 1, "key": {"nope": 1}}, ["nope"]),
    ],
)
def test_mistakes_in_times(log: Log, options: dict[str, Any], values: list[object]) -> None:
    with wording.raises(QuestionError, *values):
        log.ask("v0", **options)


def test_a_past_that_fails_leaves_nothing(log: Log, spark: Any) -> None:
    cancelled = Job()
    cancelled.cancel()
    with pytest.raises(Exception, match="the query was cancelled"):
        log.history.ask(Question.of("v1", version_as_of=5), cancelled)
    assert ("v1", 5) not in [(key[0], key[3]) for key in log.history._past._entries]
    check(log, "v1", 5)
    assert json.dumps(log.ask("v1", version_as_of=5).as_dict()["as_of"]["commits"]) == '{"events": 5}'


def test_a_logical_view_as_of_a_commit_and_a_time(log: Log) -> None:
    children = Children(at_once=1, memory_mb=512, timeout_s=60)
    counts = "SELECT count(*) AS a, bool_and(settled) AS settled FROM v0"
    inner = LogicalView("inner_counts", counts, (("a", BIGINT), ("settled", BOOLEAN)), ("v0",))
    both = "SELECT a, settled, (SELECT count(*) FROM v1) AS b FROM inner_counts"
    view = LogicalView("both", both, (("a", BIGINT), ("settled", BOOLEAN), ("b", BIGINT)), ("inner_counts", "v1"))
    logical = {"inner_counts": inner, "both": view}

    def run(query: str, limit: int, as_of: AsOf | None) -> SqlAnswer:
        return run_sql(
            log.bench.store, children, query, limit, up_to_date, datetime.now(UTC),
            log.history.as_of, logical, as_of,
        )  # fmt: skip

    def ask(**options: Any) -> Answer:
        return ask_logical(view, Question.of("both", **options), run, AnswerPages())

    def expected(commits: int) -> dict[str, Any]:
        rows = [log.snapshots[name, commits].answer.rows() for name in ("v0", "v1")]
        return {"a": len(rows[0]), "settled": all(row["settled"] for row in rows[0]), "b": len(rows[1])}

    try:
        for commits in (1, 3, COMMITS):
            answer = ask(version_as_of=commits)
            assert answer.rows() == [expected(commits)]
            assert answer.commits == {"events": commits}
            assert (answer.freshness_ms, answer.freshness_reason) == (None, f"as of {commits_of({'events': commits})}")
            assert {name: part["commits"] for name, part in (answer.parts or {}).items()} == {
                "v0": {"events": commits}, "v1": {"events": commits},
            }  # fmt: skip
        with reading_commits(log.bench.table) as known:
            second = known.at_or_after(1)
            assert second is not None
        time = datetime.fromtimestamp(second.committed_at_us / 1e6, UTC)
        assert ask(timestamp_as_of=time).rows() == [expected(2)]
        assert ask(timestamp_as_of=time, key={"a": -1}).rows() == []
        assert ask().rows() == [expected(COMMITS)]
        with wording.raises(QuestionError, 6, 7):
            ask(version_as_of=7)
        with pytest.raises(QuestionError, match="had no commit then"):
            ask(timestamp_as_of="2000-01-01")
    finally:
        children.close()


def test_in_sql(log: Log) -> None:
    children = Children(at_once=1, memory_mb=512, timeout_s=60)

    def sql(query: str) -> SqlAnswer:
        now = datetime.now(UTC)
        return run_sql(log.bench.store, children, query, None, up_to_date, now, log.history.as_of)

    try:
        then, now = (len(log.snapshots["v0", commits].answer.values) for commits in (4, COMMITS))
        answer = sql("SELECT count(v0.settled) AS n, (SELECT count(*) FROM v0) AS now FROM v0 VERSION AS OF 4")
        assert answer.rows() == [{"n": then, "now": now}]
        wording.check(answer.views["v0 VERSION AS OF 4"]["freshness_reason"], 4, "events")
        assert answer.views["v0 VERSION AS OF 4"]["commits"] == {"events": 4}
        assert answer.views["v0"]["commits"] == {"events": COMMITS}
        both = sql("SELECT count(*) AS n FROM v0 VERSION AS OF 4 a, v0 TIMESTAMP AS OF '2100-01-01' b")
        assert both.rows() == [{"n": then * now}]
        mistakes: list[tuple[type[HeadraceError], str, list[object]]] = [
            (QuestionError, "SELECT 1 FROM v0 VERSION AS OF 99", [6, 99]),
            (NotFoundError, "SELECT 1 FROM v9 VERSION AS OF 1", ["v9"]),
            (SqlError, "SELECT 1 FROM v0 TIMESTAMP AS OF 'soon'", ["timestamp_as_of", "soon"]),
        ]
        for error, query, values in mistakes:
            with wording.raises(error, *values):
                sql(query)
    finally:
        children.close()
