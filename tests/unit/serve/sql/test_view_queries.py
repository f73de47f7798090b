"""Functions that merge the sketches of rows give what a question over all these rows gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pytest

from headrace.define.catalog import parse
from headrace.define.model import View
from headrace.define.query_rules import QueryError, clarify, rewrite
from headrace.errors import SqlError
from headrace.serve.freshness import up_to_date
from headrace.serve.sql.children import Children
from headrace.serve.sql.load_views import default_plan, describe_version, load_view, register
from headrace.serve.sql.view_queries import run_sql
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Step
from headrace.transport.position import Position
from tests import wording
from tests.unit.store.partial_files import Event, write_partials

DEFINITIONS = """
CREATE STREAM events (k0 STRING, word STRING, x DOUBLE, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE MATERIALIZED VIEW v AS SELECT k0, count(*) AS hits, approx_count_distinct(word) AS words, unique(word) AS exact,
    approx_percentile(x, 0.9) AS p90 FROM events GROUP BY k0, window(at, '1 minute');
"""
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def events() -> list[Event]:
    return [
        Event((f"k{n % 3}",), n % 7 * 60_000, {"STRING": f"w{n % 50}" if n % 11 else None, "DOUBLE": float(n)})
        for n in range(300)
    ]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckStore]:
    view: View = parse(DEFINITIONS).views["v"]
    with closing(DuckStore.open(tmp_path / "store", fence=1)) as store:
        store.register(view, "f", {"events": 0})
        file = write_partials(tmp_path / "p.parquet", view, events())
        store.apply(Step("events", 0, 1, Position.at(0), 0, 0), {("v", 1): [file]})
        yield store


@pytest.fixture
def connection(store: DuckStore) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:")
    with store.snapshot() as snapshot:
        version = snapshot.serving("v")
        assert version is not None
        with snapshot.pieces(version, default_plan(version).selection(None), ordered=False) as reader:
            pieces = iter([pa.RecordBatch.from_pylist([], reader.schema), *reader])
            description = orjson.loads(orjson.dumps(describe_version(version)))
            load_view(connection, description, pieces, sketches=True)
    register(connection)
    return connection


def run(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    rewritten = rewrite(connection, query)
    assert rewritten is not None
    return connection.execute(rewritten).fetchall()


def test_sketches_of_many_rows_merge(connection: duckdb.DuckDBPyConnection) -> None:
    query = (
        "SELECT approx_count_distinct_merge(words), unique_merge(exact), approx_percentile_merge(p90, 0.5) AS p FROM v"
    )
    assert run(connection, query) == [(50, 50, 149.0)]
    by_key = run(connection, f"{query.replace('SELECT', 'SELECT k0,')} GROUP BY k0 ORDER BY k0")
    assert [row[0] for row in by_key] == ["k0", "k1", "k2"]
    for key, words, exact, median in by_key:
        own = [event for event in events() if event.keys == (key,)]
        count = len({event.values["STRING"] for event in own} - {None})
        assert (words, exact) == (count, count)
        assert median == sorted(event.values["DOUBLE"] for event in own)[len(own) // 2 - 1]


def test_filters_subqueries_and_no_rows(connection: duckdb.DuckDBPyConnection) -> None:
    inside = "SELECT unique_merge(t.exact) FROM (SELECT * FROM v WHERE k0 = 'k1') AS t"
    filtered = "SELECT unique_merge(exact) FILTER (WHERE k0 = 'k1') FROM v"
    assert run(connection, inside) == run(connection, filtered)
    assert run(connection, "SELECT unique_merge(exact), approx_percentile_merge(p90, 0.5) FROM v WHERE false") == [
        (0, None)
    ]
    names = connection.execute(rewrite(connection, filtered) or "").description
    assert [name[0] for name in names or ()] == ["unique_merge"]


def test_other_queries_are_left_alone(connection: duckdb.DuckDBPyConnection) -> None:
    assert rewrite(connection, "SELECT sum(hits) FROM v") is None


@pytest.mark.parametrize("call", ["unique_merge(hits + 1)", "approx_percentile_merge(p90)", "unique_merge()"])
def test_a_wrong_call_says_what_it_takes(connection: duckdb.DuckDBPyConnection, call: str) -> None:
    with wording.raises(QueryError):
        rewrite(connection, f"SELECT {call} FROM v")


def test_a_column_without_sketches_is_named(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.BinderException) as raised:
        run(connection, "SELECT unique_merge(hits) FROM v")
    assert ' sketch" not found' in str(raised.value)
    wording.check(clarify(raised.value), "hits")


@pytest.mark.parametrize(
    "call", ["approx_percentile_merge(words, 0.5)", "unique_merge(words)", "approx_count_distinct_merge(p90)"]
)
def test_a_column_with_other_sketches_is_refused(connection: duckdb.DuckDBPyConnection, call: str) -> None:
    with pytest.raises(duckdb.BinderException) as raised:
        run(connection, f"SELECT {call} FROM v")
    name = call.partition("_merge")[0]
    wording.check(clarify(raised.value), name, name)


@pytest.mark.parametrize(("share", "fix"), [("95", "for 95 % write 0.95"), ("-0.5", None)])
def test_a_percentage_out_of_range_is_refused(
    connection: duckdb.DuckDBPyConnection, share: str, fix: str | None
) -> None:
    with wording.raises(QueryError, "approx_percentile_merge", 0, 1) as raised:
        rewrite(connection, f"SELECT approx_percentile_merge(p90, {share}) FROM v")
    assert (raised.value.fields["found"], raised.value.fields["fix"]) == (share, fix)


def test_a_child_that_may_open_no_file_merges_too(store: DuckStore) -> None:
    def find_as_of(*_: Any) -> Any:
        raise AssertionError("not asked for")

    children = Children(at_once=1, memory_mb=512, timeout_s=60)
    with closing(children):
        merged = "unique_merge(exact) AS n, approx_count_distinct_merge(words), approx_percentile_merge(p90, 0.5)"
        query = f"SELECT {merged} FROM v"
        answer = run_sql(store, children, query, None, up_to_date, NOW, find_as_of)
        assert [tuple(row.values()) for row in answer.rows()] == [(50, 50, 149.0)]
        with wording.raises(SqlError, "hits"):
            run_sql(store, children, "SELECT unique_merge(hits) FROM v", None, up_to_date, NOW, find_as_of)
