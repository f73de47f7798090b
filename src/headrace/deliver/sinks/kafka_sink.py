"""Writes a sink to a topic of Kafka: at least once, or exactly once by transactions; and the latest rows, for
consumers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.define.connectors import KAFKA, value_of
from headrace.define.model import Mode, Sink
from headrace.deliver.sinks.kafka_client import Client
from headrace.deliver.sinks.sink_writer import COMMIT, POSITION, VERSION, DestinationError, SinkBatch, SinkChange
from headrace.errors import chain
from headrace.faults import fault_point
from headrace.language.durations import parse_duration
from headrace.serve.json_values import KeyEncoder, RowEncoder

PROGRESS_SUFFIX = "-headrace-progress"
HEADER_SINK, HEADER_VERSION, HEADER_COMMIT = "sink", "version", "commit"
DELIVERY_S = 60.0
REPORT_S = 5.0  # from the first error of a transaction to the report of the message that caused it
_FOLLOWS = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._STATE)  # errors that another one caused
DEFAULT_OF_BROKER = -1
Headers = list[tuple[str, str | bytes | None]]


@dataclass(frozen=True)
class KafkaTarget:
    """Where a sink writes to, and how."""

    workspace: str
    sink: str
    topic: str
    options: Mapping[str, str]  # properties.* among them
    mode: Mode
    exactly_once: bool
    transaction_timeout_ms: int
    create: bool
    partitions: int
    replication: int

    @classmethod
    def of(cls, sink: Sink, workspace: str) -> KafkaTarget:
        """By the options of a sink."""

        def value(name: str) -> str:
            return value_of(sink.options, KAFKA, name)

        return cls(
            workspace,
            sink.name,
            value("topic"),
            dict(sink.options),
            sink.mode,
            value("delivery.guarantee") == "exactly-once",
            parse_duration(value("transaction.timeout")),
            value("create") == "true",
            int(value("partitions") or DEFAULT_OF_BROKER),
            int(value("replication.factor") or DEFAULT_OF_BROKER),
        )

    @property
    def name(self) -> str:
        """The sink among those of all workspaces."""
        return f"{self.workspace}/{self.sink}"

    @property
    def progress_topic(self) -> str:
        return self.topic + PROGRESS_SUFFIX


class KafkaWriter:
    """A topic that gets the rows of a view, or the events of a stream."""

    unfinished = False

    def __init__(self, sink: Sink, workspace: str) -> None:
        target = self._target = KafkaTarget.of(sink, workspace)
        self._client = Client(target.sink, target.topic, target.options)
        self._producer: Producer | None = None
        self._failed: KafkaError | None = None  # the first message that was not delivered

    def resume(self) -> str | None:
        """The cursor of the last transaction; None if there was none, or without transactions."""
        self._ensure_topics()
        self._producer = self._make_producer()
        if not self._target.exactly_once:
            return None
        self._call(lambda producer: producer.init_transactions(DELIVERY_S))
        last = None
        for message in self._client.read(self._target.progress_topic):
            if message.key() == self._target.name.encode():
                last = message.value()
        return last.decode() if isinstance(last, bytes) else last

    def write(self, batch: SinkBatch) -> None:
        """Send every change, and wait until all brokers in sync have it."""
        if self._producer is None:
            self.resume()
        if self._target.exactly_once:
            self._call(lambda producer: producer.begin_transaction())
        try:
            self._send_all(batch)
        except DestinationError:
            self._abort()
            raise
        fault_point("sink.after_commit")

    def forget(self) -> None:
        """Remove the cursor from the progress topic."""
        if not self._target.exactly_once or self._client.partitions(self._target.progress_topic) is None:
            return
        self._producer = self._make_producer()
        self._call(lambda producer: producer.init_transactions(DELIVERY_S))
        self._call(lambda producer: producer.begin_transaction())
        self._send(self._target.progress_topic, self._target.name.encode(), None, [], partition=0)
        self._call(lambda producer: producer.commit_transaction(DELIVERY_S))

    def close(self) -> None:
        """Give up what is not delivered; it is sent again."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(1)

    # Messages

    def _send_all(self, batch: SinkBatch) -> None:
        messages = Messages(batch, self._target)
        if batch.restarted and self._target.mode == "update":
            self._delete_old(messages.headers(batch.changes[0]) if batch.changes else messages.headers(None))
        for change in batch.changes:
            self._send(self._target.topic, *messages.encode(change))
        if self._target.exactly_once:
            self._send(self._target.progress_topic, self._target.name.encode(), batch.cursor.encode(), [], partition=0)
        self._flush()
        fault_point("sink.before_commit")
        if self._target.exactly_once:
            self._call(lambda producer: producer.commit_transaction(DELIVERY_S))

    def _delete_old(self, headers: Headers) -> None:
        """A tombstone for each row that the topic has of this sink: no other version knows them any more."""
        live: dict[bytes, bool] = {}
        for message in self._client.read(self._target.topic):
            key = message.key()
            if key is not None:
                ours = (HEADER_SINK, self._target.name.encode()) in (message.headers() or [])
                live[key] = ours and message.value() is not None
        for key, is_live in live.items():
            if is_live:
                self._send(self._target.topic, key, None, headers)

    def _send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, partition: int = -1) -> None:
        producer = self._producer
        assert producer is not None, "resume() made it"
        deadline = time.monotonic() + DELIVERY_S
        while True:
            try:
                producer.produce(topic, value, key, partition, on_delivery=self._delivered, headers=headers)
                break
            except BufferError as error:
                self._serve(lambda: producer.poll(0.1))
                if time.monotonic() > deadline:
                    raise self._late() from error
            except KafkaException as error:
                raise self._client.explained(self._cause(error)) from None
        self._serve(lambda: producer.poll(0))
        self._check_delivered()

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and (self._failed is None or self._failed.code() in _FOLLOWS):
            self._failed = error

    def _check_delivered(self) -> None:
        if self._failed is not None:
            raise self._client.explained(self._cause(KafkaException(self._failed)))

    def _cause(self, error: KafkaException) -> KafkaException:
        """The error of the message that was refused: a transaction then drops the others, and takes no more."""
        producer = self._producer
        assert producer is not None, "resume() made it"
        deadline = time.monotonic() + REPORT_S
        while True:
            cause: KafkaError = error.args[0] if self._failed is None else self._failed
            if cause.code() not in _FOLLOWS or not len(producer) or time.monotonic() > deadline:
                return KafkaException(cause)
            self._serve(lambda: producer.poll(0.1))

    def _flush(self) -> None:
        producer = self._producer
        assert producer is not None, "resume() made it"
        remaining = self._serve(lambda: producer.flush(DELIVERY_S + 5))
        self._check_delivered()
        if remaining:
            raise self._late()

    def _serve(self, act: Callable[[], int]) -> int:
        """Have callbacks called. The library raises a fatal error here, and loses it if a callback runs after it."""
        try:
            return act()
        except (KafkaException, SystemError) as error:
            cause = next((each for each in chain(error) if isinstance(each, KafkaException)), None) or self._fatal()
            if cause is None:
                raise
            raise self._client.explained(cause) from None

    def _fatal(self) -> KafkaException | None:
        """The error that ended the producer: any call of a transaction repeats it."""
        try:
            if self._target.exactly_once and self._producer is not None:
                self._producer.abort_transaction(5)
        except KafkaException as error:
            return error
        return KafkaException(self._failed) if self._failed is not None else None

    def _late(self) -> DestinationError:
        timeout = KafkaError(KafkaError._TIMED_OUT, f"messages were not acknowledged in {DELIVERY_S:.0f} s")
        return self._client.explained(KafkaException(timeout))

    # The producer

    def _ensure_topics(self) -> None:
        target = self._target
        if self._client.partitions(target.topic) is None:
            if not target.create:
                raise self._client.missing_topic()
            compact = target.mode == "update"
            self._client.create_topic(target.topic, target.partitions, target.replication, compact=compact)
        if target.exactly_once and self._client.partitions(target.progress_topic) is None:
            self._client.create_topic(target.progress_topic, 1, target.replication, compact=True)

    def _make_producer(self) -> Producer:
        target = self._target
        own: dict[str, Any] = {
            "linger.ms": 5,
            "compression.type": "lz4",
            "partitioner": "murmur2_random",  # the Java client's, so that other topics can be joined by key
            "message.timeout.ms": int(DELIVERY_S * 1000),
        }
        fixed: dict[str, Any] = {"enable.idempotence": True, "acks": "all"}
        if target.exactly_once:
            fixed["transactional.id"] = f"headrace-{target.workspace}-{target.sink}"
            fixed["transaction.timeout.ms"] = target.transaction_timeout_ms
            own["message.timeout.ms"] = min(int(DELIVERY_S * 1000), target.transaction_timeout_ms)
        self._failed = None
        try:
            return Producer({**self._client.settings(own), **fixed})
        except KafkaException as error:
            raise self._client.explained(error) from None

    def _call(self, act: Callable[[Producer], None]) -> None:
        """A step of a transaction, again while Kafka says that it can be."""
        assert self._producer is not None, "made before"
        deadline = time.monotonic() + DELIVERY_S
        while True:
            try:
                return act(self._producer)
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                if not cause.retriable() or time.monotonic() > deadline:
                    raise self._client.explained(error) from None

    def _abort(self) -> None:
        """End a transaction without its messages. Where that fails, the next producer does it."""
        if self._target.exactly_once and self._producer is not None:
            try:
                self._producer.abort_transaction(5)
            except KafkaException:
                self._producer = None


class Messages:
    """Changes of a batch as messages: key, value and headers."""

    def __init__(self, batch: SinkBatch, target: KafkaTarget) -> None:
        self._sink = target.name.encode()
        self._row = RowEncoder(batch.columns)
        self._key = KeyEncoder(batch.columns, batch.keys) if batch.keys or target.mode == "update" else None

    def encode(self, change: SinkChange) -> tuple[bytes | None, bytes | None, Headers]:
        """A deleted row is a tombstone; only its headers say of which version and commit."""
        key = self._key(change.row) if self._key else None
        if change.op == "delete":
            return key, None, self.headers(change)
        value = self._row(change.row)
        if change.position is None:
            value |= {VERSION: change.version, COMMIT: change.commit}
        else:
            value |= {COMMIT: change.commit, POSITION: change.position}
        return key, orjson.dumps(value), self.headers(change)

    def headers(self, change: SinkChange | None) -> Headers:
        """What a consumer needs to drop repeats, of tombstones too."""
        version, commit = (change.version, change.commit) if change else (0, 0)
        return [
            (HEADER_SINK, self._sink),
            (HEADER_VERSION, str(version).encode()),
            (HEADER_COMMIT, str(commit).encode()),
        ]


Row = dict[str, Any]


class LatestRows:
    """The rows of a view, kept up to date from the messages of its sink.

    At least once means that after a failure a sink sends the last messages again. Within a version of the view the
    commit of a row only grows, so a message with a lower commit than its row has is such a repeat, and dropped.
    """

    def __init__(self) -> None:
        self._rows: dict[bytes, Row] = {}
        self._places: dict[bytes, tuple[int, int]] = {}  # version and commit, of deleted rows too

    def apply(
        self,
        key: str | bytes | None,
        value: str | bytes | None,
        headers: Iterable[tuple[str, str | bytes | None]] | None,
    ) -> bool:
        """Take a message; whether it changed a row. Messages of one partition must come in their order."""
        if key is None:
            raise ValueError("a message without a key is not a row of a view; FORMAT UPSERT sends keys")
        row_key = key.encode() if isinstance(key, str) else key
        values = dict(headers or ())
        version, commit = int(values.get(HEADER_VERSION) or 0), int(values.get(HEADER_COMMIT) or 0)
        known = self._places.get(row_key)
        if known is not None and known[0] == version and commit < known[1]:
            return False
        row = None if value is None else orjson.loads(value)
        self._places[row_key] = (version, commit)
        if row == self._rows.get(row_key):
            return False
        if row is None:
            del self._rows[row_key]
        else:
            self._rows[row_key] = row
        return True

    def rows(self) -> list[Row]:
        """The rows as they are now, with `_version` and `_commit`."""
        return list(self._rows.values())
