"""Served rows against exact ones, row by row and cell by cell; times and DECIMALs as in HTTP replies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from headrace.demo.reference import Distinct, Near, Row, Rule

STATED_ERROR = 0.033  # of approx_count_distinct: two standard errors
ALLOWED_ERROR = 2 * STATED_ERROR  # four standard errors: exceeded by less than one row in ten thousand
EXACT_BELOW = 150
MOST_DIFFERENCES = 5
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Comparison:
    """The result for one view."""

    view: str
    rows: int = 0
    cells: int = 0
    mismatches: int = 0
    estimates: int = 0
    within_stated: int = 0
    largest_error: float = 0.0
    first: list[str] = field(default_factory=list)  # the first differences, a sentence each

    @property
    def ok(self) -> bool:
        return self.mismatches == 0

    def differ(self, difference: str) -> None:
        """Count a difference; keep the first few."""
        self.mismatches += 1
        if len(self.first) < MOST_DIFFERENCES:
            self.first.append(difference)


def compare(rule: Rule, expected: dict[tuple[Any, ...], Row], served: Iterable[Row], newest_us: int) -> Comparison:
    """Compare all rows: wrong, missing, extra and duplicate ones."""
    result = Comparison(rule.view)
    groups: set[tuple[Any, ...]] = set()
    for row in served:
        group = (read_time_us(row.get("window_start")), *(row.get(key) for key in rule.keys))
        name = _name(rule, group)
        if group in groups:
            result.differ(f"{name} was served twice")
        elif group not in expected:
            result.differ(f"{name} was served but has no events")
        else:
            _compare_row(result, rule, name, group, expected[group], row, newest_us)
        groups.add(group)
        result.rows += 1
    for group in expected:
        if group not in groups:
            result.differ(f"{_name(rule, group)} is missing")
    return result


def _compare_row(
    result: Comparison, rule: Rule, name: str, group: tuple[Any, ...], expected: Row, row: Row, newest_us: int
) -> None:
    for column, value in expected.items():
        result.cells += 1
        if column not in row:
            result.differ(f"{name} has no column '{column}'")
        elif isinstance(value, Distinct):
            _compare_estimate(result, f"{name}, {column}", value.value, row[column])
        elif not _same(value, row[column]):
            exact = value.value if isinstance(value, Near) else value
            result.differ(f"{name}, {column}: served {row[column]!r}, exact {exact!s}")
    if rule.size_us is not None:
        start_us = group[0]
        if read_time_us(row.get("window_end")) != start_us + rule.size_us:
            result.differ(f"{name}: window_end is {row.get('window_end')!r}")
        if row.get("settled") is not rule.is_settled(start_us, newest_us):
            result.differ(f"{name}: settled is {row.get('settled')!r}")


def _compare_estimate(result: Comparison, name: str, exact: int, served: Any) -> None:
    error = abs(served - exact) / max(exact, 1) if type(served) is int else float("inf")
    result.estimates += 1
    result.within_stated += error <= STATED_ERROR
    result.largest_error = max(result.largest_error, error)
    if error > (0 if exact <= EXACT_BELOW else ALLOWED_ERROR):
        result.differ(f"{name}: served {served!r}, exact {exact}")


def _same(exact: Any, served: Any) -> bool:
    """Whether the served JSON value equals the exact one, in the JSON form of its type."""
    match exact:
        case None:
            return served is None
        case Near():
            return isinstance(served, float | int) and abs(served - exact.value) <= exact.tolerance
        case Decimal():
            return isinstance(served, str) and Decimal(served) == exact
        case datetime():
            return isinstance(served, str) and served.endswith("Z") and datetime.fromisoformat(served) == exact
        case int():
            # A sum of integers beyond 64 bits is a string in JSON.
            return (type(served) is int and served == exact) or served == str(exact)
        case _:
            return bool(served == exact)


def read_time_us(text: Any) -> int | None:
    """µs since the epoch of a time in an answer."""
    if text is None:
        return None
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)


def _name(rule: Rule, group: tuple[Any, ...]) -> str:
    start = group[0]
    keys = ", ".join(f"{key}={value!r}" for key, value in zip(rule.keys, group[1:], strict=True)) or "all"
    at = "" if start is None else f" at {datetime.fromtimestamp(start // 1_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    return f"view '{rule.view}' {keys}{at}"
