"""Creates topics and produces messages, for trying things with the broker of `scripts/services`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from servers.process import Failed, is_running, say

ANSWER_S = 30.0  # how long a broker may take to answer


def create_topic(state: dict[str, Any] | None, name: str, partitions: str = "1") -> None:
    """Create a topic on the broker of this state."""
    from confluent_kafka import KafkaException  # only in the environment of the checkout
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    if not partitions.isdecimal():
        raise Failed(f"kafka: {partitions!r} is not a number of partitions")
    topic = NewTopic(name, num_partitions=int(partitions), replication_factor=1)
    admin = AdminClient(_address(state))  # it must outlive its answer
    try:
        admin.create_topics([topic])[name].result(ANSWER_S)
    except KafkaException as error:
        raise Failed(f"kafka: topic {name!r} was not created: {error.args[0].str()}") from error
    say("kafka", f"topic {name} created")


def produce(state: dict[str, Any] | None, topic: str, path: str = "-") -> None:
    """Produce a message for each line of a file, or of the standard input."""
    address = _address(state)
    if path == "-":
        _produce(address, topic, sys.stdin.buffer)
        return
    try:
        with Path(path).open("rb") as lines:
            _produce(address, topic, lines)
    except OSError as error:
        raise Failed(f"kafka: {path}: {error.strerror}") from error


def _produce(address: dict[str, Any], topic: str, lines: Iterable[bytes]) -> None:
    from confluent_kafka import KafkaException, Producer

    failures: list[str] = []
    producer, sent = Producer({**address, "message.timeout.ms": int(ANSWER_S * 1000)}), 0
    try:
        missing = producer.list_topics(topic, ANSWER_S).topics[topic].error
    except KafkaException as error:
        raise Failed(f"kafka: the broker does not answer: {error.args[0].str()}") from error
    if missing is not None:  # else each message would wait for its topic until it times out
        raise Failed(
            f"kafka: topic {topic!r} cannot be written: {missing.str()}; `make kafka-topic TOPIC=…` creates one"
        )

    def note(error: Any, _: Any) -> None:
        if error is not None:
            failures.append(error.str())

    for line in lines:
        first, tab, rest = line.rstrip(b"\r\n").partition(b"\t")
        if first or tab:
            key, value = (first, rest) if tab else (None, first)
            producer.produce(topic, value, key, on_delivery=note)
            producer.poll(0)
            sent += 1
    waiting = producer.flush(2 * ANSWER_S)
    if failures or waiting:
        reason = failures[0] if failures else "the broker does not answer"
        raise Failed(f"kafka: {len(failures) + waiting} of {sent} messages were not produced: {reason}")
    say("kafka", f"{sent} messages produced to topic {topic}")


def _address(state: dict[str, Any] | None) -> dict[str, Any]:
    if not state or not is_running(state):
        raise Failed("kafka: it does not run; `make services-up` starts it")
    return {"bootstrap.servers": state["bootstrap_servers"], "log_level": 0}  # failures are raised, not logged
