"""A transport as a source of Spark Structured Streaming: one row per range of records.

Spark runs it in a separate planning process, which calls for the durable end and for ranges, and reads no events.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from headrace.transport.base import Reader
from headrace.transport.position import Position, Range

NAME = "headrace_transport"
SCHEMA = "partition INT, start BIGINT, end BIGINT"
SMALLEST_RANGE = 1 << 20  # below this a second task costs more than it saves

Offset = dict[str, Any]


def source_options(reader: Reader, start: Position, *, most_bytes: int, tasks: int) -> dict[str, str]:
    """The options of `spark.readStream`, which are strings."""
    return {
        "reader": base64.b64encode(pickle.dumps(reader)).decode(),
        "start": start.to_text(),
        "most_bytes": str(most_bytes),
        "tasks": str(tasks),
    }


class TransportStreamReader(DataSourceStreamReader):
    """Offers what is durable, a bounded amount at a time."""

    def __init__(self, options: dict[str, str]) -> None:
        self._reader: Reader = pickle.loads(base64.b64decode(options["reader"]))
        self._start = Position.from_text(options["start"])
        self._most_bytes = int(options["most_bytes"])
        self._tasks = int(options["tasks"])

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        return _offset(self._start)

    def latestOffset(self, start: Offset, limit: Any) -> Offset:  # noqa: N802 - Spark's name
        position = _position(start)
        end = position.merge(self._reader.end())  # a transport that was lost ends before the lake
        if self._reader.bytes_between(position, end) <= self._most_bytes:
            return _offset(end)
        ranges = self._reader.ranges(position, end, target_bytes=self._most_bytes, most_bytes=self._most_bytes)
        for part in ranges:
            position = position.merge(Position.at(part.end, part.partition))
        return _offset(position)

    def partitions(self, start: Offset, end: Offset) -> Sequence[_Task]:
        first, last = _position(start), _position(end)
        if first == last:
            return []
        target = max(SMALLEST_RANGE, -(-self._reader.bytes_between(first, last) // self._tasks))
        return [_Task(part) for part in self._reader.ranges(first, last, target_bytes=target)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, int]]:
        assert isinstance(partition, _Task)
        part = partition.part
        yield part.partition, part.start, part.end


class _Task(InputPartition):
    """A range, in Spark's terms."""

    def __init__(self, part: Range) -> None:
        self.part = part


class TransportSource(DataSource):
    """`spark.readStream.format("headrace_transport")`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> TransportStreamReader:  # noqa: N802 - Spark's name
        return TransportStreamReader(dict(self.options))


def _offset(position: Position) -> Offset:
    return {"position": position.to_json()}


def _position(offset: Offset) -> Position:
    return Position.from_json(offset["position"])
