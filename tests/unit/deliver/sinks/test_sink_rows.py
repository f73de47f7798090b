"""Events as JSON, column by column, are the same as event by event."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from headrace.deliver.sinks.sink_rows import EventRows, json_lines
from headrace.deliver.sinks.sink_writer import SinkBatch
from headrace.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    Type,
    array,
    arrow_type,
    decimal,
    map_of,
    struct,
)

TIMES = [datetime(2026, 3, 1, 12, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 5, tzinfo=UTC), None]
COLUMNS: dict[str, tuple[Type, list[object]]] = {
    "text": (STRING, ['é"\n', "", None]),
    "number": (BIGINT, [1, -(2**63), None]),
    "ratio": (DOUBLE, [0.1, float("nan"), None]),
    "finite": (DOUBLE, [1.5, -2.0, None]),
    "price": (decimal(20, 10), [Decimal("0E-10"), Decimal("12.5"), None]),
    "day": (DATE, [date(2026, 3, 1), date(1, 1, 1), None]),
    "at": (TIMESTAMP, list(TIMES)),
    "ok": (BOOLEAN, [True, False, None]),
    "times": (array(TIMESTAMP), [[TIMES[0], None], [], None]),
    "part": (struct(("a", DOUBLE), ("b", STRING)), [{"a": float("inf"), "b": "x"}, {"a": None, "b": None}, None]),
    "map": (map_of(DATE), [{"k": date(2026, 3, 1)}, {}, None]),
}


def test_json_of_events_does_not_depend_on_the_way() -> None:
    columns = tuple((name, of) for name, (of, _) in COLUMNS.items())
    arrays = {name: pa.array(values, arrow_type(of)) for name, (of, values) in COLUMNS.items()}
    table = pa.table({"_commit": pa.array([7] * 3), "_position": pa.array([1, 2, 3]), **arrays})
    rows = EventRows(table, columns)
    by_column = json_lines(SinkBatch("k", columns, (), rows, "c"))
    by_event = json_lines(SinkBatch("k", columns, (), list(rows), "c"))
    assert [json.loads(line) for line in by_column] == [json.loads(line) for line in by_event]
    first = json.loads(by_column[0])
    assert (first["at"], first["price"], first["part"]) == (
        "2026-03-01T12:00:00Z",
        "0.0000000000",
        {"a": "Infinity", "b": "x"},
    )
    assert json.loads(by_column[1])["at"] == "1969-12-31T23:59:59.000005Z"
    assert (first["_op"], first["_commit"], first["_position"]) == ("upsert", 7, 1)
