"""Answers with expressions over aggregates, HAVING, ORDER BY and LIMIT, of the view and of the question."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headrace.aggregate import collected_values
from headrace.api import paging
from headrace.define.catalog import parse
from headrace.errors import ConflictError, QuestionError
from headrace.serve import evaluate, present_columns
from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from tests import wording
from tests.unit.serve.shaped import NOW, SELECT, STREAM, Views


@pytest.fixture
def views(tmp_path: Path) -> Iterator[Views]:
    views = Views(tmp_path)
    yield views
    views.store.close()


def test_expressions_are_columns_with_the_types_of_spark(views: Views) -> None:
    views.add()
    reply = views.ask()
    assert [name for name, _ in reply.columns] == ["k0", "window_start", "window_end", "n", "b", "mean", "settled"]
    assert str(dict(reply.columns)["mean"]) == "DECIMAL(38,20)"
    assert [(row["k0"], row["n"], row["b"], row["mean"]) for row in reply.rows()] == [
        ("a", 2, 7, Decimal("3.5")),
        ("b", 1, 5, Decimal(5)),
        (None, 1, 2, Decimal(2)),
        ("a", 1, 9, Decimal(9)),
        ("c", 1, 1, Decimal(1)),
    ]
    assert Answer.from_dict(reply.as_dict()).values == reply.values
    assert reply.arrow().num_rows == 5


def test_expressions_apply_after_the_keys_and_windows_of_a_question_are_merged(views: Views) -> None:
    views.add()
    assert views.rows("n", "b", "mean", by="", window="all") == [(6, 24, Decimal(4))]
    assert views.rows("k0", "mean", by="k0", window="all", key={"k0": "a"}) == [
        ("a", Decimal("5.33333333333333333333"))
    ]
    sliding = views.rows("k0", "b", window="2m", every="1m", key={"k0": "a"}, having="b > 10")
    assert sliding == [("a", 16)]


def test_an_unknown_field_is_refused_with_the_fields_that_the_view_reads(views: Views) -> None:
    views.add()
    with wording.raises(QuestionError, "nothing"):
        views.ask(having="sum(nothing) > 1")


def test_having_filters_rows_before_the_limit(views: Views) -> None:
    views.add(f"{SELECT} HAVING sum(b) > 4")
    assert views.rows("k0", "b") == [("a", 7), ("b", 5), ("a", 9)]
    first = views.ask(limit=2)
    assert ([row["b"] for row in first.rows()], first.more_rows) == ([7, 5], 1)
    assert views.rows("k0", "b", limit=2, cursor=first.next_cursor) == [("a", 9)]
    assert views.rows("k0", "b", having="") == [("a", 7), ("b", 5), (None, 2), ("a", 9), ("c", 1)]
    assert views.rows("k0", "b", having="k0 IS NULL OR mean = 1") == [(None, 2), ("c", 1)]
    assert views.rows("b", having="b > 100") == []
    assert views.ask(having="b > 100").next_cursor is None


def test_order_and_limit_of_the_view_and_of_the_question(views: Views) -> None:
    views.add(f"{SELECT} ORDER BY b DESC LIMIT 2")
    top = views.ask()
    assert [row["b"] for row in top.rows()] == [9, 7]
    assert (top.next_cursor, top.more_rows) == (None, 0), "LIMIT of a view leaves no rows behind it"
    assert views.rows("b", limit=3) == [(9,), (7,), (5,)]
    assert views.rows("k0", order_by="k0 DESC NULLS FIRST, b", limit=9) == [(None,), ("c",), ("b",), ("a",), ("a",)]
    assert views.rows("k0", "b", order_by="k0, b DESC", limit=9)[:3] == [(None, 2), ("a", 9), ("a", 7)]
    assert views.rows("b", order_by="window_start DESC, b", limit=9) == [(1,), (2,), (9,), (5,), (7,)]
    assert views.rows("b", order_by="", limit=9) == [(7,), (5,), (2,), (9,), (1,)]
    assert views.rows("b", order_by="count(*) DESC, sum(d) / count(*)", limit=9) == [(7,), (1,), (2,), (5,), (9,)]


def test_pages_in_an_order(views: Views) -> None:
    views.add()
    question = Question.of("v", order_by="b DESC", limit=2)
    pages, cursor = [], None
    while cursor or not pages:
        reply = views.ask(order_by="b DESC", limit=2, cursor=cursor)
        cursor = reply.next_cursor
        pages.append(([row["b"] for row in reply.rows()], reply.more_rows))
    assert pages == [([9, 7], 3), ([5, 2], 1), ([1], 0)]
    reply = paging.read_whole(lambda each: answer(views.store, each, up_to_date, NOW), question, page_rows=2)
    assert [row["b"] for row in reply.rows()] == [9, 7, 5, 2, 1]
    with wording.raises(QuestionError):
        views.ask(order_by="b", cursor=views.ask(order_by="b DESC", limit=2).next_cursor)


def test_the_rows_of_an_answer_without_limit_end_where_the_view_says(views: Views) -> None:
    views.add(f"{SELECT} LIMIT 2")
    reply = paging.read_whole(lambda each: answer(views.store, each, up_to_date, NOW), Question.of("v"))
    assert [row["b"] for row in reply.rows()] == [7, 5]


def test_a_key_that_is_merged_is_null_in_expressions_and_refused_in_having(views: Views) -> None:
    views.add(
        "SELECT k0, concat('key ', k0) AS label, count(*) AS n FROM events GROUP BY k0 HAVING k0 <> 'b' ORDER BY k0"
    )
    assert views.rows("k0", "label", "n") == [("a", "key a", 3), ("c", "key c", 1)]
    assert views.rows("label", "n", by="", having="") == [(None, 6)]
    with wording.raises(QuestionError, "HAVING", "v", "k0"):
        views.ask(by="")
    with wording.raises(QuestionError, "k0"):
        views.ask(by="", having="k0 = 'a'")


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ({"having": "n >"}, ()),
        ({"having": "n"}, ("HAVING", "BIGINT", "count(*)")),
        ({"having": "nn > 5"}, ("v", "nn")),
        (
            {"having": "max(b) > 5"},
            ("v", "max(b)", "count(*)", "sum(b)", "sum(d)"),
        ),
        ({"having": 5}, ("5",)),
        ({"order_by": "n DESC NULLS"}, ("order_by",)),
        ({"order_by": "2"}, ("order_by", "ORDER BY", "2")),
        ({"having": "n > 5" + " " * 5000}, ()),
        ({"having": "x > 5"}, ("v", "x")),
    ],
)
def test_mistakes_in_a_question(views: Views, question: dict[str, Any], values: tuple[str, ...]) -> None:
    views.add()
    with wording.raises(QuestionError, *values):
        views.ask(**question)


def test_more_rows_than_can_be_ordered_are_refused(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "MOST_SHAPED", 4)
    views.add()
    with wording.raises(QuestionError, 4):
        views.ask(order_by="b")
    assert views.rows("b", order_by="b", key={"k0": "a"}) == [(7,), (9,)]


@pytest.mark.parametrize("pages", [0, 1, 9])
def test_pages_of_a_view_with_many_rows_have_those_that_having_keeps(
    views: Views, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    monkeypatch.setattr(evaluate, "MOST_SHAPED", 4)
    monkeypatch.setattr(evaluate, "PAGES_AT_FIRST", pages)
    monkeypatch.setattr(present_columns, "FEW", 0)
    views.add()
    found, cursor = [], None
    while not found or cursor:
        page = views.ask(having="b IN (2, 1, 9)", limit=1, cursor=cursor)
        found += [(row["k0"], row["b"]) for row in page.rows()]
        cursor = page.next_cursor
    assert found == [(None, 2), ("a", 9), ("c", 1)]
    assert views.rows("b", having="b > 100") == []


def test_an_edit_of_the_shape_ends_old_cursors(views: Views) -> None:
    views.add(f"{SELECT} ORDER BY b")
    cursor = views.ask(limit=2).next_cursor
    edited = parse(f"{STREAM} CREATE MATERIALIZED VIEW v AS {SELECT} ORDER BY b DESC;").views["v"]
    views.store.adopt(edited, "edited", {"events": 0}, 1)
    assert views.rows("b", limit=2) == [(9,), (7,)]
    with wording.raises(ConflictError):
        views.ask(limit=2, cursor=cursor)


def test_division_by_zero_is_null(views: Views) -> None:
    views.add(
        "SELECT k0, sum(b) / (count(*) - count(*)) AS q, sum(d) / 0 AS z, count(*) % 0 AS m FROM events GROUP BY k0"
    )
    assert set(views.rows("q", "z", "m")) == {(None, None, None)}


def test_a_cell_without_a_value_is_an_error_of_each_output_that_uses_it(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collected_values, "LIMIT", 1)
    views.add("SELECT k0, count(*) AS n, size(collect_set(b)) AS s, 2 * n AS m FROM events GROUP BY k0 HAVING n > 1")
    reply = views.ask()
    assert [(row["k0"], row["s"], row["m"]) for row in reply.rows()] == [("a", None, 6)]
    assert [(error.row, error.column) for error in reply.errors] == [(0, "s")]


def test_approximate_columns_in_expressions_state_their_error(views: Views) -> None:
    views.add("SELECT k0, approx_count_distinct(i) / count(*) AS share, count(*) AS n FROM events GROUP BY k0")
    assert list(views.ask().approximate) == ["share"]
    assert views.ask().approximate["share"].startswith("of approx_count_distinct(i): ")


def test_a_sum_that_fits_no_bigint_is_null_in_expressions_and_the_others_of_its_column_are_not(views: Views) -> None:
    views.add(
        "SELECT k0, sum(b) AS s, s + 1 AS more, s % 7 AS rest FROM events GROUP BY k0 "
        "HAVING s > 0 OR s IS NULL ORDER BY s - 1",
        unit=(big := 10**18),
    )
    assert views.rows("k0", "s", "more", "rest") == [
        ("a", 16 * big, None, None),
        ("c", big, big + 1, big % 7),
        (None, 2 * big, 2 * big + 1, 2 * big % 7),
        ("b", 5 * big, 5 * big + 1, 5 * big % 7),
    ]
