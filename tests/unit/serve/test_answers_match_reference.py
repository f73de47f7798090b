"""Store and serve together against plain Python, for every aggregate, on generated events and questions."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace.serve.read
import headrace.store.duckdb.snapshot
from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer
from headrace.serve.question import Question
from headrace.store.base import Step
from headrace.store.duckdb.store import DuckStore
from headrace.transport.position import Position
from tests.unit.serve.cases import PANE, cases
from tests.unit.serve.reference import expected, same_rows
from tests.unit.store.partial_files import write_partials

NOW = datetime(2026, 1, 1, tzinfo=UTC)


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
        store.register(view, "f", {"events": PANE})
        for number, batch in enumerate(data.draw(st.permutations(batches))):
            cut = data.draw(st.integers(0, len(batch)))  # two tasks, whose files may share groups
            files = [
                write_partials(Path(folder) / f"{number}-{i}.parquet", view, part)
                for i, part in enumerate((batch[:cut], batch[cut:]))
                if part
            ]
            step = Step("events", number, number + 1, Position.at(0), None if newest is None else newest * 1000, 0)
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
