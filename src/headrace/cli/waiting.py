"""Output while a command waits, on standard error: lines on a pipe, bars on a terminal; Ctrl-C ends the waiting, not
the work.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headrace.cli.output import console, count
from headrace.errors import ConflictError, HeadraceError, NotReadyError
from headrace.format import plural
from headrace.lazy import later
from headrace.name_encoding import shell
from headrace.spark import jobs

if TYPE_CHECKING:
    from rich import progress as rich_progress

    from headrace.api.connect import Connection
    from headrace.ingest.sending import SendProgress
    from headrace.server.status import AuditStatus, BuildStatus, RefreshStatus, VersionStatus, ViewStatus
else:  # loaded by their first use
    rich_progress = later("rich.progress")


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
    sources: list[Follow] = []
    ended = threading.Event()
    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.TimeElapsedColumn(),
    )
    progress = rich_progress.Progress(*columns, console=out, transient=True)

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


POLL_S = 0.2
Show = Callable[[str, int, int | None, str], None]  # of a view: completed, total, description


def wait_until_serving(connection: Connection, numbers: Mapping[str, int]) -> None:
    """Wait until each of these views is served by the version of that number."""
    pending = dict(numbers)
    with interruptible(*pending), _progress() as show:
        while pending:
            views = {view.name: view for view in connection.verbs.views()}
            for name, number in list(pending.items()):
                if _serves(views.get(name), name, number, show):
                    del pending[name]
            if pending:
                time.sleep(POLL_S)


def _serves(view: ViewStatus | None, name: str, number: int, show: Show) -> bool:
    if view and view.version == number:
        return True
    build = view.building if view else None
    if view is None or build is None or build.version != number:
        raise ConflictError(
            f"view '{name}': version {number} was replaced before it could serve",
            fix=f"`headrace versions {shell(name)}` shows which version replaced it",
        )
    _check(name, number, build)
    if build.state == "ready":
        show(name, build.applied_to, view.commits, f"version {number} of {name} catches up")
    else:
        show(name, build.events_done or 0, build.events, f"version {number} of {name}: {build.state}")
    return False


def _check(view: str, number: int, status: BuildStatus | VersionStatus) -> None:
    """Raise if the version is stalled or has an error."""
    problem = status.stalled or status.error
    if problem:
        raise NotReadyError(
            f"view '{view}': version {number} cannot be completed: {problem}",
            fix="the server retries; the previous version keeps serving",
        )


def wait_until_refreshed(
    connection: Connection, view: str, refresh: RefreshStatus, before: AuditStatus | None
) -> AuditStatus | None:
    """Wait until the horizon has reached the commits of the speed layer, or drift is found; returns the new audit.

    A view over a table has no horizon: its next audit has all of its commits.
    """
    to_commit = refresh.applied_to
    with interruptible(view), _progress() as show:
        while True:
            version = next((v for v in connection.verbs.versions(view) if v.version == refresh.version), None)
            newest = next(iter(connection.verbs.audits(view)), None)
            if version is None or version.state == "retired":
                raise ConflictError(f"view '{view}' was edited meanwhile", fix="refresh it again")
            new = newest if newest != before else None
            if version.horizon >= to_commit or (new and (version.alarm or refresh.over)):
                return new
            _check(view, refresh.version, version)
            show(view, 0, None, f"{view}: commits {version.horizon} to {to_commit - 1} are being compared")
            time.sleep(POLL_S)


@contextmanager
def interruptible(*views: str) -> Iterator[None]:
    """Ctrl-C ends the waiting; the server continues."""
    try:
        yield
    except KeyboardInterrupt:
        look = f"`headrace versions {shell(views[0])}` shows" if len(views) == 1 else "`headrace views` shows"
        typer.echo(f"The server continues; {look} the progress.", err=True)
        raise typer.Exit(130) from None


@contextmanager
def _progress() -> Iterator[Show]:
    """A progress bar for each view; only on a terminal."""
    if not sys.stderr.isatty():
        yield lambda view, completed, total, description: None
        return
    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.TextColumn("{task.fields[of]}"),
        rich_progress.TimeRemainingColumn(),
    )
    tasks: dict[str, rich_progress.TaskID] = {}
    with rich_progress.Progress(*columns, console=console(stderr=True), transient=True) as progress:

        def show(view: str, completed: int, total: int | None, description: str) -> None:
            if view not in tasks:
                tasks[view] = progress.add_task(description, total=total, of="")
            events = f"{count(completed)} of {count(total)}" if total else ""
            progress.update(tasks[view], completed=completed, total=total, description=description, of=events)

        yield show


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
    columns: list[Any] = [
        rich_progress.BarColumn(),
        rich_progress.DownloadColumn(),
        rich_progress.TextColumn("{task.fields[note]}"),
        rich_progress.TimeRemainingColumn(),
    ]
    with rich_progress.Progress(*columns, console=console(stderr=True), transient=True) as bar:
        yield _Bar(bar, total)
