"""The checks at the end of a run: every view against exact answers, and the number of events at each stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace.demo.compare import STATED_ERROR, Comparison, compare
from headrace.demo.edit import COLUMN, VIEW
from headrace.demo.figures import Figures
from headrace.demo.reader import Reader
from headrace.demo.reference import MINUTE_US, RULES
from headrace.demo.traffic import PATIENCE_US


@dataclass(frozen=True)
class Account:
    """A check other than the rows of views."""

    claim: str
    ok: bool
    detail: str


@dataclass
class Report:
    """The checks and their results."""

    views: list[Comparison] = field(default_factory=list)
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


def check_run(figures: Figures, reader: Reader, note: Callable[[str], None]) -> Report:
    """Read and compare every row; `note` is called with the current view."""
    report = Report()
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
