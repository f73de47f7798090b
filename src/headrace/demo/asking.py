"""Asks a view again and again while it is changed, and keeps count of what came back."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from headrace.demo.reader import Reader
from headrace.errors import HeadraceError

PAUSE_S = 0.02


class Asking:
    """One reader in a thread of its own. An answer is good if it comes, and if versions only ever go up."""

    def __init__(self, url: str, view: str, question: Mapping[str, str]) -> None:
        self.given = 0
        self.failed = 0
        self.longest_ms = 0  # that an answer took
        self.first_failure: str | None = None
        self.by_version: dict[int, int] = {}  # answers
        self._view = view
        self._question = dict(question)
        self._reader = Reader(url)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="asking", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Let the last answer come, then end."""
        self._over.set()
        self._thread.join()
        self._reader.close()

    def _ask(self) -> None:
        newest = 0
        while not self._over.wait(PAUSE_S):
            began = time.monotonic()
            try:
                version = self._reader.ask(self._view, **self._question)["version"]
            except HeadraceError as error:
                self._fail(str(error))
                continue
            self.given += 1
            self.longest_ms = max(self.longest_ms, round((time.monotonic() - began) * 1000))
            self.by_version[version] = self.by_version.get(version, 0) + 1
            if version < newest:
                self._fail(f"version {version} answered after version {newest}")
            newest = max(newest, version)

    def _fail(self, why: str) -> None:
        self.failed += 1
        self.first_failure = self.first_failure or why
