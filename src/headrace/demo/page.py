"""The live page for a terminal, and plain lines without one."""

from __future__ import annotations

from decimal import Decimal

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.demo.act import render_edit, render_late
from headrace.demo.edit import COLUMN, VIEW, Step
from headrace.demo.figures import Figures, StreamFigures
from headrace.demo.traffic import SPEED

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
    """The same in one line."""
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


def plain_step(figures: Figures, step: Step) -> str:
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
