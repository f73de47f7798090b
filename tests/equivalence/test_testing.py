"""What runs the tests of users without Spark gives the rows of the reference, for random views, events and commits."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import orjson
import pytest

from headrace.define.catalog import parse
from headrace.serve.answer import Answer
from headrace.serve.question import Question
from headrace.tools.testing.comparison import compare_answer
from headrace.tools.testing.direct_engine import Engine, LayerAnswer, NeedsSparkError, QuickEngine, Request
from headrace.tools.testing.first_test import write_rows
from headrace.tools.testing.given_events import Commit, GivenEvent, GivenEvents, arrange
from headrace.tools.testing.spark_engine import SparkEngine
from headrace.tools.testing.written_tests import read_text

from . import test_joins
from .generate import BAD, STREAM, make_events, make_shape, to_json
from .reference import Event, corrections, differences

CASES = 25  # views of each seed
LATER_US = round(datetime(2026, 3, 2, tzinfo=UTC).timestamp()) * 1_000_000  # when the events of joins arrive
LEAST = 0.5  # of them have to be computed: the others need Spark


def micros(time: datetime) -> int:
    return round(time.timestamp() * 1_000_000)


def split(chance: random.Random, events: list[Event]) -> tuple[list[list[Event]], list[Commit], int]:
    """The events of each commit, the commits with some broken lines between them, and how many are broken."""
    commits: list[list[Event]] = []
    made: list[Commit] = []
    broken = 0
    rest = list(events)
    while rest:
        size = chance.choice([1, 5, 30, len(rest)])
        part, rest = rest[:size], rest[size:]
        lines = [(to_json(event, chance), micros(event["at"]) + chance.choice([0, 10**8])) for event in part]
        for _ in range(chance.choice([0, 0, 2])):
            lines.insert(chance.randint(0, len(lines)), (chance.choice([bad for bad in BAD if b"\n" not in bad]), 0))
            broken += 1
        made.append(Commit(tuple(line for line, _ in lines), np.array([us for _, us in lines], dtype=np.int64)))
        commits.append(part)
    return commits, made, broken


def check_written(chance: random.Random, answer: Answer, keys: list[str]) -> None:
    """The rows of an answer, written into a test, are what is found; without one of them, that is unexpected."""
    rows = write_rows(answer)
    chance.shuffle(rows)

    def compare(rows: list[str]) -> list[str]:
        listed = "".join(f"\n    - {row}" for row in rows) or " []"
        (test,), errors = read_text(f"- name: x\n  ask: v\n  expect:\n    exact: true\n    rows:{listed}\n")
        assert not errors
        return [each.message for each in compare_answer(test.expected, LayerAnswer(answer), keys, ordered=False)]

    assert compare(rows) == []
    if rows:
        assert compare(rows[1:]) == [f"rows of view '{answer.view}': 1 unexpected"]


@pytest.mark.parametrize("seed", range(3))
def test_rows_and_corrections_are_those_of_the_reference(seed: int) -> None:
    chance = random.Random(f"testing/{seed}")
    engine = QuickEngine()
    computed = 0
    for number in range(CASES):
        shape = make_shape(chance, f"v{number}", 6)
        events = make_events(chance, chance.choice([0, 1, 40, 120]))
        chance.shuffle(events)
        commits, made, broken = split(chance, events)
        catalog = parse(STREAM + shape.sql)
        try:
            commits_made = [("events", commit) for commit in made]
            outcome = engine.run(catalog, commits_made, Request(Question.of(shape.name), whole=True))
        except NeedsSparkError:
            continue
        computed += 1
        answer = outcome.answers[0].answer
        wrong = differences(shape, answer.rows(), events)
        assert not wrong, (seed, number, shape.sql, wrong[:3])
        assert len(outcome.letters) == broken
        check_written(chance, answer, [name for name, _ in shape.keys])
        if not shape.overlaps:
            expected = corrections(shape, commits, catalog.streams["events"].patience_ms, lambda event: True)
            assert answer.corrections == expected, (seed, number, shape.sql)
    engine.close()
    assert computed >= LEAST * CASES


def test_commits_are_those_that_the_file_gives_or_one_for_each_arrival() -> None:
    (stream,) = parse(STREAM).streams.values()

    def event(second: int, arrived: int | None = None) -> GivenEvent:
        at = datetime(2026, 1, 1) + timedelta(seconds=second)  # noqa: DTZ001 - it is written without its zone
        return GivenEvent(f'{{"id":{second},"at":"{at.isoformat()}Z"}}'.encode(), arrived and arrived * 1_000_000)

    def ids(*commits: tuple[GivenEvent, ...]) -> list[list[Any]]:
        arranged = arrange([GivenEvents(stream, commits)])
        return [[int(line.split(b":")[1].split(b",")[0]) for line in commit.lines] for _, commit in arranged]

    day = 1767225600  # 1 January 2026
    assert ids((event(3), event(1), event(2))) == [[3, 1, 2]]
    assert ids((event(3), event(1)), (event(2),)) == [[3, 1], [2]]
    assert ids((event(3), event(1, day + 9), event(2), event(4, day + 9), event(5, day + 6))) == [[2, 3], [5], [1, 4]]
    assert ids() == []


class GivenJoined:
    """Streams and tables whose commits a test gives, in the order in which they were sent."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.catalog = parse(test_joins.SQL)
        self.commits: list[tuple[str, Commit]] = []
        self.parts = {name: Sending(self, name) for name in self.catalog.base_streams}

    def ask(self, view: str) -> list[dict[str, Any]]:
        """The rows of a view; both layers, where the engine has them, have the same."""
        outcome = self.engine.run(self.catalog, self.commits, Request(Question.of(view), whole=True))
        assert not outcome.letters
        rows, *others = [each.answer.rows() for each in outcome.answers]
        assert all(other == rows for other in others)
        return rows


class Sending:
    """Sends the events of one commit of a stream."""

    def __init__(self, tested: GivenJoined, stream: str) -> None:
        self.tested, self.stream = tested, stream

    def send(self, *events: dict[str, Any]) -> None:
        arrived_us = np.arange(len(events), dtype=np.int64) + LATER_US + 1000 * len(self.tested.commits)
        self.tested.commits.append((self.stream, Commit(tuple(map(orjson.dumps, events)), arrived_us)))


def test_joined_rows_are_those_that_python_joins() -> None:
    engine = QuickEngine()
    for seed in range(4):
        tested, model = GivenJoined(engine), test_joins.Model()
        test_joins.play(tested, random.Random(f"tested {seed}"), 20, model, only_fused=True)
        assert test_joins.answers(tested) == model.expected(), seed
    engine.close()


def test_joined_rows_by_the_real_jobs_are_those_that_python_joins(spark: Any) -> None:
    engine = SparkEngine(spark)
    tested, model = GivenJoined(engine), test_joins.Model()
    test_joins.play(tested, random.Random("tested by jobs"), 10, model, only_fused=True)
    for view, key in {"residuals": "plan", "timed": "plan"}.items():
        rows = {row[key]: row["hits"] for row in tested.ask(view)}
        assert rows == model.expected()[view]
    engine.close()
