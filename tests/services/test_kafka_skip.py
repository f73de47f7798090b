"""Leaving out offsets deliberately, by the transport over a real broker: to which offset each way leads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.define.kafka_source import KafkaSource, parse_place
from headrace.errors import UsageError
from headrace.transport.kafka.kafka_transport import KafkaTransport
from headrace.transport.position import Position
from headrace.transport.transport_contract import Skipped
from tests.waiting import wait_until

from .running import Kafka


class Streams:
    """Opens transports, and closes them at the end."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        self._kafka = kafka
        self._folder = folder
        self.opened: list[KafkaTransport] = []

    def open(self, *topics: str) -> KafkaTransport:
        source = KafkaSource(topics, properties={"bootstrap.servers": self._kafka.bootstrap_servers})
        transport = KafkaTransport(self._folder / topics[0], "visits", source, "json", fence=1)
        self.opened.append(transport)
        return transport


@pytest.fixture
def streams(kafka: Kafka, tmp_path: Path) -> Iterator[Streams]:
    streams = Streams(kafka, tmp_path)
    yield streams
    for transport in streams.opened:
        transport.close()


def test_every_way_on(kafka: Kafka, streams: Streams) -> None:
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, [{"n": 1}] * 4, partition=0)
    produced = datetime.now(UTC)
    wait_until(lambda: datetime.now(UTC) > produced + timedelta(milliseconds=20))  # the times of the halves differ
    middle = produced + timedelta(milliseconds=10)
    kafka.produce(topic, [{"n": 2}] * 4, partition=0)
    transport = streams.open(topic)
    wait_until(lambda: transport.end == Position((8, 0)))
    read = Position((2, 0))
    assert transport.lags(read) == {(topic, 0): 6, (topic, 1): 0}

    def plan(to: str) -> list[Skipped]:
        return transport.skip(parse_place(to), read, dry_run=True)

    assert plan("earliest") == []
    assert plan("latest") == [Skipped(topic, 0, 2, 8)]
    assert plan(middle.isoformat()) == [Skipped(topic, 0, 2, 4)]
    assert plan("2020-01-01") == []  # what the lake has is not read again
    assert plan("2099-01-01T00:00:00Z") == [Skipped(topic, 0, 2, 8)]
    assert plan("0:5") == [Skipped(topic, 0, 2, 5)]
    for place, says in (
        ("0:1", "from 2 to 8"),
        ("0:9", "from 2 to 8"),
        ("7:1", "has no partition 7; expected one of 0, 1"),
    ):
        with pytest.raises(UsageError, match=says):
            plan(place)
    assert transport.start == Position((0, 0)), "a plan changes nothing"
    assert transport.skip(parse_place("0:5"), read) == [Skipped(topic, 0, 2, 5)]
    assert transport.lags(read) == {(topic, 0): 3, (topic, 1): 0}


def test_offsets_are_those_of_one_topic(kafka: Kafka, streams: Streams) -> None:
    topics = sorted((kafka.create_topic(), kafka.create_topic()))
    kafka.produce(topics[1], [{"n": 1}] * 2)
    transport = streams.open(*topics)
    wait_until(lambda: sum(transport.end.offsets) == 2)
    with pytest.raises(UsageError, match="has several topics: offsets are those of one"):
        transport.skip(parse_place("0:1"), Position())
    assert transport.skip(parse_place("latest"), Position()) == [Skipped(topics[1], 0, 0, 2)]


def test_a_place_that_is_none() -> None:
    with pytest.raises(
        UsageError, match="this is not a position in a topic; found 'tomorrow'; expected earliest, latest"
    ):
        parse_place("tomorrow")
