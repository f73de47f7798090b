"""Store and serve together against plain Python, for every aggregate, on generated events and questions."""

from __future__ import annotations

import tempfile
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace.serve.read
import headrace.store.duckdb.snapshot
from headrace.define.model import View, Window
from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer
from headrace.serve.question import Question
from headrace.store.base import Step
from headrace.store.duckdb.store import DuckStore
from tests.unit.serve.reference import expected, same_rows
from tests.unit.store.partial_files import TYPES, Event, make_view, write_partials

PANE = 60_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BIG = 2**63 - 1
VALUES: dict[str, list[Any]] = {
    "STRING": [None, "", "a", "b", "é", "\U0001f600", "\\N", "Z", "null"],
    "BOOLEAN": [None, True, False],
    "INT": [None, 0, 1, -1, 2**31 - 1, -(2**31)],
    "BIGINT": [None, 0, 1, 2**53 + 1, BIG, -BIG - 1],
    "DOUBLE": [None, 0.0, 1.5, -2.25, 1e6, float("nan"), float("inf")],
    "DECIMAL": [None, Decimal("0.00"), Decimal("1.10"), Decimal("-99999999.99")],
    "DATE": [None, date(1970, 1, 1), date(2026, 2, 28), date(1969, 12, 31)],
    "TIMESTAMP": [None, datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, 2, 3, 456789, tzinfo=UTC)],
}

minutes = st.integers(0, 12)
spans = st.none() | st.integers(1, 7)


@st.composite
def cases(draw: st.DrawFn) -> tuple[View, list[list[Event]], dict[str, Any], int]:
    windowed = draw(st.integers(0, 5)) > 0
    declared = draw(st.sampled_from([(1, 1), (3, 3), (4, 2), (3, 2)]))
    window = Window(declared[0] * PANE, declared[1] * PANE) if windowed else None
    view = make_view(keys=draw(st.lists(st.sampled_from(TYPES), max_size=2)), window=window)
    pools = [draw(st.lists(st.sampled_from(VALUES[k.expression.type.name]), min_size=1, max_size=3)) for k in view.keys]
    event = st.builds(
        Event,
        keys=st.tuples(*(st.sampled_from(pool) for pool in pools)),
        at_ms=st.integers(0, 12 * PANE - 1),
        values=st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()}),
    )
    batches = draw(st.lists(st.lists(event, max_size=8), min_size=1, max_size=4))
    asked: dict[str, Any] = {}
    names = [key.name for key in view.keys]
    if draw(st.booleans()):
        asked["by"] = draw(st.permutations(names).map(lambda n: n[:1])) if names else []
    if names and draw(st.booleans()):
        asked["key"] = [{names[0]: draw(st.sampled_from(VALUES[view.keys[0].expression.type.name]))} for _ in range(2)]
    if window:
        pane = window.pane_ms
        if draw(st.booleans()):
            asked["start"] = draw(minutes) * pane
        if draw(st.booleans()):
            asked["end"] = asked.get("start", 0) + draw(st.integers(1, 10)) * pane
        asked["window"], asked["every"] = (n and n * pane for n in (draw(spans), draw(spans)))
        if draw(st.integers(0, 4)) == 0:
            asked["window"], asked["every"] = "all", None
    asked["order"] = draw(st.sampled_from(["oldest", "newest"]))
    return view, batches, asked, draw(st.integers(1, 4))


def ask(store: DuckStore, asked: dict[str, Any], limit: int) -> Answer:
    times = {k: datetime.fromtimestamp(asked[k] / 1000, UTC) for k in ("start", "end") if k in asked}
    spans = {
        k: timedelta(milliseconds=asked[k]) if isinstance(asked[k], int) else asked[k]
        for k in ("window", "every")
        if k in asked
    }
    rest = {k: asked[k] for k in ("by", "key", "order") if k in asked}
    rows: list[Any] = []
    cursor = None
    left: list[int | None] = []  # how many more rows each page announced, and how many came by then
    while True:
        question = Question.of("v", **rest, **times, **spans, limit=limit, cursor=cursor)
        page = answer(store, question, lambda version: (0, None), NOW)
        assert len(page.values) <= limit
        again = Answer.from_dict(orjson.loads(orjson.dumps(page.as_dict())))
        assert repr(again) == repr(page).replace("<UTC>", "datetime.timezone.utc"), "JSON gives the same answer back"
        assert page.arrow().num_rows == len(page.values)
        rows += page.values
        left.append(None if page.more_rows is None else len(rows) + page.more_rows)
        cursor = page.next_cursor
        if cursor is None:
            assert {total for total in left if total is not None} == {len(rows)}, "each page says how many follow"
            return Answer(**{**page.__dict__, "values": rows})


@pytest.mark.parametrize("few", [4_000, -1], ids=["python fold", "sql fold"])
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=cases(), data=st.data())
def test_answers_equal_the_reference(few: int, case: Any, data: st.DataObject) -> None:
    view, batches, asked, limit = case
    events = [event for batch in batches for event in batch]
    newest = max((event.at_ms for event in events), default=None)
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(headrace.store.duckdb.snapshot, "FEW", few)
        patch.setattr(headrace.serve.read, "BUCKETS_AT_ONCE", 3)
        store = DuckStore.open(Path(folder) / "store", fence=1)
        store.register(view, "f", patience_ms=PANE)
        for number, batch in enumerate(data.draw(st.permutations(batches))):
            cut = data.draw(st.integers(0, len(batch)))  # two tasks, whose files may share groups
            files = [
                write_partials(Path(folder) / f"{number}-{i}.parquet", view, part)
                for i, part in enumerate((batch[:cut], batch[cut:]))
                if part
            ]
            step = Step("events", number, number + 1, 0, None if newest is None else newest * 1000, 0)
            store.apply(step, {("v", 1): files})
        found = ask(store, asked, limit)
        store.close()
    size, every = (view.window.size_ms, view.window.slide_ms) if view.window else (None, None)
    all_time = asked.get("window") == "all"
    if not all_time and (asked.get("window") or asked.get("every")):
        size, every = asked["window"] or asked["every"], asked["every"] or asked["window"]
    wanted = expected(
        view,
        events,
        by=tuple(asked.get("by", [key.name for key in view.keys])),
        where=tuple(asked.get("key", ())),
        start=asked.get("start"),
        end=asked.get("end"),
        size=size,
        every=every,
        settled_before_ms=None if newest is None else newest - PANE,
        all_time=all_time,
        newest_first=asked["order"] == "newest",
    )
    assert same_rows(found.rows(), wanted), (found.rows(), wanted)
