"""The numbers that Kafka's partitions have in our positions: a file per stream, only ever added to."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from headrace.disk import replace_file, sync
from headrace.errors import CorruptionError, UnavailableError
from headrace.transport.position import MAX_PARTITIONS, Position

FILE = "partitions.json"


@dataclass(frozen=True)
class Partition:
    """A partition of a topic. A topic that was recreated has another id, so that its partitions are others."""

    topic: str
    topic_id: str
    partition: int
    start: int  # the first offset that is read: earlier ones are left out
    ended: int | None = None  # where reading ended for good, since the topic is gone

    def __str__(self) -> str:
        return f"partition {self.partition} of topic '{self.topic}'"


class Partitions:
    """The partitions of one stream by number. What `all` returns never changes; safe for several threads."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._lock = threading.Lock()
        self.decided, self.all = self._read()  # decided: where the stream begins was chosen

    def _read(self) -> tuple[bool, tuple[Partition, ...]]:
        try:
            content: dict[str, Any] = orjson.loads(self._file.read_bytes())
            return True, tuple(Partition(**entry) for entry in content["partitions"])
        except FileNotFoundError:
            return False, ()
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise CorruptionError(
                f"file '{self._file}' is damaged",
                expected="the partitions of the stream, as JSON",
                fix="restore it from a backup: positions in the lake are numbered by it",
            ) from error

    @property
    def open(self) -> dict[int, Partition]:
        """The partitions that are still read, by number."""
        return {number: each for number, each in enumerate(self.all) if each.ended is None}

    def add(self, new: Iterable[Partition]) -> None:
        """Number further partitions; on disk when this returns."""
        with self._lock:
            self._write((*self.all, *new))

    def change(self, starts: Mapping[int, int], ended: Mapping[int, int], new: Iterable[Partition] = ()) -> None:
        """Read some partitions from another offset on, and others not any more; on disk when this returns."""
        with self._lock:
            changed = [
                replace(each, start=starts.get(number, each.start), ended=ended.get(number, each.ended))
                for number, each in enumerate(self.all)
            ]
            self._write((*changed, *new))

    def _write(self, partitions: tuple[Partition, ...]) -> None:
        if len(partitions) > MAX_PARTITIONS:
            raise UnavailableError(
                f"a stream has at most {MAX_PARTITIONS:,} partitions", found=f"{len(partitions):,}",
                fix="choose a narrower pattern of topics",
            )  # fmt: skip
        content = orjson.dumps({"partitions": [asdict(each) for each in partitions]}, option=orjson.OPT_INDENT_2)
        replace_file(self._file, content, f"file '{self._file}' cannot be written")
        sync(self._file.parent)
        self.all, self.decided = partitions, True


def starts(partitions: Iterable[Partition]) -> Position:
    """The offsets where reading begins."""
    return Position(tuple(each.start for each in partitions))
