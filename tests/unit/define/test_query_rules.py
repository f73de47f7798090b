"""Which tables a query names, and which SQL is refused. `tests/surfaces/hostile_sql.py` has the long list."""

from __future__ import annotations

import duckdb
import pytest

from headrace.define.query_rules import QueryError, check
from tests.surfaces.hostile_sql import REACHING


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:")


@pytest.mark.parametrize(
    ("query", "names", "own"),
    [
        ("SELECT 1", [], []),
        ("SELECT * FROM traffic t JOIN errors USING (page)", ["errors", "traffic"], []),
        ('FROM "Order" LIMIT 5', ["Order"], []),
        ("WITH t AS (SELECT * FROM traffic) SELECT * FROM t", ["t", "traffic"], ["t"]),
        ("SELECT (SELECT max(hits) FROM traffic), * FROM range(3)", ["traffic"], []),
        ("SELECT * FROM a UNION ALL SELECT * FROM b WHERE x IN (SELECT y FROM c)", ["a", "b", "c"], []),
        ("DESCRIBE traffic", ["traffic"], []),
        ("SELECT * FROM (PIVOT traffic ON page IN ('/home') USING sum(hits))", ["traffic"], []),
        ("WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT * FROM n", ["n"], ["n"]),
        ("SELECT pg_typeof(hits), unnest([1, 2]) FROM traffic", ["traffic"], []),
        ("VALUES (1), (2)", [], []),
    ],
)
def test_the_names_in_a_query(
    connection: duckdb.DuckDBPyConnection, query: str, names: list[str], own: list[str]
) -> None:
    tables = check(connection, query)
    assert (sorted(tables.names), tables.own) == (names, own)


@pytest.mark.parametrize("query", REACHING)
def test_a_query_that_reaches_out_is_refused_or_names_no_view(
    connection: duckdb.DuckDBPyConnection, query: str
) -> None:
    try:
        tables = check(connection, query)
    except (QueryError, duckdb.Error):
        return
    assert set(tables.names) - {"traffic", *tables.own}
