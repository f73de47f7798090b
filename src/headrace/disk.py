"""Files on disk: atomic replacement, sync, removal; format versions; errors of the operating system."""

from __future__ import annotations

import errno
import json  # faster to import than orjson; the file has one number
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from headrace.errors import CorruptionError, DiskFullError, HeadraceError, NewerFormatError, WorkspaceError, chain

FORMAT_FILE = "format.json"  # of a folder that has a format version
FIRST_FORMAT = 1  # of data without a version: it was written before versions were recorded

_FULL = (errno.ENOSPC, errno.EDQUOT)
# Arrow, DuckDB, delta-rs and Java each wrap the message of the system in their own.
_FULL_TEXT = re.compile(r"no space left on device|disk quota exceeded|os error 28|errno 28\b", re.IGNORECASE)
_UNUSABLE = {
    errno.EACCES: "give this user write permission there",
    errno.EPERM: "give this user write permission there",
    errno.EROFS: "its file system is read-only: make it writable, or choose another folder with the setting `data`",
    errno.ENOTDIR: "expected a folder, found a file: move it away",
    errno.EEXIST: "expected a folder, found a file: move it away",
    errno.EISDIR: "expected a file, found a folder: move it away",
}


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error of any library was caused by a full disk."""
    for each in chain(error):
        if isinstance(each, OSError) and each.errno in _FULL:
            return True
        if isinstance(each, DiskFullError) or _FULL_TEXT.search(str(each)):
            return True
    return False


def disk_full(what: str, path: Path, fix: str = "free space there; it then continues automatically") -> DiskFullError:
    """The error for a full disk; it names the folder or file that could not be written."""
    return DiskFullError(f"{what}: the disk of '{path}' is full", found=f"{free_bytes(path):,} bytes free", fix=fix)


def free_bytes(path: Path) -> int:
    """The free bytes of the file system of a path, or of its nearest parent folder that exists."""
    for place in (path, *path.parents):
        with suppress(OSError):
            state = os.statvfs(place)
            return state.f_bavail * state.f_frsize
    return 0


def from_system(error: OSError) -> HeadraceError | None:
    """An error of the operating system on a path, as an error that says what to do; None for others."""
    if is_disk_full(error):
        return disk_full("it cannot be written", Path(error.filename or "."))
    if not error.filename or error.errno not in _UNUSABLE:
        return None
    return WorkspaceError(
        f"'{error.filename}' cannot be used", found=(error.strerror or "").lower(), fix=_UNUSABLE[error.errno]
    )


def replace_file(file: Path, content: bytes, what: str) -> None:
    """Replace the content of a file atomically; it is on disk when this returns."""
    temporary = file.with_suffix(".tmp")
    try:
        with temporary.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(file)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if is_disk_full(error):
            raise disk_full(what, file, "nothing was changed; free space there and try again") from error
        raise


def read_format(folder: Path) -> int:
    """The format version of a folder."""
    file = folder / FORMAT_FILE
    try:
        return int(json.loads(file.read_bytes())["format"])
    except (FileNotFoundError, NotADirectoryError):
        return FIRST_FORMAT
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptionError(
            f"file '{file}' cannot be read",
            expected='{"format": N}, the format version of the folder',
            fix="restore it; if no newer Headrace has used the folder, delete it",
        ) from error


def write_format(folder: Path, version: int) -> None:
    """Record the format version of a folder, unless it is recorded; it is on disk when this returns."""
    file = folder / FORMAT_FILE
    if not file.exists() or read_format(folder) < version:
        replace_file(
            file, json.dumps({"format": version}, separators=(",", ":")).encode(), f"file '{file}' cannot be written"
        )
        sync(folder)


def refuse_newer(what: str, version: int, newest: int, *, otherwise: str = "") -> None:
    """Raise NewerFormatError if data has a format version above the newest that this code reads."""
    if version > newest:
        raise NewerFormatError(
            f"{what} was written by a newer Headrace",
            found=f"format {version}",
            expected=f"at most format {newest}, the newest that this Headrace reads",
            fix=f"nothing was changed; use the newer Headrace{f', {otherwise}' if otherwise else ''}",
        )


def remove(path: Path) -> None:
    """Remove a file, or a folder with its content; errors are ignored."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
