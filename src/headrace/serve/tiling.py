"""Which windows a question is about, and the buckets of panes that tile them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headrace.language.calendar import Calendar
from headrace.define.model import Window


@dataclass(frozen=True)
class Windows:
    """The windows of a question: those whose end lies in (start, end].

    - [origin + i * every, … + size), which overlap if `every` is less than the size;
    - with a `calendar`, its days, weeks or months;
    - `cumulative` ones grow by `every` up to the size, or to the end of the calendar's, then begin again.

    A window is known by one time, its id: its start, or for cumulative windows, which share it, that of its last step.
    """

    size_ms: int
    every_ms: int
    start_ms: int | None = None
    end_ms: int | None = None
    offset_ms: int | None = None  # None: windows are aligned to `start`, or to the epoch
    calendar: Calendar | None = None
    cumulative: bool = False

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

    @property
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
    )
