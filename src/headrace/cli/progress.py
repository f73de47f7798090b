"""How sending goes, on standard error: a bar if that is a terminal, else only a line when the server is busy."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headrace.cli.output import console

if TYPE_CHECKING:
    from headrace.errors import HeadraceError
    from headrace.sending import Progress

SAY_EVERY_S = 10.0


class _Quiet:
    """Says only that it has to wait, and that not often."""

    def __init__(self) -> None:
        self._said_at = float("-inf")

    def sent(self, read_bytes: int, events: int) -> None:
        """Nothing to say."""

    def waits(self, error: HeadraceError, pause_s: float) -> None:
        if time.monotonic() - self._said_at > SAY_EVERY_S:
            self._said_at = time.monotonic()
            typer.echo(f"waiting for the server: {error.message}", err=True)


class _Bar:
    """Bytes read and events per second."""

    def __init__(self, bar: Any, total: int | None) -> None:
        self._bar = bar
        self._task = bar.add_task("send", total=total, said="")
        self._began, self._events = time.monotonic(), 0

    def sent(self, read_bytes: int, events: int) -> None:
        self._events += events
        rate = self._events / max(time.monotonic() - self._began, 1e-3)
        self._bar.update(self._task, advance=read_bytes, said=f"{rate:,.0f} events/s")

    def waits(self, error: HeadraceError, pause_s: float) -> None:
        self._bar.update(self._task, said=f"waiting for the server: {error.message}")


@contextmanager
def show_progress(files: list[Path], *, endless: bool) -> Iterator[Progress]:
    """Shows it while the block runs."""
    if not sys.stderr.isatty():
        yield _Quiet()
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    known = not endless and all(file.is_file() for file in files)
    total = sum(file.stat().st_size for file in files) if known else None
    columns: list[Any] = [BarColumn(), DownloadColumn(), TextColumn("{task.fields[said]}"), TimeRemainingColumn()]
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        yield _Bar(bar, total)
