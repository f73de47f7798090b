"""Aggregates with no, several or constant arguments are read by their signature, in SQL and Python alike."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as hr
from headrace.aggregate import REGISTRY
from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint, from_json, to_json
from headrace.define.model import View
from headrace.define.outputs import outputs_of
from headrace.errors import DefinitionError
from headrace.language.terms import Expression
from headrace.plan.edits import describe_output
from headrace.store.partial_columns import partials_of
from headrace.types import INT, STRING
from tests import wording
from tests.aggregates import TEST_ONLY, CountAbove, NewestBy, Tally

FIELDS = "word STRING, small INT, big BIGINT, ratio DOUBLE, price DECIMAL(12,2), tags ARRAY<STRING>"
STREAM = f"CREATE STREAM events ({FIELDS});"
NAMES = [
    "count_e4e41a7a",
    "count_c1e85642",
    "sum_834ddba4__sum",
    "sum_834ddba4__count",
    "sum_fffaed8f__sum",
    "sum_fffaed8f__count",
    "sum_2c074822__sum",
    "sum_2c074822__count",
    "sum_2c074822__magnitude",
    "avg_5f46d0f5__sum",
    "avg_5f46d0f5__count",
    "max_8d8e586f",
    "approx_count_distinct_070c1724",
]


@pytest.fixture(autouse=True)
def only_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in TEST_ONLY:
        monkeypatch.setitem(REGISTRY, cls.name, cls)


def view(selected: str) -> View:
    return parse(f"{STREAM} CREATE MATERIALIZED VIEW v AS SELECT {selected} FROM events;").views["v"]


def test_a_call_is_read_by_the_signature() -> None:
    tally, above, newest = view("tally(), count_above(small, -2), newest_by(word, small)").columns
    assert (tally.name, tally.aggregate) == ("tally", Tally())
    small, word = Expression.field("small", INT), Expression.field("word", STRING)
    assert (above.name, above.aggregate) == ("count_above_small", CountAbove((small,), None, (-2.0,)))
    assert (newest.name, newest.aggregate) == ("newest_by_word", NewestBy((word, small)))


def test_python_gives_the_same_column() -> None:
    filtered = "FILTER (WHERE big > 0)"
    columns = f"tally() AS a, count_above(small + 1, 1.5) {filtered} AS b, newest_by(word, small) {filtered} AS c"
    events = hr.Stream("events", FIELDS)
    python = events.agg(
        a=hr.tally(),
        b=hr.count_above("small + 1", 1.5, where="big > 0"),
        c=hr.newest_by(value="word", by="small", where="big > 0"),
    )
    assert hr.View("v", python) == view(columns)


def test_a_definition_survives_json_and_is_described_in_sql() -> None:
    columns = "tally() AS a, count_above(small, 0.5) FILTER (WHERE big > 0) AS b, newest_by(word, small) AS c"
    definition = view(columns)
    assert from_json(to_json(definition)) == definition
    assert ", ".join(describe_output(definition, output) for output in outputs_of(definition)) == columns
    others = [columns.replace("0.5", "1"), columns.replace("word, small", "word, big")]
    assert len({fingerprint(view(each)) for each in (columns, *others)}) == 3
    assert {name for name, _ in definition.reads} == {"word", "small", "big"}


@pytest.mark.parametrize(
    ("selected", "values"),
    [
        ("tally(small) AS n", ("1",)),
        ("tally(*) AS n", ("1",)),
        ("newest_by(word, small, big) AS n", ("newest_by", "2", "3")),
        ("newest_by(word) AS n", ("newest_by(value, by)",)),
        ("newest_by(word, tags) AS n", ("newest_by", "ARRAY", "STRING")),
        ("count_above(small) AS n", ("count_above(expression, limit)",)),
        ("count_above(small, big) AS n", ("count_above", "limit")),
        ("count_above(small, 1 + 1) AS n", ("count_above", "limit")),
        ("count_above(small, 'x') AS n", ("count_above", "limit", "x")),
        ("count_above(small, TRUE) AS n", ("count_above", "limit", "TRUE")),
        ("count_above(word, 1) AS n", ("count_above", "STRING")),
        ("newest_by(nosuch, wrong) AS n", ("nosuch",)),
        ("newest_by(nosuch, wrong) AS n", ("wrong",)),
    ],
)
def test_the_error_of_a_wrong_call_names_the_arguments(selected: str, values: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError) as raised:
        view(selected)
    wording.check(raised.value, *values)


def test_a_wrong_call_in_python_names_its_line() -> None:
    with pytest.raises(DefinitionError) as raised:
        hr.newest_by("word")
    message = "hr.newest_by is called wrongly: missing a required argument: 'by'; expected hr.newest_by(value, by)"
    assert message in str(raised.value)
    assert raised.value.where is not None
    assert Path(raised.value.where.file) == Path(__file__)


def test_columns_of_a_store_keep_their_names() -> None:
    """Stores of earlier releases hold partials under these names."""
    definition = view(
        "count(*) AS c1, count(1) AS c2, count(word) AS c3, sum(small) AS c4, sum(big) FILTER (WHERE small > 0) AS c5,"
        "sum(ratio) AS c6, avg(price) AS c7, max(upper(word)) AS c8, approx_count_distinct(word) AS c9"
    )
    assert [name for name, _ in partials_of(definition)] == NAMES


def test_aggregates_that_choose_and_keep_are_equal_in_sql_and_python() -> None:
    stream = hr.Stream("events", "word STRING, small INT, at TIMESTAMP NOT NULL", event_time="at")
    columns = {
        "a": ("count(DISTINCT word, small)", hr.count_distinct("word", "small")),
        "b": ("max_by(word, at, 5)", hr.max_by("word", "at", 5)),
        "c": ("min_by(word, small)", hr.min_by("word", "small")),
        "d": ("last(word, 3) FILTER (WHERE small > 0)", hr.last("word", n=3, where="small > 0")),
        "e": ("first(word)", hr.first("word")),
        "f": ("collect_set(DISTINCT word)", hr.collect_set("word")),
        "g": ("collect_list(small)", hr.collect_list("small")),
        "h": ("sample(small, 10)", hr.sample("small", 10)),
        "i": ("any_value(word)", hr.any_value("word")),
        "j": ("max(DISTINCT small)", hr.max("small")),
    }
    python = hr.View("v", stream.agg(**{name: call for name, (_, call) in columns.items()}))
    selected = ", ".join(f"{sql} AS {name}" for name, (sql, _) in columns.items())
    fields = "word STRING, small INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at"
    catalog = parse(f"CREATE STREAM events ({fields}); CREATE MATERIALIZED VIEW v AS SELECT {selected} FROM events")
    assert catalog.views["v"] == python
    assert from_json(to_json(python)) == python
    again = ", ".join(f"{column.aggregate.sql} AS {column.name}" for column in python.columns)
    stream_sql = f"CREATE STREAM events ({fields})"
    assert parse(f"{stream_sql}; CREATE MATERIALIZED VIEW v AS SELECT {again} FROM events").views["v"] == python


@pytest.mark.parametrize(
    ("call", "values"),
    [
        ("last(word, 0)", ("1,000", "n")),
        ("last(word, TRUE)", ("last(word)", "FILTER", "WHERE", "IS NOT NULL")),
        ("max_by(word, small, 5000)", ("max_by", "1,000", "n", "5000")),
        ("max_by(word)", ("max_by(value, by)",)),
        ("count(DISTINCT)", ("count_distinct",)),
        (
            "sample(word)",
            ("sample(expression, n)",),
        ),
        ("collect_list(DISTINCT word)", ("collect_set(word)",)),
        ("sum(DISTINCT small)", ("sum(small)", "DISTINCT")),
    ],
)
def test_calls_that_do_not_fit_say_what_to_write(call: str, values: tuple[str, ...]) -> None:
    fields = "word STRING, small INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at"
    with pytest.raises(DefinitionError) as caught:
        parse(f"CREATE STREAM events ({fields}); CREATE MATERIALIZED VIEW v AS SELECT {call} AS c FROM events")
    wording.check(caught.value, *values)
