"""Writes docs/benchmarks.md and its plots from the results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.growth import Curve, curves
from bench.limits import LEAST_RATIOS, LEAST_SHARE
from bench.ours.run import PARTS as OURS
from bench.ours.run import verdict
from bench.plot import number, plot
from bench.process import FLINK, FLINK_KAFKA, SPARK, SPARK_LOG
from bench.record import Results

INTRODUCTION = """# Benchmarks

`make bench-full` measures all figures of this page and writes the page from `bench/results.json`. An interrupted run
continues where it stopped. `make bench` prints some figures of Headrace alone in a few minutes. `make bench-check`
repeats the comparison in fewer rounds; it fails if a ratio misses its limit or is more than 25 % worse than the
committed ratio. Server, Spark, workers and clients run on the same machine.
"""
LIMITS = f"""
Headrace always stores all events in a log. In the main comparison, all engines keep a log; the limit is
{LEAST_RATIOS[SPARK_LOG.name]:g} times the rate of both. The jobs without a log do less work; for them the limit is
{LEAST_RATIOS[SPARK.name]:g} times the rate of plain Structured Streaming and {LEAST_RATIOS[FLINK.name]:g} times that
of PyFlink.
"""
KAFKA_LIMITS = f"""
From Kafka, the limits are {LEAST_SHARE} % of the rate of the journal and {LEAST_RATIOS[FLINK_KAFKA.name]:g} times
the rate of PyFlink with Flink's Kafka connector. Spark's own Kafka connector is omitted if its jar is not available.
"""

ENGINES = ("", "Headrace", "Structured Streaming", "PyFlink", "DuckDB alone")
ABILITIES = (
    (
        "keeps every event, for rebuilds and new views",
        "yes",
        "only in the job with a log",
        "only in the job with a log",
        "no",
    ),
    (
        "exactly once after a crash",
        "yes",
        "with a table of applied micro-batches, as here",
        "with checkpoints; not enabled here",
        "no: runs again",
    ),
    (
        "late events correct the result",
        "yes, always",
        "yes: without a watermark, in this job",
        "no: dropped once the window has fired",
        "no: runs again",
    ),
    (
        "point answers while events arrive",
        "yes",
        "no: the process holds the DuckDB file",
        "no: a sink has to serve them",
        "no",
    ),
    (
        "a view is edited while it serves",
        "yes",
        "no: stop, delete, run again",
        "no: stop and start from a savepoint or from scratch",
        "no",
    ),
)

SERVICES = ("kafka", "kafka-freshness", "subscribers")  # parts of `make bench-services`
METHOD = Path(__file__).with_name("method.md")


def write_page(results: Results, docs: Path) -> None:
    """The page, and a plot for each curve."""
    folder = docs / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    all_curves = curves(results)
    for curve in all_curves:
        content = plot(f"Growth with {curve.title}", curve.x, curve.y, curve.sizes, curve.costs)
        (folder / f"{_slug(curve)}.svg").write_text(content)
    sections = [
        INTRODUCTION,
        _comparison(results),
        _ours(results),
        _nexmark(results),
        _growth(all_curves),
        _services(results),
        METHOD.read_text(),
    ]
    (docs / "benchmarks.md").write_text("\n".join(sections))


def _comparison(results: Results) -> str:
    text = "## Against other engines\n\n"
    data = results.data("compare")
    if not data:
        return text + _missing("compare")
    sizes = results.parts["compare"]["sizes"]
    rows = [
        [
            row["name"],
            row["version"],
            f"{row['rate']:,.0f}",
            f"{row['least']:,.0f} to {row['most']:,.0f}",
            f"{row['cpu_per_million']:.2f}",
        ]
        for row in data["table"]
    ]
    return (
        f"{text}{_taken(results, 'compare')} {', '.join(data['versions'])}.\n"
        f"{sizes['events']:,} events in {sizes['files']} files; medians of {sizes['rounds']} rounds.\n\n"
        + _figures(results, ["compare"])
        + LIMITS
        + "\n"
        + _table(["", "version", "events/s", "spread", "CPU s per M events"], rows)
        + "\nProperties of the same job in each engine:\n\n"
        + _table(ENGINES, ABILITIES)
    )


def _ours(results: Results) -> str:
    text = "## Headrace alone\n\n"
    parts = [part for part in OURS if results.figures(part)]
    dates = sorted({results.parts[part]["taken"] for part in parts})
    missing = "".join(_missing(part) for part in OURS if part not in parts)
    if not parts:
        return text + missing
    taken = f"Taken {' and '.join(dates)} on {results.parts[parts[0]]['machine']}.\n\n"
    return text + taken + _figures(results, parts) + (f"\n{missing}" if missing else "")


def _nexmark(results: Results) -> str:
    text = "## Nexmark\n\n"
    data = results.data("nexmark")
    if not data:
        return text + _missing("nexmark")
    rows = [[f"q{row[0]}", *row[1:]] for row in data["table"]]
    return (
        f"{text}The events of the Nexmark benchmark by its published rules: persons, auctions and bids as 1 : 3 : 46,\n"
        "half of the bids for a hot auction. Each view is compared with DuckDB over the same events.\n"
        f"{_taken(results, 'nexmark')}\n\n"
        + _figures(results, ["nexmark"])
        + "\n"
        + _table(["query", "", "in Headrace"], rows)
    )


def _growth(all_curves: Sequence[Curve]) -> str:
    text = "## How cost grows\n"
    if not all_curves:
        return f"{text}\n" + _missing("growth-events")
    for curve in all_curves:
        cpu = [f"{value:.2f}" for value in curve.cpu]
        header = [curve.x, *(number(size) for size in curve.sizes)]
        rows = [[curve.y, *(f"{cost:.3g}" for cost in curve.costs)]]
        rows += [["CPU s per M events", *cpu]] if cpu else []
        text += f"\n### {curve.title.capitalize()}\n\n{curve.sentence}\n\n{_table(header, rows)}\n"
        text += f"![Growth with {curve.title}](benchmarks/{_slug(curve)}.svg)\n"
    return text


def _services(results: Results) -> str:
    text = "## With Kafka, and to subscribers\n\n"
    parts = [part for part in SERVICES if results.figures(part)]
    if not parts:
        return f"{text}Not measured yet: `make bench-services`.\n"
    taken = f"The broker runs on the same machine. {_taken(results, parts[0])}"
    return f"{text}{taken}\n\n{_figures(results, parts)}{KAFKA_LIMITS}"


def _figures(results: Results, parts: Iterable[str]) -> str:
    figures = [figure for part in parts for figure in results.figures(part)]
    rows = [[figure.name, figure.text, figure.spread, figure.bar_text, verdict(figure)] for figure in figures]
    return _table(["figure", "median or percentile", "spread", "limit", ""], rows)


def _table(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)


def _taken(results: Results, part: str) -> str:
    content = results.parts[part]
    return f"Taken {content['taken']} on {content['machine']}."


def _missing(part: str) -> str:
    return f'Not measured yet: `make bench-full ARGS="--only {part}"`.\n'


def _slug(curve: Curve) -> str:
    return re.sub(r"\W+", "-", curve.title)
