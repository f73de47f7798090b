"""Output while a command waits, on standard error: a line if the server is not ready, a bar for long work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import typer

from headrace.cli.output import console
from headrace.errors import HeadraceError
from headrace.spark import jobs

MOMENT_S = 1.0
SAY_EVERY_S = 10.0
REFRESH_S = 0.2

Follow = Callable[[], jobs.Progress]


def say_waits() -> Callable[[HeadraceError, float], None]:
    """A callback that prints, from time to time, why the server is not ready."""
    printed_at = float("-inf")

    def on_wait(error: HeadraceError, pause_s: float) -> None:
        nonlocal printed_at
        if time.monotonic() - printed_at > SAY_EVERY_S:
            printed_at = time.monotonic()
            typer.echo(f"waiting for the server: {error.message}", err=True)

    return on_wait


@contextmanager
def waiting(what: str) -> Iterator[Callable[[Follow], None]]:
    """Show progress while the block runs. The block passes the progress of its job to the yielded function."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield lambda follow: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # not for commands without a bar

    sources: list[Follow] = []
    ended = threading.Event()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=out, transient=True)

    def follow() -> None:
        bar = progress.add_task(what, total=None)
        if ended.wait(MOMENT_S):
            return
        with progress:
            while not ended.wait(REFRESH_S):
                with suppress(Exception):  # display only: a job that has ended is not a failure
                    now = sources[-1]() if sources else None
                    if now and now.known:
                        progress.update(bar, description=str(now), completed=now.done, total=now.known)

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        yield sources.append
    finally:
        ended.set()
        follower.join()
