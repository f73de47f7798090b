"""A bar for whoever waits for Spark: on standard error, if that is a terminal and it takes more than a moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from headrace.cli.output import console

MOMENT_S = 1.0
REFRESH_S = 0.2

Tasks = Callable[[], tuple[int, int]]  # how many are done, how many are known


@contextmanager
def waiting(what: str) -> Iterator[Callable[[Tasks], None]]:
    """While the block runs: first that it is waited for, then, once it is told of tasks, how many of them are done."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield lambda tasks: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    told: list[Tasks] = []
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
                    done, known = told[-1]() if told else (0, 0)
                    said = f"{done:,} of {known:,} tasks" if known else what
                    progress.update(bar, description=said, completed=done, total=known or None)

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        yield told.append
    finally:
        over.set()
        follower.join()
