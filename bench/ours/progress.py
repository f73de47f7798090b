"""What a part of the benchmark is given: where to report progress, and where a measurement is kept once it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Progress:
    """Reports progress. A subclass may keep measurements, so that an interrupted run continues after the last one."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell

    def keep(self, name: str, measure: Callable[[], Any]) -> Any:
        """The result of `measure`, a JSON value, or what was kept under this name before."""
        return measure()
