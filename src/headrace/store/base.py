"""What a store promises: the tables of view versions, merged into and read from atomically.

A store knows views and partials; it knows neither Spark nor the lake. Who calls it: `store/opening.py` opens it and
discards what is damaged; `server/` registers, adopts, revives, forgets and drops versions as definitions change, and
cleans at start; `maintain/speed.py` applies and stalls; `maintain/batch.py` builds, compares, moves horizons, promotes
and forgets; `serve/`, `asof/` and `sql/` read snapshots; who passes changes on follows views. Every store has to pass
`tests/contracts/store/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import pyarrow as pa

from headrace.define.model import View
from headrace.store.selection import Selection
from headrace.timing import later
from headrace.transport.position import START as TRANSPORT_START
from headrace.transport.position import Position

if TYPE_CHECKING:
    from headrace.store.changes import Changes, Follower, Log

# Names with a leading underscore are ours: `count(*) AS events` must not meet them.
KEY_ID = "_key_id"  # 32 hex digits in partials; a 128-bit column in the store
PANE = "_pane"  # start of the pane, in ms since the epoch; 0 for a view without window
EVENTS = "_events"  # how many events are in the row
CORRECTIONS = "_corrections"  # how many of them came when their pane was settled
OWN_NEWEST = "_own_newest"  # in partials of rows with an event time of their own: the newest one, in us
BATCH_EVENTS = "_batch_events"  # how many of a folded row's events were read from batch tables
COUNTED = (EVENTS, CORRECTIONS, BATCH_EVENTS)  # what precedes the partials in a folded row
FROM, TO = "_from", "_to"  # a span of time, in ms since the epoch
BUCKET = "_bucket"  # start of the bucket of a folded row, in ms since the epoch

T = TypeVar("T")
VersionId = tuple[str, int]  # the name of a view, and the number of one of its versions
# Partials of a version: names of Parquet files, or tables, each of which has a (key, pane) once at most.
Partials = Sequence[str] | Sequence[pa.Table]

State = Literal["registered", "building", "ready", "serving", "retired"]


@dataclass(frozen=True)
class BatchTable:
    """The partials of commits [from_commit, to_commit), in a table of its own that never changes."""

    file: str  # the name by which its store knows it; DuckDB's is a file
    from_commit: int
    to_commit: int
    rows: int
    events: int
    newest_us: int | None = None  # the newest event time of its rows, if they have their own


@dataclass(frozen=True)
class Base:
    """How far a version has read one of its base streams.

    The batch tables hold commits [0, horizon) of the stream, as soon as they are built; the speed tables
    [horizon, applied_to). While a beat moves the horizon, the rows from `next_horizon` on are in a speed table of
    their own.
    """

    stream: str
    patience_ms: int = 0
    horizon: int = 0
    next_horizon: int | None = None
    built_to: int = 0  # of a build: commits [0, built_to) have been computed
    applied_to: int = 0
    position: Position | None = TRANSPORT_START  # where the transport continues after commit applied_to - 1, if known
    newest_us: int | None = None  # newest event time over commits [0, applied_to); of its rows, if they have their own
    applied_at_us: int = 0  # wall time of the last merge
    stalled: str | None = None  # the error that stops the computation of its events
    quarantined: bool = False  # it is stalled because computing it ends Java
    alarm: str | None = None  # the drift for which a beat was refused
    patience_from: int = 0  # the commit from which on the patience has been what it is
    batch: tuple[BatchTable, ...] = ()  # which tile [0, horizon)
    idle_us: int | None = None  # what the time of the stream came to while it was idle, in commits [0, applied_to)

    @property
    def time_us(self) -> int | None:
        """The time of the stream: that of its newest event, or later if it has been idle."""
        return later(self.newest_us, self.idle_us)

    @property
    def built(self) -> bool:
        """Whether the batch tables hold all commits [0, horizon)."""
        return (self.batch[-1].to_commit if self.batch else 0) == self.horizon

    def covers(self, position: Position) -> bool:
        """Whether it is known to have everything before a position of the transport."""
        return self.position is not None and self.position.covers(position)

    @property
    def settled_us(self) -> int | None:
        """The event time up to which no more events are expected; None: there is no event yet."""
        return None if self.time_us is None else self.time_us - self.patience_ms * 1000


@dataclass(frozen=True)
class Pinned:
    """Which versions of tables the events of a version are joined to, where their commits do not say it.

    A version of a table is a number of commits of the stream that holds its changes.
    """

    versions: tuple[tuple[str, int], ...] = ()  # by that stream: for commits that recorded none
    until: tuple[tuple[str, int], ...] = ()  # by base stream: the commits before this one use these, whatever they saw
    fill: tuple[tuple[str, int], ...] = ()  # by that stream: where keys are looked for that a row's version lacks
    fill_until: tuple[tuple[str, int], ...] = ()  # by base stream: of the commits before this one

    def version(self, stream: str, commit: int, pins: Mapping[str, int] | None, log: str) -> int:
        """The version of a table that the events of a commit are joined to."""
        default = dict(self.versions).get(log, 0)
        return default if commit < dict(self.until).get(stream, 0) else (pins or {}).get(log, default)

    def filling(self, stream: str, log: str) -> tuple[int, int] | None:
        """The commits [0, until) of a stream whose missing keys are looked for in a version of a table, and that."""
        until, version = dict(self.fill_until).get(stream), dict(self.fill).get(log)
        return None if until is None or version is None else (until, version)


NOT_PINNED = Pinned()


@dataclass(frozen=True)
class Version:
    """One definition of a view, its state, and how far it has read each of its base streams."""

    view: View
    number: int
    fingerprint: str
    state: State
    bases: tuple[Base, ...]  # in the order of view.streams
    changed_at_us: int = 0  # when it came into its state
    home: int | None = None  # the number that its tables were made under; None: a free edit took them
    replaces: int | None = None  # the number of the version that served before it, or does until it serves
    pinned: Pinned = NOT_PINNED  # of joins to tables

    @property
    def id(self) -> VersionId:
        """What it is known by."""
        return self.view.name, self.number

    def reads(self, stream: str) -> bool:
        """Whether it reads a stream."""
        return stream in self.view.streams

    def base(self, stream: str) -> Base:
        """How far it has read one of its streams."""
        return self.bases[self.view.streams.index(stream)]

    def lags(self, other: Version) -> bool:
        """Whether it lacks commits that another version has, of a stream that both read."""
        return any(self.commits.get(stream, commits) < commits for stream, commits in other.commits.items())

    @property
    def commits(self) -> dict[str, int]:
        """How many commits of each stream are in it."""
        return {base.stream: base.applied_to for base in self.bases}

    def total(self, counted: Literal["horizon", "applied_to", "built_to"]) -> int:
        """A number of commits, summed over its streams."""
        return sum(getattr(base, counted) for base in self.bases)

    @property
    def patience_ms(self) -> dict[str, int]:
        """The patience that it was computed with, by stream."""
        return {base.stream: base.patience_ms for base in self.bases}

    @property
    def newest_us(self) -> int | None:
        """The newest event time in it."""
        return max((base.newest_us for base in self.bases if base.newest_us is not None), default=None)

    @property
    def settled_us(self) -> int | None:
        """The event time up to which it expects no more events from any stream; None: one has no event yet.

        The rows of a table may always change, so that what is made of them is never settled.
        """
        if self.view.over is not None:
            return None
        times = [base.settled_us for base in self.bases]
        return None if None in times else min(time for time in times if time is not None)

    @property
    def batch(self) -> tuple[BatchTable, ...]:
        """The batch tables of all streams."""
        return tuple(table for base in self.bases for table in base.batch)

    @property
    def stalled(self) -> str | None:
        """The first error that stops its computation; of a version of several streams, it names the stream."""
        for base in self.bases:
            if base.stalled:
                prefix = f"stream '{base.stream}'"
                whole = len(self.bases) == 1 or prefix in base.stalled
                return base.stalled if whole else f"{prefix}: {base.stalled}"
        return None

    @property
    def quarantined(self) -> bool:
        """Whether it must not be computed."""
        return any(base.quarantined for base in self.bases)

    @property
    def alarm(self) -> str | None:
        """The first drift for which a beat was refused."""
        return next((base.alarm for base in self.bases if base.alarm), None)

    @property
    def serving(self) -> bool:
        """Whether it answers for its view."""
        return self.state == "serving"

    @property
    def whole(self) -> bool:
        """Whether all commits [0, applied_to) of each stream are in its tables."""
        return self.home is not None and all(base.built for base in self.bases)

    @property
    def live(self) -> bool:
        """Whether it answers for its view, or will."""
        return self.state != "retired"

    @property
    def moves(self) -> bool:
        """Whether the speed layer brings it on.

        One that is being built waits: nobody reads it, and one step over all that came meanwhile costs
        less than a step for each commit.
        """
        return self.live and self.whole and self.view.over is None


@dataclass(frozen=True)
class Point:
    """A place in a stream's log: behind commit - 1, at a position of the transport, if that is known."""

    commit: int
    position: Position | None
    newest_us: int | None
    idle_us: int | None = None


START = Point(0, TRANSPORT_START, None)
NO_HISTORY: Mapping[str, Point] = MappingProxyType({})  # each stream from its start


@dataclass(frozen=True)
class Drift:
    """Rows of one column for which the two layers do not agree."""

    column: str
    rows: int
    example: str


@dataclass(frozen=True)
class Comparison:
    """How many rows were compared, how many events the batch layer has in them, and what disagrees."""

    rows: int
    events: int
    drift: tuple[Drift, ...]


@dataclass(frozen=True)
class Audit:
    """What came of comparing the two layers over commits [from_commit, to_commit) of a stream."""

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
        """Whether both layers say the same."""
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
    """Nobody asks to stop."""
    return False


class Snapshot(Protocol):
    """One consistent sight of the store."""

    def versions(self) -> list[Version]:
        """All versions, by view name and number."""

    def serving(self, view: str) -> Version | None:
        """The version that answers for a view."""

    def audits(self, view: str, limit: int | None = None) -> list[Audit]:
        """The comparisons of the two layers, newest first; so many of them, or all that are kept."""

    def count(self, version: Version) -> tuple[int, int]:
        """How many rows a version has in its batch tables and in its speed tables; a (key, pane) may be in both."""

    def count_present(self, version: Version) -> int:
        """How many rows a version of a table has that are not deleted."""

    def speed_events(self, version: Version) -> int:
        """How many events are in the rows of its speed tables."""

    def corrections(self, version: Version) -> int:
        """How many of the events in its rows came when their pane was settled."""

    def fold(self, version: Version, selection: Selection) -> pa.Table:
        """Merged partials: BUCKET, the kept keys, EVENTS, CORRECTIONS, BATCH_EVENTS, each partial column.

        Ordered by bucket as the selection says, then by the keys, NULL first.
        """

    def count_groups(self, version: Version, selection: Selection, most: int) -> int | None:
        """How many rows `fold` would give; None if it would read more than `most` rows for them."""

    def pieces(self, version: Version, selection: Selection, *, ordered: bool) -> pa.RecordBatchReader:
        """What `fold` gives, piece by piece as it is read, in any order if that will do; close it at the end."""

    def rows(self, version: Version, selection: Selection) -> list[tuple[Any, ...]]:
        """What `fold` gives, as tuples: the quick way to a few rows."""

    def followers(self) -> list[Follower]:
        """Everybody who follows a view."""

    def log(self, version: Version) -> Log | None:
        """For which ticks of a version the touched cells are known; None: for none."""

    def ticks(self, version: Version, after: int) -> list[tuple[int, int]]:
        """The ticks after one at which cells were touched, and how many each time."""

    def touched(self, version: Version, after: int, upto: int) -> pa.Table:
        """The cells that were touched at the ticks (after, upto], each once: KEY_ID and PANE."""

    def changed(self, version: Version, selection: Selection, spans: pa.Table) -> list[tuple[Any, ...]]:
        """What `rows` gives for all keys, of some spans of time: KEY_ID, FROM and TO; the KEY_ID follows the bucket."""


class Store(Protocol):
    """Where views live. Each method is one transaction; FencedError says that nothing was changed.

    Partials reach it as Parquet files with the columns that `columns.py` names: KEY_ID, PANE, the keys, EVENTS,
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

        `apply`, and whatever lets another version of a table serve, keep them so; a crash may have come between.
        """

    def apply(self, step: Step, partials: Mapping[VersionId, Partials]) -> Changes:
        """Merge each version's partials and move it from step.from_commit to step.to_commit of the stream.

        Raises FencedError, with nothing changed, if a version is not where the step starts or another
        writer has fenced this one.
        """

    def build(self, view: str, number: int, stream: str, built_to: int) -> None:
        """A build has begun, or has come to this commit of a stream."""

    def make_batch_table(
        self,
        version: Version,
        commits: tuple[int, int],
        partials: Sequence[Path],
        earlier: Sequence[BatchTable] = (),
        *,
        stopping: Callable[[], bool] = never,
    ) -> BatchTable:
        """Fold files of partials and earlier batch tables of the version into a new one, whole or not at all.

        No version reads it before `fill` or `end_beat` says so, and `clean` removes it if neither does. It may take
        long, beside readers and steps; when `stopping` says so it ends with UnavailableError.
        """

    def fill(self, view: str, number: int, stream: str, table: BatchTable) -> None:
        """The batch table of commits [0, horizon) of a stream is built: with the last one, the version is ready."""

    def promote(self, view: str, number: int) -> None:
        """Make a version serve; the one that did is retired."""

    def revive(self, view: str, number: int) -> None:
        """A retired version is brought on again, in the place of one that does not serve yet."""

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

    def forget(self, view: str, number: int) -> None:
        """Drop a version that does not serve, with its tables."""

    def drop(self, view: str) -> None:
        """Forget a view with all its versions."""

    def faults_of(self, version: Version) -> list[str]:
        """What is wrong with batch tables of a version, as far as a glance or an earlier failure tells."""

    def discard(self, view: str, number: int) -> None:
        """Remove a version that cannot be read, whatever its state; nobody answers for its view then."""

    def clean(self) -> None:
        """Remove batch tables that no version has, which a process that died left. Only while none is being made."""

    def follow(self, view: str, name: str) -> None:
        """From now on the cells that steps touch in a view are logged, until nobody follows it; it may do so already.

        The log is bounded: who has not come far enough by then reads all rows instead.
        """

    def advance(self, view: str, name: str, version: int, tick: int, cursor: str | None = None) -> None:
        """A follower has all changes up to this tick of a version."""

    def unfollow(self, view: str, name: str) -> None:
        """Somebody no longer follows a view, or never did."""

    def stall(self, view: str, number: int, stream: str, error: str | None, *, quarantined: bool = False) -> None:
        """Record why a version cannot continue with a stream, or that it can again.

        One that is quarantined must not be computed.
        """

    def keep(self, kind: str, name: str, value: str | None) -> None:
        """Keep a small text for others, such as the progress of a sink, in place of the one before; None: no longer.

        It outlives the rows: a store that starts anew, to be filled from the lake, still has it.
        """

    def kept(self, kind: str) -> dict[str, str]:
        """The texts that `keep` wrote, by name."""

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """A consistent read of versions and rows."""

    def read(self, work: Callable[[Snapshot], T]) -> T:
        """What `work` returns for a snapshot. Faster than `snapshot` for short reads; `work` may be called twice."""

    def serving_now(self, view: str) -> Version | None:
        """The version that answers for a view, if that is known without a read; None also while a write is committed.

        Rows change only together with their version, so equal versions have equal rows.
        """

    def close(self) -> None:
        """Release the store's files."""
