"""Runs the benchmark, prints its figures and can write them to a document."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from headrace.bench.answers import answer_rates
from headrace.bench.builds import history
from headrace.bench.edits import edits_under_load
from headrace.bench.figures import Figure
from headrace.bench.lake import COMMITS, many_commits
from headrace.bench.measure import Tell, file_to_view, serving
from headrace.bench.start import starts
from headrace.bench.steady import steady_flow
from headrace.errors import UsageError
from headrace.logs import configure

EVENTS = 5_000_000
FLOW_S = 25.0
PARTS = ("start", "lake", "throughput", "serving", "answers", "builds", "steady", "edits")


def main(
    *,
    events: int = EVENTS,
    seconds: float = FLOW_S,
    only: list[str] | None = None,
    write: Path | None = None,
    as_json: bool = False,
) -> int:
    """Measure and print; the exit code is 0 if every figure meets its limit."""
    parts = _parts(only, whole=write is not None)
    configure("warning")  # builds run in this process, and log each step
    progress = Console(stderr=True)
    start = time.monotonic()

    def tell(what: str) -> None:
        progress.print(f"[dim]{time.monotonic() - start:5.0f} s[/]  {what}")

    measures: dict[str, Callable[[Tell], list[Figure]]] = {
        "start": starts,
        "lake": lambda tell: many_commits(COMMITS, tell),
        "throughput": lambda tell: file_to_view(events, tell),
        "serving": lambda tell: serving(seconds, tell),
        "answers": answer_rates,
        "builds": history,
        "steady": steady_flow,
        "edits": edits_under_load,
    }
    figures = [figure for part in parts for figure in measures[part](tell)]
    out = Console()
    if as_json:
        out.print_json(orjson.dumps({"machine": machine(), "figures": [f.as_dict() for f in figures]}).decode())
    else:
        out.print(_table(figures))
        out.print(f"{machine()}; {time.monotonic() - start:.0f} s in all")
    if write is not None:
        write.write_text(document(figures))
    return 1 if any(figure.passes is False for figure in figures) else 0


def _parts(only: list[str] | None, *, whole: bool) -> list[str]:
    """Which parts to measure, in their order."""
    unknown = [part for part in only or () if part not in PARTS]
    if unknown:
        raise UsageError(f"the benchmark has no part '{unknown[0]}'", expected=f"one of {', '.join(PARTS)}")
    if only and whole:
        raise UsageError("a document has the figures of all parts", fix="leave --only out, or --write")
    return [part for part in PARTS if not only or part in only]


def machine() -> str:
    """A description of this machine."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()} {platform.machine()}"


def document(figures: list[Figure]) -> str:
    """The figures as the page docs/benchmarks.md."""
    rows = "\n".join(f"| {f.name} | {f.text} | {f.spread} | {f.bar_text} | {_verdict(f)} |" for f in figures)
    return (
        "# Benchmarks\n\n"
        "`make bench` prints these figures and writes this page. Server, Spark and clients run on the same machine.\n"
        "`src/headrace/bench/measure.py` describes how each figure is measured.\n\n"
        f"Taken {datetime.now(UTC):%Y-%m-%d} on {machine()}.\n\n"
        "| figure | median or percentile | spread | bar | |\n|---|---|---|---|---|\n"
        f"{rows}\n\n"
        "- Events are JSON of about 95 bytes with five fields. A view has about 15,000 groups of 1-minute panes with\n"
        "  count, sum and max. *File to answered view* is `headrace send` until every view has every event.\n"
        "- *Freshness* is the time from the acknowledgement of a post until every view has its events.\n"
        "- A *point answer* is one key merged over one hour, over an open connection. *Hot keys* are 250 pages, asked\n"
        "  again and again; keys *never asked before* are visitors, of 50,000.\n"
        "- The *lake of many commits* is written with the lake layer alone, with upkeep in the background, and\n"
        "  compared with the same events in one commit. A scan reads three columns of all events with DuckDB.\n"
        "- A *build* computes a view of count, sum and max from the lake until it serves: Spark jobs, the batch table\n"
        "  and the swap. The lake has commits of a million events; builds of 5, 10 and 20 M read the first ones. A\n"
        "  *beat* reads one commit again, compares it with the speed layer, and adds it to the batch table.\n"
        "- A *steady flow* is 10,000 events/s, nearly all in different groups, into a view with a beat every 10 s.\n"
        "- *Edited*: over a history of 2 M events, with 10,000 events/s in and 100 queries/s, a view is edited in\n"
        "  every way, one edit after the other, with pauses for the figures without edits. An answer is\n"
        "  right if it equals what DuckDB computes from the lake's files with the definition of its version, over the\n"
        "  commits that it names.\n"
        "- *Memory* is that of the server, the JVM and all workers; shared pages count once.\n"
    )


def _table(figures: list[Figure]) -> Table:
    table = Table("figure", "median or percentile", "spread", "bar", "", box=None)
    for figure in figures:
        colour = {True: "green", False: "red", None: "default"}[figure.passes]
        table.add_row(figure.name, figure.text, figure.spread, figure.bar_text, f"[{colour}]{_verdict(figure)}[/]")
    return table


def _verdict(figure: Figure) -> str:
    return {True: "passes", False: "misses", None: ""}[figure.passes]
