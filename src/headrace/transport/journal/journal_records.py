"""The journal on disk: segments of records, and how to walk them.

Spark's processes import it too, so it imports little.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import xxhash

from headrace.disk import read_format, refuse_newer
from headrace.errors import CorruptionError

FORMAT = 2
MAGIC = b"HRJ2"
OLDER_MAGIC = b"HRJ1"  # of records with a CRC-32, which takes five times as long; they are read, and no longer written
HEADER = struct.Struct("<4sIIIqq")  # magic, checksum, bytes of meta, bytes of payload, arrival in us, position
_CHECKED_FROM = 8  # the checksum is of all that follows it
DURABLE = struct.Struct("<qI")  # durable end, its CRC
DURABLE_FILE = "durable"
_NAME = re.compile(r"\d{20}-\d{8}\.seg")


@dataclass(frozen=True)
class JournalRecord:
    """One request that was accepted. It spans positions [position, end) of the journal."""

    position: int
    arrived_us: int
    meta_bytes: int
    payload_bytes: int
    magic: bytes
    checksum: int

    @property
    def payload_position(self) -> int:
        return self.position + HEADER.size + self.meta_bytes

    @property
    def end(self) -> int:
        return self.payload_position + self.payload_bytes

    def matches(self, raw: bytes | memoryview) -> bool:
        """Return whether these bytes, the whole record, are those that were written."""
        checked = memoryview(raw)[_CHECKED_FROM:]
        checksum = zlib.crc32(checked) if self.magic == OLDER_MAGIC else _checksum(checked)
        return len(raw) == self.end - self.position and checksum == self.checksum


@dataclass(frozen=True)
class Segment:
    """A file of the journal that holds positions [start, end)."""

    path: Path
    start: int
    fence: int
    end: int


def segment_name(start: int, fence: int) -> str:
    """Names sort by position; with the fence, a writer that lost its lease has another file than the new one."""
    return f"{start:020d}-{fence:08d}.seg"


def list_segments(folder: Path) -> list[Segment]:
    """The segments in order. A segment ends where the next begins, whatever was written after that."""
    paths = sorted(path for path in folder.glob("*.seg") if _NAME.fullmatch(path.name))
    starts = [tuple(int(part) for part in path.stem.split("-")) for path in paths]
    segments = []
    for index, (path, (start, fence)) in enumerate(zip(paths, starts, strict=True)):
        with suppress(FileNotFoundError):  # it was reclaimed at this moment
            file_end = start + path.stat().st_size
            end = min(file_end, starts[index + 1][0]) if index + 1 < len(paths) else file_end
            segments.append(Segment(path, start, fence, end))
    return segments


def read_durable(folder: Path) -> int | None:
    """The end up to which every record is on disk; None if it was never published."""
    try:
        raw = (folder / DURABLE_FILE).read_bytes()
    except FileNotFoundError:
        return None
    if len(raw) != DURABLE.size:
        return None
    end, crc = DURABLE.unpack(raw)
    return end if zlib.crc32(raw[:8]) == crc else None


def pack(meta: bytes, payload: bytes | memoryview, arrived_us: int, position: int) -> bytes:
    """The header and meta of a record; the payload follows it."""
    head = HEADER.pack(MAGIC, 0, len(meta), len(payload), arrived_us, position)[_CHECKED_FROM:] + meta
    return MAGIC + struct.pack("<I", _checksum(head, payload)) + head


def _checksum(*parts: bytes | memoryview) -> int:
    """The checksum of the parts one after the other: the lower half of XXH3, 64 bits."""
    checksum = xxhash.xxh3_64()
    for part in parts:
        checksum.update(part)
    return checksum.intdigest() & 0xFFFFFFFF


def unpack(header: bytes, position: int) -> JournalRecord | None:
    """The record that a header describes; None if it is not one for this position."""
    if len(header) < HEADER.size:
        return None
    magic, checksum, meta_bytes, payload_bytes, arrived_us, at = HEADER.unpack_from(header)
    if magic not in (MAGIC, OLDER_MAGIC) or at != position:
        return None
    return JournalRecord(position, arrived_us, meta_bytes, payload_bytes, magic, checksum)


def is_intact(fd: int, segment: Segment, record: JournalRecord) -> bool:
    """Return whether the bytes of a record are those that were written."""
    return record.matches(os.pread(fd, record.end - record.position, record.position - segment.start))


def walk(segment: Segment, start: int, end: int) -> Iterator[JournalRecord]:
    """The records that begin in [start, end); `start` must be a record's position."""
    with segment.path.open("rb") as file:
        position = start
        while position < min(end, segment.end):
            file.seek(position - segment.start)
            record = unpack(file.read(HEADER.size), position)
            if record is None or record.end > segment.end:
                raise damaged(segment, position)
            yield record
            position = record.end


def damaged(segment: Segment, position: int) -> CorruptionError:
    """The error for a record that is not what was written."""
    return CorruptionError(
        f"journal file '{segment.path}' is damaged at position {position}",
        expected="a whole record",
        fix="nothing after it was read; restore the file, or move it away to continue without its events",
    )


def spans(folder: Path, start: int, end: int) -> Iterator[tuple[Segment, int, int]]:
    """The segments that hold [start, end), each with the part of it. Raises CorruptionError if one is missing."""
    reached = start
    for segment in list_segments(folder):
        if segment.end <= reached or reached >= end:
            continue
        if segment.start > reached:
            break
        last = min(end, segment.end)
        yield segment, reached, last
        reached = last
    if reached < end:
        raise CorruptionError(
            f"journal '{folder}' does not contain position {reached}",
            expected=f"records from there to {end}",
            fix="nothing after it was read; restore its files",
        )


def cut(folder: Path, start: int, end: int, target_bytes: int, most_bytes: int) -> list[tuple[int, int]]:
    """Ranges of whole records that tile [start, e) for the e <= end at which `most_bytes` are reached."""
    ranges: list[tuple[int, int]] = []
    for segment, first, last in spans(folder, start, end):
        for record in walk(segment, first, end):
            if record.end - start > most_bytes and record.position > start:
                return ranges if first == record.position else [*ranges, (first, record.position)]
            if record.end - first >= target_bytes:
                ranges.append((first, record.end))
                first = record.end
        if first < last:
            ranges.append((first, last))
    return ranges


def check_format(folder: Path) -> int:
    """The format version of a journal. Raises NewerFormatError if this code does not read it."""
    version = read_format(folder)
    refuse_newer(f"journal '{folder}'", version, FORMAT)
    return version
