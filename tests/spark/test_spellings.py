"""Forms of standard SQL that Spark also has: our reading of each gives Spark's values and types."""

from __future__ import annotations

from typing import Any

from headrace.language.check import parse_expression
from headrace.types import BOOLEAN, STRING, TIMESTAMP

TYPES = {"text": STRING, "time": TIMESTAMP, "yes": BOOLEAN}
ROWS = """
  ('Hello World', TIMESTAMP '2024-02-29 23:59:59.999999', true),
  ('//a/b//', TIMESTAMP '1969-12-31 23:59:59.5', false),
  ('', TIMESTAMP '2023-01-01 00:00:00', NULL),
  ('😀ÀÉ😀', TIMESTAMP '0001-01-01 00:00:07.25', true),
  (NULL, NULL, NULL)
"""
UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOW_ISO", "DOY", "HOUR", "MINUTE", "SECOND")
TEXTS = [
    *(f"EXTRACT({unit} FROM time)" for unit in UNITS),
    "date_part('SECOND', time)",
    "SUBSTRING(text FROM 2 FOR 3)",
    "SUBSTRING(text FROM -2)",
    "TRIM(BOTH '/' FROM text)",
    "TRIM(LEADING '/H' FROM text)",
    "TRIM(TRAILING '😀d' FROM text)",
    "TRIM(BOTH FROM text)",
    "TRIM('/' FROM text)",
    "POSITION('l' IN text)",
    "POSITION('' IN text)",
    "yes IS UNKNOWN",
    "yes IS NOT UNKNOWN",
    "text IS DISTINCT FROM ''",
    "get_json_object('{\"a\": {\"b c\": [1, \"x\"]}}', '$.a[\\'b c\\'][1]')",
]


def test_spark_reads_them_as_we_do(spark: Any) -> None:
    events = spark.sql(f"SELECT * FROM VALUES {ROWS} AS v(text, time, yes)").coalesce(1)
    as_written = events.selectExpr(*(f"{text} AS c{i}" for i, text in enumerate(TEXTS)))
    expressions = [parse_expression(text, TYPES) for text in TEXTS]
    canonical = events.selectExpr(*(f"{expression.sql} AS c{i}" for i, expression in enumerate(expressions)))
    assert canonical.collect() == as_written.collect()
    assert canonical.dtypes == as_written.dtypes
    assert [str(expression.type).lower() for expression in expressions] == [name for _, name in as_written.dtypes]
