"""A whole answer is read page by page: each row once, also while the view is updated or edited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from headrace.api import paging
from headrace.errors import ConflictError
from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer
from headrace.serve.freshness import Fresh, up_to_date
from headrace.serve.question import Question
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Step
from headrace.transport.position import Position
from tests import wording
from tests.unit.store.partial_files import Event, make_view, simple_event, write_partials

MINUTE = 60_000
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PAGE = 4


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckStore]:
    opened = DuckStore.open(tmp_path / "store", fence=1)
    opened.register(make_view(), "f", {"events": 0})
    yield opened
    opened.close()


def read_whole(ask: Callable[[Question], Answer], question: Question) -> Answer:
    return paging.read_whole(ask, replace(question, limit=PAGE), page_rows=PAGE)


def merge(store: DuckStore, folder: Path, *events: Event) -> None:
    with store.snapshot() as snapshot:
        version = snapshot.serving("v")
    assert version is not None
    at = version.bases[0].applied_to
    file = write_partials(folder / f"{at}.parquet", version.view, events)
    store.apply(Step("events", at, at + 1, Position.at(at + 1), 9 * MINUTE * 1000, 0), {("v", version.number): [file]})


def ask_store(store: DuckStore, *actions: Callable[[], None]) -> Callable[[Question], Answer]:
    """A function that asks the store, and runs the next action after each page."""
    pending = iter(actions)

    def ask(question: Question) -> Answer:
        page = answer(store, question, lambda version: Fresh(version.bases[0].applied_to), NOW)
        next(pending, lambda: None)()
        return page

    return ask


def test_all_rows_are_read(store: DuckStore, tmp_path: Path) -> None:
    merge(store, tmp_path, *(simple_event(f"/{n:02d}", n % 5 * MINUTE, n) for n in range(18)))
    for order in ("oldest", "newest"):
        result = read_whole(ask_store(store), Question.of("v", order=order))
        assert sorted(row["sum_bigint"] for row in result.rows()) == list(range(18))
        assert (result.next_cursor, result.more_rows, result.events) == (None, 0, {"batch": 0, "speed": 18})
        starts = [row["window_start"] for row in result.rows()]
        assert starts == sorted(starts, reverse=order == "newest")
    first = answer(store, Question.of("v", limit=5), up_to_date, NOW)
    rest = read_whole(ask_store(store), Question.of("v", cursor=first.next_cursor))
    assert len(rest.rows()) == 13, "from the cursor on, if one is given"


def test_a_view_that_is_updated_between_two_pages_gives_each_row_once(store: DuckStore, tmp_path: Path) -> None:
    merge(store, tmp_path, *(simple_event(f"/{n}", 1 * MINUTE, 1) for n in range(9)))

    def update() -> None:  # a key that was read, one that will be, and two new ones: before and after
        keys = [("/0", 1), ("/8", 1), ("/new", 0), ("/new", 2)]
        merge(store, tmp_path, *(simple_event(key, at * MINUTE, 1) for key, at in keys))

    result = read_whole(ask_store(store, update), Question.of("v"))
    rows = [(row["window_start"].minute, row["k0"], row["count_all"]) for row in result.rows()]
    assert rows == [*((1, f"/{n}", 1) for n in range(8)), (1, "/8", 2), (2, "/new", 1)]
    assert result.commits == {"events": 1}, "what all rows have"
    assert result.freshness_ms == 2


def test_after_an_edit_between_two_pages_reading_starts_again(store: DuckStore, tmp_path: Path) -> None:
    merge(store, tmp_path, *(simple_event(f"/{n}", 0, 1) for n in range(9)))
    result = read_whole(
        ask_store(store, lambda: store.adopt(make_view(), "g", {"events": 0}, 1) and None), Question.of("v")
    )
    assert (len(result.rows()), result.version) == (9, 2)


def test_reading_fails_if_a_view_is_edited_repeatedly(store: DuckStore, tmp_path: Path) -> None:
    merge(store, tmp_path, *(simple_event(f"/{n}", 0, 1) for n in range(9)))
    edits = [lambda n=n: store.adopt(make_view(), f"g{n}", {"events": 0}, n) and None for n in range(1, 9)]
    with wording.raises(ConflictError, "v", 3):
        read_whole(ask_store(store, *edits), Question.of("v"))


def test_a_column_has_one_type_over_all_pages(store: DuckStore, tmp_path: Path) -> None:
    big = simple_event("/8", 0)
    merge(store, tmp_path, *(simple_event(f"/{n}", 0, 1) for n in range(8)), *([big] * 2))
    huge = Event(big.keys, big.at_ms, {**big.values, "BIGINT": 2**63 - 1})
    merge(store, tmp_path, huge, huge)
    result = read_whole(ask_store(store), Question.of("v"))
    assert dict(result.columns)["sum_bigint"].name == "DECIMAL"
    assert [row["sum_bigint"] for row in result.rows()] == [*[Decimal(1)] * 8, Decimal(2**64)]
    assert result.arrow().num_rows == 9
