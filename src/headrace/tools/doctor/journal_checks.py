"""Checks of a stream's journal: its ends are intact, and it continues where the lake ends."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.errors import CorruptionError
from headrace.format import plural
from headrace.tools.doctor.finding import Finding, bad, good, warn
from headrace.transport.journal.journal_records import (
    HEADER,
    Segment,
    check_format,
    is_intact,
    list_segments,
    read_durable,
    unpack,
    walk,
)

MOST_BYTES = 64 << 20  # of the newest segment, whose records are checked one by one


def check_journal(name: str, folder: Path, lake_end: int) -> Finding:
    """Return whether the events that are not in the lake yet can be read from the journal."""
    check = f"journal {name}"
    if not folder.is_dir():
        return _missing(check, folder, lake_end)
    try:
        check_format(folder)
    except CorruptionError as error:
        return Finding.of(check, error)
    try:
        segments = list_segments(folder)
    except ValueError:
        return bad(check, f"folder '{folder}' contains an unknown file", "move the file away")
    durable = read_durable(folder)
    if not segments or durable is None:
        return _missing(check, folder, lake_end)
    if durable < lake_end:
        return warn(
            check,
            f"it ends at position {durable:,}, before the lake's {lake_end:,}: it was lost or is an old copy",
            "no action needed: the lake has these events, and new ones are appended after them",
        )
    ahead = durable - lake_end
    if ahead and not any(segment.start <= lake_end < segment.end for segment in segments):
        return bad(
            check,
            f"the events from position {lake_end:,} on, which are not in the lake yet, are in no segment",
            f"restore the segment files of '{folder}' from a backup",
        )
    damage = _damage(segments, durable)
    if damage:
        return bad(check, damage, "restore the file; what the lake has already is safe")
    return good(
        check, f"{plural(len(segments), 'segment')}, intact at both ends; {plural(ahead, 'byte')} not in the lake yet"
    )


def _missing(check: str, folder: Path, lake_end: int) -> Finding:
    if not lake_end:
        return good(check, "no events received yet")
    return warn(
        check,
        f"'{folder}' has no segments, but the lake has events",
        "no action needed if the lake has all of them",
    )


def _damage(segments: list[Segment], durable: int) -> str | None:
    """Damage of the first record of a segment, or of the last records of the journal."""
    for segment in segments:
        if segment.end > segment.start and segment.start < durable:
            with segment.path.open("rb") as file:
                if unpack(file.read(HEADER.size), segment.start) is None:
                    return f"segment '{segment.path}' does not begin with a record"
    last = next((s for s in reversed(segments) if s.start < durable), None)
    if last is None:
        return None
    if last.end < durable:
        return f"segment '{last.path}' ends at position {last.end:,}, before the durable end {durable:,}"
    return _damage_of(last, durable)


def _damage_of(segment: Segment, durable: int) -> str | None:
    record = None
    try:
        for record in walk(segment, segment.start, durable):
            if record.end - segment.start > MOST_BYTES:
                return None
    except CorruptionError as error:
        return error.message
    if record is None:
        return None
    fd = os.open(segment.path, os.O_RDONLY)
    try:
        return None if is_intact(fd, segment, record) else f"the last record of '{segment.path}' is damaged"
    finally:
        os.close(fd)
