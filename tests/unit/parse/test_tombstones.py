"""Messages of Kafka without a value, read as deletes of a table."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.define.catalog import parse
from headrace.define.kafka_record import KEY
from headrace.define.model import Stream
from headrace.define.table_parts import changes_of
from headrace.errors import DefinitionError
from headrace.lake.replay_files import _with_deletes
from headrace.lake.table_schema import ARRIVED, REASON, VALUE
from headrace.parse.event_parser import Parser
from headrace.parse.frames import frame_messages
from headrace.parse.record_columns import COLUMNS, record_columns
from headrace.parse.tombstones import NO_VALUE, RowDeletes, has_deletes, read_deletes
from tests import wording

NOON_US = 1_772_366_400_000_000  # 1 March 2026, 12:00 UTC
ONE = "id STRING PRIMARY KEY, plan STRING"


def changes(columns: str) -> Stream:
    table = parse(f"CREATE TABLE t ({columns}) WITH (connector = 'kafka', topic = 't')").tables["t"]
    return changes_of(table)


@pytest.mark.parametrize(
    ("columns", "key", "value"),
    [
        (ONE, b"u1", {"id": "u1"}),
        (ONE, b'"u1"', {"id": "u1"}),
        (ONE, b"17", {"id": "17"}),
        (ONE, b"", {"id": ""}),
        (ONE, "Zoë".encode(), {"id": "Zoë"}),
        (ONE, b'{"id": "u1", "more": 1}', {"id": "u1"}),
        (ONE, b'{"id": null}', {"id": None}),
        ("id INT PRIMARY KEY, plan STRING", b"17", {"id": 17}),
        ("id INT PRIMARY KEY, plan STRING", b'{"id": 17}', {"id": 17}),
        ("id INT PRIMARY KEY, plan STRING", b"x", {"id": "x"}),  # parsing refuses it
        ("id BOOLEAN PRIMARY KEY, plan STRING", b"true", {"id": True}),
        ("day DATE PRIMARY KEY, n INT", b"2026-03-01", {"day": "2026-03-01"}),
        ("a STRING, b BIGINT, n INT, PRIMARY KEY (a, b)", b'{"a": "x", "b": 12345678901234567}',
         {"a": "x", "b": 12345678901234567}),
        ("id STRING FROM '$.user.id' PRIMARY KEY, n INT", b"u1", {"user": {"id": "u1"}}),
        ("id STRING FROM KEY PRIMARY KEY, n INT", b"u1", {}),
        ("k STRING FROM KEY, id INT AS CAST(k AS INT) PRIMARY KEY, n INT", b"17", {}),
        (f"{ONE}, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at", b"u1", {"id": "u1", "at": "2026-03-01T12:00:00Z"}),
        (f"{ONE}, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at", b'{"id": "u1", "at": "2026-01-01T00:00:00Z"}',
         {"id": "u1", "at": "2026-01-01T00:00:00Z"}),
        (f"{ONE}, at TIMESTAMP FROM TIMESTAMP, WATERMARK FOR at AS at", b"u1", {"id": "u1"}),
    ],
)  # fmt: skip
def test_the_key_of_a_message_is_that_of_the_row(columns: str, key: bytes, value: dict[str, Any]) -> None:
    content, reason = RowDeletes(changes(columns)).delete(key, NOON_US)
    assert reason is None
    assert json.loads(content) == {**value, "_deleted": True}


def test_numbers_keep_their_digits() -> None:
    stream = changes("d DECIMAL(38, 10) PRIMARY KEY, n INT")
    for key in (b"12345678901234567890.1234567890", b'{"d": 12345678901234567890.1234567890}'):
        content, _ = RowDeletes(stream).delete(key, NOON_US)
        assert b'"d":12345678901234567890.1234567890' in content


@pytest.mark.parametrize(
    ("columns", "key", "values"),
    [
        (ONE, None, ()),
        (ONE, b'{"ID": "u1"}', ('id',)),
        (ONE, b"\xff", ('id',)),
        ("a STRING, b INT, PRIMARY KEY (a, b)", b"x", ()),
        ("a STRING, b INT, PRIMARY KEY (a, b)", b'{"a": "x"}', ()),
        ("a STRING, b INT, PRIMARY KEY (a, b)", b'{"a": "x", "b": NaN}', ()),
        (f"{ONE}, ms BIGINT, at TIMESTAMP AS timestamp_millis(ms), WATERMARK FOR at AS at", b"u1",
         ('at',)),
    ],
)  # fmt: skip
def test_a_key_that_names_no_row_is_a_reason(columns: str, key: bytes | None, values: tuple[str, ...]) -> None:
    content, reason = RowDeletes(changes(columns)).delete(key, NOON_US)
    assert content == b""
    assert reason is not None
    assert reason.startswith(NO_VALUE)
    wording.check(reason, *values)


def test_only_tombstones_are_changed_and_all_are_parsed() -> None:
    stream = changes("id INT PRIMARY KEY, plan STRING")
    assert has_deletes(stream)
    assert not has_deletes(parse("CREATE STREAM s (id INT)").streams["s"])
    sent = [b'{"id": 1, "plan": "pro"}', b"", b"", b'{"id": "x"}']
    reasons = pa.array([None, NO_VALUE, NO_VALUE, None], pa.string())
    keys = pa.array([b"1", b"2", b"two", b"x"], pa.binary())
    values, reasons = read_deletes(stream, sent, reasons, keys, np.full(4, NOON_US))
    assert reasons.to_pylist() == [None] * 4
    assert (values[0], values[3]) == (sent[0], sent[3])
    records = record_columns().empty_table().take(pa.nulls(4, pa.int64()))
    parsed = Parser(stream).parse(frame_messages(values, trim=True), np.full(4, NOON_US), records)
    assert parsed.columns.select(["id", "_deleted"]).to_pylist()[:2] == [
        {"id": 1, "_deleted": None}, {"id": 2, "_deleted": True},
    ]  # fmt: skip
    assert parsed.reasons is not None
    assert [reason is None for reason in parsed.reasons.to_pylist()] == [True, True, False, False]


def test_dead_letters_of_earlier_releases_become_deletes() -> None:
    stream = changes("id INT PRIMARY KEY, plan STRING")
    letters = pa.table({
        REASON: pa.array([NO_VALUE, "not JSON", NO_VALUE], pa.string()),
        VALUE: pa.array([b"", b"oh", b""], pa.binary()),
        ARRIVED: pa.array([NOON_US] * 3).cast(pa.timestamp("us", "UTC")),
        COLUMNS[KEY]: pa.array([b"2", b"3", None], pa.binary()),
    })  # fmt: skip
    again, reasons = _with_deletes(stream, letters)
    assert again.column(VALUE).to_pylist() == [b'{"id":2,"_deleted":true}', b"oh", b""]
    assert reasons is not None
    assert reasons.to_pylist()[:2] == [None, None]
    wording.check(reasons.to_pylist()[2])
    plain = parse("CREATE STREAM s (id INT) WITH (connector = 'kafka', topic = 't')").streams["s"]
    assert _with_deletes(plain, letters) == (letters, None)


def test_an_event_time_in_the_key_is_refused() -> None:
    with wording.raises(DefinitionError, "at"):
        changes("at TIMESTAMP NOT NULL, n INT, PRIMARY KEY (at), WATERMARK FOR at AS at")
