"""`headrace demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.common_options import JsonOption
from headrace.cli.output import console
from headrace.lazy import later

if TYPE_CHECKING:
    from headrace.tools import demo as demo_module
else:  # loaded by their first use
    demo_module = later("headrace.tools.demo")


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
    raise typer.Exit(
        demo_module.run(console(), seconds=seconds, rate=rate, seed=seed, keep=keep, json=as_json, picture=record)
    )
