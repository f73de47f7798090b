"""Shown while waiting, on standard error: a line when the server is not ready, a progress bar for long work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import typer

from headrace.cli.output import console

if TYPE_CHECKING:
    from headrace.errors import HeadraceError
    from headrace.spark.jobs import Progress

MOMENT_S = 1.0
SAY_EVERY_S = 10.0
REFRESH_S = 0.2

Follow = Callable[[], "Progress"]


def say_waits() -> Callable[[HeadraceError, float], None]:
    """Says, once in a while, what the server is waited for."""
    said_at = float("-inf")

    def hear(error: HeadraceError, pause_s: float) -> None:
        nonlocal said_at
        if time.monotonic() - said_at > SAY_EVERY_S:
            said_at = time.monotonic()
            typer.echo(f"waiting for the server: {error.message}", err=True)

    return hear


@contextmanager
def waiting(what: str) -> Iterator[Callable[[Follow], None]]:
    """Show progress while the block runs, once a job to ask for it is set."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield lambda follow: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    told: list[Follow] = []
    over = threading.Event()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=out, transient=True)

    def follow() -> None:
        bar = progress.add_task(what, total=None)
        if over.wait(MOMENT_S):
            return
        with progress:
            while not over.wait(REFRESH_S):
                with suppress(Exception):  # it only shows: a job that ends meanwhile is no failure
                    now = told[-1]() if told else None
                    if now and now.known:
                        progress.update(bar, description=str(now), completed=now.done, total=now.known)

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        yield told.append
    finally:
        over.set()
        follower.join()
