"""Runs the parts of the benchmark of Headrace alone and prints their figures."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from bench.ours.answers import answer_rates
from bench.ours.builds import history
from bench.ours.chains import chain_costs
from bench.ours.edits import edits_under_load
from bench.ours.enrich import enrichment
from bench.ours.figures import Figure
from bench.ours.freshness import demo, freshness
from bench.ours.functions import function_rates
from bench.ours.lake import COMMITS, many_commits
from bench.ours.measure import serving
from bench.ours.progress import Progress
from bench.ours.start import starts
from bench.ours.steady import steady_flow
from bench.ours.throughput import late, many_views, sketches, sliding, throughput
from bench.ours.unique import unique_ids
from bench.ours.windows import window_costs
from bench.sizes import Sizes
from headrace.errors import UsageError

PARTS: Mapping[str, Callable[[Sizes, Progress], list[Figure]]] = {
    "throughput": throughput,
    "many-views": many_views,
    "late": late,
    "sliding": sliding,
    "sketches": sketches,
    "unique": lambda sizes, progress: unique_ids(progress.tell, sizes.events, sizes.id_files, sizes.rounds),
    "enrich": lambda sizes, progress: enrichment(progress.tell, sizes),
    "chains": lambda sizes, progress: chain_costs(progress.tell, sizes.events, sizes.rounds),
    "functions": lambda sizes, progress: function_rates(progress.tell, sizes),
    "windows": lambda sizes, progress: window_costs(progress.tell, keys=sizes.window_keys, days=sizes.window_days),
    "freshness": freshness,
    "demo": demo,
    "serving": lambda sizes, progress: serving(sizes.seconds, progress.tell),
    "answers": lambda sizes, progress: answer_rates(progress.tell, sizes.answers),
    "start": lambda sizes, progress: starts(progress.tell, sizes.start_events, sizes.starts),
    "lake": lambda sizes, progress: many_commits(COMMITS, progress.tell),
    "builds": lambda sizes, progress: history(progress.tell),
    "steady": lambda sizes, progress: steady_flow(progress.tell),
    "edits": lambda sizes, progress: edits_under_load(progress.tell),
}


def print_figures(sizes: Sizes, only: list[str] | None = None, *, as_json: bool = False) -> int:
    """Measure and print; the exit code is 0 if every figure meets its limit."""
    parts = select_parts(only)
    start, progress = time.monotonic(), Progress(teller())
    figures = [figure for part in parts for figure in PARTS[part](sizes, progress)]
    out = Console()
    if as_json:
        out.print_json(orjson.dumps({"machine": machine(), "figures": [f.as_dict() for f in figures]}).decode())
    else:
        out.print(_table(figures))
        out.print(f"{machine()}; {time.monotonic() - start:.0f} s in all")
    return 1 if any(figure.passes is False for figure in figures) else 0


def teller() -> Callable[[str], None]:
    """Prints progress to standard error, with the seconds since now."""
    progress, start = Console(stderr=True), time.monotonic()
    return lambda text: progress.print(f"[dim]{time.monotonic() - start:5.0f} s[/]  {text}")


def select_parts(only: list[str] | None, parts: Iterable[str] = PARTS) -> list[str]:
    """Which parts to measure, in their order."""
    names = list(parts)
    unknown = [part for part in only or () if part not in names]
    if unknown:
        raise UsageError(f"the benchmark has no part '{unknown[0]}'", expected=f"one of {', '.join(names)}")
    return [part for part in names if not only or part in only]


def machine() -> str:
    """A description of this machine."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return f"{os.cpu_count()} cores{_processor()}, {memory_gb:.0f} GB, {system}"


def _processor() -> str:
    """The name of the processor, in parentheses, where the system tells it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return f" ({line.partition(':')[2].strip()})"
    return ""


def _table(figures: list[Figure]) -> Table:
    table = Table("figure", "median or percentile", "spread", "bar", "", box=None)
    for figure in figures:
        colour = {True: "green", False: "red", None: "default"}[figure.passes]
        table.add_row(figure.name, figure.text, figure.spread, figure.bar_text, f"[{colour}]{verdict(figure)}[/]")
    return table


def verdict(figure: Figure) -> str:
    """Whether it meets its limit, in a word."""
    return {True: "passes", False: "misses", None: ""}[figure.passes]
