"""Clients of a Kafka cluster, and the sentences for what goes wrong with one.

Secrets are revealed here, when a client is made, and nowhere before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headrace.errors import HeadraceError, UnavailableError
from headrace.secrets import reveal, without_passwords

RETRY_AFTER_S = 5.0
SERVERS = "bootstrap.servers"

REFUSED = (
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.ILLEGAL_SASL_STATE,
    KafkaError._SSL,
)
FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)

# What the guarantees of reading rest on: only committed events, no silent jump when a range is lost.
_READING: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
}
# A range has an end: what is fetched beyond it is fetched in vain, so queues are short and fetches do not linger.
_QUICK: dict[str, Any] = {
    "fetch.wait.max.ms": 20,
    "fetch.queue.backoff.ms": 2,
    "fetch.error.backoff.ms": 100,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 4_096,
    "max.partition.fetch.bytes": 1 << 20,
    "check.crcs": True,
}
_ANY: dict[str, Any] = {"log_level": 0, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 1000}


@dataclass
class LastError:
    """The last error that a client met in the background, such as a refused connection."""

    error: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        # The part before this summary names the broker and the reason.
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self.error is None:
            self.error = error


@dataclass(frozen=True)
class Cluster:
    """The settings that reach a cluster, by librdkafka's names. Secrets among them are references, as it is pickled."""

    stream: str
    properties: tuple[tuple[str, str], ...] = field(repr=False)

    @property
    def servers(self) -> str:
        return dict(self.properties).get(SERVERS, "localhost:9092")

    def consumer(self, errors: LastError | None = None, **other: Any) -> Consumer:
        """A consumer that is assigned its partitions: it joins no group and commits nothing by itself."""
        return Consumer(
            {"group.id": f"headrace-{self.stream}", **_QUICK, **other, **self._settings(errors), **_READING}
        )

    def admin(self, errors: LastError | None = None) -> AdminClient:
        return AdminClient(self._settings(errors))

    def producer(self, transactional_id: str, errors: LastError | None = None) -> Producer:
        """A producer whose transactions end those of all earlier producers with this id."""
        settings = {"linger.ms": 2, **self._settings(errors), "transactional.id": transactional_id}
        return Producer({**settings, "acks": "all", "enable.idempotence": True})

    def _settings(self, errors: LastError | None) -> dict[str, Any]:
        settings: dict[str, Any] = {**_ANY, SERVERS: self.servers}
        settings |= {name: reveal(value) for name, value in self.properties}
        if errors is not None:
            settings["error_cb"] = errors
        return settings

    def explain(self, error: BaseException | KafkaError, errors: LastError | None = None) -> HeadraceError:
        """Explain a failure in one sentence: what was tried, what the cluster said, what to do."""
        if isinstance(error, HeadraceError):
            return error
        cause = _kafka_error(error)
        if cause is None:
            return self._unavailable(f"{error}")
        background = errors.error if errors else None
        if background is not None and (
            background.code() in REFUSED or cause.code() not in (*REFUSED, *FORBIDDEN, *MISSING)
        ):
            cause = background
        text = without_passwords(cause.str().splitlines()[0].strip().rstrip("."))
        if cause.code() in REFUSED:
            return self._unavailable(
                text, "refuses the connection", "check the user, password and certificates among its properties"
            )
        if cause.code() in FORBIDDEN:
            return self._unavailable(text, "refuses the request", "give its user the right to do that")
        if cause.code() in MISSING:
            return self._unavailable(text, "has no such topic", "create it, or correct the definition")
        return self._unavailable(text)

    def _unavailable(self, found: str, what: str = "cannot be reached", fix: str | None = None) -> UnavailableError:
        hint = fix or "check that it runs and that 'properties.bootstrap.servers' is right"
        error = UnavailableError(
            f"stream '{self.stream}': Kafka at {self.servers} {what}",
            found=found,
            fix=f"{hint}; Headrace retries automatically",
        )
        error.retry_after_s = RETRY_AFTER_S
        return error


def make_cluster(stream: str, properties: Mapping[str, str]) -> Cluster:
    """The cluster that a stream's source names."""
    return Cluster(stream, tuple(sorted(properties.items())))


def _kafka_error(error: BaseException | KafkaError) -> KafkaError | None:
    if isinstance(error, KafkaError):
        return error
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return error.args[0]
    return None
