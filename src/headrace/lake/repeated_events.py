"""Finds events of a commit that repeat an earlier one, of this commit or of those before: UNIQUE (…) WITHIN ….

Event time is divided into segments, not shorter than the interval: an event repeats only events of its own segment and
of its neighbours. The driver says of which segments all ids are known; if others are needed, it loads them first.
"""

from __future__ import annotations

import uuid
from bisect import bisect
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.define.model import Stream
from headrace.lake.event_ids import (
    Entries,
    Int64s,
    Run,
    describe_ids,
    id_columns,
    read_ids,
    with_equal_neighbour,
    write_run,
)
from headrace.lake.table_schema import REASON
from headrace.language.durations import HOUR_MS

SHORTEST_SEGMENT_MS = HOUR_MS
MOST_PARTS = 8  # of the commit's own entries before they are merged
MOST_ROUNDS = 16  # over the events of a block that have the same ids; the rest is judged one by one


@dataclass(frozen=True)
class Once:
    """The rule that decides whether an event repeats another one."""

    columns: tuple[str, ...]
    time_column: str
    within_us: int
    segment_us: int

    @classmethod
    def of(cls, stream: Stream) -> Once | None:
        """The rule of a stream; None if all of its events count."""
        if stream.unique is None:
            return None
        within_ms = stream.unique.within_ms
        segment_ms = max(within_ms, SHORTEST_SEGMENT_MS)
        return cls(stream.unique.columns, stream.time_column, within_ms * 1000, segment_ms * 1000)

    @property
    def reads(self) -> list[str]:
        """The columns of events that it needs."""
        return id_columns(self.columns, self.time_column)

    def segments(self, time_us: Int64s) -> Int64s:
        """The segment of each time."""
        return np.floor_divide(time_us, self.segment_us)

    def reach(self, time_us: Int64s) -> tuple[Int64s, Int64s]:
        """The first and the last segment in which events of these times can have repeats; there is at most one more."""
        reach_us = self.within_us - 1
        return self.segments(time_us - reach_us), self.segments(time_us + reach_us)


@dataclass(frozen=True)
class Known:
    """The ids of the commits so far, as workers read them: all those of `segments`."""

    once: Once
    commit: int  # the next one
    runs: tuple[Run, ...]
    segments: frozenset[int]
    folder: str  # for new runs
    complete: bool = False  # whether all ids are known: there are no events yet


@dataclass(frozen=True)
class RepeatVerdict:
    """The verdicts about the events of a commit. If segments are missing, nothing else is known."""

    runs: tuple[Run, ...] = ()
    segments: frozenset[int] = frozenset()  # that were needed
    missing: frozenset[int] = frozenset()
    duplicates: int = 0


class RepeatCheck:
    """Judges the events of one commit, block by block, in the order of the log."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._once = known.once
        self._earlier = [(run, run.read()) for run in known.runs]
        self._own: list[Entries] = []  # of this commit, each sorted
        self._needed: set[int] = set()
        self._duplicates = 0

    @classmethod
    def of_first(cls, stream: Stream) -> RepeatCheck | None:
        """Judges events of a stream that has none before; None if all of them count."""
        once = Once.of(stream)
        return cls(Known(once, 0, (), frozenset(), "", complete=True)) if once else None

    @property
    def missing(self) -> frozenset[int]:
        """The segments that it needs and that are not known. If there are any, no verdict is right."""
        return frozenset() if self._known.complete else frozenset(self._needed - self._known.segments)

    def split(self, rows: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        """The events that count, and those that repeat others, with the reason; None if there are none of them."""
        first = self.check(rows)
        if first is None:
            return rows, None
        repeats = pa.array(first >= 0)
        again = rows.filter(repeats)
        reasons = self.describe(again, first[first >= 0])
        again = again.set_column(again.schema.get_field_index(REASON), again.schema.field(REASON), reasons)
        return rows.filter(pc.invert(repeats)), again

    def describe(self, repeats: pa.Table, first: Int64s) -> pa.Array:
        """The reasons of events that repeat those at these positions."""
        return describe_ids(repeats, self._once.columns, pa.array(first))

    def check(self, rows: pa.Table) -> Int64s | None:
        """The position of the event that each of these repeats, -1 if it counts; None if all of them count."""
        once = self._once
        ids, index = read_ids(rows, once.columns, once.time_column)
        from_segment, to_segment = once.reach(ids.time_us)
        for each in (from_segment, once.segments(ids.time_us), to_segment):
            self._needed.update(np.unique(each).tolist())
        if self.missing:
            return None
        order = np.argsort(ids.high, kind="stable")
        events = ids.take(order)
        first = np.full(len(events), -1, np.int64)
        for run, entries in self._earlier:
            near = (events.time_us > run.first_us - once.within_us) & (events.time_us < run.last_us + once.within_us)
            if near.all():
                _note(first, *entries.find(events, once.within_us))
            elif near.any():
                some, which = np.flatnonzero(near), entries.find(events.take(near), once.within_us)
                _note(first, some[which[0]], which[1])
        for entries in self._own:
            _note(first, *entries.find(events, once.within_us))
        _check_among(events, first, once.within_us)
        self._remember(events.take(first < 0).sort())
        count = int((first >= 0).sum())
        self._duplicates += count
        if not count:
            return None
        verdicts = np.full(len(rows), -1, np.int64)
        verdicts[index[order]] = first
        return verdicts

    def _remember(self, entries: Entries) -> None:
        self._own.append(entries)
        if len(self._own) > MOST_PARTS:
            self._own = [Entries.join(self._own).sort()]

    def finish(self) -> RepeatVerdict:
        """Return the verdicts; the ids of the events that count are in a new run."""
        if self.missing:
            return RepeatVerdict(missing=self.missing, segments=frozenset(self._needed))
        runs: tuple[Run, ...] = ()
        if sum(map(len, self._own)):
            path = Path(self._known.folder) / f"{self._known.commit:012d}-{uuid.uuid4().hex}.ids"
            runs = (write_run(path, Entries.join(self._own).sort()),)
        return RepeatVerdict(runs, frozenset(self._needed), duplicates=self._duplicates)


def _note(first: Int64s, which: Int64s, position: Int64s) -> None:
    """Record what some events repeat. If an event repeats several, the one that is first in the log is named."""
    known = first[which]
    first[which] = np.where(known < 0, position, np.minimum(known, position))


def _check_among(events: Entries, first: Int64s, within_us: int) -> None:
    """Judge events of one block against each other. They are sorted by hash, and then by their order in the log."""
    left = np.flatnonzero(first < 0)
    left = left[with_equal_neighbour(events.high[left])]
    if not len(left):
        return
    left = left[np.lexsort((np.arange(len(left)), events.low[left], events.high[left]))]
    for _ in range(MOST_ROUNDS):
        # The first event that is left of each id counts. Events within the interval repeat it; the others remain.
        same = (events.high[left[1:]] == events.high[left[:-1]]) & (events.low[left[1:]] == events.low[left[:-1]])
        leads = np.append(True, ~same)
        leader = left[np.flatnonzero(leads)[np.cumsum(leads) - 1]]
        repeats = ~leads & (np.abs(events.time_us[left] - events.time_us[leader]) < within_us)
        first[left[repeats]] = events.position[leader[repeats]]
        left = left[~leads & ~repeats]
        if not len(left):
            return
    _check_one_by_one(events, left, first, within_us)


@dataclass
class _Times:
    """The times of the events of one id that count, sorted, and their positions."""

    times: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)


def _check_one_by_one(events: Entries, left: Int64s, first: Int64s, within_us: int) -> None:
    """Judge ids that count many times in one block: the interval is short, and the id stays the same."""
    ids: dict[tuple[int, int], _Times] = {}
    rows = events.take(left)
    columns = (rows.high.tolist(), rows.low.tolist(), rows.time_us.tolist(), rows.position.tolist())
    for index, high, low, time_us, position in zip(left.tolist(), *columns, strict=True):
        known = ids.setdefault((high, low), _Times())
        place = bisect(known.times, time_us)
        for near in (place - 1, place):
            if 0 <= near < len(known.times) and abs(known.times[near] - time_us) < within_us:
                first[index] = known.positions[near]
                break
        else:
            known.times.insert(place, time_us)
            known.positions.insert(place, position)
