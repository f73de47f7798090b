"""The table of a view has the same rows as an answer: for every aggregate, on generated events, windows and keys."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
from hypothesis import HealthCheck, given, settings

from headrace.define.model import Window
from headrace.define.query_rules import QueryError
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from headrace.serve.sql.load_views import default_plan, describe_version, load_view
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Step
from headrace.transport.position import Position
from tests import wording
from tests.effort import examples
from tests.unit.serve.cases import PANE, cases
from tests.unit.store.partial_files import make_view, simple_event, write_partials

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def load(store: DuckStore, **limits: int) -> duckdb.DuckDBPyConnection:
    """Load a view as a child does."""
    connection = duckdb.connect(":memory:")
    connection.execute("SET TimeZone = 'UTC'").fetchall()
    with store.snapshot() as snapshot:
        version = snapshot.serving("v")
        assert version is not None
        read_plan = default_plan(version)
        with snapshot.pieces(version, read_plan.selection(None), ordered=read_plan.overlapping) as reader:

            def pieces() -> Iterator[pa.RecordBatch]:
                yield pa.RecordBatch.from_pylist([], reader.schema)
                yield from reader

            load_view(connection, orjson.loads(orjson.dumps(describe_version(version))), pieces(), **limits)
    return connection


def test_aliases_of_window_bounds_are_columns(tmp_path: Path) -> None:
    store = DuckStore.open(tmp_path / "store", fence=1)
    view = make_view(window=Window(PANE, PANE, start_name="minute", end_name="until"))
    store.register(view, "f", {"events": 0})
    file = write_partials(tmp_path / "p.parquet", view, [simple_event("/a", PANE, 3)])
    store.apply(Step("events", 0, 1, Position.at(0), 5 * PANE * 1000, 0), {("v", 1): [file]})
    rows = load(store).execute("SELECT minute = window_start, until = window_end, sum_bigint FROM v").fetchall()
    store.close()
    assert rows == [(True, True, 3)]


@settings(
    max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(case=cases())
def test_a_table_equals_the_answer(case: Any) -> None:
    view, batches, _, _ = case
    with tempfile.TemporaryDirectory() as folder:
        store = DuckStore.open(Path(folder) / "store", fence=1)
        store.register(view, "f", {"events": PANE})
        for number, events in enumerate(batches):
            files = [write_partials(Path(folder) / f"{number}.parquet", view, events)] if events else []
            store.apply(Step("events", number, number + 1, Position.at(0), 5 * PANE * 1000, 0), {("v", 1): files})
        expected = answer(store, Question.of("v", limit=10_000), up_to_date, NOW).arrow()
        connection = load(store)
        store.close()
    order = ", ".join(f'"{name}" NULLS FIRST' for name in ("window_start", *(key.name for key in view.keys)))
    rows = connection.sql(f"SELECT * FROM v ORDER BY {order}").to_arrow_table().cast(expected.schema)
    assert repr(rows.to_pylist()) == repr(expected.to_pylist())


def test_a_view_that_is_too_large_is_refused(tmp_path: Path) -> None:
    store = DuckStore.open(tmp_path / "store", fence=1)
    view = make_view()
    store.register(view, "f", {"events": 0})
    file = write_partials(tmp_path / "p.parquet", view, [simple_event(key, 0) for key in "abc"])
    store.apply(Step("events", 0, 1, Position.at(0), 0, 0), {("v", 1): [file]})
    with wording.raises(QueryError, "v"):
        load(store, most_rows=2)
    store.close()
