"""The speed layer of one stream, by Spark: advances versions to the lake, some commits at a time.

It takes those that the fused lane does not: see `fused_lane.py`.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace.call_limits import LATE
from headrace.define.model import Stream
from headrace.disk import disk_full, is_disk_full
from headrace.errors import ConflictError, JavaEndedError, LostFileError
from headrace.faults import fault_point
from headrace.lake.delta_table import LakeTable
from headrace.maintain.fused_lane import Fused
from headrace.maintain.partials_job import columns_for, damage_of, read_events, write_partials
from headrace.maintain.spark_joins import NO_LOGS, TableLogs
from headrace.maintain.speed_step import apply_step, next_step
from headrace.maintain.suspects import Suspects, describe_failure
from headrace.name_encoding import encode_name
from headrace.spark.failures import is_transient
from headrace.spark.session import Session, is_alive
from headrace.store.store_contract import Step, Store
from headrace.store.version import Base, Version, VersionId
from headrace.timing import Timing

POOL = "maintain"
MOST_ROWS = 2_000_000  # of events in one step
LAGGING_ROWS = 200_000  # … of versions that lag behind others, which wait meanwhile
RETRY_S = 30.0  # a stalled version is tried again after this time
LATE_RETRY_S = 600.0  # … one whose Python code hangs: until it is interrupted, it takes a core
JOBS = 4  # views computed at a time


@dataclass(frozen=True)
class _Computed:
    version: Version
    files: list[str]
    error: str | None
    by_event: bool = False  # one of the events may be the cause of the error


@dataclass(frozen=True)
class _Group:
    """Versions that advance together."""

    versions: list[Version]
    end: int  # the commit that they go up to at most
    most_rows: int


def retry_after_s(error: str) -> float:
    """The time before a version that failed is tried again."""
    return LATE_RETRY_S if LATE in error else RETRY_S


class Speed:
    """Keeps the versions of one stream's views up to date with its lake.

    A version that fails is stalled with its error and tried again later; it never holds up another.
    """

    def __init__(
        self,
        session: Session,
        stream: Stream,
        table: LakeTable,
        store: Store,
        scratch: Path,
        *,
        suspects: Suspects | None = None,
        fused: Fused | None = None,
        logs: TableLogs = NO_LOGS,
        most_rows: int = MOST_ROWS,
        lagging_rows: int = LAGGING_ROWS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._session = session
        self._stream = stream
        self._table = table
        self._store = store
        self._scratch = scratch / f"partials-{encode_name(stream.name)}"
        self._most_rows = most_rows
        self._lagging_rows = min(most_rows, lagging_rows)
        self._now = now
        self._suspects = suspects
        self._fused = fused
        self._logs = logs
        self._retry_at: dict[VersionId, float] = {}
        self._jobs = ThreadPoolExecutor(JOBS, thread_name_prefix=f"maintain {stream.name}")
        self._runs = 0
        self._stepping = threading.Lock()  # held by a step: its definition is one, and nobody edits its versions
        self._entering = threading.Lock()  # held by threads that wait for `_turn`, so that the next step follows them
        self.stopping = threading.Event()
        self.step_times = Timing()

    def run_once(self) -> bool:
        """Advance each group of versions by one step, the most advanced first; return whether there was one."""
        progressed = False
        for group in self._groups():
            if self.stopping.is_set():
                return False
            with self.between_steps():
                readable = [version for version in group.versions if version.view.fits(self._stream)]
                progressed = bool(readable and self._step(readable, group)) or progressed
        return progressed

    def redefine(self, stream: Stream) -> None:
        """Read by a changed definition from the next step on; waits for the one under way."""
        with self.between_steps():
            self._stream = stream

    @contextmanager
    def between_steps(self, most_s: float = -1) -> Iterator[None]:
        """Run the block while no step runs. A step that takes longer than so many seconds is not waited for."""
        with self._entering:
            entered = self._stepping.acquire(timeout=most_s)
        try:
            yield
        finally:
            if entered:
                self._stepping.release()

    def close(self) -> None:
        """Let go of the threads; a step under way ends by itself."""
        self.stopping.set()
        self._jobs.shutdown(wait=False, cancel_futures=True)

    def _groups(self) -> list[_Group]:
        """Versions at the same commit, before the end of the lake, advance together, by so many events at most.

        Suspects come last, each alone.
        """
        with self._fused.between_merges() if self._fused else nullcontext():
            return self._groups_now()

    def _groups_now(self) -> list[_Group]:
        together: dict[tuple[int, int], list[Version]] = {}
        alone: list[_Group] = []
        for version in self._store.versions():
            if not version.reads(self._stream.name) or not version.moves:
                continue
            base = self._base(version)
            due = not base.stalled or self._retry_at.get(version.id, 0.0) <= self._now()
            end = self._end(version)
            if base.quarantined or not due or base.applied_to >= end:
                continue
            if self._suspects is not None and version in self._suspects:
                alone.append(_Group([version], end, self._lagging_rows))
            else:
                together.setdefault((base.applied_to, end), []).append(version)
        furthest = max(together, default=(0, 0))[0]
        return [
            _Group(together[commit, end], end, self._most_rows if commit == furthest else self._lagging_rows)
            for commit, end in sorted(together, reverse=True)
        ] + alone

    def _end(self, version: Version) -> int:
        """The commit up to which Spark computes a version: where its partials of the fused lane begin."""
        # Read before the partials: those of a commit are there before the commit is.
        end = self._table.state.next_commit
        fused = self._fused.next_commit(version, self._base(version).applied_to) if self._fused else None
        return end if fused is None else min(end, fused)

    def _base(self, version: Version) -> Base:
        return version.base(self._stream.name)

    def _step(self, versions: list[Version], group: _Group) -> bool:
        began = time.monotonic()
        start = self._base(versions[0]).applied_to
        step = next_step(self._stream.name, self._table, start, group.most_rows, self._now(), group.end)
        self._runs += 1
        folder = self._scratch / str(self._runs)
        try:
            computed = self._compute_all(step, versions, folder)
            good = {c.version.id: c.files for c in computed if c.error is None}
            fault_point("maintain.after_partials")
            failed = apply_step(self._store, step, good) if good else {}
            for each in computed:
                reason = failed.get(each.version.id)
                self._settle(step, each if reason is None else replace(each, error=reason))
        except ConflictError:
            return True  # a version was edited meanwhile: nothing was merged, and the next round sees it
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.step_times.note(time.monotonic() - began)
        return len(good) > len(failed)

    def _compute_all(self, step: Step, versions: Sequence[Version], folder: Path) -> list[_Computed]:
        spark = self._session()
        try:
            return self._compute(spark, step, versions, folder)
        except Exception as error:
            if self.stopping.is_set() or is_alive(spark):
                raise
            if self._suspects is not None:
                for version in versions:
                    self._suspects.java_ended(spark, self._stream, version, (step.from_commit, step.to_commit))
            raise JavaEndedError(
                "Java ended during a step of the speed layer", fix="Headrace retries automatically"
            ) from error

    def _compute(self, spark: SparkSession, step: Step, versions: Sequence[Version], folder: Path) -> list[_Computed]:
        fault_point("maintain.before_partials")
        commits = (step.from_commit, step.to_commit)
        with self._table.reading(*commits) as files:
            if not files:
                return [_Computed(version, [], None) for version in versions]
            damage = damage_of(self._table.storage, files)
            if damage:
                return [_Computed(version, [], damage) for version in versions]
            fields = {name for version in versions for name, _ in version.view.reads_of(self._stream.name)}
            ours = columns_for(version.view for version in versions)
            events = read_events(spark, self._table.storage, self._stream, files, commits, ours, fields)
            if len(versions) == 1:
                return [self._compute_one(spark, events, versions[0], commits, folder)]
            return list(
                self._jobs.map(lambda version: self._compute_one(spark, events, version, commits, folder), versions)
            )

    def _compute_one(
        self, spark: SparkSession, events: DataFrame, version: Version, commits: tuple[int, int], folder: Path
    ) -> _Computed:
        """A view of its own job, so that a broken one fails alone."""
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        target = folder / f"{encode_name(version.view.name)}-{version.number}"
        try:
            with self._logs.opened(spark, self._stream.name, version.pinned, (self._table, commits)) as joins:
                return _Computed(version, write_partials(events, self._stream, version, target, joins), None)
        except Exception as error:
            if self.stopping.is_set() or is_transient(error) or not is_alive(spark) or isinstance(error, LostFileError):
                raise  # not the view's fault: all of the step is retried soon
            if is_disk_full(error):  # the machine's fault, not the view's: all of the step is tried again soon
                raise disk_full("views cannot be updated", self._scratch) from error
            return _Computed(version, [], describe_failure(version.view, error), by_event=True)

    def _settle(self, step: Step, computed: _Computed) -> None:
        version = computed.version
        if computed.error is not None:
            self._retry_at[version.id] = self._now() + retry_after_s(computed.error)
            sentence = computed.error
            if self._suspects is not None and computed.by_event:
                commits = (step.from_commit, step.to_commit)
                sentence = self._suspects.failed(self._stream, version, commits, computed.error)
            self._store.stall(*version.id, self._stream.name, sentence)
            return
        if self._suspects is not None:
            self._suspects.computed(version)
        if self._base(version).stalled:
            self._store.stall(*version.id, self._stream.name, None)
