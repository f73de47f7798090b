"""The edit on the demo's screen: its steps, and the late event with the cell that it changed."""

from __future__ import annotations

import time
from typing import Any

import orjson
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.demo.edit import COLUMN, VIEW, Edit
from headrace.demo.late import Late
from headrace.format import span

QUIET = "bright_black"
MOST_EVENTS = 5


def render_edit(edit: Edit) -> RenderableType:
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
            Text(f"{took:.1f} s", style=QUIET),
        )
    title = Text(f"view '{VIEW}' gets a column while it serves", style="bold")
    return Group(title, table, _queries(edit))


def _queries(edit: Edit) -> Text:
    queries = edit.queries
    failures = (f"{queries.failures:,} failed", "green" if queries.failures == 0 else "bold red")
    longest = f", the longest took {span(queries.longest_ms)}" if queries.answers else ""
    shares = ", ".join(f"{count:,} by version {number}" for number, count in sorted(queries.by_version.items()))
    return Text.assemble(
        f"queries meanwhile: {queries.answers:,} answers ({shares or 'none yet'}), ", failures, longest
    )


def render_late(late: Late) -> RenderableType:
    """The cell before and after, and the events behind it, the late one marked."""
    title = Text(f"one event three hours late: {late.event['page']} at {_clock(late.event['at'])}", style="bold")
    window = f"{_clock(late.explanation['window_start'])} to {_clock(late.explanation['window_end'])}"
    change = Text.assemble(
        f"its cell, page {late.event['page']} from {window}: hits ",
        (f"{_value(late.before, 'hits', 0)} → {_value(late.after, 'hits', 0)}", "bold green"),
        f", {COLUMN} ",
        (f"{_value(late.before, COLUMN, '–')} → {_value(late.after, COLUMN, '–')}", "bold green"),
    )
    return Group(title, change, _events(late), Text(_sentence(late), style=QUIET))


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
            style="bold" if is_late else QUIET,
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
