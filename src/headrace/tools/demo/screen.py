"""Prints the demo: the live page with the steps of the edit, plain lines without a terminal, the result."""

from __future__ import annotations

import statistics
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.errors import HeadraceError
from headrace.format import span
from headrace.tools.demo.final_check import STATED_ERROR, RunReport
from headrace.tools.demo.live_edit import COLUMN, VIEW, EditStep, Late, LiveEdit
from headrace.tools.demo.run_figures import Figures, StreamFigures
from headrace.tools.demo.traffic import SPEED

ACT_QUIET = "bright_black"
MOST_EVENTS = 5


def render_edit(edit: LiveEdit) -> RenderableType:
    """The steps so far, and the queries during the edit."""
    table = Table.grid(padding=(0, 2))
    for step in list(edit.steps):
        took = time.monotonic() - step.since if step.took_s is None else step.took_s
        running = step.took_s is None
        bar = [ProgressBar(total=1.0, completed=step.progress, width=16)] if step.progress is not None else []
        progress = Table.grid(padding=(0, 1))
        progress.add_row(*bar, Text(step.text, style="yellow" if running else ""))
        table.add_row(
            Text("…" if running else "✓", style="yellow" if running else "green"),
            Text(step.name, style="bold"),
            progress,
            Text(f"{took:.1f} s", style=ACT_QUIET),
        )
    title = Text(f"view '{VIEW}' gets a column while it serves", style="bold")
    return Group(title, table, _queries(edit))


def _queries(edit: LiveEdit) -> Text:
    queries = edit.queries
    failures = (f"{queries.failures:,} failed", "green" if queries.failures == 0 else "bold red")
    longest = f", the longest took {span(queries.longest_ms)}" if queries.answers else ""
    shares = ", ".join(f"{count:,} by version {number}" for number, count in sorted(queries.by_version.items()))
    return Text.assemble(
        f"queries meanwhile: {queries.answers:,} answers ({shares or 'none yet'}), ", failures, longest
    )


def render_late(late: Late) -> RenderableType:
    """The cell before and after, and its events, the late one marked."""
    title = Text(f"one event three hours late: {late.event['page']} at {_clock(late.event['at'])}", style="bold")
    window = f"{_clock(late.explanation['window_start'])} to {_clock(late.explanation['window_end'])}"
    change = Text.assemble(
        f"its cell, page {late.event['page']} from {window}: hits ",
        (f"{_value(late.before, 'hits', 0)} → {_value(late.after, 'hits', 0)}", "bold green"),
        f", {COLUMN} ",
        (f"{_value(late.before, COLUMN, '–')} → {_value(late.after, COLUMN, '–')}", "bold green"),
    )
    return Group(title, change, _events(late), Text(_sentence(late), style=ACT_QUIET))


def _events(late: Late) -> Table:
    """The last events in order of arrival."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("position", "commit", "event time", "behind the newest", "visitor", COLUMN):
        table.add_column(name, justify="left" if name in ("event time", "visitor") else "right")
    table.add_column("")
    for event in late.explanation["events"][-MOST_EVENTS:]:
        is_late = event is late.late_event
        table.add_row(
            f"{event['position']:,}",
            f"{event['commit']:,}",
            _clock(event["event_time"]),
            span(event["behind_ms"]),
            str(orjson.loads(event["value"])["visitor"]),
            f"{event['arguments'].get(COLUMN, '')}",
            Text("correction", style="bold yellow" if is_late else "yellow") if event["correction"] else Text(""),
            style="bold" if is_late else ACT_QUIET,
        )
    return table


def _sentence(late: Late) -> str:
    explanation = late.explanation
    agrees = "the view has the same count" if explanation["agrees"] else "the view has a different count"
    return (
        f"headrace explain {VIEW}: {explanation['found']:,} events of {explanation['commits']:,} commits, "
        f"{explanation['corrections']:,} of them corrections; {agrees}"
    )


def _value(row: dict[str, Any] | None, column: str, none: Any) -> Any:
    return none if row is None or row[column] is None else row[column]


def _clock(time_text: str) -> str:
    return time_text[11:19]


BARS = "▁▂▃▄▅▆▇█"
ROWS = 6
QUIET = "bright_black"


def render_page(figures: Figures) -> RenderableType:
    """The whole page."""
    parts: list[RenderableType] = [_head(figures)]
    if figures.streams:
        parts.append(_flow(figures))
    if figures.rates:
        parts.append(_pace(figures))
    if figures.rows:
        parts.append(Columns([_traffic(figures), _revenue(figures), _audience(figures)], padding=(0, 2)))
    if figures.edit and figures.edit.steps:
        parts += [Text(), render_edit(figures.edit)]
    if figures.late:
        parts += [Text(), render_late(figures.late)]
    return Group(*parts)


def plain_line(figures: Figures) -> str:
    """The figures in one line."""
    if not figures.streams:
        return f"{figures.elapsed_s:5.1f} s  {figures.phase}"
    dead = sum(stream.dead_letters for stream in figures.streams)
    refused = sum(stream.tally.refused for stream in figures.streams)
    late = sum(stream.tally.late for stream in figures.streams)
    fresh = "unknown" if figures.freshness_ms is None else f"{figures.freshness_ms / 1000:.1f} s"
    return (
        f"{figures.elapsed_s:5.1f} s  {figures.phase}: {figures.sent:,} events sent, {figures.stored:,} in the log, "
        f"freshness {fresh}, {late:,} late, {figures.corrections:,} corrections, "
        f"{dead:,} dead letters, {refused:,} refused"
    )


def plain_step(figures: Figures, step: EditStep) -> str:
    """A finished step of the edit, in one line."""
    return f"{figures.elapsed_s:5.1f} s  view '{VIEW}' is edited, {step.name}: {step.text} ({step.took_s or 0:.1f} s)"


def _head(figures: Figures) -> RenderableType:
    grid = Table.grid(expand=True)
    grid.add_column(ratio=1)
    grid.add_column(justify="right")
    title = Text.assemble(("Headrace demo", "bold"), f"  a web shop at {SPEED} times real speed, seed {figures.seed}")
    grid.add_row(title, Text(figures.url, style="cyan"))
    bar = Table.grid(padding=(0, 2))
    bar.add_row(
        ProgressBar(total=1.0, completed=figures.flowed, width=36),
        Text(figures.phase, style="yellow"),
        Text(f"{figures.elapsed_s:.0f} s", style=QUIET),
    )
    return Group(grid, bar)


def _flow(figures: Figures) -> RenderableType:
    table = _table(
        "stream", "sent", "accepted", "refused", "dead letters", "late", "posts twice", "in the log", "events/s"
    )
    table.add_column("newest event", min_width=8)
    for stream in figures.streams:
        table.add_row(*_stream_cells(stream))
    return table


def _stream_cells(stream: StreamFigures) -> list[str]:
    tally = stream.tally
    counts = (tally.events, tally.accepted, tally.refused, stream.dead_letters, tally.late, tally.repeats)
    return [stream.name, *(f"{n:,}" for n in (*counts, stream.events, stream.per_second)), stream.newest]


def _pace(figures: Figures) -> RenderableType:
    most = max(max(figures.rates), 1)
    bars = "".join(BARS[min(len(BARS) - 1, rate * len(BARS) // (most + 1))] for rate in figures.rates)
    fresh = figures.freshness_ms
    freshness = (
        ("unknown", "red") if fresh is None else (f"{fresh / 1000:.2f} s", "green" if fresh < 2_500 else "yellow")
    )
    return Text.assemble(
        (bars, "cyan"),
        f" {figures.rates[-1]:,} events/s   freshness ",
        freshness,
        f"   corrections {figures.corrections:,}   memory {figures.memory_mb:,} MB",
    )


def _traffic(figures: Figures) -> RenderableType:
    rows = figures.rows["traffic"][:ROWS]
    extra = [COLUMN] if rows and COLUMN in rows[0] else []
    table = _table("traffic (3 minutes)", "hits", "errors", "load ms", *extra)
    for row in rows:
        times = ["" if row[name] is None else f"{row[name]:.0f}" for name in ("load_ms", *extra)]
        table.add_row(_word(row["page"]), f"{row['hits']:,}", f"{row['errors']:,}", *times)
    return table


def _revenue(figures: Figures) -> RenderableType:
    table = _table("revenue", "orders", "revenue")
    for row in figures.rows["revenue"][:ROWS]:
        table.add_row(_word(row["category"]), f"{row['orders']:,}", f"{Decimal(row['revenue'] or 0):,.2f}")
    return table


def _audience(figures: Figures) -> RenderableType:
    table = _table("audience", "visitors", "checkout")
    table.add_column("")
    for row in reversed(figures.rows["audience"][:ROWS]):
        since = f"{row['window_start'][11:16]} - {row['window_end'][11:16]}"
        state = Text("settled", style="green") if row["settled"] else Text("provisional", style=QUIET)
        table.add_row(since, f"{row['visitors']:,}", f"{row['at_checkout']:,}", state)
    return table


def _table(name: str, *numbers: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(name, no_wrap=True)
    for number in numbers:
        table.add_column(number, justify="right")
    return table


def _word(key: str | None) -> str:
    return "NULL" if key is None else key or '""'


def print_result(console: Console, report: RunReport, figures: Figures, *, json: bool) -> None:
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


def _views(report: RunReport) -> Table:
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


def _verdict(report: RunReport, figures: Figures) -> Text:
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
