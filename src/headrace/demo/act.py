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
EVENTS_SHOWN = 5


def render_edit(edit: Edit) -> RenderableType:
    """The steps so far, and how those fare who ask meanwhile."""
    table = Table.grid(padding=(0, 2))
    for step in list(edit.steps):
        took = time.monotonic() - step.since if step.took_s is None else step.took_s
        under_way = step.took_s is None
        bar = [ProgressBar(total=1.0, completed=step.done, width=16)] if step.done is not None else []
        said = Table.grid(padding=(0, 1))
        said.add_row(*bar, Text(step.said, style="yellow" if under_way else ""))
        table.add_row(
            Text("…" if under_way else "✓", style="yellow" if under_way else "green"),
            Text(step.name, style="bold"),
            said,
            Text(f"{took:.1f} s", style=QUIET),
        )
    title = Text(f"view '{VIEW}' gets a column while it serves", style="bold")
    return Group(title, table, _asked(edit))


def _asked(edit: Edit) -> Text:
    asking = edit.asking
    failed = (f"{asking.failed:,} failed", "green" if asking.failed == 0 else "bold red")
    waited = f", the longest took {span(asking.longest_ms)}" if asking.given else ""
    shares = ", ".join(f"{count:,} by version {number}" for number, count in sorted(asking.by_version.items()))
    return Text.assemble(f"queries meanwhile: {asking.given:,} answers ({shares or 'none yet'}), ", failed, waited)


def render_late(late: Late) -> RenderableType:
    """What the cell said before and after, and the events behind it, the late one marked."""
    title = Text(f"one event three hours late: {late.event['page']} at {_clock(late.event['at'])}", style="bold")
    window = f"{_clock(late.explained['window_start'])} to {_clock(late.explained['window_end'])}"
    changed = Text.assemble(
        f"its cell, page {late.event['page']} from {window}: hits ",
        (f"{_value(late.before, 'hits', 0)} → {_value(late.after, 'hits', 0)}", "bold green"),
        f", {COLUMN} ",
        (f"{_value(late.before, COLUMN, '–')} → {_value(late.after, COLUMN, '–')}", "bold green"),
    )
    return Group(title, changed, _events(late), Text(_sentence(late), style=QUIET))


def _events(late: Late) -> Table:
    """The last ones, in the order of their arrival."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("position", "commit", "event time", "behind the newest", "visitor", COLUMN):
        table.add_column(name, justify="left" if name in ("event time", "visitor") else "right")
    table.add_column("")
    for event in late.explained["events"][-EVENTS_SHOWN:]:
        ours = event is late.marked
        table.add_row(
            f"{event['position']:,}",
            f"{event['commit']:,}",
            _clock(event["event_time"]),
            span(event["behind_ms"]),
            str(orjson.loads(event["value"])["visitor"]),
            f"{event['arguments'].get(COLUMN, '')}",
            Text("correction", style="bold yellow" if ours else "yellow") if event["correction"] else Text(""),
            style="bold" if ours else QUIET,
        )
    return table


def _sentence(late: Late) -> str:
    explained = late.explained
    agrees = "the view has the same count" if explained["agrees"] else "the view has a different count"
    return (
        f"headrace explain {VIEW}: {explained['found']:,} events of {explained['commits']:,} commits, "
        f"{explained['corrections']:,} of them corrections; {agrees}"
    )


def _value(row: dict[str, Any] | None, column: str, none: Any) -> Any:
    return none if row is None or row[column] is None else row[column]


def _clock(time_text: str) -> str:
    return time_text[11:19]
