"""The checks at the end of a run: every view, row by row, and the number of events at each stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from headrace.tools.demo.exact_answers import MINUTE_US, RULES, Distinct, Near, Row, ViewRule
from headrace.tools.demo.live_edit import COLUMN, VIEW
from headrace.tools.demo.run_figures import Figures
from headrace.tools.demo.shop_server import ServerReader
from headrace.tools.demo.traffic import PATIENCE_US

STATED_ERROR = 0.033  # of approx_count_distinct: two standard errors
ALLOWED_ERROR = 2 * STATED_ERROR  # four standard errors: exceeded by less than one row in ten thousand
EXACT_BELOW = 150
MOST_DIFFERENCES = 5
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class ViewCheck:
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


def compare(rule: ViewRule, expected: dict[tuple[Any, ...], Row], served: Iterable[Row], newest_us: int) -> ViewCheck:
    """Compare all rows: wrong, missing, extra and duplicate ones."""
    result = ViewCheck(rule.view)
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
    result: ViewCheck, rule: ViewRule, name: str, group: tuple[Any, ...], expected: Row, row: Row, newest_us: int
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


def _compare_estimate(result: ViewCheck, name: str, exact: int, served: Any) -> None:
    error = abs(served - exact) / max(exact, 1) if type(served) is int else float("inf")
    result.estimates += 1
    result.within_stated += error <= STATED_ERROR
    result.largest_error = max(result.largest_error, error)
    if error > (0 if exact <= EXACT_BELOW else ALLOWED_ERROR):
        result.differ(f"{name}: served {served!r}, exact {exact}")


def _same(exact: Any, served: Any) -> bool:
    """Return whether the served JSON value equals the exact one, in the JSON form of its type."""
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


def _name(rule: ViewRule, group: tuple[Any, ...]) -> str:
    start = group[0]
    keys = ", ".join(f"{key}={value!r}" for key, value in zip(rule.keys, group[1:], strict=True)) or "all"
    at = "" if start is None else f" at {datetime.fromtimestamp(start // 1_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    return f"view '{rule.view}' {keys}{at}"


@dataclass(frozen=True)
class Account:
    """A check other than the rows of views."""

    claim: str
    ok: bool
    detail: str


@dataclass
class RunReport:
    """The checks and their results."""

    views: list[ViewCheck] = field(default_factory=list)
    accounts: list[Account] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(view.ok for view in self.views) and all(account.ok for account in self.accounts)

    def add_stop(self, stopped: bool, seconds: float) -> None:
        """Record how the server stopped."""
        self.accounts.append(Account("the server stops cleanly", stopped, f"{seconds:.1f} s"))

    def as_dict(self) -> dict[str, Any]:
        """The report for `--json`."""
        return {
            "ok": self.ok,
            "views": [
                {
                    "view": view.view,
                    "rows": view.rows,
                    "cells": view.cells,
                    "mismatches": view.mismatches,
                    "estimates": view.estimates,
                    "estimates_within_stated_error": view.within_stated,
                    "largest_error": round(view.largest_error, 6),
                    "stated_error": STATED_ERROR if view.estimates else None,
                    "first_differences": view.first,
                }
                for view in self.views
            ],
            "accounts": [{"claim": a.claim, "ok": a.ok, "found": a.detail} for a in self.accounts],
        }


def check_run(figures: Figures, reader: ServerReader, note: Callable[[str], None]) -> RunReport:
    """Read and compare every row; `note` is called with the current view."""
    report = RunReport()
    for rule in RULES:
        note(f"checking view '{rule.view}'")
        truths = next(stream.tally.truths for stream in figures.streams if stream.name == rule.stream)
        newest_us = max((truth.at_us for truth in truths), default=0)
        report.views.append(compare(rule, rule.rows(truths), reader.all_rows(rule.view), newest_us))
    figures.update(reader)
    report.accounts = [*_accounts(figures), _corrections(figures), *_second_act(figures)]
    return report


def _accounts(figures: Figures) -> Iterable[Account]:
    for stream in figures.streams:
        tally, name = stream.tally, f"stream '{stream.name}'"
        good = len(tally.truths)
        yield Account(
            f"{name}: in views + dead letters + refused = sent",
            stream.events + stream.dead_letters + tally.refused == tally.events,
            f"{stream.events:,} + {stream.dead_letters:,} + {tally.refused:,} = {tally.events:,}",
        )
        yield Account(
            f"{name}: every valid event is stored once", stream.events == good, f"{stream.events:,} of {good:,}"
        )
        yield Account(
            f"{name}: dead letters are the invalid events",
            stream.dead_letters == tally.kept_bad,
            f"{stream.dead_letters:,} of {tally.kept_bad:,}",
        )
        yield Account(
            f"{name}: refused by index; retries get the same reply",
            not tally.problems,
            tally.problems[0] if tally.problems else f"{tally.refused:,} refused, {tally.repeats:,} posts repeated",
        )


def _second_act(figures: Figures) -> Iterable[Account]:
    edit, late = figures.edit, figures.late
    if edit is None or edit.audit is None or late is None:
        return  # the view was not edited
    queries, (before, after) = edit.queries, edit.versions
    yield Account(
        f"view '{VIEW}': no query failed while column '{COLUMN}' was added",
        queries.failures == 0 and set(queries.by_version) == {before, after},
        queries.first_failure or f"{queries.answers:,} answers, {queries.failures:,} failed, in {edit.took_s:.1f} s",
    )
    yield Account(
        f"view '{VIEW}': batch layer and speed layer agree",
        edit.audit["agreed"],
        f"{edit.audit['rows']:,} rows compared, drift {sum(off['rows'] for off in edit.audit['drift']):,}",
    )
    yield Account(
        "an event three hours late is in its cell, and explain marks it",
        late.ok,
        f"{late.explanation['found']:,} events behind it, {late.explanation['corrections']:,} of them corrections",
    )


def _corrections(figures: Figures) -> Account:
    """A correction arrives after its pane was settled, so there cannot be more than events that were late enough."""
    visits = next(stream.tally.truths for stream in figures.streams if stream.name == "visits")
    newest_us = possible = 0
    for visit in visits:
        possible += visit.at_us - visit.at_us % MINUTE_US + MINUTE_US + PATIENCE_US <= newest_us
        newest_us = max(newest_us, visit.at_us)
    return Account(
        "view 'traffic': corrections are late events",
        0 <= figures.corrections <= possible,
        f"{figures.corrections:,} of at most {possible:,}",
    )
