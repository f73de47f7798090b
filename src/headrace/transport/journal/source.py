"""The journal as a source of Spark Structured Streaming: one row per range of records.

Spark plans with it in processes of their own: it reads the durable end and record headers, no events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from headrace.transport.journal.record import cut, read_durable

NAME = "headrace_journal"
SCHEMA = "start BIGINT, end BIGINT"
SMALLEST_RANGE = 1 << 20  # below this a second task costs more than it saves


class Range(InputPartition):
    """Positions [start, end), whole records."""

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class JournalReader(DataSourceStreamReader):
    """Offers what is durable, a bounded piece at a time."""

    def __init__(self, options: dict[str, str]) -> None:
        self._folder = Path(options["folder"])
        self._start = int(options["start"])
        self._most_bytes = int(options["most_bytes"])
        self._tasks = int(options["tasks"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"position": self._start}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802 - Spark's name
        position, durable = start["position"], read_durable(self._folder)
        if durable is None or durable <= position:
            return start
        if durable - position <= self._most_bytes:
            return {"position": durable}
        return {"position": cut(self._folder, position, durable, self._most_bytes, self._most_bytes)[-1][1]}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Range]:
        first, last = start["position"], end["position"]
        if first == last:
            return []
        target = max(SMALLEST_RANGE, -(-(last - first) // self._tasks))
        return [Range(a, b) for a, b in cut(self._folder, first, last, target, last - first)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
        assert isinstance(partition, Range)
        yield partition.start, partition.end


class JournalSource(DataSource):
    """`spark.readStream.format("headrace_journal")`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> JournalReader:  # noqa: N802 - Spark's name
        return JournalReader(dict(self.options))
