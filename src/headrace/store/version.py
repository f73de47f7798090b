"""A version of a view: its definition, its state, and how far it has read each of its base streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from headrace.define.model import View
from headrace.timing import later
from headrace.transport.position import START as TRANSPORT_START
from headrace.transport.position import Position

VersionId = tuple[str, int]  # the name of a view, and the number of one of its versions
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
    """The place of a version in one of its base streams.

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
    idle_us: int | None = None  # the time that the stream reached while it was idle, in commits [0, applied_to)

    @property
    def time_us(self) -> int | None:
        """The time of the stream: that of its newest event, or later if it has been idle."""
        return later(self.newest_us, self.idle_us)

    @property
    def built(self) -> bool:
        """Return whether the batch tables hold all commits [0, horizon)."""
        return (self.batch[-1].to_commit if self.batch else 0) == self.horizon

    def covers(self, position: Position) -> bool:
        """Return whether it is known to have everything before a position of the transport."""
        return self.position is not None and self.position.covers(position)

    @property
    def settled_us(self) -> int | None:
        """The event time up to which no more events are expected; None: there is no event yet."""
        return None if self.time_us is None else self.time_us - self.patience_ms * 1000


@dataclass(frozen=True)
class Pinned:
    """The versions of tables that the events of a version are joined to, where their commits do not say it.

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
    changed_at_us: int = 0  # when it entered its state
    home: int | None = None  # the number that its tables were made under; None: a free edit took them
    replaces: int | None = None  # the number of the version that served before it, or does until it serves
    pinned: Pinned = NOT_PINNED  # of joins to tables

    @property
    def id(self) -> VersionId:
        """The identity of a version."""
        return self.view.name, self.number

    def reads(self, stream: str) -> bool:
        """Return whether it reads a stream."""
        return stream in self.view.streams

    def base(self, stream: str) -> Base:
        """The place in one of its streams."""
        return self.bases[self.view.streams.index(stream)]

    def at_commits_of(self, other: Version) -> bool:
        """Return whether it has the same commits of the same streams as another version."""
        return self.commits == other.commits

    def lags(self, other: Version) -> bool:
        """Return whether it lacks commits that another version has, of a stream that both read."""
        return any(self.commits.get(stream, commits) < commits for stream, commits in other.commits.items())

    @property
    def commits(self) -> dict[str, int]:
        """The number of commits of each stream that are in it."""
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
    def settled_ms(self) -> int | None:
        """The time by which windows must end to be settled. An event at the end of a session still belongs to it."""
        if self.settled_us is None:
            return None
        return (self.settled_us - self.view.has_sessions) // 1000

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
                only = len(self.bases) == 1 or prefix in base.stalled
                return base.stalled if only else f"{prefix}: {base.stalled}"
        return None

    @property
    def quarantined(self) -> bool:
        """Return whether it must not be computed."""
        return any(base.quarantined for base in self.bases)

    @property
    def alarm(self) -> str | None:
        """The first drift for which a beat was refused."""
        return next((base.alarm for base in self.bases if base.alarm), None)

    @property
    def serving(self) -> bool:
        """Return whether it answers for its view."""
        return self.state == "serving"

    @property
    def complete(self) -> bool:
        """Return whether all commits [0, applied_to) of each stream are in its tables."""
        return self.home is not None and all(base.built for base in self.bases)

    @property
    def live(self) -> bool:
        """Return whether it answers for its view, or will."""
        return self.state != "retired"

    @property
    def moves(self) -> bool:
        """Return whether the speed layer updates it.

        One that is being built waits: nobody reads it, and one step over all commits since then costs
        less than a step for each commit.
        """
        return self.collects and self.complete

    @property
    def collects(self) -> bool:
        """Return whether it needs partials of new commits: during a build they are kept until it is complete."""
        return self.live and self.home is not None and self.view.over is None


@dataclass(frozen=True)
class Point:
    """A place in a stream's log: after commit - 1, at a position of the transport, if that is known."""

    commit: int
    position: Position | None
    newest_us: int | None
    idle_us: int | None = None


START = Point(0, TRANSPORT_START, None)
NO_HISTORY: Mapping[str, Point] = MappingProxyType({})  # each stream from its start
