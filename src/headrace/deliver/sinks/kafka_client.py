"""The Kafka clients of a sink: their settings, topics made and read, and their errors as one sentence each."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headrace.deliver.sinks.sink_writer import DestinationError
from headrace.secrets import is_secret, is_sensitive, reveal, without_secrets
from headrace.transport.kafka.kafka_clients import FORBIDDEN, MISSING, REFUSED, SERVERS

PREFIX = "properties."
REQUEST_S = 15.0
READ_S = 60.0  # without a message, before the end of a topic
READING: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
}
_FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
_logger = logging.getLogger("headrace.kafka")


class Client:
    """What the clients of one sink have in common."""

    def __init__(self, sink: str, topic: str, options: Mapping[str, str]) -> None:
        self.sink = sink
        self.topic = topic
        self._references = {name.removeprefix(PREFIX): v for name, v in options.items() if name.startswith(PREFIX)}
        self._secrets: list[str] = []
        self._last_error: KafkaError | None = None

    @property
    def servers(self) -> str:
        """The brokers as the definition names them."""
        return self._references.get(SERVERS, "")

    def settings(self, defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Settings of librdkafka with secrets revealed, for a client that is made at once."""
        revealed = {name: reveal(value) for name, value in self._references.items()}
        self._secrets = [
            revealed[name]
            for name, value in self._references.items()
            if revealed[name] and (is_secret(value) or is_sensitive(name)) and name != SERVERS
        ]
        return {
            "client.id": f"headrace-{self.sink}",
            "log_level": 2,  # critical: what fails is the reason why the sink is stalled, once, not once per attempt
            **(defaults or {}),
            **revealed,
            "error_cb": self._keep_error,
            "logger": _logger,
        }

    def _keep_error(self, error: KafkaError) -> None:
        # Brokers that are down follow a failed login: the login says more.
        if self._last_error is None or error.code() in REFUSED or self._last_error.code() not in REFUSED:
            self._last_error = error

    # Topics

    def partitions(self, topic: str) -> list[int] | None:
        """The partitions of a topic; None if it does not exist. Never makes the broker create it."""
        leaders = self._describe(topic)
        return None if leaders is None else sorted(leaders)

    def _describe(self, topic: str) -> dict[int, bool] | None:
        """The partitions of a topic, and whether each has a leader; None if it does not exist."""
        try:
            description = self._ask(
                lambda admin: admin.describe_topics(TopicCollection([topic]), request_timeout=REQUEST_S)
            )
        except KafkaException as error:
            if error.args[0].code() in MISSING:
                return None
            raise self.explained(error) from None
        return {partition.id: partition.leader is not None for partition in description.partitions}

    def create_topic(self, topic: str, partitions: int, replication: int, *, compact: bool) -> None:
        """Create a topic, unless another process just did; -1 is the broker's default. Brokers know it afterwards."""
        policy = {"cleanup.policy": "compact"} if compact else {}
        new = NewTopic(topic, partitions, replication, config=policy)
        try:
            self._ask(lambda admin: admin.create_topics([new], request_timeout=REQUEST_S))
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self.explained(error, f"topic '{topic}' cannot be created") from None
        # The controller answers before the brokers have heard of the topic: until then they say that it is missing.
        deadline = time.monotonic() + REQUEST_S
        while not all((self._describe(topic) or {0: False}).values()) and time.monotonic() < deadline:
            time.sleep(0.05)

    def _ask(self, request: Callable[[AdminClient], Mapping[str, Future[Any]]]) -> Any:
        """The result of a request about one topic."""
        admin = AdminClient(self.settings())
        (reply,) = request(admin).values()
        while not reply.done():
            admin.poll(0.05)  # learns why no broker answers
            if self._last_error is not None and self._last_error.code() in REFUSED:
                raise KafkaException(self._last_error)
        return reply.result()

    def read(self, topic: str) -> Iterator[Message]:
        """Every committed message of a topic up to what it holds now, with transactions that are open now."""
        settings = {**self.settings(), **READING, "group.id": f"headrace-{self.sink}"}  # a group that is never joined
        partitions = self.partitions(topic) or []
        try:
            ends = self._ends(topic, partitions)
            consumer = Consumer(settings)
        except KafkaException as error:
            raise self.explained(error) from None
        try:
            waiting = {partition for partition, end in ends.items() if end > 0}
            consumer.assign([TopicPartition(topic, partition, 0) for partition in waiting])
            yield from self._read(consumer, waiting, ends, topic)
        finally:
            consumer.close()

    def _ends(self, topic: str, partitions: list[int]) -> dict[int, int]:
        """The end of each partition, open transactions included."""
        group = {"group.id": f"headrace-{self.sink}", "isolation.level": "read_uncommitted"}
        consumer = Consumer({**self.settings(), **group})
        try:
            places = {p: TopicPartition(topic, p) for p in partitions}
            return {p: consumer.get_watermark_offsets(place, timeout=REQUEST_S)[1] for p, place in places.items()}
        finally:
            consumer.close()

    def _read(self, consumer: Consumer, waiting: set[int], ends: dict[int, int], topic: str) -> Iterator[Message]:
        deadline = time.monotonic() + READ_S
        while waiting:
            messages = consumer.consume(1000, 0.1)
            if messages:
                deadline = time.monotonic() + READ_S
            elif time.monotonic() > deadline:
                raise DestinationError(
                    f"sink '{self.sink}': topic '{topic}' at {self.servers} cannot be read to its end",
                    fix="Headrace retries automatically",
                )
            for message in messages:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise self.explained(KafkaException(error))
                else:
                    partition, offset = message.partition() or 0, message.offset() or 0
                    if offset >= ends[partition]:
                        waiting.discard(partition)

    # Errors

    def explained(self, error: KafkaException, what: str | None = None) -> DestinationError:
        """The error as a user sees it."""
        cause: KafkaError = error.args[0]
        last, self._last_error = self._last_error, None
        if cause.code() in (KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT, KafkaError._TRANSPORT) and last:
            cause = last
        code, text = cause.code(), self._clean(cause.str())
        place = f"sink '{self.sink}': Kafka at {self.servers}"
        if code in REFUSED:
            return DestinationError(
                f"{place} refuses the login: {text}",
                fix="check properties.security.protocol, properties.sasl.username and properties.sasl.password",
            )
        if code in FORBIDDEN:
            return DestinationError(
                f"{place} denies access{f': {what}' if what else ''} ({text})",
                fix=f"allow the user to write topic '{self.topic}'; with exactly-once also to use its transactional id"
                " and to create and read the progress topic",
            )
        if code in MISSING:
            return self.missing_topic()
        if code in _TOO_LARGE:
            return DestinationError(
                f"sink '{self.sink}': a row is larger than topic '{self.topic}' takes ({text})",
                fix="raise max.message.bytes of the topic, and 'properties.message.max.bytes' of the sink",
            )
        if code in _FENCED:
            return DestinationError(
                f"sink '{self.sink}': another process has taken over its transactions",
                fix="if two workspaces have the same name, rename the folder of one",
            )
        if code == KafkaError._INVALID_ARG:
            return DestinationError(f"sink '{self.sink}': a property is not valid: {text}", fix="correct the option")
        if what is not None:
            return DestinationError(f"{place}: {what} ({text})")
        return DestinationError(f"{place} cannot be written: {text}", fix="Headrace retries automatically")

    def missing_topic(self) -> DestinationError:
        """The error for a topic that is not there."""
        return DestinationError(
            f"sink '{self.sink}': topic '{self.topic}' does not exist at {self.servers}",
            fix="create it, or add create = true to WITH (…)",
        )

    def _clean(self, text: str) -> str:
        """A message of librdkafka on one line, without secrets."""
        return without_secrets(" ".join(text.split()), self._secrets).rstrip(".")
