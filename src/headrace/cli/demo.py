"""`headrace demo` and `headrace bench`: the parts that they run live elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.options import JsonOption
from headrace.cli.output import console


def demo(
    seconds: Annotated[float, typer.Option(metavar="SECONDS", help="How long events flow.", min=1)] = 22.0,
    rate: Annotated[int, typer.Option(metavar="N", help="Events per second.", min=1)] = 4_000,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the generated traffic.")] = 7,
    keep: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="New folder that keeps the workspace afterwards.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="SVG file that keeps what the terminal shows at the end.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the traffic of a web shop and check every row. A view is edited meanwhile; all parts are the real ones."""
    from headrace.demo import run  # the generator, its page and its checks

    raise typer.Exit(run(console(), seconds=seconds, rate=rate, seed=seed, keep=keep, json=as_json, picture=record))


def bench(
    events: Annotated[int, typer.Option(help="Events of one throughput run.", min=100_000)] = 5_000_000,
    seconds: Annotated[float, typer.Option(help="How long events flow for freshness.", min=5)] = 25.0,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Part to measure: lake, throughput, serving, builds, steady or edits."),
    ] = None,
    write: Annotated[Path | None, typer.Option(help="Markdown file that keeps the figures.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure this machine. Throughput, memory, freshness, answer times, builds and edits; takes some minutes."""
    from headrace.bench import main  # numpy, and the parts of the demo

    raise typer.Exit(main(events=events, seconds=seconds, only=only, write=write, as_json=as_json))
