"""The writer of Kafka sinks against a real broker: repeats, transactions, topics that are missing, and errors."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.define.model import Mode, Sink
from headrace.deliver.sinks.kafka_sink import KafkaWriter, LatestRows
from headrace.deliver.sinks.sink_writer import DestinationError, SinkChange

from .running import ANSWER_S, Kafka
from .sink_batches import batch, deletes, full, row, upserts

EXACTLY = {"delivery.guarantee": "exactly-once"}
_writers: list[KafkaWriter] = []


def make_sink(kafka: Kafka, topic: str, mode: Mode = "update", name: str = "counts", **options: str) -> Sink:
    given = {"topic": topic, "properties.bootstrap.servers": kafka.bootstrap_servers, **options}
    return Sink(name, "traffic", "kafka", tuple(sorted(given.items())), mode=mode)


def open_writer(sink: Sink) -> KafkaWriter:
    writer = KafkaWriter(sink, "shop")
    _writers.append(writer)
    return writer


@pytest.fixture(autouse=True)
def close_writers() -> Iterator[None]:
    yield
    while _writers:
        _writers.pop().close()


def latest(kafka: Kafka, topic: str) -> dict[str | None, int]:
    """The hits of each page, as a consumer has them that drops repeats."""
    rows = LatestRows()
    for message in kafka.messages(topic):
        rows.apply(message.key(), message.value(), message.headers())
    return {each["page"]: each["hits"] for each in rows.rows()}


def test_rows_have_keys_versions_and_tombstones(kafka: Kafka) -> None:
    topic = kafka.create_topic(partitions=3)
    writer = open_writer(make_sink(kafka, topic))
    assert writer.resume() is None
    writer.write(batch(upserts([row("/a", 1), row(None, 2)]), "c1", snapshot=True))
    writer.write(batch([*upserts([row("/a", 3)], 2), *deletes([row(None)], 2)], "c2"))
    assert latest(kafka, topic) == {"/a": 3}
    messages = kafka.messages(topic)
    assert len({message.partition() for message in messages if b'"/a"' in (message.key() or b"")}) == 1
    newest = next(m for m in messages if m.value() and json.loads(m.value() or "")["hits"] == 3)
    assert json.loads(newest.key() or "") == {"page": "/a", "window_start": "2026-03-01T12:00:00Z"}
    assert json.loads(newest.value() or "") == {
        "page": "/a", "window_start": "2026-03-01T12:00:00Z", "window_end": "2026-03-01T12:01:00Z", "hits": 3,
        "settled": False, "_version": 1, "_commit": 2,
    }  # fmt: skip
    assert newest.headers() == [("sink", b"shop/counts"), ("version", b"1"), ("commit", b"2")]
    tombstone = next(m for m in messages if m.value() is None)
    assert json.loads(tombstone.key() or "")["page"] is None
    assert ("commit", b"2") in (tombstone.headers() or [])


def test_events_have_commit_and_position(kafka: Kafka) -> None:
    topic = kafka.create_topic()
    writer = open_writer(make_sink(kafka, topic, "append"))
    writer.resume()
    events = [SinkChange("upsert", row("/a", n), 0, 4, n) for n in range(3)]
    sent = batch(events, "c1")
    object.__setattr__(sent, "keys", ())
    writer.write(sent)
    messages = kafka.messages(topic)
    assert [m.key() for m in messages] == [None] * 3
    values: list[dict[str, Any]] = [json.loads(m.value() or "") for m in messages]
    assert [(v["hits"], v["_commit"], v["_position"], "_version" in v) for v in values] == [
        (n, 4, n, False) for n in range(3)
    ]


def test_a_consumer_drops_repeats(kafka: Kafka) -> None:
    """After a failure a sink sends again from its last cursor."""
    topic = kafka.create_topic()
    first = open_writer(make_sink(kafka, topic))
    first.resume()
    batches = [
        batch(upserts([row("/a", 1), row("/b", 1)], 1), "c1", snapshot=True),
        batch(upserts([row("/a", 2)], 2), "c2"),
        batch(deletes([row("/b")], 3), "c3"),
    ]
    for each in batches:
        first.write(each)
    again = open_writer(make_sink(kafka, topic))
    again.resume()
    for each in batches[:2]:
        again.write(each)
    rows = LatestRows()
    seen = [rows.apply(message.key(), message.value(), message.headers()) for message in kafka.messages(topic)]
    assert seen == [True, True, True, True, False, False, False]
    assert [(each["page"], each["hits"]) for each in rows.rows()] == [("/a", 2)]


def test_a_new_version_removes_rows_that_only_the_old_one_had(kafka: Kafka) -> None:
    topic = kafka.create_topic(partitions=2)
    other = open_writer(make_sink(kafka, topic, name="others"))
    other.resume()
    other.write(batch(upserts([row("/others", 9)]), "c1", snapshot=True))
    writer = open_writer(make_sink(kafka, topic))
    writer.resume()
    writer.write(batch(upserts([row("/a"), row("/b")]), "c1", snapshot=True))
    changes = upserts([row("/b", 5), row("/c", 6)], version=2)
    writer.write(batch(changes, "c2", snapshot=True, restarted=True))
    assert latest(kafka, topic) == {"/others": 9, "/b": 5, "/c": 6}


def test_exactly_once_the_cursor_is_in_the_transaction(kafka: Kafka) -> None:
    topic = kafka.create_topic()
    sink = make_sink(kafka, topic, **EXACTLY)
    writer = open_writer(sink)
    assert writer.resume() is None
    writer.write(batch(upserts([row("/a", 1)]), "c1", snapshot=True))
    writer.write(batch(upserts([row("/a", 2)], 2), "c2"))
    again = open_writer(sink)
    assert again.resume() == full("c2")
    with pytest.raises(DestinationError, match="another process has taken over"):
        writer.write(batch(upserts([row("/a", 99)], 3), "c3"))
    again.write(batch(upserts([row("/a", 3)], 3), "c3"))
    assert [json.loads(m.value() or "")["hits"] for m in kafka.messages(topic)] == [1, 2, 3]
    again.forget()
    assert open_writer(sink).resume() is None


def test_exactly_once_an_open_transaction_of_another_sink_hides_no_cursor(kafka: Kafka) -> None:
    topic = kafka.create_topic()
    sink = make_sink(kafka, topic, **EXACTLY)
    writer = open_writer(sink)
    writer.resume()
    blocking = kafka.producer(transactional_id="blocks", transaction_timeout_ms=10_000)
    blocking.init_transactions(ANSWER_S)
    blocking.begin_transaction()
    blocking.produce(f"{topic}-headrace-progress", b"never", key=b"other/sink", partition=0)
    assert blocking.flush(ANSWER_S) == 0
    writer.write(batch(upserts([row("/a", 1)]), "c1", snapshot=True))
    assert open_writer(sink).resume() == full("c1")  # after the broker has aborted the other transaction


def test_a_topic_is_created_where_asked(kafka: Kafka) -> None:
    sink = make_sink(kafka, "made-by-sink", create="true", partitions="3")
    writer = open_writer(sink)
    writer.resume()
    writer.write(batch(upserts([row("/a", 1)]), "c1", snapshot=True))
    assert latest(kafka, "made-by-sink") == {"/a": 1}
    topics = kafka.admin().list_topics(timeout=ANSWER_S).topics
    assert len(topics["made-by-sink"].partitions) == 3


def test_a_missing_topic_is_named_and_not_created(kafka: Kafka) -> None:
    with pytest.raises(DestinationError) as raised:
        open_writer(make_sink(kafka, "missing-topic")).resume()
    assert str(raised.value) == (
        f"sink 'counts': topic 'missing-topic' does not exist at {kafka.bootstrap_servers}; "
        "create it, or add create = true to WITH (…)"
    )
    assert "missing-topic" not in kafka.admin().list_topics(timeout=ANSWER_S).topics


def test_a_broker_that_cannot_be_reached(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.deliver.sinks.kafka_client.REQUEST_S", 3.0)
    options = {"properties.bootstrap.servers": "127.0.0.1:1"}
    with pytest.raises(
        DestinationError, match=r"Kafka at 127.0.0.1:1 .*Connection refused.*Headrace retries automatically"
    ):
        open_writer(make_sink(kafka, "topic", **options)).resume()


def test_a_wrong_password(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SASL", "sesame-open")
    login = {
        "properties.bootstrap.servers": kafka.sasl["bootstrap_servers"],
        "properties.security.protocol": "SASL_PLAINTEXT",
        "properties.sasl.mechanism": "PLAIN",
        "properties.sasl.username": kafka.sasl["user"],
        "properties.sasl.password": "secret:SASL",
    }
    topic = kafka.create_topic()
    with pytest.raises(DestinationError) as raised:
        open_writer(make_sink(kafka, topic, **login)).resume()
    assert "refuses the login" in str(raised.value)
    assert "sesame" not in str(raised.value)
    monkeypatch.setenv("SASL", kafka.sasl["password"])
    writer = open_writer(make_sink(kafka, topic, **login, **EXACTLY))
    writer.resume()
    writer.write(batch(upserts([row("/a", 1)]), "c1", snapshot=True))
    assert latest(kafka, topic) == {"/a": 1}


@pytest.mark.parametrize("options", [{}, EXACTLY], ids=["at least once", "exactly once"])
def test_a_row_that_is_too_large(kafka: Kafka, options: dict[str, str]) -> None:
    topic = kafka.create_topic(max_message_bytes="5000")
    writer = open_writer(make_sink(kafka, topic, **options, **{"properties.compression.type": "none"}))
    writer.resume()
    for size in (10_000, 2_000_000):  # the broker's limit, then the client's
        with pytest.raises(DestinationError, match=f"larger than topic '{topic}' takes.*max.message.bytes"):
            writer.write(batch(upserts([row("x" * size)]), "c1", snapshot=True))
        writer.close()
        writer = open_writer(make_sink(kafka, topic, **options))
        assert writer.resume() is None
    writer.write(batch(upserts([row("/a", 1)]), "c1", snapshot=True))
    assert latest(kafka, topic) == {"/a": 1}


class Slow(list[SinkChange]):
    """Changes that come one by one, later than the broker answers."""

    def __iter__(self) -> Iterator[SinkChange]:
        for change in list.__iter__(self):
            yield change
            time.sleep(1)


@pytest.mark.parametrize("options", [{}, EXACTLY], ids=["at least once", "exactly once"])
def test_a_row_that_is_refused_before_the_next_is_sent(kafka: Kafka, options: dict[str, str]) -> None:
    topic = kafka.create_topic(max_message_bytes="5000")
    writer = open_writer(make_sink(kafka, topic, **options, **{"properties.compression.type": "none"}))
    writer.resume()
    with pytest.raises(DestinationError, match=f"larger than topic '{topic}' takes.*max.message.bytes"):
        writer.write(batch(Slow(upserts([row("x" * 10_000), row("/a")])), "c1", snapshot=True))


def test_a_property_that_is_not_valid(kafka: Kafka) -> None:
    with pytest.raises(DestinationError, match=r"a property is not valid: .*batch.size"):
        open_writer(make_sink(kafka, kafka.create_topic(), **{"properties.batch.size": "small"})).resume()


@pytest.mark.parametrize("options", [{}, EXACTLY], ids=["at least once", "exactly once"])
def test_a_broker_that_is_killed_and_comes_back(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    topic = kafka.create_topic()
    sink = make_sink(kafka, topic, **options)
    writer = open_writer(sink)
    writer.resume()
    writer.write(batch(upserts([row("/a", 1)]), "c1", snapshot=True))
    kafka.kill()
    monkeypatch.setattr("headrace.deliver.sinks.kafka_sink.DELIVERY_S", 1.0)
    with pytest.raises(DestinationError):
        writer.write(batch(upserts([row("/a", 2)], 2), "c2"))
    writer.close()
    kafka.start()
    monkeypatch.setattr("headrace.deliver.sinks.kafka_sink.DELIVERY_S", 60.0)
    writer = open_writer(sink)
    resumed = writer.resume()
    if resumed != full("c2"):  # the transaction may have been committed while its reply was lost
        writer.write(batch(upserts([row("/a", 2)], 2), "c2"))
    assert latest(kafka, topic) == {"/a": 2}
    if options:
        assert len(kafka.messages(topic)) == 2
