"""Presents partials: typed values, windows as times, and whether each row is settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from headrace.aggregate import Aggregate, Value
from headrace.define.fingerprint import aggregate_id
from headrace.define.model import View
from headrace.define.outputs import outputs_of
from headrace.format import EPOCH
from headrace.serve.answer import CellError
from headrace.serve.page_cursor import PageCursor
from headrace.serve.question import Question
from headrace.serve.question_times import MS
from headrace.serve.read_plan import ReadPlan
from headrace.store.partial_columns import COUNTED
from headrace.store.version import Version
from headrace.types import BIGINT, BOOLEAN, TIMESTAMP, Type

Row = tuple[Any, ...]
START, END = "window_start", "window_end"
ROW_COUNTS = ("events", "corrections")  # of a row, in the order of COUNTED
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class Presentation:
    """Presented rows and their totals."""

    values: list[Row]
    events: int
    corrections: int
    batch_events: int  # those of the events that were read from batch tables
    wide: frozenset[str]  # sums of integers that do not fit BIGINT
    errors: tuple[CellError, ...]
    estimates: Mapping[Aggregate, tuple[int, ...]]  # of aggregates that may be exact: the rows where they are not
    bounds: Mapping[Aggregate, tuple[float | None, ...]]  # of aggregates that state the error of each value


def present(version: Version, plan: ReadPlan, rows: list[Row], *, corrections: bool = False) -> Presentation:
    """Rows of (window start, group keys, events, corrections, batch events, partials) with presented values.

    With `corrections` each also has how many events are in it, and how many of them are corrections.
    """
    keys_end = 1 + len(plan.by)
    at = keys_end + len(COUNTED)
    parts: list[tuple[Aggregate, int, int]] = []
    for column in version.view.columns:
        width = len(column.aggregate.columns)
        parts.append((column.aggregate, at, at + width))
        at += width
    bounds = [bound for _, bound in window_columns(version.view)]
    settled_ms = version.settled_ms
    times: dict[int, tuple[Value, Value, bool]] = {}
    values, has_sessions = [], plan.has_sessions
    for row in rows:
        if has_sessions:
            start, end, settled = _session(row, settled_ms)
        else:
            if row[0] not in times:
                times[row[0]] = _window(plan, row[0], settled_ms)
            start, end, settled = times[row[0]]
        results = [aggregate.present(row[first:last]) for aggregate, first, last in parts]
        counts = row[keys_end : keys_end + len(ROW_COUNTS)] if corrections else ()
        times_of_row = (start if bound == START else end for bound in bounds)
        values.append((*row[1:keys_end], *times_of_row, *results, settled, *counts))
    wide = _widen(version.view, values, len(plan.by) + len(bounds))
    events, corrected, batch_events = (sum(row[keys_end + at] for row in rows) for at in range(len(COUNTED)))
    errors = _errors(version.view, values, len(plan.by) + len(bounds))
    estimates = {
        aggregate: tuple(place for place, row in enumerate(rows) if not aggregate.is_exact(row[first:last]))
        for aggregate, first, last in parts
        if aggregate.may_be_exact
    }
    stated = {
        aggregate: tuple(aggregate.bound(row[first:last]) for row in rows)
        for aggregate, first, last in parts
        if aggregate.has_bounds
    }
    return Presentation(values, events, corrected, batch_events, wide, errors, estimates, stated)


def known_by(version: Version, plan: ReadPlan, row: Row) -> Row:
    """The group keys and window columns of a row of (window start, group keys), as presented rows begin with them.

    That of a session ends with its first and last time.
    """
    start, end, _ = _session(row, None) if plan.has_sessions else _window(plan, row[0], None)
    times = (start if bound == START else end for _, bound in window_columns(version.view))
    return (*row[1 : 1 + len(plan.by)], *times)


def _errors(view: View, values: list[Row], first: int) -> tuple[CellError, ...]:
    """The cells without a value, row by row; the columns of the view begin at `first`.

    An output that is an expression has none either where one of its aggregates has none.
    """
    failing = {
        aggregate_id(column.aggregate): (at, column.aggregate.failure)
        for at, column in enumerate(view.columns, first)
        if column.aggregate.failure
    }
    if not failing:
        return ()
    outputs = [(each.name, sorted(each.expression.fields() & failing.keys())) for each in outputs_of(view)]
    parts = [(name, *failing[aggregate]) for name, used in outputs for aggregate in used]
    return tuple(
        CellError(place, name, reason or "")
        for place, row in enumerate(values)
        for name, at, reason in parts
        if row[at] is None
    )


def result_columns(
    view: View, plan: ReadPlan, wide: frozenset[str], *, corrections: bool = False
) -> tuple[tuple[str, Type], ...]:
    """The columns of an answer and their types.

    A sum of integers is BIGINT, as in Spark, unless a value of this answer is too large for that:
    then it is DECIMAL(38,0), never a wrong number.
    """
    keys = zip(plan.by, plan.types, strict=True)
    columns = [
        (c.name, c.aggregate.type if c.name in wide else c.aggregate.narrow_type or c.aggregate.type)
        for c in view.columns
    ]
    counts = [(name, BIGINT) for name in row_counts(view)] if corrections else []
    return (*keys, *((name, TIMESTAMP) for name, _ in window_columns(view)), *columns, ("settled", BOOLEAN), *counts)


def row_counts(view: View) -> tuple[str, ...]:
    """The names of the counts of a row: with _ before it where the view has a column of that name."""
    names = [*(key.name for key in view.keys), *(output.name for output in outputs_of(view))]
    names += [*(column.name for column in view.columns), *(name for name, _ in window_columns(view))]
    own = {name.lower() for name in names}
    return tuple(f"_{name}" if name in own else name for name in ROW_COUNTS)


def window_columns(view: View) -> list[tuple[str, str]]:
    """The window columns, each with its bound: the two of every view, then the aliases that the view declares."""
    own = [(view.window.start_name, START), (view.window.end_name, END)] if view.window else []
    return [(START, START), (END, END), *((name, bound) for name, bound in own if name)]


def next_cursor(question: Question, version: Version, plan: ReadPlan, last: Row, skip: int | None = None) -> str:
    """The cursor after the last row of a page, or after a number of ordered rows."""
    return PageCursor(*plan.bounds, last[: 1 + len(plan.by)], skip).text(question, version, plan.types)


def _window(plan: ReadPlan, window_ms: int, settled_ms: int | None) -> tuple[Value, Value, bool]:
    start_ms, end_ms = plan.windows.bounds(window_ms) if plan.windows else plan.bounds
    # A window without an end is never settled.
    settled = end_ms is not None and settled_ms is not None and end_ms <= settled_ms
    return _time(start_ms), _time(end_ms), settled


def _session(row: Row, settled_ms: int | None) -> tuple[Value, Value, bool]:
    first_us, until_us = row[-2:]
    settled = settled_ms is not None and until_us <= settled_ms * 1000
    return EPOCH + timedelta(microseconds=first_us), EPOCH + timedelta(microseconds=until_us), settled


def _time(ms: int | None) -> Value:
    return None if ms is None else EPOCH + ms * MS


def _widen(view: View, values: list[Row], first: int) -> frozenset[str]:
    """Convert each sum of integers with a value that does not fit BIGINT to Decimal; returns their names."""
    wide = {}
    for at, column in enumerate(view.columns, first):
        if column.aggregate.narrow_type is not None and any(
            row[at] is not None and not LOWEST <= row[at] <= HIGHEST for row in values
        ):
            wide[at] = column.name
    if wide:
        for i, row in enumerate(values):
            values[i] = tuple(Decimal(v) if at in wide and v is not None else v for at, v in enumerate(row))
    return frozenset(wide.values())
