"""Freshness: how long after an event should have been produced to Kafka an answer has it."""

from __future__ import annotations

import threading
import time

from bench.ours.events import lines
from bench.ours.figures import of_percentile
from bench.ours.load import Connection, at_rate
from bench.ours.measure import start_empty_server
from bench.ours.progress import Progress
from bench.record import Part
from bench.services.broker import PARTITIONS, Broker, require, send, start_broker, stream
from bench.sizes import FullSizes
from headrace.errors import HeadraceError

PER_BATCH = 500
TOPIC = "visits"
P50_S = 0.8
EVERY_S = 0.02  # between two answers
MOST_S = 60.0  # for the last events
FIELDS = "lane INT, visitor STRING NOT NULL, page STRING, status INT, bytes BIGINT, at TIMESTAMP NOT NULL"
# A partition keeps the order of its events, so that the number of a lane's events says which ones an answer has.
SEEN = (
    "CREATE MATERIALIZED VIEW seen AS SELECT lane, count(*) AS hits FROM visits GROUP BY lane, window(at, '1 hour');\n"
)
TRAFFIC = """CREATE MATERIALIZED VIEW traffic AS
SELECT page, count(*) AS hits, sum(bytes) AS bytes, max(bytes) AS largest
FROM visits GROUP BY page, window(at, '1 minute');
"""


def kafka_freshness(sizes: FullSizes, progress: Progress) -> Part:
    """Seconds from the intended time of a batch of events until an answer has all of them, at a constant rate."""
    name = f"freshness at {sizes.ours.flow:,} events/s, from produce to answer"

    def measure() -> list[float]:
        with start_broker() as broker:
            broker.make_topic(TOPIC)
            with start_empty_server(stream("visits", TOPIC, broker, FIELDS) + SEEN + TRAFFIC) as server:
                flow = Flow(broker, server.url, sizes.ours.flow)
                flow.run(sizes.ours.warm_s)
                return flow.run(sizes.ours.seconds)

    progress.tell(name)
    fresh_s: list[float] = progress.keep(name, measure)
    figures = [of_percentile(name, fresh_s, 0.5, "s", P50_S), of_percentile(name, fresh_s, 0.99, "s", None)]
    return Part(figures, {})


class Flow:
    """Produces batches at a constant rate, and asks for the number of events of each lane until all are there."""

    def __init__(self, broker: Broker, url: str, flow: int) -> None:
        self._producer = broker.producer(**{"linger.ms": 5})
        self._connection = Connection(url)
        self._flow = flow
        self._sent = [0] * PARTITIONS
        self._lines = [line for batch in lines(100_000, 3) for line in batch]

    def run(self, seconds: float) -> list[float]:
        """The seconds of each batch."""
        waiting: list[list[tuple[int, float]]] = [[] for _ in range(PARTITIONS)]  # number of events, due
        producing = threading.Thread(target=self._produce, args=(seconds, waiting))
        producing.start()
        fresh_s: list[float] = []
        deadline = time.monotonic() + seconds + MOST_S
        while producing.is_alive() or any(waiting):
            seen = self._seen()
            now = time.monotonic()
            require(now < deadline, f"answers did not have all events within {MOST_S:.0f} s after the last one")
            for lane, batches in enumerate(waiting):
                while batches and batches[0][0] <= seen.get(lane, 0):
                    fresh_s.append(now - batches.pop(0)[1])
            time.sleep(EVERY_S)
        producing.join()
        return fresh_s

    def _produce(self, seconds: float, waiting: list[list[tuple[int, float]]]) -> None:
        for number, due in at_rate(self._flow / PER_BATCH, seconds):
            lane = number % PARTITIONS
            at = number * PER_BATCH % len(self._lines)
            for line in self._lines[at : at + PER_BATCH]:
                send(self._producer, TOPIC, f'{{"lane":{lane},{line[1:]}'.encode(), lane)
            self._producer.poll(0)
            self._sent[lane] += PER_BATCH
            waiting[lane].append((self._sent[lane], due))
        self._producer.flush(60)

    def _seen(self) -> dict[int, int]:
        """The number of events of each lane, over all windows."""
        try:
            rows = self._connection.get("/v1/views/seen?limit=1000")["rows"]
        except HeadraceError:  # before the first event
            return {}
        seen: dict[int, int] = {}
        for row in rows:
            seen[row["lane"]] = seen.get(row["lane"], 0) + row["hits"]
        return seen
