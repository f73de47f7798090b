"""Windows of a question: the buckets of panes that tile them, and overlapping and cumulative ones composed in one
sweep over time.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.aggregate import SUM, Value
from headrace.define.model import Window
from headrace.language.calendar import Calendar
from headrace.store.partial_columns import COUNTED
from headrace.store.selection import ends_within, rank
from headrace.store.time_limit import check_time

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Windows:
    """The windows of a question: those whose end lies in (start, end].

    - [origin + i * every, … + size), which overlap if `every` is less than the size;
    - with a `calendar`, its days, weeks or months;
    - `cumulative` ones grow by `every` up to the size, or to the end of the calendar's, then begin again;
    - a `session` has bounds of its own, in its row: its id is its start.

    A window is known by one time, its id: its start, or for cumulative windows, which share it, that of its last step.
    """

    size_ms: int
    every_ms: int
    start_ms: int | None = None
    end_ms: int | None = None
    offset_ms: int | None = None  # None: windows are aligned to `start`, or to the epoch
    calendar: Calendar | None = None
    cumulative: bool = False
    session: bool = False

    @property
    def origin_ms(self) -> int:
        return (self.start_ms or 0) if self.offset_ms is None else self.offset_ms

    @property
    def bucket_ms(self) -> int:
        """The largest span that tiles every window; of a calendar about that."""
        if self.cumulative or self.calendar:
            return self.every_ms
        return math.gcd(self.size_ms, self.every_ms)

    @property
    def composed(self) -> bool:
        """Whether windows must be composed from buckets; otherwise the store's buckets are the windows."""
        return self.cumulative or (self.calendar is None and self.size_ms != self.every_ms)

    @property
    def none(self) -> bool:
        """Whether it is certain that no window ends within the bounds."""
        if self.session:
            return self.start_ms is not None and self.end_ms is not None and self.start_ms >= self.end_ms
        first, last = self.ids
        return first is not None and last is not None and first > last

    def holds(self, row: Row) -> bool:
        """Whether a row is of a window that ends within the bounds; the bounds of a session end its row."""
        if self.session:
            return ends_within(row[-1], (self.start_ms, self.end_ms))
        first, last = self.ids
        return (first is None or row[0] >= first) and (last is None or row[0] <= last)

    def bounds(self, id_ms: int) -> tuple[int, int]:
        """The start and the end of a window."""
        if self.cumulative:
            start, end = self._cycle(id_ms)
            return start, min(id_ms + self.every_ms, end)
        if self.calendar:
            return id_ms, self.calendar.end_of(id_ms)
        return id_ms, id_ms + self.size_ms

    def at(self, ms: int) -> tuple[int, int] | None:
        """The last window that holds this time, of cumulative ones the shortest; None if there is none."""
        if self.cumulative or self.calendar:
            return self.bounds(self._id_at(ms))
        start = ms // self.every_ms * self.every_ms
        if self.offset_ms is not None:
            start = self.offset_ms + (ms - self.offset_ms) // self.every_ms * self.every_ms
        return (start, start + self.size_ms) if ms < start + self.size_ms else None

    def around(self, ms: int) -> tuple[int, int]:
        """The time that all windows that hold this time cover together; if none does, it ends before it begins."""
        if self.cumulative or self.calendar:
            return self._cycle(ms)
        last = self.origin_ms + (ms - self.origin_ms) // self.every_ms * self.every_ms
        return self.first_ending_after(ms), last + self.size_ms

    @property
    def overlap(self) -> int:
        """How many windows hold a time, at most."""
        return -(-self.size_ms // self.every_ms)

    def first_ending_after(self, ms: int) -> int:
        """The id of the first window that ends after this time."""
        if self.cumulative or self.calendar:
            return self._id_at(ms)
        return self.origin_ms + ((ms - self.origin_ms - self.size_ms) // self.every_ms + 1) * self.every_ms

    @cached_property
    def ids(self) -> tuple[int | None, int | None]:
        """The first and the last id of the requested windows."""
        first = None if self.start_ms is None else self.first_ending_after(self.start_ms)
        if self.end_ms is None:
            return first, None
        last = self.first_ending_after(self.end_ms)
        return first, self._id_at(last - 1) if self.cumulative or self.calendar else last - self.every_ms

    @property
    def panes(self) -> tuple[int | None, int | None]:
        """The times that these windows cover, closed-open."""
        first, last = self.ids
        return None if first is None else self.bounds(first)[0], None if last is None else self.bounds(last)[1]

    def cycle_end(self, id_ms: int) -> int:
        """The end of the longest cumulative window that shares its start with this one."""
        return self._cycle(id_ms)[1]

    def _id_at(self, ms: int) -> int:
        start, _ = self._cycle(ms)
        return start + (ms - start) // self.every_ms * self.every_ms if self.cumulative else start

    def _cycle(self, ms: int) -> tuple[int, int]:
        """The bounds of the calendar's window, or of the longest cumulative one, that holds this time."""
        if self.calendar:
            start = self.calendar.start_of(ms)
            return start, self.calendar.end_of(start)
        start = self.origin_ms + (ms - self.origin_ms) // self.size_ms * self.size_ms
        return start, start + self.size_ms


def windows_of(declared: Window) -> Windows:
    """The windows that a view declares."""
    return Windows(
        declared.size_ms,
        declared.slide_ms,
        offset_ms=declared.offset_ms,
        calendar=declared.calendar,
        cumulative=declared.cumulative,
        session=declared.session,
    )


Pair = Callable[[Any, Any], Any]
_Total = tuple[Row, Row]  # the place of its keys in the order, and a row
BUCKET_COUNTS: tuple[Pair, ...] = (SUM.pair,) * len(COUNTED)


class Merger:
    """Merges rows column by column; None is the identity element."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._pairs = tuple(pairs)

    def __call__(self, a: Row | None, b: Row | None) -> Row | None:
        if a is None or b is None:
            return b if a is None else a
        return tuple(
            y if x is None else x if y is None else pair(x, y) for pair, x, y in zip(self._pairs, a, b, strict=True)
        )


class Sliding:
    """The merge of a queue of rows: pushed at one end, dropped at the other."""

    def __init__(self, keys: Row, merge: Merger) -> None:
        self.keys = keys
        self._merge = merge
        self._front: list[tuple[int, Row]] = []  # oldest last, each merged with all younger ones here
        self._back: list[tuple[int, Row]] = []
        self._back_total: Row | None = None

    def push(self, bucket: int, row: Row) -> None:
        """Add the row of a later bucket."""
        self._back.append((bucket, row))
        self._back_total = self._merge(self._back_total, row)

    def drop_before(self, bucket: int) -> None:
        """Remove the rows of buckets before this one."""
        while True:
            if not self._front:
                self._turn()
            if not self._front or self._front[-1][0] >= bucket:
                return
            self._front.pop()

    def __bool__(self) -> bool:
        return bool(self._front or self._back)

    def _turn(self) -> None:
        total: Row | None = None
        while self._back:
            bucket, row = self._back.pop()
            total = self._merge(row, total)
            assert total is not None, "a row was merged in"
            self._front.append((bucket, total))
        self._back_total = None

    def total(self) -> Row | None:
        """The merge of all rows; None if there is none."""
        return self._merge(self._front[-1][1] if self._front else None, self._back_total)


@dataclass(frozen=True)
class Sweep:
    """Windows [origin + i * every, … + size) in ascending order; `first` and `last` bound their starts."""

    size: int
    every: int
    origin: int
    first: int | None
    last: int | None

    @classmethod
    def forwards(cls, windows: Windows) -> Sweep:
        """Windows in the order of time."""
        return cls(windows.size_ms, windows.every_ms, windows.origin_ms, *windows.ids)

    @classmethod
    def backwards(cls, windows: Windows) -> Sweep:
        """The same windows mirrored at time zero: the newest comes first."""
        size = windows.size_ms
        first, last = (None if start is None else -(start + size) for start in windows.ids)
        return cls(size, windows.every_ms, -(windows.origin_ms + size), last, first)

    def next(self, time: int, least: int | None) -> int:
        """The start of the first window that ends after a time, of those that start at `least` or later."""
        start = self.origin + ((time - self.origin - self.size) // self.every + 1) * self.every
        return max(bound for bound in (start, self.first, least) if bound is not None)


def compose(
    buckets: Iterable[Row],
    windows: Windows,
    width: int,
    pairs: Sequence[Pair],
    after: Sequence[Value] | None,
    *,
    newest_first: bool = False,
) -> Iterator[Row]:
    """Rows of (id of the window, keys, merged columns), ordered by window and keys, from buckets in the same order.

    `width` keys follow the bucket in each row. Rows up to and including `after` are omitted.
    """
    how = _accumulate if windows.cumulative else slide
    return how(buckets, windows, width, pairs, after, newest_first=newest_first)


def _accumulate(
    buckets: Iterable[Row],
    windows: Windows,
    width: int,
    pairs: Sequence[Pair],
    after: Sequence[Value] | None,
    *,
    newest_first: bool,
) -> Iterator[Row]:
    """Cumulative windows: each is the one before it and one more bucket, until they begin again."""
    sign = -1 if newest_first else 1
    last_place = None if after is None else (sign * int(after[0]), tuple(map(rank, after[1:])))
    first, last = windows.ids
    if after is not None:
        first, last = (first, int(after[0])) if newest_first else (int(after[0]), last)
    for _, rows in itertools.groupby(buckets, key=lambda row: windows.bounds(row[0])[0]):
        spans = _spans(list(rows), windows, width, Merger(pairs))
        for span, totals in reversed(list(spans)) if newest_first else spans:
            ids = span[bisect_left(span, first) if first is not None else 0 :]
            ids = ids[: bisect_right(ids, last) if last is not None else len(ids)]
            for id_ms in reversed(ids) if newest_first else ids:
                check_time()
                for place, row in totals:
                    if last_place is None or (sign * id_ms, place) > last_place:
                        yield (id_ms, *row)


def _spans(rows: list[Row], windows: Windows, width: int, merge: Merger) -> Iterator[tuple[range, list[_Total]]]:
    """Windows with one start whose rows are equal: their ids, and the rows so far, in the order of their keys."""
    by_bucket: dict[int, list[Row]] = {}
    for row in rows:
        by_bucket.setdefault(row[0], []).append(row)
    totals: dict[Row, tuple[Row, Row | None]] = {}
    changes = [*sorted(by_bucket), windows.cycle_end(rows[0][0])]
    for bucket, following in itertools.pairwise(changes):
        check_time()
        for row in by_bucket[bucket]:
            place = tuple(map(rank, row[1 : 1 + width]))
            keys, total = totals.get(place, (row[1 : 1 + width], None))
            totals[place] = keys, merge(total, row[1 + width :])
        so_far = [(place, (*keys, *(total or ()))) for place, (keys, total) in sorted(totals.items())]
        yield range(bucket, following, windows.every_ms), so_far


def slide(
    buckets: Iterable[Row],
    windows: Windows,
    width: int,
    pairs: Sequence[Pair],
    after: Sequence[Value] | None,
    *,
    newest_first: bool = False,
) -> Iterator[Row]:
    """Rows of (window start, keys, merged columns), ordered by window and keys, from buckets in the same order.

    `width` keys follow the bucket in each row. Rows up to and including `after` are omitted.
    """
    if not newest_first:
        yield from _slide(buckets, Sweep.forwards(windows), width, Merger(pairs), after)
        return
    bucket, size = windows.bucket_ms, windows.size_ms
    mirrored = ((-(row[0] + bucket), *row[1:]) for row in buckets)
    last_place = None if after is None else (-(after[0] + size), *after[1:])
    for start, *rest in _slide(mirrored, Sweep.backwards(windows), width, Merger(pairs), last_place):
        yield (-(start + size), *rest)


def _slide(
    buckets: Iterable[Row], sweep: Sweep, width: int, merge: Merger, after: Sequence[Value] | None
) -> Iterator[Row]:
    active: dict[Row, Sliding] = {}
    ordered: list[Row] = []
    rows = iter(buckets)
    ahead = next(rows, None)
    window = None if after is None else int(after[0])
    skipped = None if after is None else (int(after[0]), tuple(map(rank, after[1:])))
    while active or ahead is not None:
        check_time()
        if not active and ahead is not None:
            window = sweep.next(ahead[0], window)
        assert window is not None, "the first row sets the window"
        if sweep.last is not None and window > sweep.last:
            return
        end = window + sweep.size
        while ahead is not None and ahead[0] < end:
            if ahead[0] >= window:  # else it lies between two windows
                place = tuple(map(rank, ahead[1 : 1 + width]))
                if place not in active:
                    active[place] = Sliding(ahead[1 : 1 + width], merge)
                    ordered = []
                active[place].push(ahead[0], ahead[1 + width :])
            ahead = next(rows, None)
        ordered = ordered or sorted(active)
        for place in ordered:
            total = active[place].total()
            if total is not None and (skipped is None or (window, place) > skipped):
                yield (window, *active[place].keys, *total)
        window += sweep.every
        for place in ordered:
            active[place].drop_before(window)
            if not active[place]:
                del active[place]
        if len(active) != len(ordered):
            ordered = []
