"""The thread of one lane of the speed layer: it runs while there is work, then waits for the next commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from headrace.disk import disk_full, is_disk_full
from headrace.errors import HeadraceError, JavaEndedError, NotReadyError
from headrace.spark.failures import one_line

IDLE_S = 5.0  # how often an idle lane looks for stalled versions to retry
RETRY_S = 1.0  # delay before a failed step is retried

log = structlog.get_logger("headrace.lane")


class Lane:
    """Runs one of the two lanes of a stream until it is stopped. Failures are logged and retried."""

    def __init__(
        self,
        name: str,
        stream: str,
        run_once: Callable[[], bool],
        on_progress: Callable[[], None],
        data: Path,
    ) -> None:
        """`run_once` does some work and returns whether there was any; a full disk is reported for folder `data`."""
        self._name = name
        self._stream = stream
        self._run_once = run_once
        self._on_progress = on_progress
        self._data = data
        self._news = threading.Event()
        self._stopping = False
        self.error: str | None = None
        self.last_ms: float | None = None  # duration of the last `run_once` that had work
        self.thread = threading.Thread(target=self._run, name=f"{name} {stream}", daemon=True)

    def wake(self) -> None:
        """Look for work now."""
        self._news.set()

    def stop(self) -> None:
        """Stop after the current `run_once`."""
        self._stopping = True
        self._news.set()

    def _run(self) -> None:
        while not self._stopping:
            self._news.clear()
            try:
                while self._work():
                    self._on_progress()
                self.error = None
            except (NotReadyError, JavaEndedError):
                self._news.wait(RETRY_S)  # Java is restarting
                continue
            except HeadraceError as error:
                self.error = str(error)
                log.error("maintain failed", stream=self._stream, lane=self._name, error=self.error)
            except Exception as error:  # from Spark: the next round retries
                if not self._stopping:
                    full = disk_full("views cannot be updated", self._data) if is_disk_full(error) else None
                    self.error = one_line(full or error)
                    log.exception("maintain failed", stream=self._stream, lane=self._name)
            self._news.wait(RETRY_S if self.error else IDLE_S)

    def _work(self) -> bool:
        start_s = time.monotonic()
        worked = not self._stopping and self._run_once()
        if worked:
            self.last_ms = (time.monotonic() - start_s) * 1000
        return worked
