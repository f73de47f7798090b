"""Runs the benchmark, prints its figures and can keep them in a document."""

from __future__ import annotations

import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from headrace.bench.figures import Figure
from headrace.bench.lake import COMMITS, many_commits
from headrace.bench.measure import file_to_view, serving

EVENTS = 5_000_000
FLOW_S = 25.0


def main(*, events: int = EVENTS, seconds: float = FLOW_S, write: Path | None = None, as_json: bool = False) -> int:
    """Measure, print, and tell by the exit code whether every bar was passed."""
    progress = Console(stderr=True)
    began = time.monotonic()

    def tell(what: str) -> None:
        progress.print(f"[dim]{time.monotonic() - began:5.0f} s[/]  {what}")

    figures = [*many_commits(COMMITS, tell), *file_to_view(events, tell), *serving(seconds, tell)]
    out = Console()
    if as_json:
        out.print_json(orjson.dumps({"machine": machine(), "figures": [f.as_dict() for f in figures]}).decode())
    else:
        out.print(_table(figures))
        out.print(f"{machine()}; {time.monotonic() - began:.0f} s in all")
    if write is not None:
        write.write_text(document(figures))
    return 1 if any(figure.passes is False for figure in figures) else 0


def machine() -> str:
    """What the figures were taken on."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()} {platform.machine()}"


def document(figures: list[Figure]) -> str:
    """The figures as docs/benchmarks.md keeps them."""
    rows = "\n".join(f"| {f.name} | {f.shown} | {f.spread} | {f.shown_bar} | {_verdict(f)} |" for f in figures)
    return (
        "# Benchmarks\n\n"
        "Our own figures, printed by `make bench`, which also writes this page. Everything runs on one machine: the\n"
        "server, Spark, and the clients that load it. `src/headrace/bench/measure.py` says how each is taken.\n\n"
        f"Taken {datetime.now(UTC):%Y-%m-%d} on {machine()}.\n\n"
        "| figure | median or percentile | spread | bar | |\n|---|---|---|---|---|\n"
        f"{rows}\n\n"
        "- Events are JSON of about 95 bytes with five fields. A view has some 15,000 groups of 1-minute panes with\n"
        "  count, sum and max. *File to answered view* is `headrace send` until every view has every event.\n"
        "- *Freshness* is the time from the acknowledgement of a post until every view has its events.\n"
        "- A *point answer* is one key merged over one hour, over an open connection.\n"
        "- The *lake of many commits* is made through the lake layer alone, with upkeep as in the background, and\n"
        "  compared with the same events in one commit. A scan reads three columns of all events with DuckDB.\n"
        "- *Memory* is that of the server, the JVM and all workers; pages that they share count once.\n"
    )


def _table(figures: list[Figure]) -> Table:
    table = Table("figure", "median or percentile", "spread", "bar", "", box=None)
    for figure in figures:
        colour = {True: "green", False: "red", None: "default"}[figure.passes]
        table.add_row(figure.name, figure.shown, figure.spread, figure.shown_bar, f"[{colour}]{_verdict(figure)}[/]")
    return table


def _verdict(figure: Figure) -> str:
    return {True: "passes", False: "misses", None: ""}[figure.passes]
