"""Checks of a lake's files: whether the log can be read, and whether what it lists is there as it was written.

They change nothing and need no server; each finding names the file, what is wrong and what to do.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

LOG = "_delta_log"
_ENTRY = re.compile(r"\d{20}\.json")
_CRC = re.compile(r"-([0-9a-f]{8})\.parquet$")  # of the footer, in a file's name
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_RESTORE = "restore it from a backup: its events are stored nowhere else"
_RESTORE_LOG = (
    "restore it from a backup; if it is the newest entry and the journal still has its events, move it away: "
    "they are then read again from the journal"
)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a file of a lake."""

    file: Path
    what: str
    fix: str

    def __str__(self) -> str:
        return f"'{self.file}' {self.what}; {self.fix}"


class Listed(Protocol):
    """What the log says of a file."""

    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def rows(self) -> int: ...


def check_files(folder: Path, files: Iterable[Listed]) -> list[Finding]:
    """Whether each listed file is there in its size. Cheap: one look at each."""
    found = []
    for file in files:
        path = folder / file.path
        try:
            size = path.stat().st_size
        except OSError:
            found.append(Finding(path, "is listed in the log and is gone", _RESTORE))
            continue
        if size != file.size:
            found.append(Finding(path, f"has {size:,} bytes instead of {file.size:,}", _RESTORE))
    return found


def check_footers(folder: Path, files: Iterable[Listed]) -> list[Finding]:
    """Whether the footer of each listed file is the one that was written: without it a column could be lost unseen."""
    found = []
    for file in files:
        named = _CRC.search(file.path)
        if named and footer_crc(folder / file.path) != int(named.group(1), 16):
            found.append(Finding(folder / file.path, "has a damaged footer", _RESTORE))
    return found


def footer_crc(path: Path) -> int | None:
    """The checksum of a Parquet file's footer; None if it has none."""
    try:
        with path.open("rb") as file:
            file.seek(-8, os.SEEK_END)
            length = int.from_bytes(file.read(4), "little")
            file.seek(-8 - length, os.SEEK_END)
            return zlib.crc32(file.read(length))
    except OSError:
        return None


def check_contents(folder: Path, files: Iterable[Listed]) -> list[Finding]:
    """Whether each listed file can be read whole, its checksums agree and it has as many rows as the log says."""
    found = []
    for file in files:
        path = folder / file.path
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
                rows = sum(batch.num_rows for batch in parquet.iter_batches())
        except (OSError, pa.ArrowException) as error:
            found.append(Finding(path, f"cannot be read: {str(error).splitlines()[0]}", _RESTORE))
            continue
        found += check_footers(folder, [file])
        if rows != file.rows:
            found.append(Finding(path, f"has {rows:,} rows instead of {file.rows:,}", _RESTORE))
    return found


def check_log(folder: Path) -> list[Finding]:
    """Whether the entries of a log behind its newest checkpoint are all there and can be read."""
    log = folder / LOG
    names = sorted(path.name for path in log.iterdir()) if log.is_dir() else []
    checkpoints = [name for name in names if _CHECKPOINT.fullmatch(name)]
    newest = int(checkpoints[-1][:20]) if checkpoints else -1
    entries = [name for name in names if _ENTRY.fullmatch(name) and int(name[:20]) > newest]
    found = _check_checkpoint(log / checkpoints[-1]) if checkpoints else []
    expected = newest + 1
    for name in entries:
        for number in range(expected, int(name[:20])):
            found.append(Finding(log / f"{number:020d}.json", "is missing", _RESTORE_LOG))
        expected = int(name[:20]) + 1
        found += _check_entry(log / name)
    if not names:
        found.append(Finding(log, "is gone or empty", "restore it from a backup: without it the events cannot be read"))
    return found


def has_events(folder: Path) -> bool:
    """Whether data files lie in a lake's folder, whatever its log says."""
    return any(folder.glob("_dead=*/*.parquet"))


def _check_entry(path: Path) -> list[Finding]:
    lines = path.read_bytes().splitlines()
    try:
        whole = bool(lines) and all(isinstance(orjson.loads(line), dict) for line in lines if line)
    except orjson.JSONDecodeError:
        whole = False
    return [] if whole else [Finding(path, "is empty, cut off or not JSON", _RESTORE_LOG)]


def _check_checkpoint(path: Path) -> list[Finding]:
    try:
        pq.ParquetFile(path).close()
    except (OSError, pa.ArrowException) as error:
        return [Finding(path, f"cannot be read: {str(error).splitlines()[0]}", "restore it from a backup")]
    return []
