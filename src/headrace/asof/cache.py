"""A cache of stores with views as of earlier commits: the next question about the same one is fast."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace.store.base import Store
from headrace.store.version import Version

MOST_STORES = 4
KEEP_S = 600.0

Key = tuple[str, int, str, tuple[int, ...]]  # view, number and fingerprint of its version, commits of each stream


@dataclass
class _Entry:
    folder: Path
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while it is built
    store: Store | None = None
    users: int = 0
    used_at: float = 0.0


class StoreCache:
    """A few stores, each in its own folder, which is removed with it."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._now = now
        self._lock = threading.Lock()
        self._entries: dict[Key, _Entry] = {}
        self._folders = 0  # that were created

    @contextmanager
    def use(self, version: Version, commits: tuple[int, ...], make: Callable[[Path], Store]) -> Iterator[Store]:
        """The store of a version as of these commits, built if there is none; a second caller waits for it."""
        key = (version.view.name, version.number, version.fingerprint, commits)
        entry = self._take(key)
        try:
            with entry.lock:
                if entry.store is None:
                    shutil.rmtree(entry.folder, ignore_errors=True)
                    entry.store = make(entry.folder)
            yield entry.store
        finally:
            with self._lock:
                entry.users -= 1
                entry.used_at = self._now()
            self._clear()

    def close(self) -> None:
        """Remove all stores."""
        with self._lock:
            entries, self._entries = list(self._entries.values()), {}
        for entry in entries:
            _remove(entry)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _take(self, key: Key) -> _Entry:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self._folders += 1
                entry = self._entries[key] = _Entry(self._folder / str(self._folders))
            entry.users += 1
            return entry

    def _clear(self) -> None:
        """Remove stores that are not in use: those that failed, the old ones, and the oldest above the limit."""
        with self._lock:
            idle = sorted((entry.used_at, key) for key, entry in self._entries.items() if not entry.users)
            old = [key for at, key in idle if at < self._now() - KEEP_S or self._entries[key].store is None]
            recent = [key for _, key in idle if key not in old]
            entries = [self._entries.pop(key) for key in [*old, *recent[: max(0, len(recent) - MOST_STORES)]]]
        for entry in entries:
            _remove(entry)


def _remove(entry: _Entry) -> None:
    if entry.store is not None:
        entry.store.close()
    shutil.rmtree(entry.folder, ignore_errors=True)
