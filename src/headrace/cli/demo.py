"""`headrace demo` and `headrace bench`: the parts that they run live elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    seconds: Annotated[float, typer.Option(help="How long events flow.")] = 30.0,
    seed: Annotated[int, typer.Option(help="Seed of the generated traffic.")] = 7,
    rate: Annotated[int, typer.Option(help="Events per second.")] = 5_000,
) -> None:
    """Run the whole thing on the traffic of a web shop, and check every row of every view."""
    from headrace.demo import run  # the generator and Spark

    raise typer.Exit(run(seconds=seconds, seed=seed, rate=rate))


def bench(context: typer.Context) -> None:
    """Measure this machine: throughput, freshness, answer times."""
    from headrace.bench import main  # Spark

    raise typer.Exit(main(context.args))
