"""A stream whose lake or journal cannot be read: it says so to whoever asks, and takes nothing down with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.define.model import Stream
from headrace.errors import CorruptionError
from headrace.server.pipeline import Pipeline, describe_stream
from headrace.store.base import Version
from headrace.timing import Timing

if TYPE_CHECKING:
    from headrace.spark.session import Session


class DamagedPipeline(Pipeline):
    """Stands where the pipeline would. Views answer what the store has, marked; nothing is taken in."""

    def __init__(self, stream: Stream, damage: CorruptionError) -> None:
        self.stream = stream
        self.damage = damage
        self.batch = None
        self._speed = None

    def __getattr__(self, name: str) -> NoReturn:
        """Its journal, its lake, its door: whoever wants one is told why there is none."""
        raise self.damage

    @property
    def error(self) -> str:
        return str(self.damage)

    @property
    def lake(self) -> None:
        return None

    @property
    def flowing(self) -> bool:
        return True  # there is nothing to wait for

    def start(self, session: Session, scratch: Path, on_applied: Callable[[], None]) -> None: ...

    def redefine(self, stream: Stream) -> None:
        self.stream = stream

    def wake(self) -> None: ...

    def supervise(self) -> None: ...

    def keep_up(self, stopping: Callable[[], bool]) -> None: ...

    def stop_spark(self) -> None: ...

    def close(self) -> None: ...

    def freshness(self, version: Version) -> tuple[None, str]:
        return None, f"stream '{self.stream.name}' is damaged: {self.damage}"

    def progress(self, version: Version) -> dict[str, Any]:
        known = {"version": version.number, "state": version.state, "applied_to": version.applied_to}
        commits = {"commits_done": version.built_to, "commits": version.horizon}
        unknown = dict.fromkeys(("events_done", "events", "eta_s"))
        return {**known, **commits, **unknown, "stalled": version.stalled, "error": self.error}

    def timings(self) -> dict[str, Timing]:
        return {}

    def lag_bytes(self, version: Version) -> None:
        return None

    def describe(self) -> dict[str, Any]:
        unknown = (
            "events", "dead_letters", "commits", "backlog_bytes", "newest_event", "freshness_ms", "events_per_second",
            "commit_ms", "maintain_ms", "lake_files", "lake_bytes", "small_files", "last_upkeep", "upkeep_error",
        )  # fmt: skip
        return {**describe_stream(self.stream), **dict.fromkeys(unknown), "error": self.error}
