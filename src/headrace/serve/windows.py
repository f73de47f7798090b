"""Overlapping and cumulative windows, composed from buckets in one sweep over time.

Each key slides by two stacks: amortised one merge per bucket and window, and only associativity
is used, so any aggregate can slide.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.aggregate import SUM, Value
from headrace.serve.tiling import Windows
from headrace.store.columns import COUNTED
from headrace.store.few import rank
from headrace.store.time_limit import check_time

Row = tuple[Any, ...]
Pair = Callable[[Any, Any], Any]
_Total = tuple[Row, Row]  # the place of its keys in the order, and a row
COUNTS: tuple[Pair, ...] = (SUM.pair,) * len(COUNTED)


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
    behind = None if after is None else (sign * int(after[0]), tuple(map(rank, after[1:])))
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
                    if behind is None or (sign * id_ms, place) > behind:
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
    behind = None if after is None else (-(after[0] + size), *after[1:])
    for start, *rest in _slide(mirrored, Sweep.backwards(windows), width, Merger(pairs), behind):
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
