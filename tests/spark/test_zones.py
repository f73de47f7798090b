"""Local times: what the workers compute of from_utc_timestamp and to_utc_timestamp is what Spark computes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from headrace.engine.duckdb_views import duckdb_expression
from headrace.engine.time_functions import register
from headrace.language.check import parse_expression
from headrace.types import TIMESTAMP

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Monrovia", "UTC", "GMT")
CHANGES = ("2026-03-29T01:00", "2026-10-25T01:00", "2026-03-08T07:00", "2026-11-01T06:00", "2026-04-04T15:00",
           "2026-10-03T15:30", "1893-04-01T00:00", "1971-12-31T00:00", "2037-10-25T01:00", "2300-07-01T00:00",
           "2050-03-27T01:00", "2050-10-30T01:00", "2051-11-05T06:00")  # fmt: skip


def times() -> list[datetime | None]:
    """Around the moments when clocks are changed, as times in UTC and as local ones."""
    moments = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in CHANGES]
    around = [timedelta(minutes=minutes, microseconds=minutes % 7) for minutes in range(-200, 200, 10)]
    return [None, *(moment + step for moment in moments for step in around)]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("function", ["from_utc_timestamp", "to_utc_timestamp"])
def test_times_are_those_of_spark(spark: Any, function: str, zone: str) -> None:
    sql = f"{function}(x, '{zone}')"
    values = times()
    events = spark.createDataFrame([(at, value) for at, value in enumerate(values)], "n INT, x TIMESTAMP")
    expected = [row.us for row in events.selectExpr("n", f"unix_micros({sql}) AS us").orderBy("n").collect()]
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    register(database)
    column = pa.array(values, pa.timestamp("us", "UTC"))
    database.register("events", pa.table([pa.array(range(len(values))), column], names=["n", "x"]))
    translated = duckdb_expression(parse_expression(sql, {"x": TIMESTAMP}), {"x": TIMESTAMP})
    found = database.sql(f"SELECT epoch_us({translated}) FROM events ORDER BY n").fetchall()
    assert [us for (us,) in found] == expected
