"""The holder of the lease of a workspace, read from its file; commands use it to find the server."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import orjson


@dataclass(frozen=True)
class Holder:
    """A process that holds the lease: its URL, its fence and its last heartbeat."""

    pid: int
    url: str | None
    fence: int
    beat: float  # wall time
    silent_after_s: int
    released: bool = False
    boot: str = ""  # the boot of the machine in which `beat_s` was read
    beat_s: float = 0.0  # the same heartbeat by the monotonic clock, which cannot be set
    host: str = ""  # the name of its machine or container
    pids: str = ""  # the namespace of its pid: two containers on one machine have different ones

    def is_alive(self) -> bool:
        """Return whether it may still be writing."""
        return not self.released and self.may_run() and self.silent_s() < self.silent_after_s

    def may_run(self) -> bool:
        """Return whether its process may still run. In another container or machine, that is unknown here."""
        return not self.is_here or _runs(self.pid)

    @property
    def is_here(self) -> bool:
        """Return whether it runs where this process could see it."""
        return (self.host, self.boot, self.pids) == (socket.gethostname(), boot_id(), pid_namespace())

    @property
    def has_this_clock(self) -> bool:
        """Return whether it runs since the same boot, so that its monotonic clock is the one here."""
        return bool(self.boot) and self.boot == boot_id()

    @property
    def process(self) -> str:
        """The process in words, with its host if that is another one."""
        is_named = self.host not in ("", socket.gethostname())
        return f"process {self.pid}" + (f" on host '{self.host}'" if is_named else "")

    def silent_s(self) -> float:
        """Seconds since the last heartbeat; by the wall clock only if the monotonic clock cannot be compared."""
        if self.has_this_clock:
            return time.monotonic() - self.beat_s
        return abs(time.time() - self.beat)  # a heartbeat in the future does not count as recent either


@cache
def boot_id() -> str:
    """Identifies this boot of the machine; empty if the system does not provide it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@cache
def pid_namespace() -> str:
    """Identifies the pid namespace of this process; empty if the system has none."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def read_holder(file: Path) -> Holder | None:
    """The last holder that wrote the lease."""
    try:
        content = orjson.loads(file.read_bytes())
        return Holder(**{field.name: content[field.name] for field in fields(Holder) if field.name in content})
    except (OSError, orjson.JSONDecodeError, TypeError):
        return None


def live_holder(file: Path) -> Holder | None:
    """The process that holds the workspace now, if there is one."""
    holder = read_holder(file)
    return holder if holder and holder.is_alive() else None
