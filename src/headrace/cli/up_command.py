"""`headrace up`: the server of a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.common_options import FolderOption
from headrace.lazy import later
from headrace.workspace.lease import refuse_if_served
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from headrace.cli import run_server
else:  # loaded by their first use
    run_server = later("headrace.cli.run_server")


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

    run_server.run_server(workspace, host, port)
