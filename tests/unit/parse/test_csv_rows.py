"""Events that are rows of CSV, each judged by itself."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.define.catalog import parse
from headrace.parse.event_parser import Parser
from headrace.parse.frames import frame_values
from tests import wording

NOW_US = int(datetime(2026, 11, 17, tzinfo=UTC).timestamp() * 1e6)
STREAM = parse(
    "CREATE STREAM s (host STRING NOT NULL, status INT, ok BOOLEAN, price DECIMAL(10,2), at TIMESTAMP, "
    "hour INT AS hour(at)) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'DELIMITED')"
).streams["s"]


def read(*rows: bytes, stream=STREAM):
    parsed = Parser(stream).parse(frame_values(stream.format, pa.array(rows, pa.binary())), NOW_US)
    reasons = [None] * len(rows) if parsed.reasons is None else parsed.reasons.to_pylist()
    return [tuple(row.values()) for row in parsed.columns.to_pylist()], reasons


def test_cells_are_the_fields_in_order():
    rows, reasons = read(
        b"a,200,true,1.50,2026-01-02T03:04:05Z", b"b,,,,", b'"c,""d""",404,FALSE,0,2026-01-02 00:00:00'
    )
    assert reasons == [None] * 3
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert [row[0] for row in rows] == ["a", "b", 'c,"d"']
    assert rows[0][1:3] == (200, True)
    assert (str(rows[0][3]), rows[0][4], rows[0][5]) == ("1.50", at, 3)
    assert rows[1][1:] == (None,) * 5


@pytest.mark.parametrize(
    ("row", "values"),
    [
        (b"a,1,true,1,2026-01-01,9", ("6", "5")),
        (b'"a,1,true', ()),
        (b"a,x,,,", ("status",)),
        (b",1,,,", ("host",)),
        (b"\xff,1,,,", ("UTF", "8", "0")),
        (b"a,1\nb,2", ("2",)),
    ],
)
def test_a_bad_row_does_not_reach_its_neighbours(row, values):
    rows, reasons = read(b"x,1,,,", row, b"y,2,,,")
    assert (reasons[0], reasons[2]) == (None, None)
    assert [rows[0][:2], rows[2][:2]] == [("x", 1), ("y", 2)]
    wording.check(reasons[1], *values)


def test_a_shorter_row_has_no_value_for_the_last_fields():
    rows, reasons = read(b"a", b"b,5")
    assert reasons == [None, None]
    assert [row[:3] for row in rows] == [("a", None, None), ("b", 5, None)]


@pytest.mark.parametrize(
    ("option", "row"), [("';'", b"a;1"), ("'TAB'", b'"a"\t1'), (r"'\t'", b"a\t1"), ("' '", b"a 1")]
)
def test_other_delimiters(option, row):
    stream = parse(
        f"CREATE STREAM s (a STRING, b INT) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'CSV', VALUE_DELIMITER = {option})"
    ).streams["s"]
    assert read(row, stream=stream) == ([("a", 1)], [None])


@given(st.lists(st.tuples(st.text(max_size=8), st.integers(-(2**31), 2**31 - 1)), min_size=1, max_size=20))
def test_what_a_csv_writer_writes_is_read_back(values):
    stream = parse("CREATE STREAM s (a STRING, b INT) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'CSV')").streams["s"]
    values = [(text.replace("\0", "") or "-", number) for text, number in values]
    lines = []
    for row in values:
        out = io.StringIO(newline="")
        csv.writer(out).writerow(row)
        lines.append(out.getvalue().removesuffix("\r\n").encode("utf-8", "surrogatepass"))
    rows, reasons = read(*lines, stream=stream)
    for row, reason, value in zip(rows, reasons, values, strict=True):
        try:
            value[0].encode()
        except UnicodeEncodeError:
            assert "not UTF-8" in reason
        else:
            assert (row, reason) == (value, None)
