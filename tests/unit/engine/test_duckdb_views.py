"""Why the fused lane cannot compute a view: the reason names the part of the view that only Spark computes."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import duckdb
import pytest

from headrace.define.catalog import parse
from headrace.define.table_parts import rows_of_table
from headrace.engine.duckdb_relations import refuse_duckdb
from headrace.engine.duckdb_views import duckdb_expression, duckdb_view
from headrace.language.check import parse_expression
from headrace.types import BIGINT, INT
from tests import wording

STREAM = """CREATE STREAM visits (page STRING, bytes BIGINT, rate DOUBLE, price DECIMAL(20, 2), fine DECIMAL(12, 8),
at TIMESTAMP, WATERMARK FOR at AS at);"""


def reason(select: str) -> str | None:
    catalog = parse(f"{STREAM}\nCREATE MATERIALIZED VIEW v AS {select};")
    return refuse_duckdb(catalog.streams["visits"], catalog.views["v"])


@pytest.mark.parametrize(
    "select",
    [
        "SELECT page, count(*) AS n FROM visits GROUP BY page, window(at, '1 minute')",
        "SELECT upper(page) AS page, sum(bytes) AS n FROM visits WHERE page LIKE 'a%' GROUP BY upper(page)",
        "SELECT approx_count_distinct(page) AS n, sum(price) FILTER (WHERE rate > 1) AS s FROM visits",
        "SELECT max(bytes / 1000.0) AS n, sum(price / 3) AS third FROM visits",
    ],
)
def test_a_view_that_duckdb_computes_has_no_reason(select: str) -> None:
    assert reason(select) is None


@pytest.mark.parametrize(
    ("select", "values"),
    [
        ("SELECT count(*) AS n FROM visits WHERE page ILIKE 'a%'", ("WHERE", "ILIKE", "a%")),
        (
            "SELECT initcap(page) AS name, count(*) AS n FROM visits GROUP BY initcap(page)",
            ("name", "initcap(page)"),
        ),
        (
            "SELECT rate, count(*) AS n FROM visits GROUP BY rate",
            ("rate", "DOUBLE"),
        ),
        ("SELECT at, count(*) AS n FROM visits GROUP BY at", ("at", "TIMESTAMP")),
        (
            "SELECT fine, count(*) AS n FROM visits GROUP BY fine",
            ("fine", "DECIMAL(12,8)"),
        ),
        (
            "SELECT sum(1 + CAST(page AS INT)) AS total FROM visits",
            ("total", "CAST(page AS INT)", "STRING"),
        ),
        (
            "SELECT count(*) FILTER (WHERE to_date(page) > DATE '2026-01-01') AS n FROM visits",
            ("n", "to_date(page)"),
        ),
        ("SELECT sum(price / fine) AS parts FROM visits", ("parts",)),
        (
            "SELECT count(*) AS n FROM visits WHERE rate > 1 AND rate < price",
            ("WHERE", "DOUBLE", "DECIMAL"),
        ),
    ],
)
def test_the_reason_names_the_part_of_the_view(select: str, values: tuple[str, ...]) -> None:
    wording.check(reason(select), *values)


def test_a_long_expression_is_shortened() -> None:
    words = reason(f"SELECT count(*) AS n FROM visits WHERE page ILIKE '{'a' * 500}'")
    assert words is not None
    assert len(words) < 120
    assert words.endswith("aaa…")


@pytest.mark.parametrize(
    "condition",
    ["n + 9 < 1", "1 > n + 9", "n * 2 = 4", "n + 9 BETWEEN 1 AND 2", "n + 9 IN (1, 2)", "CAST(n + 9 AS BIGINT) < 1",
     "CAST(n + 9 AS DOUBLE) < 1", "NOT n + 9 > 0", "10 - (-n) > 20", "n + 9 <=> 1", "CASE WHEN n + 9 < 1 THEN true END",
     "n + 1 > 2 OR n + 3 < 5"],
)  # fmt: skip
def test_a_comparison_fails_where_spark_wraps_around(condition: str) -> None:
    """DuckDB compares `n` with -8 in place of `n + 9` with 1, and then finds no overflow."""
    sql = duckdb_expression(parse_expression(condition, {"n": INT}), {"n": INT})
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE numbers AS SELECT CAST(2147483647 AS INTEGER) AS n")
        with pytest.raises(duckdb.OutOfRangeException, match="Overflow"):
            connection.sql(f"SELECT * FROM numbers WHERE {sql}").fetchall()


TABLE = "CREATE TABLE t (id BIGINT PRIMARY KEY, a {of}, b {of}, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);"


def wrapped(value: int, bits: int) -> int:
    return (value + 2**bits) % 2 ** (bits + 1) - 2**bits


def divided(a: int, b: int) -> int | None:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else None


@pytest.mark.parametrize(("of", "kind", "bits"), [("INT", "INTEGER", 31), ("BIGINT", "BIGINT", 63)])
@pytest.mark.parametrize(
    ("sql", "python"),
    [
        ("a + b", lambda a, b: a + b),
        ("a - b", lambda a, b: a - b),
        ("a * b", lambda a, b: a * b),
        ("-a", lambda a, b: -a),
        ("abs(a)", lambda a, b: abs(a)),
        ("a DIV b", divided),
    ],
)
def test_arithmetic_over_a_table_wraps_around(of: str, kind: str, bits: int, sql: str, python: Any) -> None:
    catalog = parse(f"{TABLE.format(of=of)} CREATE MATERIALIZED VIEW v AS SELECT max({sql}) AS x FROM t;")
    argument = duckdb_view(rows_of_table(catalog.tables["t"]), catalog.views["v"]).columns[0].aggregate.argument
    random = Random(1)
    edges = [-(2**bits), 2**bits - 1, -1, 0, 1, *(random.randrange(-(2**bits), 2**bits) for _ in range(20))]
    pairs = list(product(edges, edges))
    values = ", ".join(f"(CAST({a} AS {kind}), CAST({b} AS {kind}))" for a, b in pairs)
    got = duckdb.sql(f"SELECT {argument.sql} FROM (VALUES {values}) t(a, b)").fetchall()
    width = 63 if argument.type == BIGINT else 31
    expected = [python(a, b) for a, b in pairs]
    assert [row[0] for row in got] == [None if value is None else wrapped(value, width) for value in expected]
