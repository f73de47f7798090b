"""The coarser tables of a batch table, and which of its tables to read for a selection. Text only: it runs nothing.

A day's row is the fold of its hours' rows, and these of their panes': each pane is read once, in the coarsest row
that lies wholly within what is selected and within one bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.define.model import View
from headrace.store.partial_columns import PANE
from headrace.store.selection import Selection

PANES = "panes"
LEVELS = {"hours": 3_600_000, "days": 86_400_000}
LEAST = 100  # finer rows in a row that coarser ones are read for: below it one more table costs more than it saves

Level = tuple[str, int]  # a table, and the span of its rows in ms


@dataclass(frozen=True)
class LevelPart:
    """Some rows of one table of a file."""

    table: str
    conditions: tuple[str, ...]


def levels_of(view: View) -> list[Level]:
    """The coarser tables of a view's batch tables, the finest first."""
    pane_ms = view.window.pane_ms if view.window and not view.has_sessions else 0
    return [(name, ms) for name, ms in LEVELS.items() if pane_ms and pane_ms < ms and ms % pane_ms == 0]


def floor_to(span_ms: int) -> str:
    """SQL for the start of the span that a row lies in; right also before 1970, where % is negative."""
    return f"({PANE} - ({PANE} % {span_ms} + {span_ms}) % {span_ms})"


def parts_of(view: View, selection: Selection) -> list[LevelPart]:
    """The parts to read of each batch table of a view."""
    pane_ms = view.window.pane_ms if view.window else 0
    levels = [*reversed(levels_of(view)), (PANES, pane_ms)]
    return list(_parts(levels, *selection.panes, selection, ()))


def _parts(
    levels: Sequence[Level], start: int | None, end: int | None, selection: Selection, conditions: tuple[str, ...]
) -> Iterator[LevelPart]:
    """The rows in [start, end) for which the conditions hold, from the first of the levels or finer ones."""
    (table, span), *finer = levels
    if not finer:
        yield LevelPart(table, (*_bounds(start, end), *conditions))
        return
    bucket, origin = selection.bucket_ms, selection.origin_ms
    first = None if start is None else -(-start // span) * span
    last = None if end is None else end // span * span
    long = first is None or last is None or last - first >= LEAST * finer[0][1]
    shortest, across_starts = bucket, list[int]()
    if selection.calendar:
        shortest, across_starts = _uneven(selection, span)
        aligned = not across_starts and selection.step_ms % span == 0
    else:
        aligned = bucket is None or not (bucket % span or origin % span)
    if not long or (shortest is not None and not aligned and shortest < 2 * span):
        yield from _parts(finer, start, end, selection, conditions)
        return
    within = _bounds(first, last)
    if aligned:
        yield LevelPart(table, (*within, *conditions))
    elif across_starts:
        starts = ", ".join(map(str, across_starts))
        yield LevelPart(table, (*within, *conditions, f"{PANE} NOT IN ({starts})"))
        yield from _parts(finer, first, last, selection, (*conditions, f"{floor_to(span)} IN ({starts})"))
    else:  # rows that reach over the end of a bucket are split
        assert bucket is not None, "all in one bucket is aligned"
        inside = f"{_place(PANE, bucket, origin)} <= {bucket - span}"
        across = f"{_place(floor_to(span), bucket, origin)} > {bucket - span}"
        yield LevelPart(table, (*within, *conditions, inside))
        yield from _parts(finer, first, last, selection, (*conditions, across))
    if start is not None and first is not None and start < first:
        yield from _parts(finer, start, first, selection, conditions)
    if end is not None and last is not None and last < end:
        yield from _parts(finer, last, end, selection, conditions)


def _uneven(selection: Selection, span: int) -> tuple[int, list[int]]:
    """The length of the shortest bucket, and the starts of the spans that reach over the end of a window.

    Steps of windows are many: spans that reach over the ends of some of them are not worth reading.
    """
    shortest = min((end - start for start, end in selection.windows), default=0)
    across_starts = {edge // span * span for window in selection.windows for edge in window if edge % span}
    return 0 if selection.step_ms else shortest, sorted(across_starts)


def _bounds(start: int | None, end: int | None) -> Iterator[str]:
    if start is not None:
        yield f"{PANE} >= {int(start)}"
    if end is not None:
        yield f"{PANE} < {int(end)}"


def _place(time: str, bucket_ms: int, origin_ms: int) -> str:
    """SQL for how far behind the start of its bucket a time lies."""
    return f"((({time} - {int(origin_ms)}) % {int(bucket_ms)} + {int(bucket_ms)}) % {int(bucket_ms)})"
