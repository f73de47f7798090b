"""`headrace up`: the server of a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common_options import FolderOption
from headrace.workspace.lease import refuse_if_served
from headrace.workspace.settings import Workspace


def up(
    workspace: FolderOption = Path(),
    port: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="Port to listen on; 0 selects a free port.", min=0, max=65535),
    ] = None,
    host: Annotated[str | None, typer.Option(metavar="HOST", help="Address to listen on.")] = None,
) -> None:
    """Run the server of a workspace until Ctrl-C."""
    # Before the libraries of the server are loaded, which takes seconds on a busy machine; the lease itself decides.
    refuse_if_served(Workspace.open(workspace).lease_file)

    from headrace.cli.run_server import run_server  # loads Arrow, DuckDB and the web server: not for --help

    run_server(workspace, host, port)
