"""What a failure of the machine means: a full disk, a folder that cannot be used, or one of ours told by Spark."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from headrace import errors
from headrace.errors import DiskFullError, HeadraceError, WorkspaceError

_FULL = (errno.ENOSPC, errno.EDQUOT)
# Arrow, DuckDB, delta-rs and Java each wrap the system's words in their own.
_FULL_TEXT = re.compile(r"no space left on device|disk quota exceeded|os error 28|errno 28\b", re.IGNORECASE)
_OURS = re.compile(r"headrace\.errors\.(\w+): (.+)")
# On a busy machine a Python worker may start later than Spark waits for it; the next one is in time.
_TRANSIENT = re.compile(r"Python worker failed to connect back|waiting for the Python worker to connect back")
_CALL = "An error occurred while calling "  # Py4J's first line, which says nothing
_CAUSE = re.compile(r"(?:^Caused by: |^: |executor \w+\): )([\w.$]+(?:Error|Exception)\b[^\n]*)", re.MULTILINE)
_UNREADABLE = re.compile(r"while reading file (?:file://)?(\S+?\.parquet)")
_UNUSABLE = {
    errno.EACCES: "permit this user to write there",
    errno.EPERM: "permit this user to write there",
    errno.EROFS: "its file system is read-only: make it writable, or choose another folder by the setting `data`",
    errno.ENOTDIR: "a file stands where a folder must be: move it away",
    errno.EEXIST: "a file stands where a folder must be: move it away",
    errno.EISDIR: "a folder stands where a file must be: move it away",
}


def is_disk_full(error: BaseException) -> bool:
    """Whether a full disk is behind a failure, whichever library tells of it."""
    for each in _chain(error):
        if isinstance(each, OSError) and each.errno in _FULL:
            return True
        if isinstance(each, DiskFullError) or _FULL_TEXT.search(str(each)):
            return True
    return False


def is_transient(error: BaseException) -> bool:
    """Whether a job failed for want of time to start, so that it is worth a retry without a word."""
    return any(_TRANSIENT.search(str(each)) for each in _chain(error))


def disk_full(what: str, path: Path, fix: str = "free space there; it then goes on by itself") -> DiskFullError:
    """The error for a full disk; it names the folder or file that could not be written."""
    return DiskFullError(f"{what}: the disk of '{path}' is full", found=f"{free_bytes(path):,} bytes free", fix=fix)


def free_bytes(path: Path) -> int:
    """What a file system still takes, asked at a path or the nearest folder above it that exists."""
    for place in (path, *path.parents):
        with suppress(OSError):
            state = os.statvfs(place)
            return state.f_bavail * state.f_frsize
    return 0


def from_system(error: OSError) -> HeadraceError | None:
    """A refusal of the operating system that names a path, as a sentence that says what to do; None for others."""
    if is_disk_full(error):
        return disk_full("it cannot be written", Path(error.filename or "."))
    if not error.filename or error.errno not in _UNUSABLE:
        return None
    return WorkspaceError(
        f"'{error.filename}' cannot be used", found=(error.strerror or "").lower(), fix=_UNUSABLE[error.errno]
    )


def from_spark(error: BaseException) -> HeadraceError | None:
    """The error of ours that a Spark worker raised: it comes back as text within Spark's own."""
    for each in _chain(error):
        if isinstance(each, HeadraceError):
            return each
        found = _OURS.search(str(each))
        made = getattr(errors, found.group(1), None) if found else None
        if found and isinstance(made, type) and issubclass(made, HeadraceError):
            return made(found.group(2).strip())
    return None


def one_line(error: BaseException) -> str:
    """Any failure as one sentence."""
    if isinstance(error, HeadraceError):
        return str(error)
    unreadable = _UNREADABLE.search(str(error))  # Spark names it deep within a stack trace
    if unreadable:
        return f"file '{unreadable.group(1)}' cannot be read; restore it from a copy"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = _CAUSE.findall(str(error)) if lines and lines[0].startswith(_CALL) else []
    return causes[-1] if causes else lines[0] if lines else type(error).__name__


def replace_file(file: Path, content: bytes, what: str) -> None:
    """Put content in the place of a file, whole or not at all, and on disk when this returns."""
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


def remove(path: Path) -> None:
    """Remove a file, or a folder with all in it, as far as that can be done."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
