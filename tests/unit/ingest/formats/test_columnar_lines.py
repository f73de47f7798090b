"""Parquet as lines: each type as JSON; values that JSON does not have are refused by the parser."""

from __future__ import annotations

import io
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.errors import IngestError
from headrace.ingest.formats.columnar_lines import parquet_lines
from tests import wording


def lines(table: pa.Table, sizes: dict[str, int] | None = None, **options: object) -> list[bytes]:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return b"".join(parquet_lines(pa.BufferReader(file.getvalue()), **sizes or {})).splitlines()


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array([1, None, -(2**63)]), ["1", None, "-9223372036854775808"]),
        (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
        (pa.array(['a"b\\c\n\x01é', "", None]), ['"a\\"b\\\\c\\n\\u0001é"', '""', None]),
        (pa.array([True, None, False]), ["true", None, "false"]),
        (pa.array([1.5, 1e300, None]), ["1.5", "1e+300", None]),
        (pa.array([float("nan"), float("inf"), float("-inf")]), ["NaN", "Infinity", "-Infinity"]),
        (pa.array([0.1], pa.float32()), ["0.1"]),
        (pa.array([Decimal("1.20"), None, Decimal("-3.00")], pa.decimal128(38, 2)), ["1.20", None, "-3.00"]),
        (pa.array([0, 1, None], pa.date32()), ['"1970-01-01"', '"1970-01-02"', None]),
        (
            pa.array([0, 1_700_000_000_123_456, -1, None], pa.timestamp("us", "Europe/Berlin")),
            ['"1970-01-01T00:00:00.000000Z"', '"2023-11-14T22:13:20.123456Z"', '"1969-12-31T23:59:59.999999Z"', None],
        ),
        (
            pa.array([-62_135_596_800_000, 253_402_300_799_999, 253_402_300_800_000], pa.timestamp("ms")),
            ['"0001-01-01T00:00:00.000000Z"', '"9999-12-31T23:59:59.999000Z"', '"253402300800000 ms since 1970"'],
        ),
        (
            pa.array([1_000, 1_700_000_000_123_456_789], pa.timestamp("ns")),
            ['"1970-01-01T00:00:00.000001Z"', '"2023-11-14T22:13:20.123456789Z"'],
        ),
        (pa.array([[1, None], [], None]), ["[1,null]", "[]", None]),
        (pa.array([[["a"], []], [None]]), ['[["a"],[]]', "[null]"]),
        (pa.array([{"x": 1, "y": "q"}, {"x": None, "y": None}, None]), ['{"x":1,"y":"q"}', "{}", None]),
        (
            pa.array([[("k", 1), ("j", None)], [], None], pa.map_(pa.string(), pa.int64())),
            ['{"k":1,"j":null}', "{}", None],
        ),
        (pa.array([[(1, [2.5])]], pa.map_(pa.int32(), pa.list_(pa.float64()))), ['{"1":[2.5]}']),
        (pa.array([b"text", None]), ['"text"', None]),
        (pa.array(["x", "x", None]).dictionary_encode(), ['"x"', '"x"', None]),
        (pa.nulls(2), [None, None]),
    ],
)
def test_each_type_as_json(column: pa.Array, texts: list[str | None]) -> None:
    assert lines(pa.table({"c": column})) == [
        b"{}" if text is None else b'{"c":' + text.encode() + b"}" for text in texts
    ]


def test_rows_keep_their_order_over_batches_and_row_groups() -> None:
    table = pa.table({"i": range(1000), "s": [f"text {i}" if i % 3 else None for i in range(1000)]})
    read = [json.loads(line) for line in lines(table, {"rows": 100, "piece_bytes": 50}, row_group_size=300)]
    assert read == [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def test_a_small_file_of_long_repeated_text_stays_in_pieces() -> None:
    text = pa.DictionaryArray.from_arrays(np.zeros(100_000, dtype=np.int32), pa.array(["x" * 1_000_000]))
    file = io.BytesIO()
    pq.write_table(pa.table({"s": text}), file)
    assert len(file.getvalue()) < 200_000  # for 100 GB of text
    assert len(next(parquet_lines(pa.BufferReader(file.getvalue())))) < 8 << 20


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array([b"\xff"]), ("c", "UTF", "8")),
        (pa.array([1], pa.duration("us")), ("c",)),
    ],
)
def test_a_column_that_json_cannot_hold_is_named(column: pa.Array, values: tuple[str, ...]) -> None:
    with wording.raises(IngestError, *values):
        lines(pa.table({"c": column}))


@pytest.mark.parametrize("body", [b"", b"PAR1", b"PAR1 and then nothing PAR1"])
def test_other_input_than_parquet_is_refused(body: bytes) -> None:
    with wording.raises(IngestError):
        list(parquet_lines(pa.BufferReader(body)))
