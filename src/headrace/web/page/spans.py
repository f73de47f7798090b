"""The range of time that a view's page shows, and the windows of a chart over it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from headrace.cells import window_text
from headrace.language.durations import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from headrace.errors import QuestionError
from headrace.format import EPOCH
from headrace.serve.question import Question
from headrace.serve.question_times import MS, Bound, iso_ms, parse_bound
from headrace.web.page.selection import OLDEST, Selection

STEPS_MS = (
    *(n * SECOND_MS for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE_MS for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR_MS for n in (1, 2, 3, 6, 12)),
    *(n * DAY_MS for n in (1, 2, 7, 14, 28, 91, 182, 364)),
)
MOST_ROUNDING = 4  # a round step may be this many times as long as the shortest sufficient one
EARLIEST_MS = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // MS
LATEST_MS = (datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // MS


@dataclass(frozen=True)
class Range:
    """The windows that end in (start, end]; without start, from the oldest on."""

    start_ms: int | None
    end_ms: int
    open: bool = False  # with windows that hold `end_ms`, too

    def of(self, question: Question) -> Question:
        """The question, for these windows."""
        start = None if self.start_ms is None else Bound(self.start_ms)
        return replace(question, start=start, end=None if self.open else Bound(self.end_ms))


def read_range(window: tuple[int, int], newest_event: str, selection: Selection) -> Range:
    """The requested range, widened to pane bounds and limited to the newest event.

    A question refuses a bound between two panes; a page widens the range instead, since people type it.
    """
    pane = math.gcd(*window)
    newest = to_ms(datetime.fromisoformat(newest_event)) // pane * pane + pane
    start = None if selection.start == OLDEST else _read_bound("start", selection.start, newest)
    end = _read_bound("end", selection.end, newest)
    start = None if start is None else start // pane * pane
    end = newest if end is None else min(-(-end // pane) * pane, newest)
    if start is not None and start >= end:
        raise QuestionError(
            "the range is empty: start must lie before end and before the newest event",
            found=f"start {iso_ms(start)}, end {iso_ms(end)}",
        )
    return Range(start, end)


def _read_bound(name: str, text: str, newest_ms: int) -> int | None:
    bound = parse_bound(name, text)
    if bound is None:
        return None
    return min(max(bound.ms + newest_ms if bound.relative else bound.ms, EARLIEST_MS), LATEST_MS)


@dataclass(frozen=True)
class Steps:
    """The windows of a chart, one per place: each `step_ms` after the one before it, the last ends at `end_ms`."""

    size_ms: int
    step_ms: int
    places: int
    end_ms: int

    @property
    def start_ms(self) -> int:
        """Where the axis begins."""
        return self.end_ms - self.places * self.step_ms

    def of(self, question: Question) -> Question:
        """The question, for these windows; one that ends before the first place may come with them."""
        return replace(self._bounded(question), window_ms=self.size_ms, every_ms=self.step_ms)

    def whole(self, question: Question) -> Question:
        """The question, for one window over all of them."""
        bounded = self._bounded(question)
        assert bounded.start is not None, "it is bounded"
        return replace(bounded, window_ms=self.end_ms - bounded.start.ms)

    def _bounded(self, question: Question) -> Question:
        start = self.start_ms // self.step_ms * self.step_ms  # windows are aligned to it
        return replace(question, start=Bound(start), end=Bound(self.end_ms))

    @property
    def windows(self) -> list[str]:
        """The window of each place in words."""
        ends = [EPOCH + (self.start_ms + at * self.step_ms) * MS for at in range(1, self.places + 1)]
        return [window_text(end - self.size_ms * MS, end) for end in ends]

    def place(self, window_end: datetime) -> int:
        """Which place a window has; negative before the first."""
        return self.places - 1 - (self.end_ms - to_ms(window_end)) // self.step_ms


def find_steps(window: tuple[int, int], start_ms: int | None, end_ms: int, most: int) -> Steps:
    """The view's own windows, or longer ones where more than `most` would have to be drawn; without start, the last."""
    size, every = window
    step = every if start_ms is None else _step(end_ms - start_ms, every, most)
    if step != every:
        size = max(size, step)
    end = -(-end_ms // step) * step if size == step else (end_ms - size) // step * step + size
    places = most if start_ms is None else max(-(-(end - start_ms) // step), 1)
    return Steps(size, step, places, end)


def _step(span: int, every: int, most: int) -> int:
    """A chart step that consists of whole windows and limits their number; a round one if possible."""
    if span <= every * most:
        return every
    shortest = -(-span // (every * (most - 1))) * every
    near = (step for step in STEPS_MS if step % every == 0 and shortest <= step <= MOST_ROUNDING * shortest)
    return next(near, shortest)


def to_ms(time: datetime) -> int:
    """Milliseconds since the epoch."""
    return (time - EPOCH) // MS
