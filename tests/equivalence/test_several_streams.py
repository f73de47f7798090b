"""A view of several base streams: one answer for every order in which each stream's commits, steps and beats come."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.define.catalog import Catalog, parse
from headrace.define.fingerprint import fingerprint
from headrace.define.model import View
from headrace.errors import ConflictError, QuestionError
from headrace.serve.explanation import CellQuestion
from headrace.serve.freshness import up_to_date
from headrace.serve.past.past_questions import LakeQuestions
from headrace.serve.question import Question
from headrace.server.reconcile import point_of, reconcile_views
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.version import Version

from .bench import Bench

STREAM = "CREATE STREAM {} (page STRING, n INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL {} MINUTE)"
SELECT = "SELECT page, count(*) AS hits, sum(n) AS total, approx_count_distinct(n) AS kinds FROM visits "
VIEW = f"CREATE MATERIALIZED VIEW v AS {SELECT} GROUP BY page, window(at, '1 minute')"
START = datetime(2026, 3, 1, 12, tzinfo=UTC)

Event = tuple[str, int, int]  # page, n, minute


@dataclass
class Side:
    """One of the streams, and the events of each of its commits."""

    bench: Bench
    commits: list[list[Event]] = field(default_factory=list)

    def commit(self, chance: random.Random) -> None:
        events = [(chance.choice("ab"), chance.randrange(5), chance.randrange(10)) for _ in range(chance.randint(1, 6))]
        rows = [{"page": p, "n": n, "at": (START + timedelta(minutes=m)).isoformat()} for p, n, m in events]
        self.bench.post([json.dumps(row).encode() for row in rows], f"{len(self.commits)}", keep_bad=False)
        self.bench.commit()
        self.commits.append(events)


class Both:
    """A view over two streams that share a store."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.store = DuckStore.open(folder / "views.duckdb", 1)
        self.sides: dict[str, Side] = {}
        for name, patience in (("visits", 1), ("calls", 3)):
            statement = STREAM.format(name, patience)
            bench = Bench(spark, folder / name, statement, store=self.store, end_of=self.end_of)
            self.sides[name] = Side(bench)
        self.catalog = parse(";".join(STREAM.format(*each) for each in (("visits", 1), ("calls", 3))))
        (one,) = parse(VIEW, known=self.catalog).views.values()
        self.view = replace(one, streams=("visits", "calls"))
        self.store.register(self.view, fingerprint(self.view), self.catalog.patience_ms(self.view))

    def end_of(self, stream: str) -> int:
        return self.sides[stream].bench.table.state.next_commit

    def apply(self, view: View) -> None:
        """What `headrace apply` does to the store."""
        lakes = {name: side.bench.table.state for name, side in self.sides.items()}
        reconcile_views(self.store, Catalog(self.catalog.streams, {"v": view}), lakes)

    def rebuild(self) -> None:
        at = {name: point_of(side.bench.table.state) for name, side in self.sides.items()}
        self.store.register(self.view, fingerprint(self.view), self.catalog.patience_ms(self.view), at)

    def work(self) -> None:
        """All that is due in both layers of both streams."""
        for _ in range(4):  # a build of one stream may wait for that of the other
            for side in self.sides.values():
                side.bench.maintain()
                side.bench.work()

    def serving(self) -> Version:
        with self.store.snapshot() as snapshot:
            version = snapshot.serving("v")
        assert version is not None
        return version

    def check(self) -> None:
        """The answer is that of all events in the commits that the version has, however they came."""
        version = self.serving()
        bench = next(iter(self.sides.values())).bench
        rows = bench.ask("v", random.Random(0), start=None)
        shown = {(row["page"], row["window_start"]): (row["hits"], row["total"], row["kinds"]) for row in rows}
        assert shown == self.expected(version.commits), version
        events = [e for name, count in version.commits.items() for c in self.sides[name].commits[:count] for e in c]
        newest = max((START + timedelta(minutes=minute) for _, _, minute in events), default=None)
        answer = bench.answer("v")
        assert (answer.commits, answer.newest_event) == (version.commits, newest)

    def expected(self, commits: dict[str, int]) -> dict[Any, Any]:
        cells: dict[Any, list[int]] = {}
        for name, count in commits.items():
            for events in self.sides[name].commits[:count]:
                for page, n, minute in events:
                    cells.setdefault((page, START + timedelta(minutes=minute)), []).append(n)
        return {key: (len(ns), sum(ns), len(set(ns))) for key, ns in cells.items()}

    def close(self) -> None:
        for side in self.sides.values():
            side.bench.speed.close()
            side.bench.journal.close()
        self.store.close()


@pytest.fixture
def both(spark: Any, tmp_path: Path) -> Iterator[Both]:
    opened = Both(spark, tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("seed", range(3))
def test_one_answer_for_every_order(both: Both, seed: int) -> None:
    chance, moves = random.Random(seed), Counter[str]()
    for _ in range(24):
        side = chance.choice(list(both.sides.values()))
        move = chance.choices(["commit", "step", "beat", "rebuild", "work"], [8, 6, 4, 1, 3])[0]
        moves[move] += 1
        match move:
            case "commit":
                side.commit(chance)
            case "step":
                side.bench.maintain()
            case "beat":
                side.bench.beat("v")
            case "rebuild":
                both.rebuild()
            case _:
                both.work()
        both.check()
    both.work()
    both.check()
    version = both.serving()
    assert version.commits == {name: len(side.commits) for name, side in both.sides.items()}
    assert not version.alarm
    assert moves.keys() >= {"commit", "step", "beat"}


def test_a_beat_moves_the_horizon_of_its_own_stream_only(both: Both) -> None:
    chance = random.Random(7)
    for side in both.sides.values():
        side.commit(chance)
        side.commit(chance)
        side.bench.maintain()
    both.sides["calls"].bench.beat("v")
    version = both.serving()
    assert [(base.stream, base.horizon, base.applied_to) for base in version.bases] == [
        ("visits", 0, 2),
        ("calls", 2, 2),
    ]
    with both.store.snapshot() as snapshot:
        (audit,) = snapshot.audits("v")
        assert (audit.stream, audit.from_commit, audit.to_commit, audit.agreed) == ("calls", 0, 2, True)
        batch, speed = snapshot.count(version)
    assert batch
    assert speed
    both.check()


def test_an_error_in_one_stream_is_its_own(both: Both) -> None:
    both.store.stall("v", 1, "calls", "it fails")
    chance = random.Random(7)
    both.sides["visits"].commit(chance)
    both.sides["visits"].bench.maintain()
    version = both.serving()
    assert (version.stalled, version.commits) == ("stream 'calls': it fails", {"visits": 1, "calls": 0})
    both.sides["calls"].commit(chance)
    both.sides["calls"].bench.maintain()
    assert both.serving().stalled is None
    both.check()


def test_results_are_settled_when_no_stream_can_change_them(both: Both) -> None:
    at = {"visits": 9, "calls": 7}
    for name, minute in at.items():
        assert not any(row["settled"] for row in both.sides[name].bench.answer("v").rows()), "a stream has no event yet"
        row = {"page": "a", "n": 1, "at": (START + timedelta(minutes=minute)).isoformat()}
        early = row | {"at": START.isoformat()}
        both.sides[name].bench.post([json.dumps(each).encode() for each in (row, early)], "k", keep_bad=False)
        both.sides[name].bench.commit()
        both.sides[name].bench.maintain()
    version = both.serving()
    assert version.settled_us == round((START + timedelta(minutes=7 - 3)).timestamp() * 1e6), "the slower stream's"
    settled = {row["window_end"]: row["settled"] for row in both.sides["visits"].bench.answer("v").rows()}
    assert settled[START + timedelta(minutes=1)]
    assert not settled[START + timedelta(minutes=8)]


def test_an_edit_adds_a_stream_and_takes_it_away_again(both: Both) -> None:
    chance = random.Random(3)
    one = replace(both.view, streams=("visits",))
    for _ in range(3):
        both.sides["visits"].commit(chance)
    both.sides["calls"].commit(chance)
    both.work()
    for view in (one, both.view, one):
        both.apply(view)
        both.check()
        both.work()
        both.check()
        assert both.serving().view.streams == view.streams
        assert both.serving().commits == {name: len(both.sides[name].commits) for name in view.streams}


def test_a_view_moves_to_a_stream_with_fewer_commits(both: Both) -> None:
    chance = random.Random(3)
    for _ in range(4):
        both.sides["visits"].commit(chance)
    both.sides["calls"].commit(chance)
    both.apply(replace(both.view, streams=("visits",)))
    both.work()
    both.apply(replace(both.view, streams=("calls",)))
    both.work()
    assert both.serving().commits == {"calls": 1}
    both.check()


def test_a_version_that_lacks_commits_of_one_stream_is_not_promoted(both: Both) -> None:
    chance = random.Random(5)
    for side in both.sides.values():
        side.commit(chance)
    both.rebuild()
    for side in both.sides.values():
        side.bench.maintain()
    both.sides["visits"].commit(chance)
    both.sides["visits"].bench.maintain()  # the version that serves is ahead in one of them
    with suppress(ConflictError):
        both.store.promote("v", 2)
    assert both.serving().number == 1
    both.work()
    assert both.serving().number == 2
    both.check()


def test_a_log_that_lost_commits_is_noticed_in_each_stream(both: Both) -> None:
    for side in both.sides.values():
        side.commit(random.Random(1))
        side.bench.maintain()
    lakes = {name: side.bench.table.state for name, side in both.sides.items()}
    lakes["calls"] = replace(lakes["calls"], next_commit=0)
    reconcile_views(both.store, Catalog(both.catalog.streams, {"v": both.view}), lakes)
    with both.store.snapshot() as snapshot:
        assert [version.state for version in snapshot.versions()] == ["registered"], "it is computed anew"


def test_questions_about_the_past(both: Both, spark: Any, tmp_path: Path) -> None:
    chance = random.Random(11)
    for side in both.sides.values():
        side.commit(chance)
        side.bench.maintain()
    then, commits = datetime.now(UTC), both.serving().commits
    both.sides["visits"].commit(chance)
    both.sides["visits"].bench.maintain()
    questions = LakeQuestions(
        both.store,
        lambda name: (both.sides[name].bench.stream, both.sides[name].bench.table),
        lambda: spark,
        up_to_date,
        tmp_path / "questions",
    )
    reply = questions.ask(Question.of("v", timestamp_as_of=then.isoformat()))
    rows = {(row["page"], row["window_start"]): (row["hits"], row["total"], row["kinds"]) for row in reply.rows()}
    assert rows == both.expected(commits)
    assert (reply.commits, reply.freshness_reason) == (commits, "as of 1 commit of visits, 1 commit of calls")
    again = questions.ask(Question.of("v", version_as_of=commits))
    assert (again.rows(), again.commits) == (reply.rows(), commits)
    assert again.streams["visits"].horizon == 1
    assert again.streams["visits"].freshness_reason == "as of 1 commit of visits, 1 commit of calls"
    calls = questions.ask(Question.of("v", version_as_of="visits=0, calls=1"))
    rows = {(row["page"], row["window_start"]): (row["hits"], row["total"], row["kinds"]) for row in calls.rows()}
    assert rows == both.expected({"visits": 0, "calls": 1})
    refused = [
        (0, "each numbers its own commits; found commit 0; expected a time, or the commits of each stream"),
        ("visits=1", "also reads stream 'calls'"),
        ("visits=1,calls=1,others=1", "does not read stream 'others'"),
        ("visits=1,calls=9", "stream 'calls' has 1 commit; found version as of 9"),
    ]
    for version, words in refused:
        with pytest.raises(QuestionError, match=words):
            questions.ask(Question.of("v", version_as_of=version))
    row = next(row for row in both.sides["visits"].bench.answer("v").rows() if row["hits"] > 1)
    cell, events, cursor = ({"page": row["page"]}, row["window_start"].isoformat()), list[Any](), None
    while True:  # page by page: the events of one stream, then those of the other
        page = questions.explain(CellQuestion.of("v", cell[0], at=cell[1], limit=1, cursor=cursor))
        assert (page.found, page.found_in_view, page.agrees) == (row["hits"], row["hits"], True)
        assert page.commits == 3
        events += page.events
        cursor = page.next_cursor
        if cursor is None:
            break
    assert len(events) == row["hits"]
    assert sum(event.arguments["total"] for event in events) == row["total"]
    order = [("visits", "calls").index(event.stream) for event in events]
    assert order == sorted(order)
    with pytest.raises(QuestionError, match="does not read stream 'others'"):
        questions.explain(CellQuestion.of("v", cell[0], at=cell[1], cursor="others:1"))
    questions.close()


def test_one_of_the_streams_had_no_commit_then(both: Both, spark: Any, tmp_path: Path) -> None:
    chance = random.Random(3)
    both.sides["calls"].commit(chance)
    both.sides["calls"].bench.maintain()
    then, commits = datetime.now(UTC), both.serving().commits
    both.sides["visits"].commit(chance)
    both.sides["visits"].bench.maintain()
    lakes = {name: (side.bench.stream, side.bench.table) for name, side in both.sides.items()}
    questions = LakeQuestions(both.store, lakes.__getitem__, lambda: spark, up_to_date, tmp_path / "questions")
    reply = questions.ask(Question.of("v", timestamp_as_of=then.isoformat()))
    rows = {(row["page"], row["window_start"]): (row["hits"], row["total"], row["kinds"]) for row in reply.rows()}
    assert rows == both.expected(commits)
    assert reply.commits == {"visits": 0, "calls": 1}
    with pytest.raises(QuestionError, match="had no commit then"):
        questions.ask(Question.of("v", timestamp_as_of="2026-01-01T00:00:00Z"))
    questions.close()
