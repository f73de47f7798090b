"""The transport that the suites run on: the journal, or Kafka if HEADRACE_TEST_KAFKA has the address of a broker."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from headrace.define.kafka_source import read_source
from headrace.define.model import KAFKA, Source, Stream
from headrace.transport.journal.journal import Journal
from headrace.transport.kafka.kafka_transport import KafkaTransport
from headrace.transport.position import START
from headrace.transport.transport_contract import Transport
from tests.waiting import wait_until

SERVERS = os.environ.get("HEADRACE_TEST_KAFKA", "")


def make_topic() -> str:
    """A new topic with one partition."""
    topic = f"suite-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": SERVERS})
    admin.create_topics([NewTopic(topic, 1, 1, config={"retention.ms": "-1"})])[topic].result(120)
    wait_until(lambda: topic in admin.list_topics(timeout=120).topics)
    return topic


def with_clause() -> str:
    """What follows the fields of CREATE STREAM: nothing, or a source with a new topic."""
    if not SERVERS:
        return ""
    return f"WITH (connector = 'kafka', topic = '{make_topic()}', 'properties.bootstrap.servers' = '{SERVERS}')"


def make_source() -> Source | None:
    """The source of a stream: a new topic; None for the journal."""
    if not SERVERS:
        return None
    return Source(KAFKA, (("properties.bootstrap.servers", SERVERS), ("topic", make_topic())))


def on(stream: Stream, source: Source | None) -> Stream:
    """The stream, over this source."""
    return replace(stream, source=source)


def open_one(folder: Path, stream: Stream) -> Transport:
    """The transport of a stream."""
    if stream.source is None:
        return Journal(folder / "journal", fence=1)
    transport = KafkaTransport(
        folder / "kafka", stream.name, read_source(stream.source), stream.format, fence=1, lake_end=START
    )
    wait_until(lambda: transport.lags(START) is not None)  # the broker of a busy machine may be slow to answer
    return transport
