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

import headrace.serve.evaluate
import headrace.store.duckdb.snapshot
from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Step
from headrace.transport.position import Position
from tests.effort import examples
from tests.unit.serve.cases import PANE, VALUES, cases
from tests.unit.serve.reference import expected, same_rows
from tests.unit.store.partial_files import write_partials

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ask(store: DuckStore, question: dict[str, Any], limit: int) -> Answer:
    times = {k: datetime.fromtimestamp(question[k] / 1000, UTC) for k in ("start", "end") if k in question}
    spans = {
        k: timedelta(milliseconds=question[k]) if isinstance(question[k], int) else question[k]
        for k in ("window", "every")
        if k in question
    }
    rest = {k: question[k] for k in ("by", "key", "order", "settled_only", "corrections") if k in question}
    rows: list[Any] = []
    cursor = None
    totals: list[int | None] = []  # per page, the rows read so far and those that it says follow
    while True:
        page_question = Question.of("v", **rest, **times, **spans, limit=limit, cursor=cursor)
        page = answer(store, page_question, up_to_date, NOW)
        assert len(page.values) <= limit
        again = Answer.from_dict(orjson.loads(orjson.dumps(page.as_dict())))
        assert repr(again) == repr(page).replace("<UTC>", "datetime.timezone.utc"), "JSON gives the same answer back"
        assert page.arrow().num_rows == len(page.values)
        rows += page.values
        totals.append(None if page.more_rows is None else len(rows) + page.more_rows)
        cursor = page.next_cursor
        if cursor is None:
            assert {total for total in totals if total is not None} == {len(rows)}, "each page says how many follow"
            return Answer(**{**page.__dict__, "values": rows})


@pytest.mark.parametrize("few", [4_000, -1], ids=["python fold", "sql fold"])
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=cases(), data=st.data())
def test_answers_equal_the_reference(few: int, case: Any, data: st.DataObject) -> None:
    view, batches, question, limit = case
    events = [event for batch in batches for event in batch]
    newest = max((event.at_ms for event in events), default=None)
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(headrace.store.duckdb.snapshot, "FEW", few)
        patch.setattr(headrace.serve.evaluate, "BUCKETS_AT_ONCE", 3)
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
        result = ask(store, question, limit)
        store.close()
    size, every = (view.window.size_ms, view.window.slide_ms) if view.window else (None, None)
    all_time = question.get("window") == "all"
    if not all_time and (question.get("window") or question.get("every")):
        size, every = question["window"] or question["every"], question["every"] or question["window"]
    expected_rows = expected(
        view,
        events,
        by=tuple(question.get("by", [key.name for key in view.keys])),
        where=tuple(question.get("key", ())),
        start=question.get("start"),
        end=question.get("end"),
        size=size,
        every=every,
        settled_before_ms=None if newest is None else newest - PANE,
        all_time=all_time,
        newest_first=question["order"] == "newest",
        settled_only=question.get("settled_only", False),
        corrections=question["corrections"],
    )
    assert same_rows(result.rows(), expected_rows), (result.rows(), expected_rows)


def test_rows_of_a_lookup_are_in_the_order_of_its_keys() -> None:
    """Against the rows of each key asked for alone, for every type of key and any windows."""
    check_lookups()


@settings(
    deadline=None, max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(case=cases(), data=st.data())
def check_lookups(case: Any, data: st.DataObject) -> None:
    view, batches, question, _ = case
    events = [event for batch in batches for event in batch]
    asked = [{key.name: data.draw(st.sampled_from(VALUES[key.expression.type.name])) for key in view.keys[:count]}
             for count in data.draw(st.lists(st.integers(1, 2), min_size=1, max_size=6))]  # fmt: skip
    times = {k: datetime.fromtimestamp(question[k] / 1000, UTC) for k in ("start", "end") if k in question}
    spans = {
        k: timedelta(milliseconds=question[k]) if isinstance(question[k], int) else question[k]
        for k in ("window", "every")
        if k in question
    }
    rest = {k: question[k] for k in ("order", "settled_only", "corrections") if k in question}
    newest = max((event.at_ms * 1000 for event in events), default=None)
    with tempfile.TemporaryDirectory() as folder:
        store = DuckStore.open(Path(folder) / "store", fence=1)
        store.register(view, "f", {"events": PANE})
        files = [write_partials(Path(folder) / "p.parquet", view, events)] if events else []
        store.apply(Step("events", 0, 1, Position.at(0), newest, 0), {("v", 1): files})

        def read(question: Question) -> Answer:
            return answer(store, question, up_to_date, NOW)

        looked_up = read(Question.lookup_of("v", asked, **rest, **times, **spans))
        alone = [read(Question.of("v", [key], **rest, **times, **spans)) for key in asked]
        store.close()
    assert looked_up.missing is not None
    assert repr(looked_up.values) == repr([row for one in alone for row in one.values])
    missing = [key for key, one in zip(asked, alone, strict=True) if not one.values]
    assert repr(list(looked_up.missing)) == repr(missing)
    again = Answer.from_dict(orjson.loads(orjson.dumps(looked_up.as_dict())))
    assert repr(again) == repr(looked_up).replace("<UTC>", "datetime.timezone.utc")
