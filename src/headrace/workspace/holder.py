"""The holder of the lease of a workspace, read from its file; commands use it to find the server."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
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

    def is_alive(self) -> bool:
        """Whether it may still be writing."""
        return not self.released and _runs(self.pid) and self.silent_s() < self.silent_after_s

    def silent_s(self) -> float:
        """Seconds since the last heartbeat; by the wall clock only if the monotonic clock cannot be compared."""
        if self.boot and self.boot == boot_id():
            return time.monotonic() - self.beat_s
        return abs(time.time() - self.beat)  # a heartbeat in the future does not count as recent either


@cache
def boot_id() -> str:
    """Identifies this boot of the machine; empty if the system does not provide it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
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
        return Holder(**orjson.loads(file.read_bytes()))
    except (OSError, orjson.JSONDecodeError, TypeError):
        return None


def live_holder(file: Path) -> Holder | None:
    """The process that holds the workspace now, if there is one."""
    holder = read_holder(file)
    return holder if holder and holder.is_alive() else None
