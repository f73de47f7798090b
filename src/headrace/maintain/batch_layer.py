"""The batch layer of one stream: builds versions from the log, and moves their horizons on, beat by beat.

Every call of `run_once` does one piece of work, chosen from what the store and the disk say. Nothing
else is remembered that counts, so a process that dies anywhere continues where it was.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import structlog

from headrace.define.model import Stream
from headrace.disk import is_disk_full
from headrace.errors import ConflictError, HeadraceError, JavaEndedError, LostFileError, NotReadyError
from headrace.faults import fault_point
from headrace.lake.delta_table import LakeTable
from headrace.lake.table_files import LakeFile
from headrace.maintain.build_slices import DRIFT, BuildTimes, Slices, remove_unneeded, slices_folder
from headrace.maintain.partials_job import SLICE_ROWS, BatchJob, damage_of
from headrace.maintain.spark_joins import NO_LOGS, TableLogs
from headrace.maintain.speed_layer import MOST_ROWS, retry_after_s
from headrace.maintain.speed_step import next_step, step_end
from headrace.maintain.suspects import Suspects, describe_failure
from headrace.maintain.table_view_audits import TableAudits
from headrace.spark.failures import is_transient, one_line
from headrace.spark.session import Session, is_alive
from headrace.store.store_contract import Audit, Store
from headrace.store.version import Base, BatchTable, Version, VersionId

OUTGROWN_ROWS = 100_000  # speed rows that a version may always have
OUTGROWN_SHARE = 4  # … and beyond that, one for so many rows of its batch tables
WORTH_A_STEP = 0.9  # of the events that were missing before: where more than that is missing still, no step helps
SOONEST_S = 60.0  # between two beats that nobody asked for
KEPT_RETIRED = 5  # versions of a view that can be rolled back to

log = structlog.get_logger("headrace.batch")

_ORDER = ("ready", "serving", "building", "registered", "retired")  # what is worked on first, of those that never were


@dataclass(frozen=True)
class Pace:
    """The pace of horizons that move by themselves, and of the removal of retired versions."""

    refresh_every_s: float = 3600.0  # of a view that declares no SCHEDULE
    retire_after_s: float = 86400.0


@dataclass(frozen=True)
class BatchSizes:
    """The size of one piece of work, and the rule for batch tables that become one."""

    slice_events: int = SLICE_ROWS
    near_events: int = 20_000  # that the speed layer may have to take before a new version serves
    small_rows: int = 100_000  # of a batch table: below it, one more is not worth having
    merge_ratio: int = 4  # one is merged with a newer one that has more than this share of its rows


class BatchLayer:
    """Builds, beats and retires the versions of one stream's views."""

    def __init__(
        self,
        session: Session,
        stream: Stream,
        table: LakeTable,
        store: Store,
        folder: Path,
        *,
        pace: Pace = Pace(),  # noqa: B008 - frozen
        sizes: BatchSizes = BatchSizes(),  # noqa: B008 - frozen
        suspects: Suspects | None = None,
        between_steps: Callable[[], AbstractContextManager[None]] = nullcontext,  # of the speed layer
        end_of: Callable[[str], int] | None = None,  # the next commit of a stream, for views of several
        logs: TableLogs = NO_LOGS,
        next_partials: Callable[[Version, int], int | None] = lambda version, commit: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`next_partials` gives the first commit from one on whose partials wait until a version is complete."""
        self._job = BatchJob(session, logs, stopped=lambda: self.stopping.is_set())
        self._session = session
        self._suspects = suspects
        self._stream = stream
        self._table = table
        self._store = store
        self._folder = folder
        self._pace = pace
        self._sizes = sizes
        self._between_steps = between_steps
        self._now = now
        self._defining = threading.Lock()
        self._refreshes: dict[str, int] = {}  # views whose horizon shall move on now, and up to which commit
        self._beat_at: dict[VersionId, float] = {}
        self._retry_at: dict[VersionId, float] = {}
        self._next_partials = next_partials
        self._end_of = end_of or (lambda stream: table.state.next_commit)
        self._ends: dict[tuple[str, int, str], int] = {}  # where logs were when versions were found built, by stream
        self._behind: dict[VersionId, int] = {}  # events that versions lacked before they last advanced
        self._turns: dict[VersionId, int] = {}  # which piece of work was the last on a version
        self._table_audits = TableAudits(store, now)
        self._build_times = BuildTimes()
        self.stopping = threading.Event()
        self.building = False  # now: what can wait, does
        self.audits: Counter[str] = Counter()  # of each view, since the process began
        self.errors: dict[VersionId, str] = {}  # what stops the work on a version

    @property
    def rate(self) -> float | None:
        """Events per second that builds read here; None before one was long enough to measure."""
        return self._job.rate

    @property
    def beginning_s(self) -> float | None:
        """The time that builds took here beside reading events; None before one was done."""
        return self._build_times.beginning_s

    def redefine(self, stream: Stream) -> None:
        """Read by a loosened definition from the next piece of work on."""
        with self._defining:
            self._stream = stream

    def refresh(self, view: str) -> None:
        """Move the horizon of a view on to where it is now, and look once more at drift that was found."""
        for version in filter(self._reads, self._store.versions()):
            if version.view.name == view and version.serving:
                self._refreshes[view] = self._base(version).applied_to

    def run_once(self) -> bool:
        """One piece of work; whether there was one. Versions take turns: a beat that is always due keeps nobody off."""
        versions = self._store.versions()
        for version in sorted(filter(self._reads, versions), key=self._rank):
            if self.stopping.is_set():
                return False
            if self._is_due(version, versions):
                self._turns[version.id] = max(self._turns.values(), default=0) + 1
                with self._defining, self._noting(version):
                    self._work(version)
                return True
        remove_unneeded(self._folder, versions)  # an edit may have ended a beat half way
        return False

    def _rank(self, version: Version) -> tuple[bool, int, int]:
        """A version that only has to be promoted comes first, then whichever has waited longest."""
        return version.state != "ready", self._turns.get(version.id, 0), _ORDER.index(version.state)

    def _work(self, version: Version) -> None:
        match version.state:
            case "ready":
                with self._between_steps():
                    self.swap(version.view.name)
            case "serving" if version.view.over is not None:
                self._audit_over_table(version)
            case "serving":
                self._beat(version)
            case "retired":
                self._store.forget(*version.id)
            case _:
                self.building = True
                try:
                    self._build(version)
                finally:
                    self.building = False

    @contextmanager
    def _noting(self, version: Version) -> Iterator[None]:
        """Report and retry later what fails; after an edit, or an end of Java, the version is examined again."""
        try:
            yield
            self.errors.pop(version.id, None)
        except (ConflictError, NotReadyError, JavaEndedError):
            return
        except Exception as error:
            if self.stopping.is_set() or is_transient(error):
                return
            message = str(error) if isinstance(error, HeadraceError) else one_line(error)
            self.errors[version.id] = message
            self._retry_at[version.id] = self._now() + retry_after_s(message)
            log.error("the batch layer failed", view=version.view.name, version=version.number, error=message)

    def _is_due(self, version: Version, versions: Sequence[Version]) -> bool:
        if self._retry_at.get(version.id, 0.0) > self._now():
            return False
        if version.view.over is not None and version.state != "retired":
            return version.serving and self._is_table_audit_due(version)  # what is over a table is made in the store
        if version.quarantined and version.state != "retired":
            return False
        match version.state:
            case "ready":
                return self._is_caught_up(version, versions)
            case "retired":
                return self._is_outlived(version, versions)
            case "serving":
                return self._is_beat_due(version)
            case _:
                return not self._base(version).built

    def _reads(self, version: Version) -> bool:
        return version.reads(self._stream.name)

    def _base(self, version: Version) -> Base:
        return version.base(self._stream.name)

    def _is_caught_up(self, version: Version, versions: Sequence[Version]) -> bool:
        """Return whether it is where the one before it is; in a stream that that one did not read, or as the first
        version, where the log was when it was built.
        """
        before = next((old for old in versions if old.view.name == version.view.name and old.serving), None)
        if before is not None and version.lags(before):  # answers never lack commits that they have had
            return False
        if version.stalled and before is None:
            return True
        unread = [base for base in version.bases if before is None or not before.reads(base.stream)]
        return all(base.applied_to >= self._built_at(version, base.stream) for base in unread)

    def _built_at(self, version: Version, stream: str) -> int:
        """The place of a stream's log when a version was first found built."""
        key = (*version.id, stream)
        if key not in self._ends:
            self._ends[key] = self._end_of(stream)
        return self._ends[key]

    # Builds

    def _build(self, version: Version) -> None:
        """Compute the next slice of commits [0, horizon); after the last one, catch up and make the batch table."""
        stream, horizon = self._stream.name, self._base(version).horizon
        self._build_times.begin(version.id, lambda: sum(file.rows for file in self._table.files(0, horizon)))
        slices = Slices(self._slices_folder(version), 0, horizon)
        if version.state == "registered":
            self._store.build(*version.id, stream, slices.done_to())
        files = self._next_slice(version, slices)
        if files is None:
            self._store.build(*version.id, stream, slices.done_to())
            return
        if self._catch_up(version, slices):
            return
        table = self._store.make_batch_table(version, (0, horizon), files, stopping=self.stopping.is_set)
        self._store.fill(*version.id, stream, table)
        slices.remove()
        log.info("built", view=version.view.name, version=version.number, rows=table.rows, events=table.events)

    def _catch_up(self, version: Version, slices: Slices) -> bool:
        """One step through the commits since the horizon; whether there were enough of them for one.

        The fused lane has the partials of most of them already. The speed layer could take the others, too, but
        the serving version would wait for it meanwhile. It takes those that arrive while this runs: more steps are
        of no use where they do not become smaller.
        """
        start = self._base(version).applied_to
        end = min(self._table.state.next_commit, self._next_partials(version, start) or sys.maxsize)
        behind = sum(file.rows for file in self._table.files(start, end))
        before = self._behind.pop(version.id, None)
        near = behind <= self._sizes.near_events or (before is not None and behind > WORTH_A_STEP * before)
        if near or version.id in self.errors:  # what fails here will fail there, where a version says that it stalls
            return False
        self._behind[version.id] = behind
        step = next_step(self._stream.name, self._table, start, MOST_ROWS, self._now(), end)
        commits = (step.from_commit, step.to_commit)
        with slices.draft() as draft, self._table.reading(*commits) as files:
            written = self._compute(version, files, commits, draft, batch=False)
            self._store.apply(step, {version.id: written})
        return True

    def _compute(
        self, version: Version, files: Sequence[LakeFile], commits: tuple[int, int], target: Path, *, batch: bool = True
    ) -> list[str]:
        damage = damage_of(self._table.storage, files)
        if damage:
            raise HeadraceError(damage)
        if not files:
            return []
        spark = self._session()
        try:
            written = self._job.write(self._table, self._stream, version, files, commits, target, batch=batch)
        except Exception as error:
            if self.stopping.is_set() or self._suspects is None:
                raise
            if is_transient(error) or is_disk_full(error) or isinstance(error, LostFileError):
                raise  # no event is the cause
            if not is_alive(spark):
                self._suspects.java_ended(spark, self._stream, version, commits)
                raise JavaEndedError(
                    "Java ended during a job of the batch layer", fix="Headrace retries automatically"
                ) from error
            raise HeadraceError(
                self._suspects.failed(self._stream, version, commits, describe_failure(version.view, error))
            ) from error
        if self._suspects is not None:
            self._suspects.computed(version)
        return written

    def swap(self, view: str | None = None) -> None:
        """Let the new version of a view, or of every view, serve if it has caught up.

        To be called between two steps: in the middle of one it would let that step compute in vain.
        """
        versions = self._store.versions()
        for version in filter(self._reads, versions):
            ready = version.state == "ready" and view in (None, version.view.name) and version.view.over is None
            if ready and self._is_caught_up(version, versions):
                with suppress(ConflictError):  # an edit was quicker
                    self._store.promote(version.view.name, version.number)
                    self._build_times.serves(version.id, self.rate)
                    log.info("serves", view=version.view.name, version=version.number)

    def _next_slice(self, version: Version, slices: Slices) -> list[Path] | None:
        """The files of all slices if they are done; else None, after one more was made."""
        start = slices.done_to()
        if start == slices.to_commit:
            return slices.files()
        fault_point("build.before_slice")
        end = step_end(self._table.files(start, slices.to_commit), start, slices.to_commit, self._sizes.slice_events)
        with slices.draft() as draft, self._table.reading(start, end) as files:
            slices.add(start, end, draft, self._compute(version, files, (start, end), draft))
        fault_point("build.after_slice")
        return None

    # Beats

    def _is_beat_due(self, version: Version) -> bool:
        name, base = version.view.name, self._base(version)
        if name in self._refreshes:
            if base.horizon < self._refreshes[name]:
                return True
            del self._refreshes[name]
        if base.alarm or not version.view.fits(self._stream):
            return False  # drift is kept for somebody to look at
        if base.next_horizon is not None:
            return True
        if base.applied_to <= base.horizon:
            return False
        since_s = self._now() - self._last_beat(version)
        return since_s >= self._every_s(version) or (since_s >= SOONEST_S and self._outgrown(version))

    def _every_s(self, version: Version) -> float:
        return self._pace.refresh_every_s if version.view.schedule_ms is None else version.view.schedule_ms / 1000

    def _last_beat(self, version: Version) -> float:
        if version.id not in self._beat_at:
            with self._store.snapshot() as snapshot:
                audits = [
                    audit
                    for audit in snapshot.audits(version.view.name)
                    if (audit.number, audit.stream) == (version.number, self._stream.name)
                ]
            self._beat_at[version.id] = max([audit.at_us for audit in audits] + [version.changed_at_us]) / 1e6
        return self._beat_at[version.id]

    def _outgrown(self, version: Version) -> bool:
        with self._store.snapshot() as snapshot:
            batch, speed = snapshot.count(version)
        return speed > max(OUTGROWN_ROWS, batch // OUTGROWN_SHARE)

    def _beat(self, version: Version) -> None:
        """One slice of commits [horizon, next_horizon) again from the log; after the last one, audit and swap."""
        if self._base(version).next_horizon is None:
            version = self._store.begin_beat(*version.id, self._stream.name)
        base = self._base(version)
        assert base.next_horizon is not None, "a beat was begun"
        slices = Slices(self._slices_folder(version), base.horizon, base.next_horizon)
        files = self._next_slice(version, slices)
        if files is None:
            return
        began = time.monotonic()
        audit = self._audit(version, files, began)
        self.audits[version.view.name] += 1
        self._beat_at[version.id] = self._now()
        if not audit.agreed:
            self._refreshes.pop(version.view.name, None)
            self._store.refuse_beat(version, audit)
            self._keep_drift(audit, slices)  # the next look reads the log again
            return
        kept, merged = _to_merge(base.batch, _rows(files), self._sizes)
        start = merged[0].from_commit if merged else base.horizon
        commits = (start, base.next_horizon)
        table = self._store.make_batch_table(version, commits, files, merged, stopping=self.stopping.is_set)
        self._store.end_beat(version, [*kept, table], audit)
        slices.remove()
        log.info("beat", view=version.view.name, version=version.number, horizon=base.next_horizon)

    def _audit(self, version: Version, files: Sequence[Path], began: float) -> Audit:
        stream, base = self._stream.name, self._base(version)
        assert base.next_horizon is not None, "a beat was begun"
        evidence = self._slices_folder(version) / "speed.parquet"
        comparison = self._store.compare(version, stream, files, evidence, stopping=self.stopping.is_set)
        return Audit(
            *version.id,
            stream,
            base.horizon,
            base.next_horizon,
            int(self._now() * 1e6),
            int((time.monotonic() - began) * 1000),
            comparison.events,
            comparison.rows,
            comparison.drift,
        )

    def _keep_drift(self, audit: Audit, slices: Slices) -> None:
        slices.keep_as(self._folder / f"{DRIFT}{slices.folder.name}")
        log.error("drift", view=audit.view, version=audit.number, drift=[drift.column for drift in audit.drift])

    # Views over tables

    def _is_table_audit_due(self, version: Version) -> bool:
        """One batch layer compares a view over a table, also if several streams make the rows of the table."""
        if version.view.streams[0] != self._stream.name:
            return False
        return version.view.name in self._refreshes or self._table_audits.is_due(version, self._every_s(version))

    def _audit_over_table(self, version: Version) -> None:
        folder = self._slices_folder(version)
        audit = self._table_audits.run(version, folder, self.stopping.is_set)
        self._refreshes.pop(version.view.name, None)
        self.audits[version.view.name] += 1
        if not audit.agreed:
            self._keep_drift(audit, Slices(folder, audit.from_commit, audit.to_commit))
            return
        log.info("compared with its table", view=version.view.name, version=version.number, rows=audit.rows)

    # Retiring

    def _is_outlived(self, version: Version, versions: Sequence[Version]) -> bool:
        same = [v for v in versions if v.state == "retired" and v.view.name == version.view.name and v.home]
        younger = sum(other.changed_at_us > version.changed_at_us for other in same)
        age_s = self._now() - version.changed_at_us / 1e6
        return age_s > self._pace.retire_after_s or (version.home is not None and younger >= KEPT_RETIRED)

    def _slices_folder(self, version: Version) -> Path:
        return slices_folder(self._folder, version, self._stream.name)

    def close(self) -> None:
        """Let go; what was done is on disk."""
        self.stopping.set()


def _to_merge(tables: Sequence[BatchTable], rows: int, sizes: BatchSizes) -> tuple[list[BatchTable], list[BatchTable]]:
    """Split batch tables into those that stay, and those that a new table of so many rows is merged with.

    Each one that stays is several times as large as the next, so there are few, and a row is written
    again only a few times: a beat costs in proportion to its own rows, not to those before.
    """
    kept = list(tables)
    while kept and kept[-1].rows < max(sizes.small_rows, sizes.merge_ratio * rows):
        rows += kept.pop().rows
    return kept, list(tables[len(kept) :])


def _rows(files: Sequence[Path]) -> int:
    return sum(pq.read_metadata(file).num_rows for file in files)
