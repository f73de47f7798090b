"""Checks of a lake's files: whether the log can be read, and whether its files exist as they were written.

They change nothing and need no server; each finding names the file, what is wrong and what to do.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import orjson

from headrace.lake.storage import Storage
from headrace.lake.table_schema import DEAD
from headrace.lazy import pa, pq

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
class Damage:
    """One thing that is wrong with a file of a lake."""

    file: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"'{self.file}' {self.what}; {self.fix}"


class Listed(Protocol):
    """The log's entry of a file."""

    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def rows(self) -> int: ...


def check_files(storage: Storage, files: Iterable[Listed]) -> list[Damage]:
    """Return whether each listed file exists with its size. Cheap: one call for each."""
    damages = []
    for file in files:
        path, stored = storage.locate(file.path), storage.stat(file.path)
        if stored is None:
            damages.append(Damage(path, "is listed in the log and is gone", _RESTORE))
        elif stored.size != file.size:
            damages.append(Damage(path, f"has {stored.size:,} bytes instead of {file.size:,}", _RESTORE))
    return damages


def check_footers(storage: Storage, files: Iterable[Listed]) -> list[Damage]:
    """Return whether the footer of each listed file is the one that was written: a damaged one could hide a column."""
    damages = []
    for file in files:
        match = _CRC.search(file.path)
        if match and _footer_of(storage, file.path) != int(match.group(1), 16):
            damages.append(Damage(storage.locate(file.path), "has a damaged footer", _RESTORE))
    return damages


def _footer_of(storage: Storage, name: str) -> int | None:
    try:
        with storage.open(name) as file:
            return footer_crc(file)
    except OSError:
        return None


def footer_crc(file: BinaryIO) -> int:
    """The checksum of a Parquet file's footer; OSError if it has none."""
    file.seek(-8, os.SEEK_END)
    length = int.from_bytes(file.read(4), "little")
    file.seek(-8 - length, os.SEEK_END)
    return zlib.crc32(file.read(length))


def check_contents(storage: Storage, files: Iterable[Listed]) -> list[Damage]:
    """Check that each listed file can be read completely, that checksums agree and rows are as many as in the log."""
    damages = []
    for file in files:
        path = storage.locate(file.path)
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
                rows = sum(batch.num_rows for batch in parquet.iter_batches())
        except (OSError, pa.ArrowException) as error:
            damages.append(Damage(path, f"cannot be read: {str(error).splitlines()[0]}", _RESTORE))
            continue
        damages += check_footers(storage, [file])
        if rows != file.rows:
            damages.append(Damage(path, f"has {rows:,} rows instead of {file.rows:,}", _RESTORE))
    return damages


def check_log(storage: Storage) -> list[Damage]:
    """Return whether all entries of a log after its newest checkpoint exist and can be read."""
    names = [file.name.removeprefix(f"{LOG}/") for file in storage.list(f"{LOG}/")]
    checkpoints = [name for name in names if _CHECKPOINT.fullmatch(name)]
    newest = int(checkpoints[-1][:20]) if checkpoints else -1
    entries = [name for name in names if _ENTRY.fullmatch(name) and int(name[:20]) > newest]
    damages = _check_checkpoint(storage, f"{LOG}/{checkpoints[-1]}") if checkpoints else []
    expected = newest + 1
    for name in entries:
        for number in range(expected, int(name[:20])):
            damages.append(Damage(storage.locate(f"{LOG}/{number:020d}.json"), "is missing", _RESTORE_LOG))
        expected = int(name[:20]) + 1
        damages += _check_entry(storage, f"{LOG}/{name}")
    if not names:
        fix = "restore it from a backup: without it the events cannot be read"
        damages.append(Damage(storage.locate(LOG), "is gone or empty", fix))
    return damages


def has_events(storage: Storage) -> bool:
    """Return whether there are data files, listed in the log or not."""
    files = (file for dead in ("false", "true") for file in storage.list(f"{DEAD}={dead}/"))
    return any(file.name.endswith(".parquet") for file in files)


def _check_entry(storage: Storage, name: str) -> list[Damage]:
    with storage.open(name) as file:
        lines = file.read().splitlines()
    try:
        whole = bool(lines) and all(isinstance(orjson.loads(line), dict) for line in lines if line)
    except orjson.JSONDecodeError:
        whole = False
    return [] if whole else [Damage(storage.locate(name), "is empty, cut off or not JSON", _RESTORE_LOG)]


def _check_checkpoint(storage: Storage, name: str) -> list[Damage]:
    path = storage.locate(name)
    try:
        pq.ParquetFile(path).close()
    except (OSError, pa.ArrowException) as error:
        return [Damage(path, f"cannot be read: {str(error).splitlines()[0]}", "restore it from a backup")]
    return []
