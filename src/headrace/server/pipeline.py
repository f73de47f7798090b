"""The parts of one running stream, in the order in which an event passes through them, and their state."""

from __future__ import annotations

import threading
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
from headrace.lake.event_id_index import UniqueIndex
from headrace.lake.lateness_record import LatenessRecord
from headrace.lake.replay import DeadLetterReplay, on_spark
from headrace.lake.table_schema import ChoosePins, no_pins
from headrace.lake.upkeep import Upkeep
from headrace.lazy import later
from headrace.plan.cost import DEFAULT_EVENTS_PER_S
from headrace.serve.freshness import Age
from headrace.server.damaged_stream import find_damage
from headrace.server.describe_stream import describe_definition
from headrace.server.describe_view import lanes_by_definition
from headrace.server.latency import Latencies
from headrace.server.lateness_status import describe_lateness
from headrace.server.running_stream import BuildProgress, Lanes
from headrace.server.skip import describe_lag, skip_offsets
from headrace.server.status import SkipStatus, StreamStatus
from headrace.server.threads import AppendSupervisor, Lane, join_all
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
    from headrace.lake import append as append_module
    from headrace.lake import event_ids_load
    from headrace.lake.dead_letters import ReplayStep
    from headrace.maintain import batch_layer, fused_lane, spark_joins, speed_layer, suspects, trial
    from headrace.maintain.batch_layer import BatchLayer
    from headrace.maintain.fused_lane import Fused
    from headrace.maintain.speed_layer import Speed
    from headrace.maintain.suspects import Suspects
    from headrace.maintain.table_snapshots import TableSnapshots
    from headrace.spark.session import Session
else:  # loaded by their first use
    fused_lane = later("headrace.maintain.fused_lane")
    append_module = later("headrace.lake.append")
    event_ids_load = later("headrace.lake.event_ids_load")
    batch_layer = later("headrace.maintain.batch_layer")
    spark_joins = later("headrace.maintain.spark_joins")
    speed_layer = later("headrace.maintain.speed_layer")
    suspects = later("headrace.maintain.suspects")
    trial = later("headrace.maintain.trial")

BUSY_BYTES = 16 << 20  # backlog of the transport above which the lake's upkeep waits
LONG_STEP_S = 5.0  # an edit does not wait longer for a step to end
THREADS_END_S = 5.0  # how long `close` waits for its threads

log = structlog.get_logger("headrace.pipeline")


class Pipeline:
    """Transport, append, lake and maintain of one stream. It accepts events at once; Spark is added by `start`."""

    def __init__(
        self,
        workspace: Workspace,
        stream: Stream,
        lease: Lease,
        store: Store,
        end_of: Callable[[str], int],
        pins: ChoosePins = no_pins,
        find_lake: Callable[[str], tuple[Stream, LakeTable] | None] = lambda stream: None,
        hold: Callable[[str, threading.Event], None] = lambda stream, stopping: None,
        tables: Callable[[Session, Path], TableSnapshots | None] = lambda session, scratch: None,
    ) -> None:
        """`end_of` gives the next commit of a stream, also of another one: views may read several.

        `pins` are the versions of the tables that its next commit sees, `find_lake` gives the log of a table, `tables`
        the snapshots of tables that all streams share. `hold` returns when its append may begin.
        """
        self.stream = stream
        self._end_of = end_of
        self._pins = pins
        self._find_lake = find_lake
        self._hold = hold
        self._tables = tables
        self._workspace = workspace
        self._store = store
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
        self._supervisor = AppendSupervisor(stream.name)
        self._replay: DeadLetterReplay | None = None
        self._unique: UniqueIndex | None = None
        self.batch: BatchLayer | None = None
        self._speed: Speed | None = None
        self._suspects: Suspects | None = None
        self._fused: Fused | None = None
        self._latencies = Latencies(stream.name, self.transport.age_ms)
        self._lanes: list[Lane] = []
        self._closed = False
        self._rate = Rate(self.table.rows())
        self._upkeep_error: str | None = None

    @property
    def error(self) -> str | None:
        """Why events are not accepted or not processed at the moment."""
        if self.transport.trouble:
            return str(self.transport.trouble)
        lane_error = next((lane.error for lane in self._lanes if lane.error), None)
        return self._supervisor.error or lane_error or self._damage

    @property
    def lake(self) -> LakeState | None:
        """The state of its log; None if it is not known."""
        return self.table.state

    def start(self, session: Session, scratch: Path, on_applied: Callable[[], None]) -> None:
        """Start append and maintain, once. If Java ends, they continue with the next session that `session` returns."""
        if self._supervisor.append is not None:
            return
        fused = fused_lane.Fused(
            self.stream.name,
            self.table,
            self._store,
            scratch,
            is_suspect=self._is_suspect,
            tables=self._tables(session, scratch),
        )
        self._start_append(session, scratch, fused)
        self._start_maintain(session, scratch, fused, on_applied)

    def _start_append(self, session: Session, scratch: Path, fused: Fused) -> None:
        settings = self._workspace.settings
        self._unique = UniqueIndex(self.table, scratch, event_ids_load.on_spark(session))
        append = append_module.Append(
            session,
            self.stream,
            self.transport.reader,
            self.table,
            scratch,
            companion=fused if settings.fused_lane else None,
            lateness=self._lateness,
            pins=self._pins,
            hold=lambda stopping: self._hold(self.stream.name, stopping),
            unique=self._unique,
            on_commit=self._on_commit,
            most_bytes=settings.append_mb << 20,
            every_ms=settings.append_every_ms,
        )
        self._supervisor.start(append)
        self._replay = DeadLetterReplay(
            on_spark(session),
            self.table,
            scratch,
            pins=self._pins,
            unique=self._unique,
            on_commit=self._on_commit,
        )

    def _start_maintain(self, session: Session, scratch: Path, fused: Fused, on_applied: Callable[[], None]) -> None:
        settings, logs = self._workspace.settings, spark_joins.TableLogs(self._find_lake)
        log_file = self._workspace.logs / "spark-trial.log"
        trials = trial.TrialSettings(settings.spark_memory, settings.spark_java_options, scratch / "trials", log_file)
        self._suspects = suspects.Suspects(session, self.table, self._store, trials, self.wake)
        versions = self._store.versions()
        self._suspects.review(self.stream, versions)
        self._latencies.note(versions)
        self._speed = speed_layer.Speed(
            session, self.stream, self.table, self._store, scratch, suspects=self._suspects, fused=fused, logs=logs
        )
        self._fused = fused
        batch = batch_layer.BatchLayer(
            session,
            self.stream,
            self.table,
            self._store,
            self._workspace.builds,
            pace=batch_layer.Pace(settings.refresh_every_s, settings.retire_after_s),
            suspects=self._suspects,
            between_steps=self.between_steps,
            end_of=self._end_of,
            logs=logs,
            next_partials=fused.next_commit,
        )
        self.batch = batch

        def on_progress() -> None:
            self._latencies.note(self._store.versions())
            batch.swap()  # between two steps: while events flow, no other thread finds a moment without one
            on_applied()

        works = {"fused": fused.run_once, "speed": self._speed.run_once}
        self._lanes = [
            Lane(name, self.stream.name, work, on_progress, self._workspace.data) for name, work in works.items()
        ]
        for lane in self._lanes:
            lane.thread.start()

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
        if self._speed is not None:
            self._speed.redefine(stream)
        if self.batch is not None:
            self.batch.redefine(stream)
        if self._supervisor.append is not None:
            self._supervisor.append.redefine(stream)
        self.ingest.redefine(stream)
        self.stream = stream

    def between_steps(self) -> AbstractContextManager[None]:
        """Hold back steps during an edit: one under way would be discarded, and its events would wait for the next."""
        return self._speed.between_steps(LONG_STEP_S) if self._speed is not None else nullcontext()

    def letters(self) -> DeadLetters:
        """What could not be read."""
        return DeadLetters(self.stream.name, self.table, self._replay_next)

    def skip_to(self, to: Start, *, dry_run: bool = False) -> SkipStatus:
        """Skip offsets in Kafka; with `dry_run`, only return which."""
        status = skip_offsets(self.stream.name, self.table, self.transport, to, dry_run=dry_run)
        if status.commit is not None:
            log.warning("offsets were skipped", stream=self.stream.name, skipped=[str(each) for each in status.skipped])
            self._supervisor.retry_now()
            self._on_commit()
        return status

    def _replay_next(self, cursor: str | None, dry_run: bool) -> ReplayStep:
        if self._replay is None:
            raise StartingError(f"stream '{self.stream.name}': Spark is starting", fix="replay again in some seconds")
        return self._replay.step(self.stream, cursor, dry_run=dry_run)

    def wake(self) -> None:
        """Look for work now: a version was added."""
        for lane in self._lanes:
            lane.wake()

    def supervise(self) -> None:
        """Check that the append runs; if it does not, start it again where the lake ends.

        Raises FencedError if this process may not write any more.
        """
        self._rate.note(self.table.rows())
        self.transport.mend()
        self._supervisor.check()

    @property
    def flowing(self) -> bool:
        """Whether its append polls for events, so that a new one is processed at once."""
        append = self._supervisor.append
        return append is not None and append.is_polling()

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
        for lane in self._lanes:
            lane.stop()
        if self._speed is not None:
            self._speed.stopping.set()
        if self.batch is not None:
            self.batch.stopping.set()
        if self._suspects is not None:
            self._suspects.close()
        if self._supervisor.append is not None:
            self._supervisor.append.stop()

    def close(self) -> None:
        """Stop all of it; what was acknowledged is on disk."""
        self._closed = True
        self._supervisor.close()
        self.stop_spark()
        join_all([*(lane.thread for lane in self._lanes), self._supervisor.restarting], THREADS_END_S)
        if self._suspects is not None:
            self._suspects.join(THREADS_END_S)
        if self._speed is not None:
            self._speed.close()
        if self._unique is not None:
            self._unique.close()
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
        if self._fused is None or not self._workspace.settings.fused_lane:
            return lanes_by_definition(self._workspace.settings, self.stream, versions)
        return self._fused.lanes(
            self.stream, [version for version in versions if version.reads(self.stream.name) and version.moves]
        )

    def timings(self) -> dict[str, Timing]:
        """How long its lake commits, merges and steps of maintain took, once Spark has started."""
        append = self._supervisor.append
        if append is None or self._speed is None or self._fused is None:
            return {}
        return {
            "commit": append.commit_times,
            "merge": self._fused.merge_times,
            "maintain": self._speed.step_times,
        }

    def latencies(self) -> dict[str, Timing]:
        """How long events took from their arrival until each of its views had them."""
        return self._latencies.times()

    def lag_bytes(self, base: Base) -> int | None:
        """How many bytes of the transport a version does not have; None while that is not known."""
        return None if base.position is None else self._bytes_from(base.position)

    def _bytes_from(self, position: Position) -> int:
        return self.transport.reader.bytes_between(position, self.transport.end)

    def describe(self) -> StreamStatus:
        """The stream as `headrace streams` and HTTP show it."""
        state, figures, append = self.table.state, lake_figures(self.table), self._supervisor.append
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
            commit_ms=append.last_commit_ms if append else None,
            maintain_ms=next((lane.last_ms for lane in self._lanes if lane.last_ms), None),
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
        self._supervisor.reset()
        self.wake()

    def _is_suspect(self, version: Version) -> bool:
        return self._suspects is not None and version in self._suspects
