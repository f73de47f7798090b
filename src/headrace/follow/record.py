"""The file of one subscription: its terms, then a record for each thing that happened, each with a checksum.

A record that was being written when the process or the machine ended is cut off. When there are many records, the file
is replaced by one with the state alone; a process that was taken over then writes to a file that has no name.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson

from headrace.disk import disk_full, is_disk_full, refuse_newer, sync
from headrace.errors import CorruptionError, UnavailableError
from headrace.follow.subscription import Record

FORMAT = 1
MOST_RECORDS, MOST_BYTES = 5_000, 32 << 20  # then the file is replaced


class RecordFile:
    """Appends records. `sync` makes durable what was appended before it; several threads share one sync."""

    def __init__(self, path: Path, still_mine: Callable[[], None]) -> None:
        self._path = path
        self._still_mine = still_mine  # raises if another process has the workspace
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._fd = -1
        self._appended = self._synced = 0  # records since the process began
        self.records = 0  # in the file
        self.bytes = 0  # that were appended to it

    @staticmethod
    def read(path: Path) -> list[Record]:
        """The records of a file, the terms first. An incomplete end is left out."""
        lines = path.read_bytes().split(b"\n")
        records = []
        for number, line in enumerate(lines[:-1]):
            crc, _, content = line.partition(b" ")
            if crc != _crc(content):
                if not any(lines[number + 1 : -1]):
                    break  # the last line: it was being written
                raise CorruptionError(
                    f"subscription file '{path}' is damaged",
                    found=f"line {number + 1} does not match its checksum",
                    fix="nothing was changed; drop the subscription and create it again, or restore the file",
                )
            records.append(orjson.loads(content))
        if len(records) < 2 or "terms" not in records[0] or "state" not in records[1]:
            raise CorruptionError(
                f"subscription file '{path}' is damaged",
                found="no terms or no state at its begin",
                fix="nothing was changed; drop the subscription and create it again, or restore the file",
            )
        refuse_newer(f"subscription file '{path}'", int(records[0].get("format", FORMAT)), FORMAT)
        return records

    def replace(self, records: Iterable[Record]) -> None:
        """Make these the only records; durable when this returns."""
        with self._syncing, self._lock:
            self._still_mine()
            draft = self._path.with_suffix(".draft")
            lines = [_line(record) for record in records]
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with draft.open("wb") as file:
                    file.write(b"".join(lines))
                    file.flush()
                    os.fsync(file.fileno())
                fd = os.open(draft, os.O_WRONLY | os.O_APPEND)
                draft.replace(self._path)
                sync(self._path.parent)
            except OSError as error:
                raise self._unwritten(error) from error
            if self._fd >= 0:
                os.close(self._fd)
            self._fd, self.records, self.bytes, self._synced = fd, len(lines), 0, self._appended

    def append(self, record: Record) -> None:
        """Add a record; it survives the end of the process, and after `sync` a loss of power."""
        line = _line(record)
        with self._lock:
            start = os.fstat(self._fd).st_size
            try:
                written = os.write(self._fd, line)
                if written != len(line):
                    raise OSError(28, "No space left on device")
            except OSError as error:
                os.ftruncate(self._fd, start)
                raise self._unwritten(error) from error
            self._appended += 1
            self.records += 1
            self.bytes += len(line)

    def sync(self) -> None:
        """Return when all records that were appended before are durable, and this process may still write them."""
        appended_before = self._appended
        with self._syncing:
            if self._synced < appended_before:
                appended = self._appended
                try:
                    os.fdatasync(self._fd)
                except OSError as error:
                    raise self._unwritten(error) from error
                self._synced = appended
        self._still_mine()

    def close(self) -> None:
        """Write no more."""
        with self._syncing, self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def delete(self) -> None:
        """Remove the file."""
        self.close()
        self._path.unlink(missing_ok=True)
        sync(self._path.parent)

    def _unwritten(self, error: OSError) -> Exception:
        what = f"the subscription '{self._path.stem}' cannot be written"
        if is_disk_full(error):
            return disk_full(what, self._path.parent)
        return UnavailableError(f"{what}: {error.strerror or error}", fix="nothing was delivered or acknowledged")


def _crc(content: bytes) -> bytes:
    return f"{zlib.crc32(content):08x}".encode()


def _line(record: Record | dict[str, Any]) -> bytes:
    content = orjson.dumps(record)
    return _crc(content) + b" " + content + b"\n"
