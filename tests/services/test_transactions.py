"""Producers with transactions, many of them aborted: a view has the committed events only, and nothing hangs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server import UpServer
from tests.waiting import wait_until

from .feeding import PER_BUCKET, VIEW, buckets, event, expected, make_workspace, stream, total
from .running import ANSWER_S, Kafka

ROUNDS = 40


@pytest.fixture(autouse=True)
def _end_servers() -> Iterator[None]:
    yield
    UpServer.kill_all()


def test_only_committed_events_count(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.create_topic(partitions=2)
    server = UpServer(make_workspace(tmp_path / "workspace", stream(kafka, topic) + VIEW)).wait_until_ready()
    producer = kafka.producer(transactional_id=f"{topic}-writer")
    producer.init_transactions(ANSWER_S)
    for number in range(ROUNDS):
        numbers = range(number * PER_BUCKET, (number + 1) * PER_BUCKET)
        for commits in (False, True):  # the same events are aborted first
            producer.begin_transaction()
            kafka.produce(topic, [event(n) for n in numbers], partition=number % 2, producer=producer)
            producer.commit_transaction(ANSWER_S) if commits else producer.abort_transaction(ANSWER_S)
    wait_until(lambda: total(server) == ROUNDS * PER_BUCKET, details=server.log_tail)
    assert buckets(server) == expected(ROUNDS * PER_BUCKET)
    # A transaction that stays open holds back what comes after it in its partition, and nothing else.
    producer.begin_transaction()
    kafka.produce(topic, [event(n) for n in range(10**6, 10**6 + 5)], partition=0, producer=producer)
    first, second = ROUNDS * PER_BUCKET, (ROUNDS + 1) * PER_BUCKET
    kafka.produce(topic, [event(n) for n in range(first, second)], partition=1)
    wait_until(lambda: total(server) == second, details=server.log_tail)
    kafka.produce(topic, [event(n) for n in range(second, second + PER_BUCKET)], partition=0)
    assert total(server) == second
    producer.abort_transaction(ANSWER_S)
    wait_until(lambda: total(server) == second + PER_BUCKET, details=server.log_tail)
    assert buckets(server) == expected(second + PER_BUCKET)
    wait_until(lambda: server.status_of("numbers")["error"] is None, details=lambda: server.status_of("numbers"))
