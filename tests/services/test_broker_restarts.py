"""A broker that stops or is killed while events flow: none is lost, none counts twice, and views catch up.

HEADRACE_RESTARTS and HEADRACE_EVENTS set the size.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server import UpServer
from tests.waiting import wait_until

from .feeding import VIEW, Feed, buckets, expected, make_workspace, stream, total
from .running import Kafka

RESTARTS = int(os.environ.get("HEADRACE_RESTARTS", "3"))
EVENTS = int(os.environ.get("HEADRACE_EVENTS", "100000"))
PER_SECOND = 8_000
PARTITIONS = 3
CATCH_UP_S = 300.0  # on a busy machine


@pytest.fixture(autouse=True)
def _end_servers() -> Iterator[None]:
    yield
    UpServer.kill_all()


@pytest.mark.timeout(1800)
def test_events_over_restarts_of_the_broker(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.create_topic(partitions=PARTITIONS)
    server = UpServer(make_workspace(tmp_path / "workspace", stream(kafka, topic) + VIEW)).wait_until_ready()
    feed = Feed(kafka, topic, EVENTS, PER_SECOND, PARTITIONS)
    feed.reach_the_middle_of(0, RESTARTS + 1)
    wait_until(lambda: total(server) > 0, CATCH_UP_S, server.log_tail)
    caught_up_s = []
    for number in range(RESTARTS):
        feed.reach_the_middle_of(number + 1, RESTARTS + 1)  # the broker ends while events are produced
        kafka.stop() if number % 2 else kafka.kill()
        assert total(server) > 0, "views answer without the broker"
        kafka.start()
        began, before = time.monotonic(), feed.acknowledged
        feed.wait_until_sent(min(before + PER_SECOND, feed.allowed))  # the producer has found the broker again
        wait_until(lambda: total(server) >= feed.acknowledged - PER_SECOND, CATCH_UP_S, server.log_tail)
        caught_up_s.append(time.monotonic() - began)
    feed.join()
    wait_until(lambda: total(server) >= EVENTS, CATCH_UP_S, server.log_tail)
    assert buckets(server) == expected(EVENTS)
    wait_until(lambda: server.status_of("numbers")["error"] is None, CATCH_UP_S, lambda: server.status_of("numbers"))
    seconds = ", ".join(f"{one:.1f}" for one in caught_up_s)
    sys.stdout.write(f"{EVENTS:,} events, {RESTARTS} restarts; seconds to catch up: {seconds}\n")
