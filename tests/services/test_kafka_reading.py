"""What the Kafka transport reads of a real broker: where it begins, gaps, odd values, partitions, lost ranges."""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.define.kafka_source import KafkaSource, Start
from headrace.define.model import JSON, TEXT
from headrace.errors import CorruptionError, UnavailableError, UsageError
from headrace.transport.kafka.kafka_transport import KafkaTransport, Skipped
from headrace.transport.position import START, Position
from headrace.transport.transport_contract import TransportEvents
from tests.waiting import wait_until

from .running import ANSWER_S, Kafka

Open = Callable[..., KafkaTransport]
ALL = 1 << 40


@pytest.fixture
def open_stream(kafka: Kafka, tmp_path: Path) -> Iterator[Open]:
    opened: list[KafkaTransport] = []

    def open_one(*topics: str, lake_end: Position = START, fmt: str = JSON, **source: Any) -> KafkaTransport:
        for transport in opened:
            transport.close()
        properties = {"bootstrap.servers": kafka.bootstrap_servers, **source.pop("properties", {})}
        options = KafkaSource(topics, properties=properties, **{"discovery_ms": 200, **source})
        opened.append(KafkaTransport(tmp_path / "k", "s", options, fmt, fence=len(opened) + 1, lake_end=lake_end))
        return opened[-1]

    yield open_one
    for transport in opened:
        transport.close()


def read(
    transport: KafkaTransport, start: Position = START, *, fmt: str = JSON, target: int = ALL
) -> list[TransportEvents]:
    reader = pickle.loads(pickle.dumps(transport.reader))  # as in a worker
    ranges = transport.reader.ranges(start, transport.end, target_bytes=target)
    return [events for part in ranges for events in reader.read(part, fmt)]


def values(transport: KafkaTransport, start: Position = START, *, target: int = ALL) -> list[bytes]:
    return [value for events in read(transport, start, target=target) for value in events.frames]


def has(transport: KafkaTransport, *ends: int) -> Callable[[], bool]:
    return lambda: transport.end == Position(ends)


@pytest.mark.parametrize("target", [1, 100, ALL])
def test_only_committed_events_are_read_and_gaps_do_not_hang(kafka: Kafka, open_stream: Open, target: int) -> None:
    topic = kafka.create_topic()
    producer = kafka.producer(transactional_id=topic)
    producer.init_transactions(ANSWER_S)
    expected = []
    for number in range(6):
        producer.begin_transaction()
        kept = [b"%d-%d" % (number, i) for i in range(number + 1)]
        kafka.produce(topic, kept, producer=producer)
        if number % 2:
            producer.abort_transaction(ANSWER_S)
        else:
            producer.commit_transaction(ANSWER_S)
            expected += kept
    transport = open_stream(topic)
    wait_until(has(transport, 27))  # 21 messages and a mark for each transaction
    assert values(transport, target=target) == expected  # a reader that waits for a gap fails after STALLED_S
    # What an open transaction has is not there, nor what lies behind it.
    producer.begin_transaction()
    kafka.produce(topic, [b"open"], producer=producer)
    kafka.produce(topic, [b"behind"])
    again = open_stream(topic)
    assert again.end == Position((27,))
    producer.commit_transaction(ANSWER_S)
    wait_until(has(again, 30))
    assert values(again, Position((27,))) == [b"open", b"behind"]


def test_each_message_is_one_event_whatever_its_bytes(kafka: Kafka, open_stream: Open) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [b'{"a":\n1}', None, b"", b"  ", b'{"a":2}\n', b"\n\n", b'{"a":3}'])
    transport = open_stream(topic)
    wait_until(has(transport, 7))
    (events,) = read(transport)
    assert list(events.frames) == [b'{"a":\n1}', b"", b"", b"", b'{"a":2}', b"", b'{"a":3}']
    assert events.reasons is not None
    assert [reason is not None for reason in events.reasons.to_pylist()] == [False, True, *[False] * 5]
    assert events.positions.tolist() == list(range(7))
    (texts,) = read(transport, fmt=TEXT)
    assert list(texts.frames) == [b'{"a":\n1}', b"", b"", b"  ", b'{"a":2}\n', b"\n\n", b'{"a":3}']


def test_metadata_are_columns(kafka: Kafka, open_stream: Open) -> None:
    topic = kafka.create_topic()
    before_ms = time.time_ns() // 1_000_000
    kafka.produce(topic, [b"{}"], key="k", headers=[("x", b"1"), ("y", b"2"), ("x", b"3")])
    kafka.produce(topic, [b"{}"])
    transport = open_stream(topic)
    wait_until(has(transport, 2))
    (events,) = read(transport)
    of = events.metadata
    assert of is not None
    assert of.key().to_pylist() == [b"k", None]
    assert of.header("x").to_pylist() == [b"3", None]
    assert of.headers().to_pylist()[0] == [
        {"key": "x", "value": b"1"},
        {"key": "y", "value": b"2"},
        {"key": "x", "value": b"3"},
    ]
    assert of.topic().to_pylist() == [topic] * 2
    assert (of.partition().to_pylist(), of.offset().to_pylist()) == ([0, 0], [0, 1])
    assert before_ms <= of.timestamp().cast(pa.int64())[0].as_py() // 1000 <= time.time_ns() // 1_000_000
    assert (events.arrived_us // 1000 >= before_ms).all()


def test_the_beginning_is_decided_once(kafka: Kafka, open_stream: Open) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [b"old"])
    transport = open_stream(topic, start=Start("latest"))
    wait_until(has(transport, 1))
    assert values(transport) == []
    kafka.produce(topic, [b"new"])
    again = open_stream(topic, start=Start("latest"))  # nothing was committed in between
    wait_until(has(again, 2))
    assert values(again) == [b"new"]
    assert transport.start == again.start == Position((1,))


@pytest.mark.parametrize(("mode", "expected"), [("earliest", 5), ("timestamp", 2), ("offsets", 1)])
def test_beginnings(kafka: Kafka, open_stream: Open, mode: Any, expected: int) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [b"0", b"1", b"2"])
    time.sleep(0.01)  # the clock of timestamps has milliseconds
    between_ms = time.time_ns() // 1_000_000
    kafka.produce(topic, [b"3", b"4"])
    transport = open_stream(topic, start=Start(mode, between_ms if mode == "timestamp" else None, ((0, 4),)))
    wait_until(has(transport, 5))
    assert values(transport) == [b"0", b"1", b"2", b"3", b"4"][5 - expected :]
    assert transport.lags(START) == {(topic, 0): expected}


def test_a_time_after_all_events_begins_at_the_end(kafka: Kafka, open_stream: Open) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [b"0"])
    transport = open_stream(topic, start=Start("timestamp", (time.time_ns() // 1_000_000) + 60_000))
    wait_until(has(transport, 1))
    assert values(transport) == []


def test_new_partitions_and_topics_are_picked_up_under_fixed_numbers(kafka: Kafka, open_stream: Open) -> None:
    first = kafka.create_topic()
    prefix = f"{first}-p"
    one = kafka.create_topic(f"{prefix}-1")
    transport = open_stream(pattern=f"{prefix}-.*", start=Start("latest"))
    kafka.produce(one, [b"1"])
    wait_until(has(transport, 1))
    kafka.add_partitions(one, 2)
    kafka.produce(one, [b"2"], partition=1)
    wait_until(has(transport, 1, 1))
    two = kafka.create_topic(f"{prefix}-0")  # before the other by name
    kafka.produce(two, [b"3"])
    wait_until(has(transport, 1, 1, 1))
    assert values(transport) == [b"1", b"2", b"3"]
    again = open_stream(pattern=f"{prefix}-.*", start=Start("latest"))
    wait_until(has(again, 1, 1, 1))
    assert values(again) == [b"1", b"2", b"3"]
    with pytest.raises(Exception, match="several topics"):
        again.submit(b"{}\n", 1, []).result(ANSWER_S)


def test_a_lost_range_stops_and_names_its_offsets_until_it_is_skipped(kafka: Kafka, open_stream: Open) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [b"%d" % i for i in range(10)])
    transport = open_stream(topic)
    wait_until(has(transport, 10))
    lake_end = Position((3,))
    part = transport.reader.ranges(lake_end, transport.end, target_bytes=ALL)
    kafka.delete_before(topic, 0, 6)
    lost = f"partition 0 of topic '{topic}' no longer has offsets 3 to 5"
    with pytest.raises(CorruptionError, match=lost):  # of a worker that had begun
        list(transport.reader.read(part[0], JSON))
    again = open_stream(topic, lake_end=lake_end)
    with pytest.raises(CorruptionError, match=lost):
        values(again, lake_end)
    with pytest.raises(UsageError, match="an offset from 6 to 10"):
        again.skip(Start("offsets", offsets=((0, 4),)), lake_end)
    assert again.skip(Start("earliest"), lake_end) == [Skipped(topic, 0, 3, 6)]
    assert values(again, lake_end) == [b"6", b"7", b"8", b"9"]
    assert again.skip(Start("offsets", offsets=((0, 8),)), lake_end) == [Skipped(topic, 0, 6, 8)]
    last = open_stream(topic, lake_end=lake_end)
    assert values(last, lake_end) == [b"8", b"9"]
    assert last.skip(Start("latest"), lake_end) == [Skipped(topic, 0, 8, 10)]
    assert values(last, lake_end) == []


def test_a_topic_made_anew_stops_the_stream_until_it_is_skipped(kafka: Kafka, open_stream: Open) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [b"a", b"b"])
    transport = open_stream(topic)
    wait_until(has(transport, 2))
    assert transport.age_ms(Position((2,))) == 0  # so it knows what the lake has
    kafka.delete_topic(topic)
    wait_until(lambda: transport.trouble is not None)
    assert transport.reader.end() == START  # nothing is tried
    kafka.create_topic(topic)
    kafka.produce(topic, [b"c", b"d", b"e"])
    wait_until(lambda: isinstance(transport.trouble, CorruptionError))
    with pytest.raises(CorruptionError, match=r"recreated.*all before offset 2.*headrace skip s --to earliest"):
        transport.reader.end()
    lake_end = Position((2,))
    again = open_stream(topic, lake_end=lake_end)
    assert isinstance(again.trouble, CorruptionError)
    assert again.skip(Start("earliest"), lake_end) == [Skipped(topic, 0, 0, 0)]
    wait_until(lambda: again.trouble is None)
    wait_until(has(again, 2, 3))
    assert values(again, lake_end) == [b"c", b"d", b"e"]
    assert again.lags(lake_end) == {(topic, 0): 3}


def test_what_is_wrong_is_one_sentence_and_heals(kafka: Kafka, open_stream: Open, tmp_path: Path) -> None:
    topic = f"absent-{uuid.uuid4().hex}"
    missing = open_stream(topic)
    assert str(missing.trouble).startswith(f"stream 's': topic '{topic}' does not exist; create it")
    assert missing.reader.end() == START
    with pytest.raises(UnavailableError) as refused:
        missing.submit(b"{}\n", 1, [])
    assert refused.value.retry_after_s
    kafka.create_topic(topic)
    wait_until(lambda: missing.trouble is None)
    sasl = kafka.sasl
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": sasl["user"]}
    login["bootstrap.servers"] = sasl["bootstrap_servers"]
    secret = tmp_path / "password"
    secret.write_text("wrong-horse\n")
    login["sasl.password"] = f"secret:file:{secret}"
    refusing = open_stream(topic, properties=login)
    assert "refuses the connection" in str(refusing.trouble)
    assert "wrong-horse" not in str(refusing.trouble)
    assert b"wrong-horse" not in pickle.dumps(refusing.reader)
    secret.write_text(sasl["password"] + "\n")
    good = open_stream(topic, properties=login)
    wait_until(lambda: good.trouble is None)
    away = open_stream(topic, properties={"bootstrap.servers": "127.0.0.1:9"})
    assert "Kafka at 127.0.0.1:9 cannot be reached" in str(away.trouble)
    assert "Connection refused" in str(away.trouble)
    assert away.age_ms(START) is None
