"""`headrace demo` and `headrace bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common_options import JsonOption
from headrace.cli.output import console


def demo(
    seconds: Annotated[float, typer.Option(metavar="SECONDS", help="How long to send events.", min=1)] = 22.0,
    rate: Annotated[int, typer.Option(metavar="N", help="Events per second.", min=1)] = 4_000,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the generated traffic.")] = 7,
    keep: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Keep the workspace in this new folder.")] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the final screen to this SVG file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a web shop's traffic and check every row of every view. A view is edited during the run."""
    from headrace.tools.demo import run  # loads numpy and an HTTP library: not for --help

    raise typer.Exit(run(console(), seconds=seconds, rate=rate, seed=seed, keep=keep, json=as_json, picture=record))


def bench(
    events: Annotated[int, typer.Option(help="Events of one file that is sent.", min=20_000)] = 2_000_000,
    seconds: Annotated[float, typer.Option(help="How long to send events when measuring freshness.", min=5)] = 25.0,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART",
            help="Part to measure: throughput, late, sliding, sketches, unique, enrich, chains, functions, windows, "
            "freshness, demo, serving, answers, start, lake, builds, steady or edits.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure this machine. Throughput, freshness, query times, builds and edits; all parts take half an hour."""
    from headrace.bench import main  # loads PySpark, Arrow and DuckDB: not for --help

    raise typer.Exit(main(events=events, seconds=seconds, only=only, as_json=as_json))
