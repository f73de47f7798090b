"""What a running stream is asked: one whose files can be read (`Pipeline`), or one whose files are damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headrace.serve.freshness import Age
from headrace.server.status import SkipStatus, StreamStatus
from headrace.store.version import VersionId

if TYPE_CHECKING:
    from headrace.define.definitions import Catalog
    from headrace.define.kafka_source import Start
    from headrace.define.model import Stream
    from headrace.ingest.intake import Ingest
    from headrace.lake.dead_letter_pages import DeadLetters
    from headrace.lake.delta_table import LakeState, LakeTable
    from headrace.maintain.batch_layer import BatchLayer
    from headrace.spark.session import Session
    from headrace.store.version import Base, Version
    from headrace.timing import Timing

Lanes = Mapping[VersionId, str | None]  # why Spark updates a version; None: the fused lane does


@dataclass(frozen=True)
class BuildProgress:
    """How far a build is in one stream; the numbers are None where its files are damaged."""

    events_done: int | None
    events: int | None
    eta_s: float | None
    error: str | None


class RunningStream(Protocol):
    """A stream of the catalog that runs. All of it may be called from any thread.

    The runtime starts, supervises, keeps up and closes it; `Definitions` redefines it, and wakes it when a version was
    added; `Monitor` and `Versions` ask how it goes. Requests reach `ingest`, questions about the past `table`: both
    raise CorruptionError where the files are damaged.
    """

    @property
    def stream(self) -> Stream:
        """The definition that it runs by."""

    @property
    def error(self) -> str | None:
        """What keeps it from taking events in or bringing them on, until that is over."""

    @property
    def flowing(self) -> bool:
        """Whether an event that comes now is on its way at once."""

    @property
    def lake(self) -> LakeState | None:
        """The state of its log; None if it is not known."""

    @property
    def table(self) -> LakeTable:
        """Its lake."""

    @property
    def ingest(self) -> Ingest:
        """The intake of its requests."""

    @property
    def batch(self) -> BatchLayer | None:
        """Its batch layer, once Spark has started."""

    def start(self, session: Session, scratch: Path, on_applied: Callable[[], None]) -> None:
        """Start append and maintain, once."""

    def redefine(self, stream: Stream) -> None:
        """Continue with a changed definition."""

    def between_steps(self) -> AbstractContextManager[None]:
        """While it is held, no step of the speed layer begins."""

    def wake(self) -> None:
        """Look for work now: a version was added."""

    def supervise(self) -> None:
        """Check that the append runs. Raises FencedError if this process may not write any more."""

    def keep_up(self, stopping: Callable[[], bool]) -> None:
        """A round of the lake's upkeep."""

    def stop_spark(self) -> None:
        """Stop append and maintain; events are still accepted."""

    def close(self) -> None:
        """Stop all of it; its threads have ended when this returns. What was acknowledged is on disk."""

    def letters(self) -> DeadLetters:
        """What could not be read."""

    def skip_to(self, to: Start, *, dry_run: bool = False) -> SkipStatus:
        """Skip offsets in Kafka; with `dry_run`, only return which."""

    def describe(self) -> StreamStatus:
        """Its numbers."""

    def freshness(self, base: Base) -> Age:
        """The age in ms of the oldest accepted event that a version does not have; or why it is not known."""

    def backlog_bytes(self) -> int:
        """How many bytes of the transport are not in the lake yet."""

    def lag_bytes(self, base: Base) -> int | None:
        """How many bytes of the transport a version does not have; None while that is not known."""

    def progress(self, version: Version) -> BuildProgress:
        """How far the build of a version is in this stream."""

    def lanes(self, versions: Iterable[Version]) -> Lanes:
        """The lanes that update versions of its views; without versions that nobody updates."""

    def timings(self) -> dict[str, Timing]:
        """How long its lake commits and its steps of maintain took."""

    def latencies(self) -> dict[str, Timing]:
        """How long events took from their arrival until each of its views had them."""


@dataclass(frozen=True)
class Running:
    """The catalog and the pipelines at one moment; there is a pipeline for every base stream of the catalog.

    It is replaced, never changed, so readers need no lock and never see half of an edit.
    """

    catalog: Catalog
    pipelines: Mapping[str, RunningStream]
