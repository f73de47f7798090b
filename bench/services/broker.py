"""A Kafka broker of scripts/services, and topics filled with the events of files."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from json import loads
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.record import ROOT
from headrace.errors import HeadraceError, UnavailableError

NOT_AVAILABLE = 3  # the exit code of scripts/services where a service cannot be installed
NO_KAFKA = "Kafka cannot be installed here"
PARTITIONS = 2
Delivered = Callable[[KafkaError | None, Message], None]
FULL_JAVA = "-XX:+TieredCompilation"  # both compilers, as in production; the broker of tests only has the quick one


@dataclass(frozen=True)
class Broker:
    """A running broker."""

    servers: str

    def make_topic(self, topic: str, partitions: int = PARTITIONS) -> None:
        """A new topic."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)

    def producer(self, **settings: str | int | float | bool) -> Producer:
        """Acknowledged by all, each message once."""
        return Producer({"bootstrap.servers": self.servers, "enable.idempotence": True, "log_level": 2, **settings})

    def fill(self, topic: str, paths: Iterable[Path]) -> None:
        """One message for each line of files, spread over the partitions."""
        producer = self.producer(**{"linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        for path in paths:
            with path.open("rb") as file:
                for number, line in enumerate(file):
                    send(producer, topic, line.rstrip(b"\n"), number // 1000 % PARTITIONS, delivered)
        producer.flush(120)
        if failed:
            raise UnavailableError(f"topic '{topic}' was not filled: {failed[0].str()}")


def send(producer: Producer, topic: str, value: bytes, partition: int, delivered: Delivered | None = None) -> None:
    """One message; waits while the buffer of the producer is full."""
    while True:
        try:
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
            return
        except BufferError:
            producer.poll(0.1)


@contextmanager
def start_broker() -> Iterator[Broker]:
    """A broker of its own, removed afterwards; raises UnavailableError where it cannot be installed."""
    with tempfile.TemporaryDirectory(prefix="headrace-kafka-") as name:
        _services("up", Path(name))
        try:
            states = loads((Path(name) / "services.json").read_text())
            yield Broker(states["kafka"]["bootstrap_servers"])
        finally:
            _services("down", Path(name))
            Path(name).mkdir(exist_ok=True)  # `down` has removed it


def _services(command: str, folder: Path) -> None:
    ended = subprocess.run(
        [sys.executable, ROOT / "scripts" / "services", command, "kafka", "--folder", folder],
        env={**os.environ, "KAFKA_OPTS": FULL_JAVA},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode == NOT_AVAILABLE:
        raise UnavailableError(f"{NO_KAFKA}: {ended.stderr.strip().splitlines()[-1]}")
    if ended.returncode:
        raise UnavailableError(f"the broker did not start: {ended.stderr.strip().splitlines()[-1]}")


def stream(name: str, topic: str, broker: Broker, fields: str) -> str:
    """The definition of a stream over a topic, from its first event on."""
    return f"""CREATE STREAM {name} (
  {fields},
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE
) WITH (connector = 'kafka', topic = '{topic}', 'properties.bootstrap.servers' = '{broker.servers}',
  'scan.startup.mode' = 'earliest-offset');
"""


def require(condition: bool, sentence: str) -> None:
    """What the figures rest on."""
    if not condition:
        raise HeadraceError(sentence)
