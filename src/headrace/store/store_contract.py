"""The contract of a store: the tables of view versions, merged into and read from atomically.

A store knows views and partials; it knows neither Spark nor the lake. Who calls it: `store/open_store.py` opens it and
discards what is damaged; `server/` registers, adopts, revives, forgets and drops versions as definitions change, and
cleans at start; `maintain/speed_layer.py` applies and stalls; `maintain/batch_layer.py` builds, compares, moves
horizons, promotes and forgets; `serve/`, `serve/past/` and `serve/sql/` read snapshots; sinks and subscriptions follow
views. Every store has to pass `tests/contracts/store/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from headrace.define.model import View
from headrace.store.selection import Selection
from headrace.store.version import NO_HISTORY, NOT_PINNED, BatchTable, Pinned, Point, Version, VersionId
from headrace.transport.position import Position

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.store.step_changes import Changes, Follower, TouchedTicks

T = TypeVar("T")
# Partials of a version: names of Parquet files, or tables, each of which has a (key, pane) once at most.
Partials: TypeAlias = "Sequence[str] | Sequence[pa.Table]"


@dataclass(frozen=True)
class Drift:
    """Rows of one column for which the two layers do not agree."""

    column: str
    rows: int
    example: str


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison: rows compared, events that the batch layer has in them, and disagreements."""

    rows: int
    events: int
    drift: tuple[Drift, ...]


@dataclass(frozen=True)
class Audit:
    """The result of comparing the two layers over commits [from_commit, to_commit) of a stream."""

    view: str
    number: int
    stream: str
    from_commit: int
    to_commit: int
    at_us: int
    took_ms: int
    events: int
    rows: int  # compared
    drift: tuple[Drift, ...] = ()  # of the columns that disagree

    @property
    def agreed(self) -> bool:
        """Return whether both layers have the same values."""
        return not self.drift


@dataclass(frozen=True)
class Step:
    """Commits [from_commit, to_commit) of a stream, and what is true once they are merged."""

    stream: str
    from_commit: int
    to_commit: int
    position: Position | None  # None between old commits, of which the lake no longer knows it
    newest_us: int | None
    at_us: int
    idle_us: int | None = None


def never() -> bool:
    """The default of `stopping`: nothing asks the work to stop."""
    return False


class Snapshot(Protocol):
    """A consistent read of the store."""

    def versions(self) -> list[Version]:
        """All versions, by view name and number."""

    def serving(self, view: str) -> Version | None:
        """The version that answers for a view."""

    def audits(self, view: str, limit: int | None = None) -> list[Audit]:
        """The comparisons of the two layers, newest first; at most `limit`, or all that are kept."""

    def count(self, version: Version) -> tuple[int, int]:
        """The number of rows in the batch tables and in the speed tables of a version; a (key, pane) may be in both."""

    def count_cells(self, version: Version) -> int:
        """The number of (key, pane) of a version; where there are many, one that is in several tables counts in each.

        Of a table: how many rows it has, without those that are deleted.
        """

    def speed_events(self, version: Version) -> int:
        """The number of events in the rows of its speed tables."""

    def corrections(self, version: Version) -> int:
        """The number of events in its rows that arrived when their pane was settled."""

    def fold(self, version: Version, selection: Selection) -> pa.Table:
        """Merged partials: BUCKET, the kept keys, EVENTS, CORRECTIONS, BATCH_EVENTS, each partial column.

        Ordered by bucket as the selection says, then by the keys, NULL first.
        """

    def count_groups(self, version: Version, selection: Selection, most: int) -> int | None:
        """The number of rows that `fold` would give; None if it would read more than `most` rows for them."""

    def pieces(self, version: Version, selection: Selection, *, ordered: bool) -> pa.RecordBatchReader:
        """The result of `fold`, as a reader that has to be closed; unless `ordered`, in any order."""

    def rows(self, version: Version, selection: Selection) -> list[tuple[Any, ...]]:
        """The result of `fold`, as tuples: faster for a few rows."""

    def followers(self) -> list[Follower]:
        """All followers of views."""

    def log(self, version: Version) -> TouchedTicks | None:
        """The ticks of a version for which the touched cells are known; None: for none."""

    def ticks(self, version: Version, after: int) -> list[tuple[int, int]]:
        """The ticks after one at which cells were touched, and how many each time."""

    def touched(self, version: Version, after: int, upto: int) -> pa.Table:
        """The cells that were touched at the ticks (after, upto], each once: KEY_ID and PANE."""

    def touched_again(self, version: Version, after: int, upto: int) -> pa.Table:
        """Of the keys that were touched at the ticks (after, upto], the cells that were touched after `upto`."""

    def changed(self, version: Version, selection: Selection, spans: pa.Table) -> list[tuple[Any, ...]]:
        """The result of `rows` for all keys, of spans of time: KEY_ID, FROM and TO; the KEY_ID follows the bucket."""

    def touched_sessions(self, version: Version, after: int, upto: int) -> list[tuple[str, int, int]]:
        """Key id, first and last time of sessions as they were before ticks in (after, upto] touched them."""

    def sessions(self, version: Version, cells: pa.Table) -> list[tuple[Any, ...]]:
        """The result of `rows` for the sessions that hold cells, of KEY_ID and PANE; the KEY_ID follows the start."""


class NotCachedError(Exception):
    """The rows are not in memory, or take long to compute from there."""


class StoreReader(Protocol):
    """A store of views, for those who only read."""

    def stored_texts(self, kind: str) -> dict[str, str]:
        """The texts that `keep` wrote, by name."""

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """A consistent read of versions and rows."""

    def read(self, work: Callable[[Snapshot], T]) -> T:
        """Return the result of `work` for a snapshot. Faster than `snapshot` for short reads; may call it twice."""

    def read_cached(self, work: Callable[[Snapshot], T]) -> T | None:
        """Return the result of `work` for cached rows, without waiting; None if it raises NotCachedError."""

    def versions(self) -> list[Version]:
        """All versions, by view and number, as of the last commit. Faster than `snapshot`."""

    def serving_now(self, view: str) -> Version | None:
        """The version that answers for a view, if that is known without a read; None also while a write is committed.

        Rows change only together with their version, so equal versions have equal rows.
        """

    def close(self) -> None:
        """Release the store's files."""


class Store(StoreReader, Protocol):
    """A store of views. Each method is one transaction; FencedError says that nothing was changed.

    Partials reach it as Parquet files with the columns that `partial_columns.py` names: KEY_ID, PANE, the keys, EVENTS,
    CORRECTIONS and each partial column; several files, or one, may hold several rows of a (key, pane).
    """

    def register(
        self,
        view: View,
        fingerprint: str,
        patience_ms: Mapping[str, int],
        at: Mapping[str, Point] = NO_HISTORY,
        pinned: Pinned = NOT_PINNED,
    ) -> Version:
        """A new version whose horizons are `at`; without history it is ready, and the first one serves at once.

        `patience_ms` and `at` are by stream. Takes the place of a version of the view that does not serve yet.
        """

    def adopt(self, view: View, fingerprint: str, patience_ms: Mapping[str, int], number: int) -> Version:
        """A new version over the rows, or the build, of one whose rows have all that the definition needs.

        Over those of the one that serves it takes the place of any that does not serve yet.
        """

    def make_over_tables(self) -> None:
        """Make the views over tables that are not made of the present rows of their table.

        `apply`, and whatever lets another version of a table serve, keep them so; a crash may have happened between.
        """

    def apply(self, step: Step, partials: Mapping[VersionId, Partials]) -> Changes:
        """Merge each version's partials and move it from step.from_commit to step.to_commit of the stream.

        Raises FencedError, with nothing changed, if a version is not where the step starts or another
        writer has fenced this one.
        """

    def build(self, view: str, number: int, stream: str, built_to: int) -> None:
        """A build has begun, or has reached this commit of a stream."""

    def make_batch_table(
        self,
        version: Version,
        commits: tuple[int, int],
        partials: Sequence[Path],
        earlier: Sequence[BatchTable] = (),
        *,
        stopping: Callable[[], bool] = never,
    ) -> BatchTable:
        """Fold files of partials and earlier batch tables of the version into a new one, completely or not at all.

        No version reads it before `fill` or `end_beat` says so, and `clean` removes it if neither does. It may take
        long, while readers and steps continue; when `stopping` says so it ends with UnavailableError.
        """

    def fill(self, view: str, number: int, stream: str, table: BatchTable) -> None:
        """The batch table of commits [0, horizon) of a stream is built: with the last one, the version is ready."""

    def promote(self, view: str, number: int) -> None:
        """Make a version serve; the one that did is retired."""

    def revive(self, view: str, number: int) -> None:
        """Maintain a retired version again, in the place of one that does not serve yet."""

    def begin_beat(self, view: str, number: int, stream: str) -> Version:
        """Fix the next horizon of a stream where the version is now; later commits go to a speed table of their own."""

    def compare(
        self,
        version: Version,
        stream: str,
        partials: Sequence[Path],
        evidence: Path,
        *,
        stopping: Callable[[], bool] = never,
    ) -> Comparison:
        """Compare the speed rows of commits [horizon, next_horizon) of a stream with the batch layer's partials.

        If they disagree, `evidence` is then a Parquet file of these speed rows. Corrections are not compared where
        the patience has changed since the horizon. `stopping` as in `make_batch_table`.
        """

    def end_beat(self, version: Version, tables: Sequence[BatchTable], audit: Audit) -> None:
        """Move the horizon of the audit's stream, onto these batch tables; the speed rows before it are dropped."""

    def refuse_beat(self, version: Version, audit: Audit) -> None:
        """Record drift: an alarm, and both sides are kept."""

    def compare_with_table(
        self, version: Version, folder: Path, *, stopping: Callable[[], bool] = never
    ) -> tuple[Version, Comparison]:
        """Compute the serving version of a view over a table again from all rows of the table, and compare.

        Returns it as it was at that moment, at the commits of the table. Parquet files of its rows and of those that
        it should have are in the folder then. `stopping` as in `make_batch_table`.
        """

    def note_audit(self, audit: Audit) -> None:
        """Record the result of `compare_with_table`: drift is an alarm, and without it there is none any more."""

    def forget(self, view: str, number: int) -> None:
        """Drop a version that does not serve, with its tables."""

    def drop(self, view: str) -> None:
        """Forget a view with all its versions."""

    def faults_of(self, version: Version) -> list[str]:
        """The faults of batch tables of a version, by their headers and by earlier failures."""

    def discard(self, view: str, number: int) -> None:
        """Remove a version that cannot be read, in any state; its view then has no version that answers."""

    def clean(self) -> None:
        """Remove batch tables of no version, left by a process that died. Call it only while none is being made."""

    def follow(self, view: str, name: str) -> None:
        """Log the cells of a view that steps touch, as long as it has followers; may be called again.

        The log is bounded: a follower that is too far behind reads all rows instead.
        """

    def advance(self, view: str, name: str, version: int, tick: int, cursor: str | None = None) -> None:
        """A follower has all changes up to this tick of a version."""

    def unfollow(self, view: str, name: str) -> None:
        """Remove a follower of a view, if there is one of this name."""

    def stall(self, view: str, number: int, stream: str, error: str | None, *, quarantined: bool = False) -> None:
        """Record why a version cannot continue with a stream, or that it can again.

        One that is quarantined must not be computed.
        """

    def keep(self, kind: str, name: str, value: str | None) -> None:
        """Keep a small text for another part, such as the progress of a sink, until the next one; None removes it.

        It outlives the rows: a store that starts empty, to be filled from the lake, still has it.
        """
