"""A journal's records read again at start: an incomplete last one is removed, other damage is an error."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from headrace.errors import CorruptionError
from headrace.transport.journal.journal_records import (
    DURABLE_FILE,
    HEADER,
    JournalRecord,
    Segment,
    is_intact,
    list_segments,
    read_durable,
    unpack,
    walk,
)

Note = Callable[[Segment, JournalRecord], object]


def recover(folder: Path, lake_end: int, note: Note) -> int:
    """The end of a journal whose lake holds all before `lake_end`; calls `note` with each record.

    Raises CorruptionError if something that was acknowledged is in neither.
    """
    segments = [segment for segment in list_segments(folder) if segment.end > segment.start]
    end = 0
    reached = lake_end
    for segment in segments:
        _check_gap(segment, reached)
        if segment is segments[-1]:
            end = _cut_torn(folder, segment, lake_end, note)
        else:
            for record in walk(segment, segment.start, segment.end):
                note(segment, record)
        reached = max(reached, segment.end)
    durable = read_durable(folder)
    if durable is not None and max(end, lake_end) < durable:
        raise CorruptionError(
            f"journal '{folder}' lost its last records",
            found=f"records up to position {max(end, lake_end)}",
            expected=f"up to {durable}, which was acknowledged",
            fix=f"restore its files; to continue without the lost events, delete '{folder / DURABLE_FILE}'",
        )
    return end


def visit_records(folder: Path, note: Note) -> None:
    """Call `note` with each record that `recover` would keep, and change nothing."""
    segments = [segment for segment in list_segments(folder) if segment.end > segment.start]
    for segment in segments:
        _intact_end(segment, 0 if segment is segments[-1] else segment.end, note)


def _check_gap(segment: Segment, reached: int) -> None:
    if segment.start > reached:
        raise CorruptionError(
            f"journal '{segment.path.parent}': positions [{reached}, {segment.start}) are missing before "
            f"'{segment.path.name}'",
            expected="each event in the lake or in the journal",
            fix="restore the journal's file or the lake; to continue without the events of the journal, "
            "move its folder away",
        )


def _cut_torn(folder: Path, last: Segment, lake_end: int, note: Note) -> int:
    end = _intact_end(last, lake_end, note)
    if end < last.end:
        durable = read_durable(folder)
        if durable is not None and end < durable:
            raise CorruptionError(
                f"journal file '{last.path}' is damaged at position {end}",
                found=f"records up to position {durable} were acknowledged",
                fix="restore the file, or move it away to continue without its events",
            )
        os.truncate(last.path, end - last.start)
    return end


def _intact_end(segment: Segment, lake_end: int, note: Note) -> int:
    position = segment.start
    with segment.path.open("rb") as file:
        while position < segment.end:
            file.seek(position - segment.start)
            record = unpack(file.read(HEADER.size), position)
            if record is None or record.end > segment.end:
                return position
            # Records that the lake has need no check.
            if record.end > lake_end and not is_intact(file.fileno(), segment, record):
                return position
            note(segment, record)
            position = record.end
    return position
