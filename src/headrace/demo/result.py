"""Prints the result of a run: a table, or JSON."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.demo.act import render_edit, render_late
from headrace.demo.check import Report
from headrace.demo.compare import STATED_ERROR
from headrace.demo.edit import COLUMN, VIEW
from headrace.demo.figures import Figures
from headrace.errors import HeadraceError


def print_result(console: Console, report: Report, figures: Figures, *, json: bool) -> None:
    """The report, with the figures of the run."""
    if json:
        _print_object(console, {**report.as_dict(), **_run_figures(figures), **_second_act(figures)})
        return
    if not console.is_terminal and figures.edit and figures.late:  # a terminal has them on its page
        console.print(render_edit(figures.edit), render_late(figures.late), sep="\n", markup=False, highlight=False)
    console.print(_views(report))
    for account in report.accounts:
        mark = Text("ok   ", style="green") if account.ok else Text("wrong", style="red")
        console.print(Text.assemble(mark, f"  {account.claim}: {account.detail}"), soft_wrap=True)
    for view in report.views:
        for difference in view.first:
            console.print(Text(difference, style="red"), soft_wrap=True)
    console.print(_verdict(report, figures), soft_wrap=True)


def print_failure(console: Console, error: HeadraceError, workspace: Path, *, json: bool) -> None:
    """The error of a run that failed; its workspace is kept."""
    if json:
        _print_object(console, {"ok": False, "error": error.as_dict(), "workspace": str(workspace)})
    else:
        console.print(Text(str(error), style="red"), soft_wrap=True)


def _views(report: Report) -> Table:
    table = Table(title="every row of every view, compared with the generator", title_justify="left")
    table.add_column("view")
    for name in ("rows", "cells", "mismatches", "estimates", f"within {STATED_ERROR:.1%}", "largest error"):
        table.add_column(name, justify="right")
    for view in report.views:
        share = view.within_stated / max(view.estimates, 1)
        estimates = (f"{view.estimates:,}", f"{share:.1%}", f"{view.largest_error:.1%}")
        table.add_row(
            view.view,
            f"{view.rows:,}",
            f"{view.cells:,}",
            Text(f"{view.mismatches:,}", style="green" if view.ok else "red"),
            *(estimates if view.estimates else ("", "", "")),
        )
    return table


def _verdict(report: Report, figures: Figures) -> Text:
    cells = sum(view.cells for view in report.views)
    totals = _run_figures(figures)
    fresh = totals["freshness_ms"]
    summary = f"{figures.sent:,} events in {totals['seconds']:.0f} s; {cells:,} cells compared"
    if fresh["p50"] is not None:
        summary += f"; freshness {fresh['p50'] / 1000:.1f} s (median), {fresh['max'] / 1000:.1f} s (most)"
    verdict = ("all rows are correct", "bold green") if report.ok else ("answers differ", "bold red")
    return Text.assemble(verdict, f": {summary}")


def _run_figures(figures: Figures) -> dict[str, Any]:
    freshness_ms = figures.measured_ms
    return {
        "seed": figures.seed,
        "seconds": round(figures.elapsed_s, 1),
        "flow_seconds": figures.flow_s,
        "caught_up_seconds": round(figures.caught_up_s, 2),
        "events": figures.sent,
        "late": sum(stream.tally.late for stream in figures.streams),
        "corrections": figures.corrections,
        "posts_repeated": sum(stream.tally.repeats for stream in figures.streams),
        "freshness_ms": {
            "p50": round(statistics.median(freshness_ms)) if freshness_ms else None,
            "max": max(freshness_ms, default=None),
        },
    }


def _second_act(figures: Figures) -> dict[str, Any]:
    edit, late = figures.edit, figures.late
    if edit is None or late is None:
        return {}
    return {
        "edit": {
            "view": VIEW,
            "column": COLUMN,
            "versions": list(edit.versions),
            "steps": [{"name": s.name, "said": s.text, "seconds": round(s.took_s or 0.0, 2)} for s in edit.steps],
            "events_read": edit.events_read,
            "estimated_s": edit.estimated_s,
            "served_after_s": round(edit.served_after_s, 2),
            "answers": edit.queries.answers,
            "answers_failed": edit.queries.failures,
            "longest_answer_ms": edit.queries.longest_ms,
            "answers_by_version": {str(number): count for number, count in edit.queries.by_version.items()},
            "audit": edit.audit,
        },
        "late_event": {"sent": late.event, "before": late.before, "after": late.after, "explained": late.late_event},
    }


def _print_object(console: Console, content: dict[str, Any]) -> None:
    console.out(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode(), highlight=False)
