"""A plain-Python Headrace: what each view must answer, computed from the events with dictionaries and loops.

Expressions are Python functions written beside their SQL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import reduce
from types import MappingProxyType
from typing import Any

from headrace.aggregate import Aggregate

from .near import NEAR

Event = dict[str, Any]
NOTHING = object()


@dataclass(frozen=True)
class Term:
    """An expression twice: as SQL and as a Python function of an event."""

    sql: str
    of: Callable[[Event], Any]
    type: str


@dataclass(frozen=True)
class Output:
    """One column: the aggregate, and as terms its arguments and its filter."""

    name: str
    aggregate: Aggregate
    arguments: tuple[Term, ...]
    where: Term | None

    @property
    def sql(self) -> str:
        return f"{self.aggregate.sql} AS {self.name}"


@dataclass(frozen=True)
class Sessions:
    """Windows of a key that end when no event comes for the gap; it is longer after an event with a true `flag`."""

    gap_ms: int
    flagged_ms: int | None = None

    @property
    def sql(self) -> str:
        gap = f"'{self.gap_ms} milliseconds'"
        if self.flagged_ms is not None:
            gap = f"CASE WHEN flag THEN '{self.flagged_ms} milliseconds' ELSE {gap} END"
        return f"session_window(at, {gap})"

    def until(self, event: Event) -> datetime:
        flagged = self.flagged_ms is not None and event["flag"] is True
        ms = self.flagged_ms if flagged else self.gap_ms
        return event["at"] + timedelta(milliseconds=ms)

    def of(self, events: list[Event]) -> list[tuple[datetime, datetime, list[Event]]]:
        """The start, the end and the events of each session, which keep their order."""
        sessions: list[tuple[datetime, datetime, set[int]]] = []
        for place, event in sorted(enumerate(events), key=lambda pair: pair[1]["at"]):
            if sessions and event["at"] <= sessions[-1][1]:
                start, end, members = sessions.pop()
                sessions.append((start, max(end, self.until(event)), members | {place}))
            else:
                sessions.append((event["at"], self.until(event), {place}))
        return [(start, end, [events[at] for at in sorted(members)]) for start, end, members in sessions]


@dataclass(frozen=True)
class Shape:
    """A view: keys, window (size and slide in ms, sessions, or None), filter and outputs."""

    name: str
    keys: tuple[tuple[str, Term], ...]
    window: tuple[int, int] | Sessions | None
    where: Term | None
    outputs: tuple[Output, ...]

    @property
    def overlaps(self) -> bool:
        """Whether an event is in several rows."""
        return isinstance(self.window, tuple) and self.window[0] > self.window[1]

    @property
    def pane_ms(self) -> int:
        assert self.window is not None
        return self.window.gap_ms if isinstance(self.window, Sessions) else math.gcd(*self.window)

    def takes(self, event: Event) -> bool:
        return self.where is None or self.where.of(event) is True

    @property
    def sql(self) -> str:
        selected = [f"{term.sql} AS {name}" for name, term in self.keys] + [output.sql for output in self.outputs]
        groups = [name for name, _ in self.keys]
        if isinstance(self.window, Sessions):
            groups.append(self.window.sql)
        elif self.window:
            size, slide = (f"'{ms} milliseconds'" for ms in self.window)
            groups.append(f"window(at, {size})" if size == slide else f"window(at, {size}, {slide})")
        where = f" WHERE {self.where.sql}" if self.where else ""
        group_by = f" GROUP BY {', '.join(groups)}" if groups else ""
        return f"CREATE MATERIALIZED VIEW {self.name} AS SELECT {', '.join(selected)} FROM events{where}{group_by};"


def expected(shape: Shape, events: list[Event]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """(window start, keys...) -> what each column must say: (value, tolerance)."""
    groups: dict[tuple[Any, ...], list[Event]] = {}
    for event in events:
        if shape.takes(event):
            keys = tuple(term.of(event) for _, term in shape.keys)
            for start in _windows(shape, event["at"]):
                groups.setdefault((start, *keys), []).append(event)
    if isinstance(shape.window, Sessions):
        return {
            (start, *keys): {
                "window_end": (end, 0.0),
                **{output.name: _column(output, members) for output in shape.outputs},
            }
            for (_, *keys), of_key in groups.items()
            for start, end, members in shape.window.of(of_key)
        }
    return {key: {output.name: _column(output, members) for output in shape.outputs} for key, members in groups.items()}


def _windows(shape: Shape, at: datetime) -> list[datetime | None]:
    if shape.window is None or isinstance(shape.window, Sessions):
        return [None]
    size, slide = shape.window
    ms = math.floor(at.timestamp() * 1000 + 1e-6)
    last = ms - ms % slide
    return [
        datetime.fromtimestamp(start / 1000, UTC)
        for start in range(last, last - size, -slide)
        if start <= ms < start + size
    ]


def _column(output: Output, events: list[Event]) -> tuple[Any, float]:
    rows = [e for e in events if output.where is None or output.where.of(e) is True]
    arguments = [tuple(argument.of(e) for argument in output.arguments) for e in rows]
    near = NEAR.get(output.aggregate.name)
    if near is not None:
        return near(arguments, *output.aggregate.parameters), 0.0
    chosen = ORDERED.get(output.aggregate.name)
    if chosen is not None:  # the events are in the order of their positions, and sorting keeps it where times are equal
        in_order = sorted(zip(arguments, (event["at"] for event in rows), strict=True), key=lambda pair: pair[1])
        return chosen([values for values, _ in in_order], *output.aggregate.parameters), 0.0
    column = COLUMNS.get(output.aggregate.name)
    if column is None:
        aggregate = output.aggregate
        return aggregate.present(reduce(aggregate.merge, (aggregate.lift(*g) for g in arguments), aggregate.zero)), 0.0
    if not output.arguments:
        return len(rows), 0.0
    return column([value for (value,) in arguments if value is not None], output.arguments[0].type)


def _sum(values: list[Any], of: str) -> tuple[Any, float]:
    if not values:
        return None, 0.0
    if of == "DOUBLE":
        return math.fsum(values), 1e-9 * math.fsum(map(abs, values))
    with localcontext(prec=80):
        return sum(values), 0.0


def _avg(values: list[Any], of: str) -> tuple[Any, float]:
    total, tolerance = _sum(values, of)
    if total is None:
        return None, 0.0
    if of == "DOUBLE":
        return total / len(values), tolerance
    with localcontext(prec=80):
        mean = Decimal(total) / len(values)
        if of.startswith("DECIMAL"):
            scale = int(of.rstrip(")").split(",")[1]) + 4
            return mean.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP), 0.0
    return float(mean), 0.0


# The expected values of these aggregates, without code of the product. Others are compared with their `lift` in Python,
# which the laws and the examples of their class test; an approximate one, or one with an order, needs a line here.
COLUMNS: dict[str, Callable[[list[Any], str], tuple[Any, float]]] = {
    "count": lambda values, of: (len(values), 0.0),
    "sum": _sum,
    "avg": _avg,
    "min": lambda values, of: (min(values, default=None), 0.0),
    "max": lambda values, of: (max(values, default=None), 0.0),
    # The sketch is exact for sets as small as these tests make, except for a hash collision.
    "approx_count_distinct": lambda values, of: (len(set(values)), 0.05 * len(set(values)) + 0.1),
}


class _Sampled:
    """Equal to every list of n of these values: which ones depends on their positions."""

    def __init__(self, values: list[Any], n: int) -> None:
        self.values, self.n = values, n

    def __eq__(self, other: object) -> bool:
        rest = list(self.values)
        if not isinstance(other, list):
            return other is None and not rest
        for value in other:
            if value not in rest:
                return False
            rest.remove(value)
        return len(other) == min(self.n, len(self.values))

    __hash__ = None  # type: ignore[assignment]


def _first(values: list[Any], n: int | None) -> Any:
    return values[:n] or None if n else values[0] if values else None


def _by(rows: list[tuple[Any, ...]], n: int | None, *, reverse: bool) -> Any:
    some = [row for row in rows if row[1] is not None]
    if reverse:
        some.reverse()
    some.sort(key=lambda row: row[1], reverse=reverse)
    return _first([row[0] for row in some], n)


def _some(rows: list[tuple[Any, ...]]) -> list[Any]:
    return [row[0] for row in rows if row[0] is not None]


# The same of those that depend on the order of events, from the arguments of the events in their order.
ORDERED: dict[str, Callable[..., Any]] = {
    "first": lambda rows, n=None: _first([row[0] for row in rows], n),
    "last": lambda rows, n=None: _first([row[0] for row in reversed(rows)], n),
    "min_by": lambda rows, n=None: _by(rows, n, reverse=False),
    "max_by": lambda rows, n=None: _by(rows, n, reverse=True),
    "collect_list": _some,
    "sample": lambda rows, n: _Sampled(_some(rows), n),
}


def corrections(
    shape: Shape,
    commits: list[list[Event]],
    patience_ms: int,
    among: Callable[[Event], bool] = lambda event: True,
    idle_us: Mapping[int, int] = MappingProxyType({}),
) -> int:
    """How many of a view's events arrived when their pane was settled by earlier commits."""
    if shape.window is None:
        return 0
    pane_us, newest_us, count = shape.pane_ms * 1000, -math.inf, 0
    for number, events in enumerate(commits):
        times = {id(event): round(event["at"].timestamp() * 1e6) for event in events}
        for event in events:
            if among(event) and shape.takes(event):
                start_us = times[id(event)] // pane_us * pane_us
                count += start_us + pane_us + patience_ms * 1000 <= newest_us
        newest_us = max([newest_us, idle_us.get(number, newest_us), *times.values()])
    return count


def differences(shape: Shape, rows: list[dict[str, Any]], events: list[Event]) -> list[str]:
    """What is wrong with the rows of an answer; empty when they are right."""
    targets = expected(shape, events)
    by_key = {(row["window_start"], *(row[name] for name, _ in shape.keys)): row for row in rows}
    problems = []
    if len(by_key) != len(rows):
        problems.append("a row came twice")
    problems += [f"missing {key}" for key in targets.keys() - by_key.keys()]
    problems += [f"too many {key}" for key in by_key.keys() - targets.keys()]
    for key in targets.keys() & by_key.keys():
        for name, (value, tolerance) in targets[key].items():
            if not _close(by_key[key][name], value, tolerance):
                problems.append(f"{key} {name}: {by_key[key][name]!r} instead of {value!r}")
    return problems


def _close(value: Any, target: Any, tolerance: float) -> bool:
    if value is None or target is None or not tolerance:
        return bool(value == target)
    return abs(value - target) <= tolerance
