"""From Kafka to sinks, end to end, while the server, the database and the broker are killed: exactly the view's rows.

HEADRACE_KILLS and HEADRACE_EVENTS set the size.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.deliver.sinks.kafka_sink import LatestRows
from tests.server import UpServer
from tests.waiting import wait_until

from .feeding import VIEW, Feed, buckets, expected, make_workspace, sink_rows, stream, total
from .running import Kafka, Postgres

KILLS = int(os.environ.get("HEADRACE_KILLS", "3"))
EVENTS = int(os.environ.get("HEADRACE_EVENTS", "40000"))
PER_SECOND = 2_000
CATCH_UP_S = 300.0  # on a busy machine


@pytest.fixture(autouse=True)
def _end_servers() -> Iterator[None]:
    yield
    UpServer.kill_all()


def consumed_rows(kafka: Kafka, topic: str) -> dict[int, tuple[int, int, int, int]]:
    """What a consumer has that drops repeats by version and commit."""
    latest = LatestRows()
    for message in kafka.messages(topic):
        latest.apply(message.key(), message.value(), message.headers())
    return {row["bucket"]: (row["hits"], int(row["total"]), row["least"], row["most"]) for row in latest.rows()}


@pytest.mark.timeout(1800)
def test_a_database_killed_under_its_sink(
    kafka: Kafka, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create_topic(partitions=2)
    url = postgres.create_database()
    monkeypatch.setenv("PG_URL", url)
    sink = "CREATE SINK s FROM buckets WITH (connector = 'postgres', url = 'secret:PG_URL', table = 'sunk');\n"
    server = UpServer(make_workspace(tmp_path / "workspace", stream(kafka, topic) + VIEW + sink)).wait_until_ready()
    feed = Feed(kafka, topic, EVENTS, PER_SECOND, 2)
    caught_up_s = []
    for number in range(KILLS):
        feed.reach_the_middle_of(number, KILLS)
        postgres.kill()
        feed.wait_until_sent((number + 1) * EVENTS // KILLS - PER_SECOND)  # which the sink cannot send yet
        sent = feed.acknowledged
        wait_until(lambda sent=sent: total(server) >= sent, CATCH_UP_S, server.log_tail)  # type: ignore[misc]
        postgres.start()
        began = time.monotonic()
        wait_until(
            lambda sent=sent: sum(row[0] for row in sink_rows(url).values()) >= sent,  # type: ignore[misc]
            CATCH_UP_S,
            server.log_tail,
        )
        caught_up_s.append(time.monotonic() - began)
    feed.join()
    wait_until(lambda: total(server) == EVENTS, CATCH_UP_S, server.log_tail)
    wait_until(lambda: sink_rows(url) == expected(EVENTS), CATCH_UP_S, server.log_tail)
    assert buckets(server) == expected(EVENTS)
    assert postgres.password not in server.log.read_text() + server.http.get(f"{server.url}/v1/status").text
    seconds = ", ".join(f"{one:.1f}" for one in caught_up_s)
    sys.stdout.write(f"{EVENTS:,} events, {KILLS} kills of the database; seconds to catch up: {seconds}\n")


@pytest.mark.timeout(1800)
def test_a_consumer_of_the_kafka_sink_over_kills_of_the_server(kafka: Kafka, tmp_path: Path) -> None:
    topic, results = kafka.create_topic(partitions=2), kafka.create_topic(partitions=2)
    sink = f"""CREATE SINK s FROM buckets WITH (connector = 'kafka', topic = '{results}',
      properties.bootstrap.servers = '{kafka.bootstrap_servers}') FORMAT UPSERT ENCODE JSON;
    """
    workspace = make_workspace(tmp_path / "workspace", stream(kafka, topic) + VIEW + sink)
    (workspace / "headrace.toml").write_text("lease_s = 2\n")
    server = UpServer(workspace).wait_until_ready()
    feed = Feed(kafka, topic, EVENTS, PER_SECOND, 2)
    for number in range(KILLS):
        feed.reach_the_middle_of(number, KILLS)
        server.kill()
        server = UpServer(workspace).wait_until_ready()
    feed.join()
    wait_until(lambda: total(server) == EVENTS, CATCH_UP_S, server.log_tail)
    assert buckets(server) == expected(EVENTS)
    reads = itertools.count(1)
    wait_until(lambda: next(reads) and consumed_rows(kafka, results) == expected(EVENTS), CATCH_UP_S, server.log_tail)
