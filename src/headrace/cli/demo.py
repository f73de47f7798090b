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
    as_json: JsonOption = False,
) -> None:
    """Run the whole thing on the traffic of a web shop, and check every row of every view."""
    from headrace.demo import run  # the generator, its page and its checks

    raise typer.Exit(run(console(), seconds=seconds, rate=rate, seed=seed, keep=keep, json=as_json))


def bench(context: typer.Context) -> None:
    """Measure this machine: throughput, freshness, answer times."""
    from headrace.bench import main  # Spark

    raise typer.Exit(main(context.args))
