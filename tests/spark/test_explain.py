"""Explain: the events behind one cell, as the log has them, on real Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headrace.cli.explain_command import render
from headrace.errors import (
    CorruptionError,
    HeadraceError,
    NotFoundError,
    OverloadError,
    QuestionError,
    QuestionLimitError,
)
from headrace.serve.explanation import CellQuestion, Explanation
from headrace.serve.freshness import up_to_date
from headrace.serve.past.cell_events import SHOWN_BYTES
from headrace.serve.past.past_questions import LakeQuestions
from headrace.spark.jobs import Job
from tests import wording
from tests.equivalence.bench import Bench
from tests.equivalence.joined import Joined

STREAM = """
CREATE STREAM visits (
  page STRING, country STRING, status INT, seconds DOUBLE, tags ARRAY<STRING>, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE
)
"""
VIEWS = [
    """CREATE VIEW traffic AS SELECT page, count(*) AS hits, count(*) FILTER (WHERE status >= 500) AS errors,
    avg(seconds) AS seconds, count(tags) AS tagged FROM visits WHERE status <> 304 GROUP BY page, window(at, '1 minute')
    """,
    "CREATE VIEW hops AS SELECT count(*) AS hits FROM visits GROUP BY window(at, '10 minutes', '5 minutes')",
    "CREATE VIEW stays AS SELECT page, count(*) AS hits FROM visits GROUP BY page, session_window(at, '1 minute')",
    "CREATE VIEW ever AS SELECT page, country, sum(status) AS s FROM visits GROUP BY page, country",
]


def visit(time: str, page: str | None = "/home", **fields: Any) -> dict[str, Any]:
    return {"page": page, "status": 200, "seconds": 1.5, "at": f"2026-03-01T{time}Z", **fields}


COMMITS = [
    [visit("12:00:10"), visit("12:00:50", status=304), visit("12:01:00", tags=["a", "b"])],
    [visit("12:00:30", status=500, seconds=None), visit("12:02:30", page=None), visit("12:00:59.999999")],
    [visit("12:00:20.5", country="de", note="x" * 2 * SHOWN_BYTES), visit("12:40:00", page="/cart")],
]
UNAPPLIED = [visit("12:00:40")]  # in the lake, and not in the views


@dataclass
class Shop:
    bench: Bench
    history: LakeQuestions

    def explain(self, view: str, key: dict[str, Any] | None = None, at: Any = None, **options: Any) -> Explanation:
        explanation = self.history.explain(CellQuestion.of(view, key, at, **options))
        assert Explanation.from_dict(json.loads(json.dumps(explanation.as_dict()))) == explanation
        return explanation


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("explain")
    bench = Bench(spark, folder, STREAM)
    for sql in VIEWS:
        bench.add_view(sql.replace("CREATE", "CREATE MATERIALIZED"))
    for number, events in enumerate([*COMMITS, UNAPPLIED]):
        if number == len(COMMITS):
            bench.maintain()
        lines = [json.dumps(event).encode() for event in events]
        bench.post(lines, str(number), keep_bad=True)
        bench.commit()
    yield Shop(
        bench,
        LakeQuestions(bench.store, lambda name: (bench.stream, bench.table), lambda: spark, up_to_date, folder / "q"),
    )
    bench.close()


def test_the_events_behind_a_cell(shop: Shop) -> None:
    reply = shop.explain("traffic", {"page": "/home"}, "2026-03-01T12:00:00Z")
    assert [json.loads(e.value)["at"][11:-1] for e in reply.events[:3]] == ["12:00:10", "12:00:30", "12:00:59.999999"]
    assert [(e.commit, e.late, e.correction, e.in_view) for e in reply.events] == [
        (0, False, False, True),
        (1, True, False, True),  # the newest was 12:01:00, and patience is a minute
        (1, True, False, True),
        (2, True, True, True),
        (3, True, True, False),
    ]
    assert reply.events[1].behind_ms == 30_000
    assert reply.events[1].arguments == {"hits": 1, "errors": 1, "seconds": None, "tagged": None}
    assert reply.events[0].arguments == {"hits": 1, "seconds": 1.5, "tagged": None}
    large = reply.events[3]
    assert (large.whole, len(large.value)) == (False, SHOWN_BYTES)
    assert large.bytes > 2 * SHOWN_BYTES
    assert large.delay_ms == round((large.arrived - large.event_time).total_seconds() * 1000 - 0.5)
    assert (reply.found, reply.found_in_view, reply.late, reply.corrections, reply.commits) == (5, 4, 4, 2, 4)
    (row,) = reply.cell.rows()
    assert (row["hits"], row["errors"], reply.cell.corrections, reply.agrees) == (4, 1, 1, True)
    wording.check(reply.note, 1)


def test_the_row_of_a_cell_is_read_within_the_time_limit(shop: Shop, spark: Any, tmp_path: Path) -> None:
    @contextmanager
    def late() -> Iterator[None]:
        raise QuestionLimitError("the query was stopped")
        yield

    bench = shop.bench
    questions = LakeQuestions(
        bench.store, lambda name: (bench.stream, bench.table), lambda: spark, up_to_date, tmp_path, late
    )
    with pytest.raises(QuestionLimitError):
        questions.explain(CellQuestion.of("traffic", {"page": "/home"}, "2026-03-01T12:00:00Z"))


def test_pages_by_position(shop: Shop) -> None:
    whole = shop.explain("traffic", {"page": "/home"}, "2026-03-01T12:00:00Z")
    pages, cursor = [], None
    while True:
        page = shop.explain("traffic", {"page": "/home"}, "2026-03-01T12:00:59.9999Z", limit=2, cursor=cursor)
        pages.append(page.events)
        assert page.found == 5
        if (cursor := page.next_cursor) is None:
            break
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [event for page in pages for event in page] == whole.events


def test_windows_overlap_and_are_composed(shop: Shop) -> None:
    for at, window, start, count in [
        ("2026-03-01T12:00:00Z", {}, "12:00", 8),
        ("2026-03-01T12:04:59Z", {}, "12:00", 8),  # the last window that holds it
        ("2026-03-01T11:55:00Z", {}, "11:55", 8),
        ("2026-03-01T12:04:59Z", {"window": "1h"}, "12:00", 9),
        ("now", {}, "12:40", 1),
        ("-35m", {}, "12:10", 0),
    ]:
        explanation = shop.explain("hops", None, at, **window)
        assert explanation.window_start is not None
        assert (f"{explanation.window_start:%H:%M}", explanation.found) == (start, count), at


def test_the_events_of_a_session(shop: Shop) -> None:
    for at in ("2026-03-01T12:00:10Z", "2026-03-01T12:01:59Z"):
        explanation = shop.explain("stays", {"page": "/home"}, at)
        assert explanation.window_start is not None
        assert explanation.window_end is not None
        assert (f"{explanation.window_start:%H:%M:%S}", f"{explanation.window_end:%H:%M:%S}") == (
            "12:00:10",
            "12:02:00",
        )
        assert (explanation.found, explanation.found_in_view, explanation.agrees) == (7, 6, True)
        assert [row["hits"] for row in explanation.cell.rows()] == [6]
    newest = shop.explain("stays", {"page": "/cart"}, "now")
    assert (newest.found, newest.agrees) == (1, True)


def test_null_and_several_keys_without_window(shop: Shop) -> None:
    assert shop.explain("traffic", {"page": None}, "2026-03-01T12:02:00Z").found == 1
    explanation = shop.explain("ever", {"page": "/home", "country": "de"})
    assert (explanation.found, explanation.window_start, explanation.events[0].arguments) == (1, None, {"s": 200})
    assert shop.explain("ever", {"page": "/home", "country": None}).found == 6


def test_a_cell_without_events_names_the_nearest(shop: Shop) -> None:
    explanation = shop.explain("traffic", {"page": "/home"}, "2026-03-01T12:20:00Z")
    assert (explanation.found, explanation.agrees, explanation.events, explanation.cell.rows()) == (0, True, [], [])
    assert explanation.nearest == (datetime(2026, 3, 1, 12, 1, tzinfo=UTC),)
    assert shop.explain("traffic", {"page": "/nowhere"}, "2026-03-01T12:20:00Z").nearest == ()
    assert shop.explain("ever", {"page": "/nowhere", "country": None}).found == 0


@pytest.mark.parametrize(
    ("view", "key", "at", "error", "values"),
    [
        ("traffic", {}, "2026-03-01T12:00:00Z", QuestionError, ["page"]),
        ("ever", {"page": "/home"}, None, QuestionError, ["country"]),
        ("traffic", {"pag": "/home"}, "2026-03-01T12:00:00Z", QuestionError, ["pag", "page"]),
        ("traffic", {"page": "/home"}, None, QuestionError, ["traffic"]),
        ("ever", {"page": "/home", "country": "de"}, "2026-03-01", QuestionError, ["ever", "at"]),
        ("traffic", {"page": "/home"}, "1969-12-31", QuestionError, ["1969-12-31T00:00:00Z"]),
        ("stays", {"page": "/home"}, "2026-03-01T12:02:00Z", QuestionError, ["stays", "2026-03-01T12:02:00Z"]),
        ("stays", {"page": "/home"}, "2026-03-01T12:00:09.999Z", QuestionError, ["window_start"]),
        ("traffic", {"page": "/home"}, "yesterday", QuestionError, ["at", "yesterday"]),
        ("traffi", {"page": "/home"}, "2026-03-01", NotFoundError, ["traffi", "traffic"]),
    ],
)
def test_mistakes_in_cells(
    shop: Shop, view: str, key: dict[str, Any], at: Any, error: type[HeadraceError], values: list[str]
) -> None:
    with wording.raises(error, *values):
        shop.explain(view, key, at)


def test_a_time_between_windows(shop: Shop) -> None:
    with wording.raises(QuestionError, "2026-03-01T12:05:00Z", "2026-03-01T12:20:00Z"):
        shop.explain("hops", None, "2026-03-01T12:08:00Z", window="5m", every="20m")


def test_two_at_a_time_and_a_damaged_file(shop: Shop) -> None:
    history = shop.history
    with history._turns, history._turns, wording.raises(OverloadError, 2):
        shop.explain("hops", None, "now")
    file = shop.bench.table.folder / shop.bench.table.files(0, 1)[0].path
    content = file.read_bytes()
    try:
        file.write_bytes(content[:-1])
        with pytest.raises(CorruptionError, match=file.name):
            shop.explain("hops", None, "now")
    finally:
        file.write_bytes(content)


def test_a_job_is_counted_and_cancelled(spark: Any) -> None:
    job = Job()
    assert job.progress().known == 0
    with job.running(spark, "a test"):
        spark.range(10, numPartitions=2).count()
        progress = job.progress()
        assert progress.done == progress.known > 0
        job.cancel()
    assert job.cancelled
    assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") is None


JOINED = """
CREATE STREAM clicks (user_id STRING, n INT);
CREATE TABLE users (id STRING PRIMARY KEY, plan STRING, least INT, city STRING);
CREATE MATERIALIZED VIEW by_plan AS SELECT u.plan, count(*) AS hits
  FROM clicks c LEFT JOIN users u ON c.user_id = u.id AND c.n >= u.least
  WHERE user_id NOT IN (SELECT id FROM users WHERE city = 'Rome') GROUP BY u.plan;
"""


def test_the_row_of_a_table_that_each_event_met(spark: Any, tmp_path: Path) -> None:
    joined = Joined(spark, tmp_path, JOINED)
    joined.register("by_plan")
    clicks, users = joined.parts["clicks"], joined.parts["users"]
    users.send({"id": "ann", "plan": "pro", "least": 2}, {"id": "bob", "plan": "pro", "least": 1})
    clicks.send({"user_id": "ann", "n": 2}, {"user_id": "ann", "n": 1}, {"user_id": "eve", "n": 1})
    users.send({"id": "ann", "plan": "free", "least": 0})
    clicks.send({"user_id": "ann", "n": 1}, {"user_id": "bob", "n": 1})
    joined.maintain()
    questions = LakeQuestions(joined.store, joined.find, lambda: spark, up_to_date, tmp_path / "q")

    def met(plan: str | None) -> list[tuple[str, Any]]:
        explanation = questions.explain(CellQuestion.of("by_plan", {"plan": plan}))
        assert Explanation.from_dict(json.loads(json.dumps(explanation.as_dict()))) == explanation
        first = [event.joined[0] for event in explanation.events]
        others = [each for event in explanation.events for each in event.joined[1:]]
        assert {(each.table, each.row) for each in others} == {("users", None)}  # of NOT IN
        printed = print_wide(explanation)
        assert all(str(each) in printed for each in first)
        return [(each.key["id"], each.row) for each in first]

    assert met("pro") == [("ann", {"plan": "pro", "least": 2}), ("bob", {"plan": "pro", "least": 1})]
    assert met(None) == [("ann", None), ("eve", None)]
    assert met("free") == [("ann", {"plan": "free", "least": 0})]
    joined.close()


def print_wide(explanation: Explanation) -> str:
    """An explanation as the command prints it, on a wide terminal."""
    wide = Console(width=400, record=True, file=StringIO())
    wide.print(render(explanation))
    return wide.export_text()
