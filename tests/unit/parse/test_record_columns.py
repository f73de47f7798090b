"""Fields that are parts of a Kafka record: key, headers, timestamp, partition, offset, topic."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

import headrace as hr
from headrace.define.catalog import parse
from headrace.define.fingerprint import from_json, to_json
from headrace.errors import DefinitionError
from headrace.parse.event_parser import Parser
from headrace.parse.frames import frame_lines
from headrace.parse.record_columns import record_columns, sent_records
from tests import wording

KAFKA = "WITH (connector = 'kafka', topic = 't')"
FIELDS = (
    "a INT, k STRING FROM KEY, trace STRING FROM HEADER 'x', at TIMESTAMP FROM TIMESTAMP, p INT FROM PARTITION, "
    "o BIGINT FROM OFFSET, topic STRING FROM TOPIC, hs MAP<STRING, STRING> FROM HEADERS, id BIGINT AS CAST(k AS BIGINT)"
)
OTHERS = (
    "a INT, k STRING KEY, trace STRING HEADER('x'), at TIMESTAMP(3) METADATA FROM 'timestamp', "
    "p INT METADATA FROM 'partition' VIRTUAL, o BIGINT METADATA FROM 'offset' VIRTUAL, topic STRING METADATA VIRTUAL, "
    "hs MAP<STRING, STRING> METADATA FROM 'headers', id BIGINT AS CAST(k AS BIGINT)"
)
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def stream(fields: str, options: str = KAFKA):
    return parse(f"CREATE STREAM s ({fields}) {options}").streams["s"]


def test_spellings_of_other_systems():
    ours = stream(FIELDS)
    assert stream(OTHERS) == ours
    assert hr.Stream("s", FIELDS, source=hr.kafka("t")) == ours
    assert from_json(to_json(ours)) == ours
    assert stream("a INT, at TIMESTAMP TIMESTAMP").fields[1].record == "timestamp"


def test_values():
    records = pa.table(
        [
            pa.array([b"7", None], pa.binary()),
            pa.array(
                [[{"key": "x", "value": b"1"}, {"key": "y", "value": b"\xff"}, {"key": "x", "value": b"2"}], None],
                record_columns().field("_headers").type,
            ),
            pa.array([AT, AT], record_columns().field("_timestamp").type),
            pa.array(["t", "t"]),
            pa.array([3, 4], pa.int32()),
            pa.array([10, 11]),
        ],
        schema=record_columns(),
    )
    parsed = Parser(stream(FIELDS)).parse(frame_lines(b'{"a":1,"k":"not this"}\n{"a":2}'), 0, records)
    assert parsed.reasons is None
    first, second = (tuple(row.values()) for row in parsed.columns.to_pylist())
    assert first == (1, "7", "2", AT, 3, 10, "t", [("x", "2"), ("y", None)], 7)
    assert second == (2, None, None, AT, 4, 11, "t", None, None)


def test_a_key_that_is_no_text_is_a_dead_letter():
    records = sent_records(None, 2, 0).set_column(0, "_key", pa.array([b"\xff", b"ok"], pa.binary()))
    both = frame_lines(b'{"a":1}\n{"a":2}')
    keyed = stream("a INT, k STRING KEY")
    parsed = Parser(keyed).parse(both, 0, records)
    assert parsed.reasons.to_pylist() == ["field 'k' FROM KEY is not UTF-8", None]
    lenient = Parser(keyed, ["k"]).parse(both, 0, records)
    assert lenient.reasons is None
    assert lenient.columns.column("k").to_pylist() == [None, "ok"]


def test_events_on_their_way_to_kafka_have_a_time_and_no_key():
    timed = stream("a INT, at TIMESTAMP NOT NULL FROM TIMESTAMP, k STRING FROM KEY, WATERMARK FOR at AS at")
    now_us = int(AT.timestamp() * 1e6)
    parsed = Parser(timed).parse(frame_lines(b'{"a":1}'), now_us)
    assert parsed.reasons is None
    assert parsed.columns.column("at").to_pylist() == [AT]
    keyed = Parser(stream("a INT, k STRING NOT NULL FROM KEY")).parse(frame_lines(b'{"a":1}'), now_us)
    assert keyed.reasons.to_pylist() == ["field 'k' from 'key' is missing or null"]


@pytest.mark.parametrize(
    ("fields", "options", "values"),
    [
        ("a INT, k STRING FROM KEY", "", ("k", "FROM KEY")),
        ("a INT, k BIGINT KEY", KAFKA, ("k_text", "STRING FROM KEY", "BIGINT AS CAST", "AS BIGINT")),
        ("a INT, k BIGINT FROM TIMESTAMP", KAFKA, ("TIMESTAMP",)),
        ("a INT, k INT FROM HEADERS", KAFKA, ("MAP", "STRING")),
        ("a INT, k STRING FROM HEADER", KAFKA, ()),
        ("a INT, k STRING METADATA FROM 'keyy'", KAFKA, ("key",)),
        ("a INT, k STRING METADATA FROM 'leader-epoch'", KAFKA, ()),
        ("a INT, k STRING METADATA FROM key", KAFKA, ("METADATA FROM",)),
        ("a INT, k STRING FROM KEY FROM 'x'", KAFKA, ("k", "FROM")),
        ("a INT, k STRING FROM KEY AS 'x'", KAFKA, ("k", "FROM", "AS")),
        ("k STRING FROM KEY", KAFKA, ()),
        ("a INT FROM 'b'", f"{KAFKA} FORMAT CSV", ()),
        ("a INT", f"INCLUDE KEY AS k {KAFKA}", ("STRING FROM KEY",)),
        ("a INT", f"INCLUDE HEADER 'x' AS h {KAFKA}", ("STRING FROM HEADER", "x")),
        ("a INT", f"INCLUDE timestamp {KAFKA}", ("TIMESTAMP FROM TIMESTAMP",)),
    ],
)
def test_refused(fields, options, values):
    with pytest.raises(DefinitionError) as caught:
        stream(fields, options)
    wording.check(caught.value, *values)
    assert caught.value.where


def test_python_without_a_source():
    with wording.raises(DefinitionError):
        hr.Stream("s", "a INT, k STRING FROM KEY")
