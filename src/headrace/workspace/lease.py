"""The lease of a workspace: which process may write. It is advisory; fences protect the data."""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeVar

import orjson

from headrace.disk import replace_file
from headrace.errors import FencedError, InUseError
from headrace.lazy import Logger
from headrace.workspace.lease_holder import Holder, boot_id, live_holder, pid_namespace, read_holder

LOCK_TRIES, LOCK_PAUSE_S = 100, 0.02
TURN_S, TURN_PAUSE_S = 3600.0, 0.1  # how long to wait for a process that is not a server
FILE_BYTES = 1024  # padded: a heartbeat overwrites the file in place, so it needs no space on a full disk

Result = TypeVar("Result")

log = Logger("headrace.lease")


def refuse_if_held(file: Path) -> None:
    """Raise if a process holds the workspace."""
    holder = live_holder(file)
    if holder:
        raise _in_use(file, holder)


def refuse_if_served(file: Path) -> None:
    """Raise if a server holds the workspace: unlike other processes, it does not end soon."""
    holder = live_holder(file)
    if holder and holder.url:
        raise _in_use(file, holder)


def _in_use(file: Path, holder: Holder) -> InUseError:
    where = f" at {holder.url}" if holder.url else ""
    return InUseError(
        f"workspace '{file.parent.parent}' is in use by {holder.process}{where}",
        fix="use that server, or stop it first",
    )


def _refuse_if_beating(file: Path) -> None:
    """Raise if a holder on another machine writes heartbeats: by its clock, which may differ, it could seem silent."""
    before = read_holder(file)
    if before is None or before.released or before.is_here or before.has_this_clock or before.is_alive():
        return
    deadline = time.monotonic() + before.silent_after_s
    while time.monotonic() < deadline:
        time.sleep(TURN_PAUSE_S)
        holder = read_holder(file)
        if holder is None or holder.released:
            return
        if holder.beat != before.beat:
            raise _in_use(file, holder)


def in_turn(take: Callable[[], Result], file: Path, on_wait: Callable[[InUseError, float], None] | None) -> Result:
    """Take a workspace after the processes that write to it without a server, such as `headrace send`, have ended.

    It does not wait for a server or for this process: neither ends soon.
    """
    deadline = time.monotonic() + TURN_S
    while True:
        try:
            return take()
        except InUseError as error:
            holder = live_holder(file)
            stays = holder is not None and (holder.url is not None or holder.pid == os.getpid())
            if stays or time.monotonic() > deadline:
                raise
            if on_wait:
                on_wait(error, TURN_PAUSE_S)
            time.sleep(TURN_PAUSE_S)


class Lease:
    """A lease, held from construction to `release`. Each holder has a greater fence number than those before.

    `floor` returns the highest fence in the data, in case the lease file was lost.
    """

    def __init__(
        self, file: Path, *, url: str | None, silent_after_s: int = 10, floor: Callable[[], int] = lambda: 0
    ) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file
        _refuse_if_beating(file)
        with self._locked():
            refuse_if_held(file)
            before = read_holder(file)
            self.fence = (before.fence if before else floor()) + 1
            self._holder = _now(Holder(os.getpid(), url, self.fence, 0.0, silent_after_s))
            self._fd = -1
            self._write()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._heartbeat, name="lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise FencedError if another process has taken over."""
        holder = read_holder(self._file) or self._restore()
        if holder is not None and holder.fence != self.fence:
            raise FencedError(
                "another process has taken this workspace over",
                found=holder.process,
                fix="this process stops and writes nothing more",
            )

    def release(self) -> None:
        """Release the lease, so that the next process can start at once."""
        self._stopping.set()
        self._thread.join()
        with self._locked():
            holder = read_holder(self._file)
            if holder and holder.fence == self.fence:
                self._holder = replace(self._holder, released=True)
                self._write_over()
        os.close(self._fd)

    def _restore(self) -> Holder | None:
        """Write a lease file again that was lost or damaged; returns the holder if there is a valid file after all.

        A process that starts later reads this file, or has found none and taken a higher fence.
        """
        with self._locked():
            holder = read_holder(self._file)
            if holder is None:
                log.warning("the lease file was lost or damaged; it is written again", file=str(self._file))
                try:
                    self._write()
                except Exception as error:  # a full disk: fences protect the data without it
                    log.warning("the lease file cannot be written", error=str(error))
        return holder

    def _heartbeat(self) -> None:
        while not self._stopping.wait(min(1.0, self._holder.silent_after_s / 4)):
            holder = read_holder(self._file) or self._restore()
            if holder is not None and holder.fence != self.fence:
                return
            self._holder = _now(self._holder)
            # To the open file: if another process has replaced it, the new file is not changed.
            self._write_over()

    def _write(self) -> None:
        replace_file(self._file, self._content(), f"workspace '{self._file.parent.parent}' cannot be held")
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = os.open(self._file, os.O_RDWR)

    def _write_over(self) -> None:
        with suppress(OSError):  # the next heartbeat replaces a missed one
            os.pwrite(self._fd, self._content(), 0)

    def _content(self) -> bytes:
        return orjson.dumps(asdict(self._holder)).ljust(FILE_BYTES)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the lease file. After some tries it continues without: the lock's owner may be paused."""
        with self._file.with_suffix(".lock").open("w") as lock:
            for _ in range(LOCK_TRIES):
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(LOCK_PAUSE_S)
            yield


def _now(holder: Holder) -> Holder:
    """The holder with a current heartbeat."""
    return replace(
        holder,
        beat=time.time(),
        boot=boot_id(),
        beat_s=time.monotonic(),
        host=socket.gethostname(),
        pids=pid_namespace(),
    )
