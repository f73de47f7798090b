"""Kafka and PostgreSQL as tests use them: real servers that scripts/services starts, stops and kills."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.waiting import wait_until

SCRIPT = Path(__file__).parents[2] / "scripts" / "services"
NOT_AVAILABLE = 3  # the script's exit code where a service cannot be installed
ANSWER_S = 120.0  # for each request to a service on a busy machine
_names = itertools.count()


class Service:
    """One server of scripts/services."""

    name = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.start()

    def start(self) -> None:
        """Ready when it returns: the first time, or again on the same port and data."""
        self._run("up")

    def stop(self) -> None:
        """End cleanly; the data stays."""
        self._run("stop")

    def kill(self) -> None:
        """End at once, as a power cut would; the data stays."""
        self._run("kill")

    def remove(self) -> None:
        self._run("down")

    @property
    def state(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "services.json").read_text())[self.name])

    def _run(self, command: str) -> None:
        ended = subprocess.run(
            [sys.executable, SCRIPT, command, self.name, "--folder", self.folder],
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        if ended.returncode == NOT_AVAILABLE:
            pytest.skip(f"not run, since this service is not available here: {ended.stderr.splitlines()[-1]}")
        assert ended.returncode == 0, ended.stderr


class Kafka(Service):
    """One broker."""

    name = "kafka"

    @property
    def bootstrap_servers(self) -> str:
        return str(self.state["bootstrap_servers"])

    @property
    def sasl(self) -> dict[str, str]:
        """Of a second listener: bootstrap_servers, user and password; SASL_PLAINTEXT with the mechanism PLAIN."""
        return dict(self.state["sasl"])

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers})

    def create_topic(self, name: str | None = None, partitions: int = 1, **config: str) -> str:
        """Its name; without a name, a new one. Underscores in the names of settings stand for dots."""
        topic = name or f"topic-{os.getpid()}-{next(_names)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin = self.admin()
        new = NewTopic(topic, partitions, 1, config=settings)
        wait_until(lambda: _is_created(admin, new))
        wait_until(lambda: len(_partitions(admin, topic)) == partitions)
        return topic

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Up to this number."""
        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(ANSWER_S)
        wait_until(lambda: len(_partitions(admin, topic)) == partitions)

    def delete_topic(self, topic: str) -> None:
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(ANSWER_S)
        wait_until(lambda: topic not in admin.list_topics(timeout=ANSWER_S).topics)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """As retention does."""
        admin = self.admin()
        place = TopicPartition(topic, partition, offset)
        admin.delete_records([place])[place].result(ANSWER_S)

    def producer(self, **config: Any) -> Producer:
        """Acknowledged by all, each message once; underscores in the names of settings stand for dots."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        if "transactional.id" in settings:  # the broker aborts a transaction that is open for longer
            settings = {"transaction.timeout.ms": 600_000, **settings}
        return Producer(
            {"bootstrap.servers": self.bootstrap_servers, "enable.idempotence": True, "log_level": 2, **settings}
        )

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | str | Mapping[str, Any] | None],
        *,
        key: bytes | str | None = None,
        partition: int = -1,
        headers: list[tuple[str, bytes]] | None = None,
        producer: Producer | None = None,
    ) -> int:
        """Send messages and wait until all are acknowledged; how many. Mappings are sent as JSON."""
        ours = producer or self.producer()
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error:
                failed.append(error)

        count = 0
        for value in values:
            content = json.dumps(value) if isinstance(value, Mapping) else value
            while True:
                try:
                    ours.produce(
                        topic, content, key=key, partition=partition, headers=headers or [], on_delivery=delivered
                    )
                    break
                except BufferError:
                    ours.poll(0.1)
            count += 1
        assert ours.flush(ANSWER_S) == 0, f"messages were not acknowledged in {ANSWER_S:.0f} s"
        assert not failed, failed[0]
        return count

    def messages(self, topic: str) -> list[Message]:
        """All committed messages of a topic, by partition and offset."""
        settings = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": f"reader-{next(_names)}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        consumer = Consumer(settings)
        try:
            waiting = _partitions(self.admin(), topic)
            consumer.assign([TopicPartition(topic, partition, 0) for partition in waiting])
            found: list[Message] = []

            def read() -> bool:
                for message in consumer.consume(10_000, 0.2):
                    error = message.error()
                    if error is None:
                        found.append(message)
                    else:
                        assert error.code() == KafkaError._PARTITION_EOF, error
                        waiting.discard(message.partition())
                return not waiting

            wait_until(read)
            return sorted(found, key=lambda message: (message.partition(), message.offset()))
        finally:
            consumer.close()


class Postgres(Service):
    """One PostgreSQL server."""

    name = "postgres"

    @property
    def url(self) -> str:
        """With the password; its user is a superuser."""
        return str(self.state["url"])

    @property
    def password(self) -> str:
        return str(self.state["password"])

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, autocommit=True, **options)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            return connection.execute(query.encode()).fetchall()

    def execute(self, statement: str) -> None:
        with self.connect() as connection:
            connection.execute(statement.encode())

    def create_database(self, name: str | None = None) -> str:
        """The URL of a new database."""
        database = name or f"database_{os.getpid()}_{next(_names)}"
        self.execute(f"CREATE DATABASE {database}")
        return self.url.rpartition("/")[0] + f"/{database}"


def _is_created(admin: AdminClient, new: NewTopic) -> bool:
    """Not while the broker's controller has missed its heartbeats: it then says that there is no broker for it."""
    try:
        admin.create_topics([new])[new.topic].result(ANSWER_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
            raise
        return False
    return True


def _partitions(admin: AdminClient, topic: str) -> set[int]:
    metadata = admin.list_topics(topic, timeout=ANSWER_S).topics[topic]
    return set() if metadata.error else set(metadata.partitions)
