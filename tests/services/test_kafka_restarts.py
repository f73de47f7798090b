"""A broker that is restarted while events are produced and sent: a real server catches up, none lost, none twice.

`make test-services` restarts it twice; HEADRACE_RESTARTS = 10 restarts it ten times during a million events.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from confluent_kafka import KafkaError, Message

from tests.server import UpServer
from tests.waiting import wait_until

from .running import Kafka

RESTARTS = int(os.environ.get("HEADRACE_RESTARTS", "2"))
PER_RESTART = 100_000 if RESTARTS > 2 else 20_000  # events
CATCHES_UP_S = 300  # on a busy machine
DEFINITIONS = """
CREATE STREAM numbers (id BIGINT NOT NULL) WITH (connector = 'kafka', topic = '{topic}',
  'properties.bootstrap.servers' = '{servers}');
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(id) AS ids FROM numbers;
"""


class Produced:
    """Numbers that a producer sends at a steady rate, whatever the broker does; and those that it acknowledged."""

    def __init__(self, kafka: Kafka, topic: str, count: int, seconds: float) -> None:
        self._producer = kafka.producer(queue_buffering_max_messages=2_000_000, linger_ms=20)
        self._topic, self._count, self._pause_s = topic, count, seconds / (count / 1000)
        self.acknowledged, self.ids = 0, 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged += 1
            self.ids += int((message.value() or b"")[6:-1])

    def _run(self) -> None:
        for number in range(self._count):
            self._producer.produce(self._topic, b'{"id":%d}' % number, on_delivery=self._delivered)
            if number % 1000 == 0:
                self._producer.poll(self._pause_s)
        self._producer.flush(300)

    def wait(self) -> None:
        self._thread.join(400)
        assert not self._thread.is_alive()


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "definitions").mkdir()
    (tmp_path / "headrace.toml").write_text("rehearse = false\n")
    yield tmp_path
    UpServer.kill_all()


def total(server: UpServer) -> tuple[int, int]:
    rows = server.rows("total")
    return (rows[0]["n"], rows[0]["ids"] or 0) if rows else (0, 0)


@pytest.mark.timeout(1500)
def test_no_event_is_lost_or_counted_twice(kafka: Kafka, workspace: Path) -> None:
    topic = kafka.create_topic(partitions=2)
    definitions = DEFINITIONS.format(topic=topic, servers=kafka.bootstrap_servers)
    (workspace / "definitions" / "all.sql").write_text(definitions)
    server = UpServer(workspace).wait_until_ready()
    sent, sent_ids = 0, 0
    for restart in range(RESTARTS):
        produced = Produced(kafka, topic, PER_RESTART, 4.0)
        time.sleep(1)  # in the midst of it
        (kafka.kill if restart % 2 else kafka.stop)()
        key = f"during-{restart}"
        wait_until(lambda: bool(server.status_of("numbers")["error"]))
        with pytest.raises(httpx2.HTTPStatusError) as refused:
            server.post("numbers", [{"id": 1}], key)
        assert refused.value.response.status_code == httpx2.codes.SERVICE_UNAVAILABLE
        assert refused.value.response.headers["retry-after"]
        kafka.start()
        wait_until(lambda k=key: accepted(server, k), CATCHES_UP_S)  # type: ignore[misc]
        produced.wait()
        assert produced.acknowledged == PER_RESTART
        sent, sent_ids = sent + produced.acknowledged + 1, sent_ids + produced.ids + 1
        wait_until(lambda least=sent: total(server)[0] >= least, CATCHES_UP_S, server.log_tail)  # type: ignore[misc]
        assert total(server) == (sent, sent_ids), f"restart {restart}"
        wait_until(lambda: server.status_of("numbers")["error"] is None, details=lambda: server.status_of("numbers"))
    assert server.status_of("numbers")["events"] == sent
    assert server.stop() == 0


def accepted(server: UpServer, key: str) -> bool:
    """Send it again until it is acknowledged, as a client does."""
    try:
        return bool(server.post("numbers", [{"id": 1}], key)["accepted"] == 1)
    except httpx2.HTTPStatusError as error:
        if error.response.status_code == httpx2.codes.SERVICE_UNAVAILABLE:
            return False
        raise
