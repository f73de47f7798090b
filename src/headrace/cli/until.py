"""Waits for versions to serve or a refresh to finish, with a progress bar; Ctrl-C does not stop the work."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from headrace.cli.output import console, count
from headrace.errors import ConflictError, NotReadyError
from headrace.names import shell

if TYPE_CHECKING:
    from headrace.client.connect import Connection
    from headrace.server.state import AuditStatus, BuildStatus, RefreshStatus, VersionStatus, ViewStatus

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
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn  # not without a bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[of]}"), TimeRemainingColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:

        def show(view: str, completed: int, total: int | None, description: str) -> None:
            if view not in tasks:
                tasks[view] = progress.add_task(description, total=total, of="")
            events = f"{count(completed)} of {count(total)}" if total else ""
            progress.update(tasks[view], completed=completed, total=total, description=description, of=events)

        yield show
