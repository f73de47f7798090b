"""Stores of views as of earlier commits, kept for a while: the next question about the same one is quick."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace.store.base import Store, Version

KEPT = 4
KEPT_S = 600.0

Key = tuple[str, int, str, int]  # view, number and fingerprint of its version, commits


@dataclass
class _Kept:
    folder: Path
    lock: threading.Lock = field(default_factory=threading.Lock)  # held by whoever makes it
    store: Store | None = None
    users: int = 0
    used_at: float = 0.0


class KeptStores:
    """At most some of them, in a folder of their own that is removed with them."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._now = now
        self._lock = threading.Lock()
        self._kept: dict[Key, _Kept] = {}
        self._made = 0

    @contextmanager
    def use(self, version: Version, commits: int, make: Callable[[Path], Store]) -> Iterator[Store]:
        """The store of a version as of a commit, made if there is none; a second caller waits for it."""
        key = (version.view.name, version.number, version.fingerprint, commits)
        kept = self._take(key)
        try:
            with kept.lock:
                if kept.store is None:
                    shutil.rmtree(kept.folder, ignore_errors=True)
                    kept.store = make(kept.folder)
            yield kept.store
        finally:
            with self._lock:
                kept.users -= 1
                kept.used_at = self._now()
            self._clear()

    def close(self) -> None:
        """Forget them all."""
        with self._lock:
            stores, self._kept = list(self._kept.values()), {}
        for kept in stores:
            _remove(kept)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _take(self, key: Key) -> _Kept:
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                self._made += 1
                kept = self._kept[key] = _Kept(self._folder / str(self._made))
            kept.users += 1
            return kept

    def _clear(self) -> None:
        """Forget what nobody uses: what failed, what is old, and what is too much."""
        with self._lock:
            idle = sorted((kept.used_at, key) for key, kept in self._kept.items() if not kept.users)
            old = [key for at, key in idle if at < self._now() - KEPT_S or self._kept[key].store is None]
            recent = [key for _, key in idle if key not in old]
            gone = [self._kept.pop(key) for key in [*old, *recent[: max(0, len(recent) - KEPT)]]]
        for kept in gone:
            _remove(kept)


def _remove(kept: _Kept) -> None:
    if kept.store is not None:
        kept.store.close()
    shutil.rmtree(kept.folder, ignore_errors=True)
