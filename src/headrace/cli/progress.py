"""Progress of sending, on standard error: a bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headrace.cli.output import console
from headrace.format import plural

if TYPE_CHECKING:
    from headrace.errors import HeadraceError
    from headrace.ingest.sending import SendProgress

LINE_EVERY_S = 10.0


class WaitLines:
    """Prints a line from time to time while the command waits."""

    def __init__(self) -> None:
        self._printed_at = float("-inf")

    def waits(self, error: HeadraceError, pause_s: float) -> None:
        """The command cannot continue now; it retries after a pause."""
        if time.monotonic() - self._printed_at > LINE_EVERY_S:
            self._printed_at = time.monotonic()
            typer.echo(f"waiting: {error.message}", err=True)


class _Lines(WaitLines):
    """The number of sent events, as a line every few seconds while it changes."""

    def __init__(self, total: int | None, *, first_at_once: bool) -> None:
        super().__init__()
        self._total = total
        self._events = self._bytes = 0
        self._ended = threading.Event()
        self._news = threading.Event()
        self._first_at_once = first_at_once
        self._thread = threading.Thread(target=self._print_lines, name="progress", daemon=True)
        self._thread.start()

    def sent(self, read_bytes: int, events: int) -> None:
        self._bytes += read_bytes
        self._events += events
        if events:
            self._news.set()

    def note(self, text: str) -> None:
        typer.echo(f"note: {text}", err=True)

    def close(self) -> None:
        self._ended.set()
        self._news.set()
        self._thread.join()

    def _print_lines(self) -> None:
        if not self._first_at_once:
            self._ended.wait(LINE_EVERY_S)  # most files are sent within this time
        while self._news.wait() and not self._ended.is_set():
            self._news.clear()
            share = f", {min(1.0, self._bytes / self._total):.0%} of the files read" if self._total else ""
            typer.echo(f"{plural(self._events, 'event')} sent{share}", err=True)
            self._ended.wait(LINE_EVERY_S)


class _Bar:
    """Bytes read and events per second."""

    def __init__(self, bar: Any, total: int | None) -> None:
        self._bar = bar
        self._task = bar.add_task("send", total=total, note="")
        self._began, self._events = time.monotonic(), 0

    def sent(self, read_bytes: int, events: int) -> None:
        self._events += events
        rate = self._events / max(time.monotonic() - self._began, 1e-3)
        self._bar.update(self._task, advance=read_bytes, note=f"{rate:,.0f} events/s")

    def waits(self, error: HeadraceError, pause_s: float) -> None:
        self._bar.update(self._task, note=f"waiting: {error.message}")

    def note(self, text: str) -> None:
        self._bar.console.print(f"note: {text}", markup=False, highlight=False)


@contextmanager
def show_progress(files: list[Path], *, endless: bool) -> Iterator[SendProgress]:
    """Show progress while the block runs."""
    sizes_known = not endless and all(file.is_file() for file in files)
    total = sum(file.stat().st_size for file in files) if sizes_known else None
    if not sys.stderr.isatty():
        lines = _Lines(total, first_at_once=endless)
        try:
            yield lines
        finally:
            lines.close()
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # not without a bar

    columns: list[Any] = [BarColumn(), DownloadColumn(), TextColumn("{task.fields[note]}"), TimeRemainingColumn()]
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        yield _Bar(bar, total)
