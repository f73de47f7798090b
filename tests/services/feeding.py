"""Events with a number each, produced in the background, and a view that shows each one that is missing or twice."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import KafkaError, Message

from tests.server import UpServer
from tests.waiting import wait_until

from .running import Kafka

PER_BUCKET = 100
VIEW = """CREATE MATERIALIZED VIEW buckets AS
SELECT bucket, count(*) AS hits, sum(n) AS total, min(n) AS least, max(n) AS most FROM numbers GROUP BY bucket;
"""


def stream(kafka: Kafka, topic: str, *, more: str = "") -> str:
    """Over a topic, from its first event on."""
    return f"""CREATE STREAM numbers (n BIGINT NOT NULL, bucket BIGINT NOT NULL)
WITH (connector = 'kafka', topic = '{topic}', 'properties.bootstrap.servers' = '{kafka.bootstrap_servers}'{more});
"""


def make_workspace(folder: Path, definitions: str) -> Path:
    (folder / "definitions").mkdir(parents=True)
    (folder / "headrace.toml").write_text("")
    (folder / "definitions" / "numbers.sql").write_text(definitions)
    return folder


def event(n: int) -> bytes:
    return b'{"n":%d,"bucket":%d}' % (n, n // PER_BUCKET)


def expected(count: int) -> dict[int, tuple[int, int, int, int]]:
    """The rows of the first events, a whole number of buckets."""
    assert count % PER_BUCKET == 0
    rows = {}
    for bucket in range(count // PER_BUCKET):
        numbers = range(bucket * PER_BUCKET, (bucket + 1) * PER_BUCKET)
        rows[bucket] = (len(numbers), sum(numbers), numbers[0], numbers[-1])
    return rows


def buckets(server: UpServer) -> dict[int, tuple[int, int, int, int]]:
    """The rows that are served."""
    return {
        row["bucket"]: (row["hits"], int(row["total"]), row["least"], row["most"]) for row in server.rows("buckets")
    }


def total(server: UpServer) -> int:
    """How many events the view has."""
    rows = server.get("/v1/views/buckets", by="")["rows"]
    return int(rows[0]["hits"]) if rows else 0


def sink_rows(url: str) -> dict[int, tuple[int, int, int, int]]:
    """What the table of the sink has; a row that is there twice fails."""
    with psycopg.connect(url) as connection:
        ((table,),) = connection.execute("SELECT to_regclass('sunk')").fetchall()
        rows = (
            connection.execute("SELECT bucket, hits, total::bigint, least, most FROM sunk").fetchall() if table else []
        )
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: (row[1], row[2], row[3], row[4]) for row in rows}


class Feed:
    """Produces events in a thread of its own, at a rate, over restarts of the broker: each once, none given up."""

    def __init__(self, kafka: Kafka, topic: str, count: int, per_second: int, partitions: int) -> None:
        self.count = self.allowed = count
        self.acknowledged = 0
        self.failed: list[Any] = []
        self._topic, self._partitions, self._per_second = topic, partitions, per_second
        self._producer = kafka.producer(
            delivery_timeout_ms=600_000,
            linger_ms=5,
            reconnect_backoff_max_ms=500,
            queue_buffering_max_messages=per_second,  # without a broker it waits, about after a second
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_until_sent(self, count: int) -> None:
        wait_until(lambda: self.acknowledged >= count or self.failed, details=lambda: f"{self.acknowledged} sent")
        assert not self.failed, self.failed[0]

    def reach_the_middle_of(self, part: int, parts: int) -> None:
        """Return when half of this part is acknowledged; the thread goes on to its end, and waits there."""
        share = self.count // parts
        self.allowed = self.count if part == parts - 1 else (part + 1) * share
        self.wait_until_sent(part * share + share // 2)

    def join(self) -> None:
        """All are acknowledged."""
        self._thread.join(600)
        assert not self.failed, self.failed[0]
        assert self.acknowledged == self.count

    def _run(self) -> None:
        due = time.monotonic()
        for n in range(self.count):
            while True:
                try:
                    self._producer.produce(
                        self._topic, event(n), partition=n % self._partitions, on_delivery=self._delivered
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
            if n % 100 == 0:
                self._producer.poll(0)
                while n >= self.allowed:
                    self._producer.poll(0.05)
                due = max(due, time.monotonic()) + 100 / self._per_second  # what was missed is not made up for
                while (ahead_s := due - time.monotonic()) > 0:
                    self._producer.poll(ahead_s)  # it returns as soon as something was acknowledged
        self._producer.flush(600)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed.append(error)
