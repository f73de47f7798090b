"""Calendar and cumulative windows against plain Python: any zone, days with 23 and 25 hours, any page and order."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace.serve.evaluate
import headrace.store.duckdb.snapshot
from headrace.aggregate import REGISTRY
from headrace.define.definition_rules import make_calendar_window, make_cumulative, make_window
from headrace.define.model import Column, Window
from headrace.errors import QuestionError
from headrace.language.calendar import Calendar, Unit
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.duckdb.folds import fold
from headrace.store.duckdb.snapshot import DuckSnapshot
from headrace.store.selection import Selection
from headrace.store.store_contract import Step
from headrace.transport.position import Position
from headrace.types import STRING
from tests import wording
from tests.unit.serve.reference import Placed, calendar_window, expected, same_rows
from tests.unit.store.partial_files import Event, make_view, simple_event, write_partials

HOUR, DAY = 3_600_000, 86_400_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo")
# Around changes of the clock: Berlin, Lord Howe and New York in 2026, and Sao Paulo, at midnight, in 2018.
STARTS = tuple(
    round(datetime(*day, tzinfo=UTC).timestamp() * 1000)
    for day in ((2026, 3, 28), (2026, 4, 4), (2026, 10, 24), (2026, 3, 7), (2018, 11, 3), (2024, 12, 30))
)
EVERY = make_view(keys=(STRING,))
FEW = ("sum", "min", "max", "bool_or", "approx_count_distinct")  # all aggregates are tried with other windows
COLUMNS = {column.aggregate.name: column for column in EVERY.columns if column.aggregate.name in FEW}
VIEW = replace(EVERY, columns=(Column("count_all", REGISTRY["count"](())), *COLUMNS.values()))

COUNT = "count_all"

zones = st.sampled_from(ZONES)
days = st.builds(Calendar, st.sampled_from(["day", "week"]), st.integers(1, 2), zones)
calendars = days | st.builds(Calendar, st.just("month"), st.sampled_from([1, 3, 12]), zones)
windows = (
    st.builds(make_calendar_window, calendars)
    | st.builds(make_cumulative, st.sampled_from([HOUR, 6 * HOUR, DAY]), calendars)
    | st.builds(make_cumulative, st.sampled_from([HOUR, 6 * HOUR]), st.just(DAY), st.sampled_from([0, HOUR, 7 * HOUR]))
    | st.builds(make_window, st.just(6 * HOUR), st.sampled_from([HOUR, 3 * HOUR, 6 * HOUR]), st.just(HOUR))
)


def windows_of(window: Window, at: int) -> Iterable[Placed]:
    """The windows that hold a time; cumulative ones are in the order of their ends."""
    size, slide, origin = window.size_ms, window.slide_ms, window.offset_ms
    if window.calendar:
        start, end = calendar_window(window.calendar, at)
    else:
        start = origin + (at - origin) // size * size
        end = start + size
    if window.cumulative:
        ends = [min(step, end) for step in range(start + slide, end + slide, slide)]
        return [(closes, start, closes) for closes in ends if closes > at]
    if window.calendar:
        return [(start, start, end)]
    starts = range(origin + (at - origin) // slide * slide, at - size, -slide)
    return [(opens, opens, opens + size) for opens in starts]


def ask(store: DuckStore, limit: int, **question: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor = None
    while True:
        asked = Question.of("v", limit=limit, cursor=cursor, **question)
        page = headrace.serve.evaluate.answer(store, asked, up_to_date, NOW)
        rows += page.rows()
        cursor = page.next_cursor
        if cursor is None:
            return rows


def load(folder: str, window: Window, batches: list[list[Event]]) -> DuckStore:
    view = replace(VIEW, window=window)
    newest = max((event.at_ms for batch in batches for event in batch), default=None)
    Path(folder).mkdir(exist_ok=True)
    store = DuckStore.open(Path(folder) / "store", fence=1)
    store.register(view, "f", {"events": 0})
    for number, batch in enumerate(batches):
        files = [write_partials(Path(folder) / f"{number}.parquet", view, batch)] if batch else []
        step = Step("events", number, number + 1, Position.at(0), None if newest is None else newest * 1000, 0)
        store.apply(step, {("v", 1): files})
    return store


@st.composite
def events(draw: st.DrawFn) -> list[list[Event]]:
    start = draw(st.sampled_from(STARTS))
    event = st.builds(simple_event, st.sampled_from(["a", "b"]), st.integers(start, start + 4 * DAY), st.integers(0, 9))
    return draw(st.lists(st.lists(event, max_size=8), min_size=1, max_size=3))


@pytest.mark.parametrize("few", [4_000, -1], ids=["python fold", "sql fold"])
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(window=windows, batches=events(), asked=windows | st.none(), data=st.data())
def test_answers_equal_the_reference(
    few: int, window: Window, batches: list[list[Event]], asked: Window | None, data: st.DataObject
) -> None:
    all_events = [event for batch in batches for event in batch]
    newest = max((event.at_ms for event in all_events), default=None)
    question: dict[str, Any] = {"order": data.draw(st.sampled_from(["oldest", "newest"]))}
    for name in ("start", "end"):
        if data.draw(st.booleans()):
            first = data.draw(st.sampled_from(STARTS[:3])) // DAY * DAY
            question[name] = datetime.fromtimestamp((first + (name == "end") * 3 * DAY) / 1000, UTC)
    if "start" in question and "end" in question and question["start"] >= question["end"]:
        del question["end"]
    if data.draw(st.booleans()):
        question["by"] = []
    if data.draw(st.booleans()):
        question["key"] = {"k0": "a"}
    if data.draw(st.booleans()):
        question["settled_only"] = True
    meant = window
    if asked and (asked.calendar or asked.cumulative) and not asked.offset_ms:
        meant = asked
        question["window"] = str(asked.calendar) if asked.calendar else "1 day"
        question["zone"] = asked.calendar.zone if asked.calendar else None
        question["cumulate"] = f"{asked.slide_ms}ms" if asked.cumulative else None
    elif not window.offset_ms and not window.calendar and not window.cumulative:
        question.pop("start", None)  # such windows are aligned to it
    bounds = {
        name: None if name not in question else round(question[name].timestamp() * 1000) for name in ("start", "end")
    }
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(headrace.store.duckdb.snapshot, "FEW", few)
        patch.setattr(headrace.serve.evaluate, "BUCKETS_AT_ONCE", 3)
        store = load(folder, window, batches)
        try:
            # Windows that grow by hours over a year are many.
            limit = 1_000 if meant.cumulative and meant.size_ms > 2 * DAY else data.draw(st.sampled_from([3, 5, 40]))
            rows = ask(store, limit, **question)
        except QuestionError:
            if meant is window or _tiles(meant, window.pane_ms):
                raise
            return
        finally:
            store.close()
    wanted = expected(
        replace(VIEW, window=window),
        all_events,
        by=tuple(question.get("by", ["k0"])),
        where=(question["key"],) if "key" in question else (),
        **bounds,
        size=None,
        every=None,
        settled_before_ms=newest,
        newest_first=question["order"] == "newest",
        settled_only="settled_only" in question,
        windows_of=lambda at: windows_of(meant, at),
    )
    assert same_rows(rows, wanted), (rows, wanted)


def _tiles(window: Window, pane_ms: int) -> bool:
    step = window.slide_ms if window.cumulative else DAY
    return step % pane_ms == 0 and (window.calendar is None or window.calendar.tile_ms % pane_ms == 0)


def times(rows: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    return [(str(row["window_start"])[:16], str(row["window_end"])[:16], row[COUNT]) for row in rows]


def test_a_day_of_berlin_has_23_or_25_hours(tmp_path: Path) -> None:
    first = round(datetime(2026, 3, 27, tzinfo=UTC).timestamp() * 1000)
    hourly = [simple_event("a", first + hour * HOUR, 1) for hour in range(5 * 24)]
    store = load(str(tmp_path), make_calendar_window(Calendar("day", 1, "Europe/Berlin")), [hourly])
    spring = ask(store, 100, start="2026-03-28", end="2026-03-31", zone="Europe/Berlin")
    assert times(spring) == [
        ("2026-03-27 23:00", "2026-03-28 23:00", 24),
        ("2026-03-28 23:00", "2026-03-29 22:00", 23),
        ("2026-03-29 22:00", "2026-03-30 22:00", 24),
    ]
    store.close()


def test_the_running_total_of_a_day(tmp_path: Path) -> None:
    store = load(str(tmp_path), make_window(HOUR), [[simple_event("a", hour * HOUR, 1) for hour in (0, 0, 3)]])
    rows = ask(store, 2, window="6 hours", cumulate="2 hours")
    assert times(rows) == [
        ("1970-01-01 00:00", "1970-01-01 02:00", 2),
        ("1970-01-01 00:00", "1970-01-01 04:00", 3),
        ("1970-01-01 00:00", "1970-01-01 06:00", 3),
    ]
    store.close()


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ({"window": "1 month", "zone": "Asia/Kolkata"}, ('1',)),
        ({"window": "5 months"}, ()),
        ({"window": "1 month", "zone": "Mars"}, ('Mars',)),
        ({"window": "1 month", "every": "1 day"}, ()),
        ({"cumulate": "1 hour"}, ()),
        ({"window": "all", "cumulate": "1 hour"}, ('all',)),
        ({"window": "5 hours", "cumulate": "2 hours"}, ('2',)),
        ({"window": "1 day", "cumulate": "90 minutes"}, ()),
        ({"zone": 3}, ()),
    ],
)  # fmt: skip
def test_what_questions_refuse(tmp_path: Path, question: dict[str, Any], values: tuple[str, ...]) -> None:
    store = load(str(tmp_path), make_window(HOUR), [[simple_event("a", 0, 1)]])
    with wording.raises(QuestionError, *values):
        ask(store, 10, **question)
    store.close()


@pytest.mark.parametrize("unit", ["day", "week", "month"])
def test_what_is_read_does_not_grow_with_the_time_between_events(tmp_path: Path, unit: Unit) -> None:
    """Windows between two events hold nothing, so neither Python nor DuckDB makes them."""
    last = round(datetime(2026, 11, 18, 9, tzinfo=UTC).timestamp() * 1000)
    work = []
    for first in (last - 400 * DAY, last - 20_000 * DAY):
        calendar = Calendar(unit, 1, "Europe/Berlin")
        pair = [simple_event("a", first, 1), simple_event("a", last, 1)]
        store = load(str(tmp_path / str(first)), make_calendar_window(calendar), [pair])
        assert [row[COUNT] for row in ask(store, 10)] == [1, 1]
        with store.snapshot() as snapshot:
            version = snapshot.serving("v")
            assert isinstance(snapshot, DuckSnapshot)
            assert version is not None
            selection = Selection(("k0",), bucket_ms=DAY, calendar=calendar)
            sources, resolved = snapshot._reading(version, selection)
            query, parameters = fold(version.view, sources, resolved)
            ((_, plan),) = snapshot.connection.execute(f"EXPLAIN (ANALYZE, FORMAT json) {query}", parameters).fetchall()
            work.append((len(resolved.windows), rows_made(json.loads(plan))))
        store.close()
    assert work[0] == work[1]


def rows_made(plan: dict[str, Any]) -> int:
    """How many rows all operators of a profiled query gave."""
    return int(plan.get("operator_cardinality", 0)) + sum(map(rows_made, plan.get("children", [])))
