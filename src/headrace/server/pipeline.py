"""The parts of one running stream, in the order in which an event passes through them, and their state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from headrace.define.definition_rules import strictest
from headrace.define.model import Stream
from headrace.errors import HeadraceError, StartingError
from headrace.format import iso_us
from headrace.ingest.intake import Ingest
from headrace.lake.dead_letter_pages import DeadLetters
from headrace.lake.delta_table import LakeState, LakeTable, lake_figures
from headrace.lake.lateness_record import LatenessRecord
from headrace.lake.upkeep import Upkeep
from headrace.lazy import later
from headrace.plan.cost import DEFAULT_EVENTS_PER_S
from headrace.serve.freshness import Age
from headrace.server.damaged_stream import find_damage
from headrace.server.describe_stream import describe_definition
from headrace.server.describe_view import lanes_by_definition
from headrace.server.lateness_status import describe_lateness
from headrace.server.neighbours import Neighbours
from headrace.server.running_stream import BuildProgress, Lanes
from headrace.server.skip import describe_lag, skip_offsets
from headrace.server.status import SkipStatus, StreamStatus
from headrace.spark.failures import one_line
from headrace.store.store_contract import Store
from headrace.store.version import Base, Version
from headrace.timing import Rate, Timing
from headrace.transport.open_transport import open_transport
from headrace.transport.position import Position
from headrace.transport.stored_transport import check_transport
from headrace.workspace.lease import Lease
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from headrace.define.kafka_source import Start
    from headrace.lake.dead_letters import ReplayStep
    from headrace.maintain.batch_layer import BatchLayer
    from headrace.server import stream_maintenance
    from headrace.server.stream_maintenance import StreamMaintenance
    from headrace.spark.session import Session
else:  # loaded by its first use
    stream_maintenance = later("headrace.server.stream_maintenance")

BUSY_BYTES = 16 << 20  # backlog of the transport above which the lake's upkeep waits

log = structlog.get_logger("headrace.pipeline")


class Pipeline:
    """One stream from its intake to its views. It accepts events at once; `start` adds what needs Spark."""

    def __init__(
        self, workspace: Workspace, stream: Stream, lease: Lease, store: Store, neighbours: Neighbours
    ) -> None:
        self.stream = stream
        self._workspace = workspace
        self._store = store
        self._neighbours = neighbours
        check_transport(workspace, stream)  # before the lake is written
        self.table = LakeTable(workspace.lake(stream.name), stream, lease.fence)
        self.transport = open_transport(
            workspace, stream, fence=lease.fence, lake_end=self.table.state.position, still_mine=lease.check
        )
        self.table.redefine(stream, self.transport.end)  # a change that no process has finished
        self._damage = find_damage(stream, self.table)
        self.ingest = Ingest(stream, self.transport, workspace.settings.max_body_mb << 20)
        self.ingest.lake_position = self.table.state.position
        self._lateness = LatenessRecord(self.table, stream)
        self._upkeep = Upkeep(self.table, self.transport, grace_s=workspace.settings.lake_grace_s)
        self._upkeep_error: str | None = None
        self._rate = Rate(self.table.rows())
        self._closed = False
        self._maintenance: StreamMaintenance | None = None  # until Spark has started

    @property
    def error(self) -> str | None:
        """Why events are not accepted or not processed at the moment."""
        if self.transport.trouble:
            return str(self.transport.trouble)
        return (self._maintenance.error if self._maintenance else None) or self._damage

    @property
    def lake(self) -> LakeState | None:
        """The state of its log; None if it is not known."""
        return self.table.state

    @property
    def batch(self) -> BatchLayer | None:
        """Its batch layer, once Spark has started."""
        return self._maintenance.batch if self._maintenance else None

    def start(self, session: Session, scratch: Path, on_applied: Callable[[], None]) -> None:
        """Start append and maintain, once. If Java ends, they continue with the next session that `session` returns."""
        if self._maintenance is None:
            self._maintenance = stream_maintenance.StreamMaintenance(
                self._workspace,
                self.stream,
                self._store,
                self._neighbours,
                self.table,
                self.transport,
                self._lateness,
                session=session,
                scratch=scratch,
                on_commit=self._on_commit,
                on_applied=on_applied,
            )
            self._maintenance.start()

    def redefine(self, stream: Stream) -> None:
        """Adopt a changed definition: first what reads the lake's files, then what writes them, then the intake.

        Until then the intake takes only what both definitions read: what it accepts never becomes a dead letter.
        """
        position = self.ingest.redefine(strictest(self.stream, stream))
        try:
            self.table.redefine(stream, position)  # writes to disk, so it may fail: then nothing has changed
        except BaseException:
            self.ingest.redefine(self.stream)
            raise
        if self._maintenance is not None:
            self._maintenance.redefine(stream)
        self.ingest.redefine(stream)
        self.stream = stream

    def between_steps(self) -> AbstractContextManager[None]:
        """Hold back steps during an edit: one under way would be discarded, and its events would wait for the next."""
        return self._maintenance.between_steps() if self._maintenance else nullcontext()

    def letters(self) -> DeadLetters:
        """What could not be read."""
        return DeadLetters(self.stream.name, self.table, self._replay_next)

    def skip_to(self, to: Start, *, dry_run: bool = False) -> SkipStatus:
        """Skip offsets in Kafka; with `dry_run`, only return which."""
        status = skip_offsets(self.stream.name, self.table, self.transport, to, dry_run=dry_run)
        if status.commit is not None:
            log.warning("offsets were skipped", stream=self.stream.name, skipped=[str(each) for each in status.skipped])
            if self._maintenance is not None:
                self._maintenance.retry_append()
            self._on_commit()
        return status

    def _replay_next(self, cursor: str | None, dry_run: bool) -> ReplayStep:
        if self._maintenance is None:
            raise StartingError(f"stream '{self.stream.name}': Spark is starting", fix="replay again in some seconds")
        return self._maintenance.replay(cursor, dry_run)

    def wake(self) -> None:
        """Look for work now: a version was added."""
        if self._maintenance is not None:
            self._maintenance.wake()

    def supervise(self) -> None:
        """Check that the append runs; if it does not, start it again where the lake ends.

        Raises FencedError if this process may not write any more.
        """
        self._rate.note(self.table.rows())
        self.transport.mend()
        if self._maintenance is not None:
            self._maintenance.supervise()

    @property
    def flowing(self) -> bool:
        """Whether its append polls for events, so that a new one is processed at once."""
        return self._maintenance is not None and self._maintenance.append.is_polling()

    def keep_up(self, stopping: Callable[[], bool]) -> None:
        """A round of the lake's upkeep. A failure is reported and retried; events are processed regardless."""
        try:
            self._upkeep.run(
                busy=lambda: self.backlog_bytes() > BUSY_BYTES or (self.batch is not None and self.batch.building),
                stopping=lambda: self._closed or stopping(),
            )
            self._lateness.catch_up(lambda: self._closed or stopping())
            self._lateness.save()
            self._upkeep_error = None
        except HeadraceError as error:
            self._upkeep_error = str(error)
            log.warning("upkeep failed", stream=self.stream.name, error=str(error))
        except Exception as error:  # Arrow's and the system's
            self._upkeep_error = one_line(error)
            log.exception("upkeep failed", stream=self.stream.name)

    def backlog_bytes(self) -> int:
        """How many bytes of the transport are not in the lake yet."""
        return self._bytes_from(self.table.state.position)

    def stop_spark(self) -> None:
        """Stop append and maintain; events are still accepted."""
        if self._maintenance is not None:
            self._maintenance.stop()

    def close(self) -> None:
        """Stop all of it; what was acknowledged is on disk."""
        self._closed = True
        if self._maintenance is not None:
            self._maintenance.close()
        with suppress(HeadraceError, OSError):  # what is not saved is measured again
            self._lateness.save()
        self.transport.close()

    def freshness(self, base: Base) -> Age:
        """The age in ms of the oldest accepted event that a version does not have; or why it is not known."""
        if base.position is None:
            of = self.table.state.next_commit
            return None, f"catching up with history: {base.applied_to} of {of} commits"
        age_ms = self.transport.age_ms(base.position)
        if age_ms == 0 and base.applied_to < self.table.state.next_commit:
            return None, "catching up with replayed dead letters"
        if age_ms is not None:
            return age_ms, None
        if self.transport.trouble is not None:
            return None, self.transport.trouble.message
        if not base.position.covers(self.transport.start):
            return None, "the waiting events are no longer in the journal"
        return None, "the clock was set back to before the arrival of the waiting events"

    def progress(self, version: Version) -> BuildProgress:
        """How far the build of a version is in this stream."""
        base = version.base(self.stream.name)
        done, whole = self._rows_to(base.built_to), self._rows_to(base.horizon)
        rate = (self.batch.rate if self.batch else None) or DEFAULT_EVENTS_PER_S
        return BuildProgress(done, whole, round((whole - done) / rate, 1), self._build_error(version))

    def _build_error(self, version: Version) -> str | None:
        if version.quarantined:
            return version.stalled
        return self.batch.errors.get(version.id) if self.batch else None

    def _rows_to(self, commit: int) -> int:
        return sum(file.rows for file in self.table.files(0, commit)) if commit else 0

    def lanes(self, versions: Iterable[Version]) -> Lanes:
        """The lanes that update versions of its views; before Spark has started, those that the definitions allow."""
        if self._maintenance is None or not self._workspace.settings.fused_lane:
            return lanes_by_definition(self._workspace.settings, self.stream, versions)
        return self._maintenance.fused.lanes(
            self.stream, [version for version in versions if version.reads(self.stream.name) and version.moves]
        )

    def timings(self) -> dict[str, Timing]:
        """How long its lake commits, merges and steps of maintain took, once Spark has started."""
        return self._maintenance.timings() if self._maintenance else {}

    def latencies(self) -> dict[str, Timing]:
        """How long events took from their arrival until each of its views had them, once Spark has started."""
        return self._maintenance.latencies() if self._maintenance else {}

    def lag_bytes(self, base: Base) -> int | None:
        """How many bytes of the transport a version does not have; None while that is not known."""
        return None if base.position is None else self._bytes_from(base.position)

    def _bytes_from(self, position: Position) -> int:
        return self.transport.reader.bytes_between(position, self.transport.end)

    def describe(self) -> StreamStatus:
        """The stream as `headrace streams` and HTTP show it."""
        state, figures, maintenance = self.table.state, lake_figures(self.table), self._maintenance
        return StreamStatus(
            **vars(describe_definition(self.stream)),
            events=self.table.rows(),
            dead_letters=self.table.rows(dead=True),
            commits=state.next_commit,
            backlog_bytes=self.backlog_bytes(),
            newest_event=iso_us(state.newest_us),
            lateness=describe_lateness(self.stream, self._lateness.days),
            freshness_ms=self.transport.age_ms(state.position),
            events_per_second=round(self._rate.per_second()),
            commit_ms=maintenance.append.last_commit_ms if maintenance else None,
            maintain_ms=maintenance.step_ms if maintenance else None,
            lake_files=figures.files,
            lake_bytes=figures.bytes,
            small_files=figures.small,
            last_upkeep=iso_us(self._upkeep.last_us),
            upkeep_error=self._upkeep_error,
            error=self.error,
            lag=describe_lag(self.transport, state.position),
            duplicates=self.table.duplicates,
        )

    def _on_commit(self) -> None:
        self.ingest.lake_position = self.table.state.position
        if self._maintenance is not None:
            self._maintenance.note_commit()
