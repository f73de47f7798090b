"""Only what a query reads is sent: the columns and keys of its plan, and the result is that over all rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from headrace.define.query_rules import rewrite
from headrace.serve.sql.load_views import Loaded, default_plan, describe_version, load_view, register
from headrace.serve.sql.query_reads import MOST_KEYS, Reads, find_reads, table_columns
from headrace.store.store_contract import Snapshot
from headrace.store.version import Version
from tests.unit.serve.shaped import Views

SELECT = """SELECT k0, count(*) AS n, sum(b) AS b, max(i) AS most, max(i) - min(i) AS spread,
  approx_count_distinct(i) AS people FROM events GROUP BY k0, window(at, '1 minute')"""
LOGICAL = {
    "totals": "SELECT k0, sum(n) AS n, max(most) AS most FROM v GROUP BY k0",
    "everything": "SELECT * FROM v",
    "merged": "SELECT k0, approx_count_distinct_merge(people) AS people, sum(n) AS n FROM v GROUP BY k0",
    "ranked": "SELECT *, row_number() OVER (PARTITION BY window_start ORDER BY b DESC, k0) AS place FROM v",
}
QUERIES = {
    "SELECT count(*) FROM v": set(),
    "SELECT k0 FROM totals": {"k0"},
    "SELECT k0, n FROM totals ORDER BY n DESC, k0 LIMIT 2": {"k0", "n"},
    "SELECT most FROM totals WHERE k0 = 'a'": {"k0", "most"},
    "SELECT n FROM everything WHERE spread > 0": {"n", "spread"},
    "SELECT k0, place FROM ranked WHERE place <= 2": {"k0", "window_start", "b"},
    "SELECT * FROM v": {"k0", "window_start", "window_end", "n", "b", "most", "spread", "people", "settled"},
    "SELECT v FROM v": {"k0", "window_start", "window_end", "n", "b", "most", "spread", "people", "settled"},
    "SELECT approx_count_distinct_merge(people) AS p FROM v": {"people"},
    "SELECT n, k0 FROM merged": {"k0", "n"},
    "WITH a AS (SELECT k0, b FROM v) SELECT a.k0, sum(a.b * t.n) FROM a JOIN totals t USING (k0) GROUP BY 1": {
        "k0", "b", "n",
    },
    "SELECT k0, (SELECT max(u.most) FROM v u WHERE u.k0 = v.k0) FROM v WHERE settled": {"k0", "most", "settled"},
    "SELECT * FROM totals NATURAL JOIN (SELECT k0, most FROM totals)": {"k0", "n", "most"},
    "SELECT k0 FROM v UNION ALL SELECT CAST(b AS VARCHAR) FROM v": {"k0", "b"},
    "SELECT rowid >= 0, n FROM v": {"n"},
}  # fmt: skip


@pytest.fixture
def views(tmp_path: Path) -> Views:
    views = Views(tmp_path)
    views.add(SELECT)
    return views


def open_database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:")
    connection.execute("SET TimeZone = 'UTC'").fetchall()
    return connection


def load(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, version: Version, reads: Reads | None) -> Loaded:
    columns = table_columns(version.view, sketches=True)
    version = version if reads is None else reads.of(version)
    selection = default_plan(version, reads.where if reads else ()).selection(None)
    with snapshot.pieces(version, selection, ordered=False) as reader:
        pieces = iter([pa.RecordBatch.from_pylist([], reader.schema), *reader])
        return load_view(connection, describe_version(version), pieces, sketches=True, columns=columns)


def run(views: Views, query: str, *, whole: bool) -> tuple[list[Any], Reads, int]:
    """The rows of a query over everything, or over what it reads; and what that is, with the number of rows."""
    with views.store.snapshot() as snapshot, open_database() as connection:
        version = snapshot.serving("v")
        assert version is not None
        text = rewrite(connection, query) or query
        logical = {name: rewrite(connection, select) or select for name, select in LOGICAL.items()}
        reads = find_reads(connection, text, [version.view], logical, sketches=True)["v"]
        register(connection)
        loaded = load(connection, snapshot, version, None if whole else reads)
        for name, select in logical.items():
            connection.execute(f"CREATE VIEW {name} AS {select}")
        return sorted(map(repr, connection.execute(text).fetchall())), reads, loaded.rows


@pytest.mark.parametrize("query", QUERIES)
def test_the_result_is_that_over_all_columns(views: Views, query: str) -> None:
    expected, _, _ = run(views, query, whole=True)
    rows, reads, _ = run(views, query, whole=False)
    assert rows == expected
    assert expected
    assert set(reads.columns) == QUERIES[query]


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("SELECT * FROM totals WHERE k0 = 'a'", [{"k0": "a"}]),
        ("SELECT n FROM everything WHERE k0 IN ('a', 'b')", [{"k0": "a"}, {"k0": "b"}]),
        ("SELECT n FROM totals WHERE (k0 = 'a') OR (k0 = 'b')", [{"k0": "a"}, {"k0": "b"}]),
        ("SELECT n FROM v WHERE k0 = 'it''s'", [{"k0": "it's"}]),
        ("SELECT n FROM v WHERE k0 = 'a' UNION ALL SELECT n FROM v WHERE k0 = 'b'", [{"k0": "a"}, {"k0": "b"}]),
        ("SELECT n FROM v WHERE k0 = 'a' UNION ALL SELECT n FROM v", []),
        ("SELECT n FROM v WHERE k0 = 'a' OR n = 1", []),
        ("SELECT n FROM v WHERE k0 IS NULL", []),
        ("SELECT n FROM v WHERE k0 > 'a'", []),
        ("SELECT n FROM v WHERE b = 3", []),
        ("SELECT count(*) FROM v WHERE upper(k0) = 'A'", []),
        ("SELECT a.n FROM v a LEFT JOIN v b ON a.k0 = b.k0 AND b.k0 = 'a'", []),
        ("SELECT place FROM ranked WHERE k0 = 'a'", []),  # other keys decide the place
    ],
)
def test_conditions_on_keys_select_rows(views: Views, query: str, where: list[Mapping[str, Any]]) -> None:
    expected, _, every = run(views, query, whole=True)
    rows, reads, loaded = run(views, query, whole=False)
    assert rows == expected
    assert sorted(reads.where, key=repr) == where
    assert loaded < every if where else loaded == every


def test_a_limit_of_the_view_counts_all_keys(tmp_path: Path) -> None:
    views = Views(tmp_path)
    views.add(f"{SELECT} ORDER BY b DESC LIMIT 2")
    query = "SELECT k0, n FROM v WHERE k0 = 'a'"
    rows, reads, _ = run(views, query, whole=False)
    assert rows == run(views, query, whole=True)[0]
    assert reads.where == ()


def test_very_many_keys_are_not_selected(views: Views) -> None:
    keys = ", ".join(f"'k{n}'" for n in range(MOST_KEYS + 1))
    assert run(views, f"SELECT n FROM v WHERE k0 IN ({keys})", whole=False)[1].where == ()


@pytest.mark.parametrize("query", ["SELECT nothing FROM v", "SELECT 1 FROM nowhere", "SELECT CAST('x' AS INT) FROM v"])
def test_a_query_that_cannot_be_planned_reads_everything(views: Views, query: str) -> None:
    with views.store.snapshot() as snapshot, open_database() as connection:
        version = snapshot.serving("v")
        assert version is not None
        reads = find_reads(connection, query, [version.view], {})
        assert reads in ({}, {"v": Reads(())})  # the last fails only when it runs
        assert connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
