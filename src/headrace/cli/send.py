"""`headrace send`: NDJSON files into a stream, through the server or, without one, into its journal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.options import JsonOption, WorkspaceOption, open_connection
from headrace.cli.output import console, print_json
from headrace.errors import IngestError, NotReadyError

if TYPE_CHECKING:
    from headrace.client import Connection
    from headrace.web.remote import TokenState

WAIT_SLICE_S = 5.0


def send(
    stream: Annotated[str, typer.Argument(help="Stream that the events are of.", metavar="STREAM")],
    files: Annotated[list[Path], typer.Argument(help="NDJSON files: one JSON object per line.", metavar="FILE")],
    workspace: WorkspaceOption = ".",
    wait: Annotated[bool, typer.Option("--wait", help="Return when every view has the events.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long --wait waits at most.")] = 600.0,
    as_json: JsonOption = False,
) -> None:
    """Send the events of NDJSON files. A line that cannot be read is kept as a dead letter."""
    for file in files:
        if not file.is_file():
            raise IngestError(f"file '{file}' cannot be read", found="no such file", expected="an NDJSON file")
    total = sum(file.stat().st_size for file in files)
    with open_connection(workspace) as connection:
        began = time.monotonic()
        with _progress(total, enabled=not as_json) as advance:
            reply = connection.send_files(stream, files, advance)
        took = time.monotonic() - began
        if not reply.accepted:
            raise IngestError("there is no event in these files", expected="one JSON object per line")
        if not as_json:
            rate = reply.accepted / max(took, 1e-3)
            typer.echo(
                f"{reply.accepted:,} events accepted in {took:.1f} s ({rate:,.0f} events/s); token {reply.token}"
            )
        state = _wait(connection, reply.token, timeout, quiet=as_json) if wait else None
    if as_json:
        print_json({**reply.as_dict(), "seconds": round(took, 3), **(state.as_dict() if state else {})})
    if state and not state.complete:
        why = f"stalled: {', '.join(state.stalled)}" if state.stalled else f"not all views had them after {timeout:g} s"
        raise NotReadyError(f"the events are safe, but {why}", fix="`headrace views` shows how far each view is")
    if state and not as_json:
        typer.echo("All views have them.")


def _wait(connection: Connection, token: str, timeout_s: float, *, quiet: bool) -> TokenState:
    """Until every view has the events, or will not have them before someone mends it."""
    out = console(stderr=True)
    deadline = time.monotonic() + timeout_s
    with nullcontext() if quiet else out.status("waiting until every view has them"):
        while True:
            left = deadline - time.monotonic()
            state = connection.wait(token, max(0.0, min(WAIT_SLICE_S, left)))
            if state.complete or state.stalled or left <= WAIT_SLICE_S:
                return state


@contextmanager
def _progress(total: int, *, enabled: bool) -> Iterator[Callable[[int, int], None] | None]:
    if not enabled or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    began, events = time.monotonic(), 0
    columns: list[Any] = [BarColumn(), DownloadColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn()]
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("send", total=total, rate="")

        def advance(size: int, lines: int) -> None:
            nonlocal events
            events += lines
            rate = events / max(time.monotonic() - began, 1e-3)
            progress.update(task, advance=size, rate=f"{rate:,.0f} events/s")

        yield advance
