"""What every transport must do, by the transport over a real Kafka broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.define.kafka_source import KafkaSource
from headrace.transport.kafka.kafka_transport import KafkaTransport
from headrace.transport.position import Position
from headrace.transport.transport_contract import Transport
from tests.contracts.transport import (  # noqa: F401 - without those of a transport that deletes events itself
    Place,
    test_a_fresh_process_reads_the_same,
    test_a_key_is_known_for_a_day_also_after_a_restart,
    test_a_process_that_was_replaced_acknowledges_nothing,
    test_a_transport_that_is_closed_refuses,
    test_bytes_between_grow_with_what_lies_there,
    test_ends_never_move_back,
    test_how_far_a_file_was_sent_is_as_durable_as_its_events,
    test_ranges_tile_whatever_their_size,
    test_the_age_of_a_position_is_that_of_the_oldest_event_after_it,
    test_the_end_covers_a_request_as_soon_as_it_is_acknowledged,
    test_what_was_accepted_is_durable_and_read_once_at_its_positions,
)

from .running import Kafka


class KafkaPlace(Place):
    def __init__(self, folder: Path, source: KafkaSource) -> None:
        super().__init__(folder)
        self._source = source

    def make(self, fence: int, lake_end: Position, still_mine: Callable[[], None]) -> Transport:
        return KafkaTransport(
            self.folder,
            "visits",
            self._source,
            "json",
            fence=fence,
            lake_end=lake_end,
            still_mine=still_mine,
            clock_us=lambda: self.now_us,
            monotonic_s=lambda: self.now_us / 1e6,
        )


@pytest.fixture
def place(kafka: Kafka, tmp_path: Path) -> Iterator[Place]:
    topic = kafka.create_topic(partitions=2, retention_ms="-1")  # the clock of these tests is long ago
    source = KafkaSource((topic,), properties={"bootstrap.servers": kafka.bootstrap_servers})
    place = KafkaPlace(tmp_path / "transport", source)
    yield place
    for transport in place.opened:
        transport.close()
