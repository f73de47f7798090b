"""More values than a set or a list keeps: one cell has an error, in every form of an answer; all others have values."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import duckdb
import pytest
from rich.console import Console

from headrace.aggregate import REGISTRY, collected_values
from headrace.cli.ask_command import render
from headrace.define.catalog import parse
from headrace.define.model import Column, View
from headrace.html import value
from headrace.language.terms import Expression
from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.presentation import _errors
from headrace.serve.question import Question
from headrace.serve.sql.load_views import describe_version, load_view
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Selection, Step, Store
from headrace.transport.position import Position
from headrace.types import BIGINT
from tests import wording
from tests.unit.store.partial_files import make_view, simple_event, write_partials

NUMBER = (Expression.field("n", BIGINT),)
NAMES = ("count_distinct", "collect_set", "collect_list")


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collected_values, "LIMIT", 3)


@pytest.fixture
def view() -> View:
    columns = tuple(Column(name, REGISTRY[name](NUMBER)) for name in NAMES)
    base = make_view("v")
    return View(base.name, base.streams, base.keys, columns, base.window)


@pytest.fixture
def store(tmp_path: Path, view: View) -> Iterator[Store]:
    """Key 'many' has 2 + 2 values, which are too many together; 'few' has three."""
    opened = DuckStore.open(tmp_path / "store", 1)
    opened.register(view, "f", {"events": 0})
    for commit, numbers in enumerate([(1, 2), (3, 4), (5, 1)]):
        events = [simple_event("many", 0, n) for n in numbers] + [simple_event("few", commit, commit)]
        file = write_partials(tmp_path / f"{commit}.parquet", view, events)
        opened.apply(Step("events", commit, commit + 1, Position.at(commit), 1, 1), {("v", 1): [file]})
    yield opened
    opened.close()


def ask(store: Store) -> Answer:
    return answer(store, Question.of("v"), up_to_date, datetime(2026, 1, 1, tzinfo=UTC))


def test_one_cell_has_an_error_and_the_others_have_values(store: Store) -> None:
    result = ask(store)
    assert [(row["k0"], *(row[name] for name in NAMES)) for row in result.rows()] == [
        ("few", 3, [0, 1, 2], [0, 1, 2]),
        ("many", None, None, None),
    ]
    assert {(error.row, error.column) for error in result.errors} == {(1, name) for name in NAMES}
    reasons = {error.column: error.reason for error in result.errors}
    wording.check(reasons["count_distinct"], "count(DISTINCT n)", 3, "approx_count_distinct(n)")
    assert "last(n, 100)" in reasons["collect_list"]
    assert Answer.from_dict(result.as_dict()) == result
    assert result.arrow().column("collect_set").to_pylist() == [[0, 1, 2], None]


def test_an_expression_over_it_has_the_error_too() -> None:
    fields = "n BIGINT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at"
    selected = "count(*) AS c, count(*) / count(DISTINCT n) AS each"
    sql = f"CREATE STREAM events ({fields}); CREATE MATERIALIZED VIEW v AS SELECT {selected} FROM events;"
    shaped = parse(sql).views["v"]
    row = [5 if column.aggregate.name == "count" else None for column in shaped.columns]
    assert [(error.row, error.column) for error in _errors(shaped, [tuple(row)], 0)] == [(0, "each")]


def test_a_table_marks_the_cell_and_gives_the_reason_below(store: Store) -> None:
    console = Console(width=300, record=True, file=StringIO())
    console.print(render(ask(store)))
    text = console.export_text()
    wording.check_line(text, "count_distinct", 1, "count(DISTINCT n)", 3)
    assert "[0, 1, 2]" in text
    assert 'title="too many"' in str(value(None, "too many"))


def test_sql_has_null_and_counts_the_cells(store: Store, view: View) -> None:
    connection = duckdb.connect()
    with store.snapshot() as snapshot:
        version = snapshot.serving("v")
        assert version is not None
        table = snapshot.fold(version, Selection(("k0",), bucket_ms=60_000))
    batches = [table.schema.empty_table().to_batches() or [], table.to_batches()]
    pieces = iter([piece for pieces in batches for piece in pieces])
    errors = load_view(connection, describe_version(version), pieces).errors
    assert errors == dict.fromkeys(NAMES, 1)
    assert connection.sql("SELECT count_distinct, collect_list FROM v ORDER BY k0").fetchall() == [
        (3, [0, 1, 2]),
        (None, None),
    ]
