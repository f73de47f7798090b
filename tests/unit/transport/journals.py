"""Journals with a clock that tests set, and the lines of a journal."""

from __future__ import annotations

from pathlib import Path

from headrace.transport.journal.journal import Journal
from headrace.transport.journal.journal_records import list_segments, walk
from headrace.transport.position import START, Position

LINE = b'{"a":1}\n'


class Clock:
    """A wall clock that can be set, and a monotonic one."""

    def __init__(self) -> None:
        self.wall_us, self.passed_us = 10**15, 0

    def passes(self, us: int) -> None:
        self.wall_us += us
        self.passed_us += us

    def open(self, folder: Path, fence: int, lake_end: Position = START) -> Journal:
        return Journal(
            folder,
            fence=fence,
            lake_end=lake_end,
            clock_us=lambda: self.wall_us,
            monotonic_s=lambda: 1000 + self.passed_us / 1e6,
        )


def lines_of(folder: Path, end: Position) -> bytes:
    lines = b""
    for segment in list_segments(folder):
        for record in walk(segment, segment.start, min(end.offset(), segment.end)):
            data = segment.path.read_bytes()
            lines += data[record.payload_position - segment.start : record.end - segment.start]
    return lines
