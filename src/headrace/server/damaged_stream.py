"""A stream whose lake or journal cannot be read, or only in part: it says so, and takes nothing down with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from headrace.define.model import Stream
from headrace.errors import CorruptionError
from headrace.lake.health import check_files, check_log
from headrace.serve.freshness import Age
from headrace.server.describe_stream import describe_damaged
from headrace.server.running_stream import BuildProgress, Lanes
from headrace.server.status import SkipStatus, StreamStatus
from headrace.store.version import Base, Version
from headrace.timing import Timing

if TYPE_CHECKING:
    from headrace.define.kafka_source import Start
    from headrace.ingest.intake import Ingest
    from headrace.lake.dead_letter_pages import DeadLetters
    from headrace.lake.delta_table import LakeTable
    from headrace.spark.session import Session

log = structlog.get_logger("headrace.pipeline")


class DamagedStream:
    """Stands where the pipeline would. Views answer what the store has, marked; nothing is taken in."""

    lake: None = None
    batch: None = None
    flowing = True  # there is nothing to wait for

    def __init__(self, stream: Stream, damage: CorruptionError) -> None:
        self.stream = stream
        self.damage = damage

    @property
    def error(self) -> str:
        return str(self.damage)

    # Who needs its files is told why there are none.

    @property
    def table(self) -> LakeTable:
        raise self.damage

    @property
    def ingest(self) -> Ingest:
        raise self.damage

    def letters(self) -> DeadLetters:
        raise self.damage

    def skip_to(self, to: Start, *, dry_run: bool = False) -> SkipStatus:
        raise self.damage

    # There is nothing to run.

    def start(self, session: Session, scratch: Path, on_applied: Callable[[], None]) -> None: ...

    def redefine(self, stream: Stream) -> None:
        self.stream = stream

    def between_steps(self) -> AbstractContextManager[None]:
        return nullcontext()

    def wake(self) -> None: ...

    def supervise(self) -> None: ...

    def keep_up(self, stopping: Callable[[], bool]) -> None: ...

    def stop_spark(self) -> None: ...

    def close(self) -> None: ...

    # What is known without its files.

    def describe(self) -> StreamStatus:
        return describe_damaged(self.stream, self.error)

    def freshness(self, base: Base) -> Age:
        return None, f"stream '{self.stream.name}' is damaged: {self.damage}"

    def backlog_bytes(self) -> int:
        return 0

    def lag_bytes(self, base: Base) -> None:
        return None

    def progress(self, version: Version) -> BuildProgress:
        return BuildProgress(None, None, None, self.error)

    def lanes(self, versions: Iterable[Version]) -> Lanes:
        return {}

    def timings(self) -> dict[str, Timing]:
        return {}

    def latencies(self) -> dict[str, Timing]:
        return {}


def find_damage(stream: Stream, table: LakeTable) -> str | None:
    """Describe the damage of a lake's files. New events are appended either way; what reads those files reports it."""
    damages = [*check_log(table.storage), *check_files(table.storage, table.all_files())]
    if not damages:
        return None
    log.error("the lake is damaged", stream=stream.name, files=[str(each.file) for each in damages[:100]])
    more = f" (and {len(damages) - 1:,} more files)" if len(damages) > 1 else ""
    return f"lake file {damages[0]}{more}"
