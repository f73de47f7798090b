"""The lease of a workspace: which process writes. A courtesy to people; fences keep the data right."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from headrace.errors import FencedError, WorkspaceError

LOCK_TRIES, LOCK_PAUSE_S = 100, 0.02


@dataclass(frozen=True)
class Holder:
    """Who holds the lease, since which fence, and when it last said so."""

    pid: int
    url: str | None
    fence: int
    beat: float  # wall time
    silent_after_s: int
    released: bool = False

    def is_alive(self, now: float) -> bool:
        """Whether it must be assumed to be writing."""
        return not self.released and _runs(self.pid) and now - self.beat < self.silent_after_s


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def read_holder(file: Path) -> Holder | None:
    """Who wrote the lease last."""
    try:
        return Holder(**orjson.loads(file.read_bytes()))
    except (FileNotFoundError, orjson.JSONDecodeError, TypeError):
        return None


def live_holder(file: Path) -> Holder | None:
    """The process that holds the workspace now, if there is one."""
    holder = read_holder(file)
    return holder if holder and holder.is_alive(time.time()) else None


def refuse_if_held(file: Path) -> None:
    """Raise, naming the process that holds the workspace, if there is one."""
    holder = live_holder(file)
    if holder:
        where = f" at {holder.url}" if holder.url else ""
        raise WorkspaceError(
            f"workspace '{file.parent.parent}' is in use by process {holder.pid}{where}",
            fix="use that one, or stop it first",
        )


class Lease:
    """Held from construction to `release`. Each holder has a fence number of its own, ever rising."""

    def __init__(self, file: Path, *, url: str | None, silent_after_s: int = 10) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file
        with self._locked():
            refuse_if_held(file)
            before = read_holder(file)
            self.fence = (before.fence if before else 0) + 1
            self._holder = Holder(os.getpid(), url, self.fence, time.time(), silent_after_s)
            self._write()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise FencedError if another process has taken over."""
        found = read_holder(self._file)
        if found is None or found.fence != self.fence:
            by = f"process {found.pid}" if found else "nobody: the lease file is gone"
            raise FencedError(
                "another process has taken this workspace over",
                found=by,
                fix="this process stops and writes nothing more",
            )

    def release(self) -> None:
        """Let the next process start at once."""
        self._stopping.set()
        self._thread.join()
        with self._locked():
            found = read_holder(self._file)
            if found and found.fence == self.fence:
                self._holder = Holder(**{**asdict(self._holder), "released": True})
                self._write()

    def _beat(self) -> None:
        while not self._stopping.wait(min(1.0, self._holder.silent_after_s / 4)):
            with self._locked():
                found = read_holder(self._file)
                if found is None or found.fence != self.fence:
                    return
                self._holder = Holder(**{**asdict(self._holder), "beat": time.time()})
                self._write()

    def _write(self) -> None:
        temporary = self._file.with_suffix(".tmp")
        with temporary.open("wb") as out:
            out.write(orjson.dumps(asdict(self._holder)))
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(self._file)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Nobody else reads and then writes the lease meanwhile, but for one who was paused in here."""
        with self._file.with_suffix(".lock").open("w") as lock:
            for _ in range(LOCK_TRIES):
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(LOCK_PAUSE_S)
            yield
