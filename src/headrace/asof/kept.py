"""Pasts of views that were asked about, kept for a while: the next question about the same one is quick."""

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
class _Past:
    folder: Path
    lock: threading.Lock = field(default_factory=threading.Lock)  # held by whoever makes it
    store: Store | None = None
    users: int = 0
    used_at: float = 0.0


class Pasts:
    """At most some of them, in a folder of their own that is removed with them."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._now = now
        self._lock = threading.Lock()
        self._pasts: dict[Key, _Past] = {}
        self._made = 0

    @contextmanager
    def use(self, version: Version, commits: int, make: Callable[[Path], Store]) -> Iterator[Store]:
        """The store of a past, made in a new folder if there is none; a second caller waits for it."""
        key = (version.view.name, version.number, version.fingerprint, commits)
        past = self._take(key)
        try:
            with past.lock:
                if past.store is None:
                    shutil.rmtree(past.folder, ignore_errors=True)
                    past.store = make(past.folder)
            yield past.store
        finally:
            with self._lock:
                past.users -= 1
                past.used_at = self._now()
            self._clear()

    def close(self) -> None:
        """Forget them all."""
        with self._lock:
            pasts, self._pasts = list(self._pasts.values()), {}
        for past in pasts:
            _remove(past)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _take(self, key: Key) -> _Past:
        with self._lock:
            past = self._pasts.get(key)
            if past is None:
                self._made += 1
                past = self._pasts[key] = _Past(self._folder / str(self._made))
            past.users += 1
            return past

    def _clear(self) -> None:
        """Forget what nobody uses: what failed, what is old, and what is too much."""
        with self._lock:
            idle = sorted((p.used_at, key) for key, p in self._pasts.items() if not p.users)
            old = [key for at, key in idle if at < self._now() - KEPT_S or self._pasts[key].store is None]
            kept = [key for _, key in idle if key not in old]
            gone = [self._pasts.pop(key) for key in [*old, *kept[: max(0, len(kept) - KEPT)]]]
        for past in gone:
            _remove(past)


def _remove(past: _Past) -> None:
    if past.store is not None:
        past.store.close()
    shutil.rmtree(past.folder, ignore_errors=True)
