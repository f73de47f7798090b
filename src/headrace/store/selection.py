"""What a store is asked for: which partials, and into which buckets of time they are merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.aggregate import Value
from headrace.define.calendar import Calendar


@dataclass(frozen=True)
class Selection:
    """Which partials to read, and how to group them before they are presented."""

    by: tuple[str, ...]  # keys to keep; the others are merged
    where: tuple[Mapping[str, Value], ...] = ()  # alternatives, each key = value (None: IS NULL); () is all
    panes: tuple[int | None, int | None] = (None, None)  # pane starts in [from, to)
    bucket_ms: int | None = None  # panes merge into buckets of this size; None: all into one
    origin_ms: int = 0  # buckets start at origin + i * bucket
    after: Sequence[Value] | None = None  # (bucket, *by) of the last row of the page before
    limit: int | None = None
    newest_first: bool = False  # the order of the buckets; keys are in ascending order
    calendar: Calendar | None = None  # buckets are its windows, whatever bucket_ms is
    step_ms: int = 0  # of a calendar: buckets are steps of its windows, counted from their start
    edges: tuple[int, ...] = ()  # of a calendar: where the buckets of what is stored begin, and where the last ends

    def within(self, first_ms: int, last_ms: int) -> Selection:
        """The same with the edges of its calendar, for panes from a first to a last start."""
        if self.calendar is None:
            return self
        return replace(self, edges=tuple(self.calendar.edges(first_ms, last_ms + 1, self.step_ms)))

    def next_edge(self, bucket_ms: int) -> int:
        """Where the bucket that begins here ends."""
        return next((edge for edge in self.edges if edge > bucket_ms), self.edges[-1])
