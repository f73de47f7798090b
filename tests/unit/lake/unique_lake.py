"""A stream with UNIQUE: the product's journal, range writer, index of ids, replay and table, without Spark."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.define.model import Stream
from headrace.lake.append_task import RangeResult, Work, range_writer, verdict_of
from headrace.lake.event_id_index import UniqueIndex
from headrace.lake.event_ids_load import load_here
from headrace.lake.repeated_events import Known, RepeatVerdict
from headrace.lake.replay import DeadLetterReplay
from headrace.timing import later
from headrace.transport.position import Range
from tests.unit.lake.dead_lake import DeadLake, stream_of
from tests.unit.lake.rereading import in_this_process

SQL = "CREATE STREAM s (id STRING, x INT, at TIMESTAMP NOT NULL, WATERMARK FOR at, UNIQUE (id) WITHIN INTERVAL 1 HOUR)"


class UniqueLake(DeadLake):
    """One process: `again` is the next one, which knows only what the lake and the journal hold."""

    def __init__(self, folder: Path, stream: Stream | None = None, *, fence: int = 0, **places: Path) -> None:
        super().__init__(folder, stream or stream_of(SQL), fence=fence, **places)
        self.folder = folder
        self.fence = fence
        scratch = folder / f"scratch-{fence}"
        scratch.mkdir()
        self.index = UniqueIndex(self.table, scratch, load_here)
        self.replay = DeadLetterReplay(in_this_process, self.table, scratch, unique=self.index)
        self.attempts = 0  # of writing commits

    def again(self) -> UniqueLake:
        """A restart."""
        self.close()
        return UniqueLake(self.folder, self.stream, fence=self.fence + 1)

    def close(self) -> None:
        self.index.close()
        super().close()

    def commit(self, *, ranges: int = 1, fails: bool = False) -> None:
        """Make one commit of all that the journal holds; if it fails, after its files are written."""
        at, end = self.table.state, self.journal.end
        reader = self.journal.reader
        target = max(1, reader.bytes_between(at.position, end) // ranges)
        parts: Sequence[Range] = sorted(reader.ranges(at.position, end, target_bytes=target))
        now_us = time.time_ns() // 1000
        folder, since = str(self.table.folder), self.table.since
        work = Work(self.stream, reader, folder, at.next_commit, now_us, at.time_us, since)

        def write(known: Known | None) -> tuple[list[RangeResult], RepeatVerdict]:
            self.attempts += 1
            results = list(range_writer(replace(work, known=known))(parts))
            return results, verdict_of(results)

        results = self.index.settle(self.stream, at, write)
        if fails:
            self.index.reset()
            return
        newest = at.newest_us
        for result in results:
            newest = later(newest, result.newest_us)
        verdict = verdict_of(results)
        files = [file for result in results for file in result.files]
        self.table.commit(at, end, newest, files, duplicates=verdict.duplicates)
        self.index.adopt(verdict)


@dataclass(frozen=True)
class Sent:
    """An event as a test sends it."""

    id: str | None
    minute: float  # of event time
    x: float = 0

    @property
    def second(self) -> int:
        return round(self.minute * 60)

    def line(self) -> bytes:
        id_ = "null" if self.id is None else f'"{self.id}"'
        return f'{{"id":{id_},"x":{self.x},"at":"{_iso(self.second)}"}}'.encode()


def _iso(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_770_000_000 + second))


def verdicts(events: Sequence[Sent], within_s: int) -> list[bool]:
    """Whether each event counts, by the words of the documentation: the reference in plain Python."""
    counted: list[Sent] = []
    result = []
    for event in events:
        repeats = event.id is not None and any(
            other.id == event.id and abs(other.second - event.second) < within_s for other in counted
        )
        result.append(not repeats)
        if not repeats:
            counted.append(event)
    return result
