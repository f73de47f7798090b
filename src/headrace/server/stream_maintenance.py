"""What Spark runs for one stream: the append into its lake, and the lanes and the batch layer that update its views."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from headrace.define.model import Stream
from headrace.lake.append import Append
from headrace.lake.dead_letters import ReplayStep
from headrace.lake.delta_table import LakeTable
from headrace.lake.event_id_index import UniqueIndex
from headrace.lake.event_ids_load import on_spark as load_on_spark
from headrace.lake.lateness_record import LatenessRecord
from headrace.lake.replay import DeadLetterReplay
from headrace.lake.replay import on_spark as reread_on_spark
from headrace.maintain.batch_layer import BatchLayer, Pace
from headrace.maintain.fused_lane import Fused
from headrace.maintain.spark_joins import TableLogs
from headrace.maintain.speed_layer import Speed
from headrace.maintain.suspects import Suspects
from headrace.maintain.trial import TrialSettings
from headrace.server.latency import Latencies
from headrace.server.neighbours import Neighbours
from headrace.server.threads import AppendSupervisor, Lane, join_all
from headrace.spark.session import Session
from headrace.store.store_contract import Store
from headrace.timing import Timing
from headrace.transport.transport_contract import Transport
from headrace.workspace.settings import Workspace

LONG_STEP_S = 5.0  # an edit does not wait longer for a step to end
THREADS_END_S = 5.0  # how long `close` waits for its threads


class StreamMaintenance:
    """The work of one stream that needs Spark. If Java ends, it continues with the next session."""

    def __init__(
        self,
        workspace: Workspace,
        stream: Stream,
        store: Store,
        neighbours: Neighbours,
        table: LakeTable,
        transport: Transport,
        lateness: LatenessRecord,
        *,
        session: Session,
        scratch: Path,
        on_commit: Callable[[], None],
        on_applied: Callable[[], None],
    ) -> None:
        """`on_commit` is called after each commit of the lake, `on_applied` after each step of a view."""
        settings, logs = workspace.settings, TableLogs(neighbours.find_lake)
        self._store = store
        self._on_applied = on_applied
        self._latencies = Latencies(stream.name, transport.age_ms)
        log_file = workspace.logs / "spark-trial.log"
        trials = TrialSettings(settings.spark_memory, settings.spark_java_options, scratch / "trials", log_file)
        self._suspects = Suspects(session, table, store, trials, self.wake)
        self.fused = Fused(
            stream.name,
            table,
            store,
            scratch,
            is_suspect=self._suspects.__contains__,
            tables=neighbours.table_snapshots(session, scratch),
        )
        self._unique = UniqueIndex(table, scratch, load_on_spark(session))
        self.append = Append(
            session,
            stream,
            transport.reader,
            table,
            scratch,
            companion=self.fused if settings.fused_lane else None,
            lateness=lateness,
            pins=neighbours.pins,
            hold=partial(neighbours.wait_for_tables, stream.name),
            unique=self._unique,
            on_commit=on_commit,
            most_bytes=settings.append_mb << 20,
            every_ms=settings.append_every_ms,
        )
        self._supervisor = AppendSupervisor(stream.name, self.append)
        self._replay = DeadLetterReplay(
            reread_on_spark(session), table, scratch, pins=neighbours.pins, unique=self._unique, on_commit=on_commit
        )
        self._speed = Speed(
            session, stream, table, store, scratch, suspects=self._suspects, fused=self.fused, logs=logs
        )
        self.batch = BatchLayer(
            session,
            stream,
            table,
            store,
            workspace.builds,
            pace=Pace(settings.refresh_every_s, settings.retire_after_s),
            suspects=self._suspects,
            between_steps=self.between_steps,
            end_of=neighbours.end_of,
            logs=logs,
            next_partials=self.fused.next_commit,
        )
        works = {"fused": self.fused.run_once, "speed": self._speed.run_once}
        self._lanes = [Lane(name, stream.name, work, self._on_step, workspace.data) for name, work in works.items()]
        self._stream = stream

    @property
    def error(self) -> str | None:
        """Why events are not appended, or views not updated."""
        return self._supervisor.error or next((lane.error for lane in self._lanes if lane.error), None)

    @property
    def step_ms(self) -> float | None:
        """The duration of the last step of a lane."""
        return next((lane.last_ms for lane in self._lanes if lane.last_ms), None)

    def start(self) -> None:
        """Start the append and the lanes; the runtime calls the batch layer."""
        self._supervisor.start()
        versions = self._store.versions()
        self._suspects.review(self._stream, versions)
        self._latencies.note(versions)
        for lane in self._lanes:
            lane.thread.start()

    def redefine(self, stream: Stream) -> None:
        """Adopt a changed definition: first what reads the lake's files, then what writes them."""
        self._speed.redefine(stream)
        self.batch.redefine(stream)
        self.append.redefine(stream)
        self._stream = stream

    def between_steps(self) -> AbstractContextManager[None]:
        """Hold back steps during an edit: one under way would be discarded, and its events would wait for the next."""
        return self._speed.between_steps(LONG_STEP_S)

    def replay(self, cursor: str | None, dry_run: bool) -> ReplayStep:
        """Replay the next dead letters."""
        return self._replay.step(self._stream, cursor, dry_run=dry_run)

    def note_commit(self) -> None:
        """The lake has a new commit: the append works, and the lanes have work."""
        self._supervisor.reset()
        self.wake()

    def retry_append(self) -> None:
        """Do not wait before a failed append starts again."""
        self._supervisor.retry_now()

    def wake(self) -> None:
        """Let the lanes look for work now."""
        for lane in self._lanes:
            lane.wake()

    def supervise(self) -> None:
        """Restart the append if it has ended. Raises FencedError if this process may not write any more."""
        self._supervisor.check()

    def timings(self) -> dict[str, Timing]:
        """How long lake commits, merges and steps of maintain took."""
        return {
            "commit": self.append.commit_times,
            "merge": self.fused.merge_times,
            "maintain": self._speed.step_times,
        }

    def latencies(self) -> dict[str, Timing]:
        """How long events took from their arrival until each view had them."""
        return self._latencies.times()

    def stop(self) -> None:
        """Stop the append and all steps; work under way may still run."""
        for lane in self._lanes:
            lane.stop()
        self._speed.stopping.set()
        self.batch.stopping.set()
        self._suspects.close()
        self.append.stop()

    def close(self) -> None:
        """Stop all of it, and wait for its threads."""
        self._supervisor.close()
        self.stop()
        join_all([*(lane.thread for lane in self._lanes), self._supervisor.restarting], THREADS_END_S)
        self._suspects.join(THREADS_END_S)
        self._speed.close()
        self._unique.close()

    def _on_step(self) -> None:
        self._latencies.note(self._store.versions())
        self.batch.swap()  # between two steps: while events flow, no other thread finds a moment without one
        self._on_applied()
