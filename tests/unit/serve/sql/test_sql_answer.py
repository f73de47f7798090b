"""Dates and times of a result that Python cannot represent."""

from __future__ import annotations

from datetime import UTC, date, datetime

import duckdb
import orjson
import pyarrow as pa
import pytest

from headrace.serve.sql.sql_answer import SqlAnswer, make_table, within_years

LAST = datetime.max  # noqa: DTZ901 - TIMESTAMP of DuckDB has no zone


def rows(query: str) -> list[dict[str, object]]:
    """The rows of a query, after JSON and Arrow."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    result = connection.sql(query)
    reader = result.to_arrow_reader(2)  # several pieces
    table, types = make_table(list(reader), reader.schema, [str(of) for of in result.types])
    answer = SqlAnswer(tuple(zip(table.column_names, types, strict=True)), table, False, 0, {}, {}, "", 0, None, 0)
    orjson.dumps(answer.as_dict())
    return SqlAnswer.from_arrow(answer.as_arrow()).rows()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("DATE '9999-12-31' + 1", None),
        ("DATE '9999-12-31'", date.max),
        ("DATE '0001-01-01' - 1", None),
        ("DATE '0001-01-01'", date.min),
        ("DATE 'infinity'", None),
        ("TIMESTAMPTZ '9999-12-31 23:59:59.999999+00' + INTERVAL 1 MICROSECOND", None),
        ("TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'", LAST.replace(tzinfo=UTC)),
        ("TIMESTAMP '9999-12-31 23:59:59.999999'", LAST),
        ("TIMESTAMP '-infinity'", None),
        ("CAST(TIMESTAMP '10000-01-01 00:00:00' AS TIMESTAMP_S)", None),
        ("CAST(TIMESTAMP '9999-12-31 23:59:59' AS TIMESTAMP_MS)", LAST.replace(microsecond=0)),
        ("NULL::DATE", None),
        ("[DATE '9999-12-31', DATE '9999-12-31' + 1, NULL]", [date.max, None, None]),
        ("{'a': DATE '9999-12-31' + 1, 'b': 1}", {"a": None, "b": 1}),
        ("MAP {'a': DATE '9999-12-31' + 1, 'b': DATE '9999-12-31'}", [("a", None), ("b", date.max)]),
        ("[{'a': [DATE '0001-01-01' - 1]}]", [{"a": [None]}]),
        ("'10000-01-01'", "10000-01-01"),
    ],
)
def test_a_value_outside_of_the_years_is_null(expression: str, value: object) -> None:
    query = f"SELECT CASE WHEN range % 3 < 2 THEN {expression} END AS x FROM range(7)"
    assert [row["x"] for row in rows(query)] == [value if i % 3 < 2 else None for i in range(7)]


def test_slices_and_empty_tables() -> None:
    table = pa.table({"x": [[date(2024, 1, 1)], None, [date.max, None], []]})
    assert within_years(table.slice(1, 2)).to_pylist() == table.slice(1, 2).to_pylist()
    assert within_years(table.slice(0, 0)).schema == table.schema
