"""Computed fields in DuckDB: never an error, NULL instead. tests/spark compares the values with Spark's."""

from __future__ import annotations

import duckdb
import pytest

from headrace.define.catalog import parse
from headrace.engine.duckdb_terms import duckdb_sql, duckdb_type
from headrace.engine.time_functions import register
from headrace.errors import DefinitionError
from headrace.language.coercion import VOID
from headrace.language.terms import Expression
from headrace.types import BOOLEAN, INT, STRING, TIMESTAMP, decimal
from tests import wording


@pytest.fixture
def database():
    connection = duckdb.connect()
    register(connection)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def compute(database, computed, **values):
    fields = ", ".join(f"`{name}` {type_}" for name, (type_, _) in values.items())
    stream = parse(f"CREATE STREAM s ({fields}, result AS {computed})").streams["s"]
    columns = ", ".join(
        f'CAST({value} AS {duckdb_type(field.type)}) AS "{field.name}"'
        for field, (_, value) in zip(stream.fields, values.values(), strict=False)
    )
    expression = stream.fields[-1].computed
    return database.execute(
        f"SELECT CAST({duckdb_sql(expression, stream.types())} AS VARCHAR) FROM (SELECT {columns})"
    ).fetchone()[0]


@pytest.mark.parametrize(
    ("computed", "value", "result"),
    [
        ("timestamp_millis(x)", "1700000000123", "2023-11-14 22:13:20.123+00"),
        ("timestamp_millis(x)", "9223372036854775807", None),
        ("x * 9223372036854775807", "2", None),
        ("CAST(x AS INT)", "3000000000", None),
        ("x / 0", "1", None),
        ("x % 0", "1", None),
    ],
)
def test_what_cannot_be_computed_is_null(database, computed, value, result):
    assert compute(database, computed, x=("BIGINT", value)) == result


@pytest.mark.parametrize(
    ("computed", "local", "result"),
    [
        ("to_utc_timestamp(x, 'Europe/Berlin')", "2026-07-01 12:00:00+00", "2026-07-01 10:00:00+00"),
        ("to_utc_timestamp(x, 'Europe/Berlin')", "2026-03-29 02:30:00+00", "2026-03-29 01:30:00+00"),  # skipped there
        ("to_utc_timestamp(x, 'Europe/Berlin')", "2026-10-25 02:30:00+00", "2026-10-25 00:30:00+00"),  # the first one
        ("from_utc_timestamp(x, 'America/New_York')", "2026-07-01 12:00:00+00", "2026-07-01 08:00:00+00"),
        ("to_utc_timestamp(x, 'utc')", "2026-07-01 12:00:00+00", "2026-07-01 12:00:00+00"),
        ("from_utc_timestamp(x, 'Europe/Berlin')", None, None),
    ],
)
def test_local_times(database, computed, local, result):
    value = "NULL" if local is None else f"'{local}'"
    assert compute(database, computed, x=("TIMESTAMP", value)) == result


def test_names_are_quoted_and_texts_escaped(database):
    assert compute(database, "concat(`end`, 'it''s \\\\ \"x\"')", end=("STRING", "'a'")) == 'ait\'s \\ "x"'
    assert (
        compute(database, "at + INTERVAL 1 DAY", at=("TIMESTAMP", "'2024-01-01 00:00:00+00'"))
        == "2024-01-02 00:00:00+00"
    )


def test_types_are_needed_only_for_casts():
    types = {"ts": VOID}
    assert "make_timestamptz" in duckdb_sql(Expression.stored("timestamp_millis(ts)", TIMESTAMP), types)
    with wording.raises(DefinitionError):
        duckdb_sql(Expression.stored("CAST(ts AS INT)", INT), types)


def test_an_applied_stream_keeps_a_pattern_that_is_refused_now(database):
    expression = Expression.stored(r"x RLIKE '[&&]\\v'", BOOLEAN, {"x": STRING}, is_applied=True)
    sql = duckdb_sql(expression, {"x": STRING})
    assert database.execute(f"SELECT {sql} FROM (SELECT 'a&' || chr(11) AS x)").fetchone() == (True,)


def test_types():
    assert [duckdb_type(t) for t in (STRING, INT, TIMESTAMP, decimal(9, 2))] == [
        "VARCHAR",
        "INTEGER",
        "TIMESTAMPTZ",
        "DECIMAL(9,2)",
    ]


def test_braces_in_an_argument_are_not_replaced(database):
    computed = r"concat(regexp_extract(x, r'(\d{4})', 1), '-', regexp_extract(x, r'(\d{2})$', 1))"
    assert compute(database, computed, x=("STRING", "'year 2024, month 05'")) == "2024-05"
