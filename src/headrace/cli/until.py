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

if TYPE_CHECKING:
    from headrace.client.connect import Connection
    from headrace.server.state import AuditStatus, BuildStatus, RefreshStatus, VersionStatus, ViewStatus

LOOK_S = 0.2
Show = Callable[[str, int, int | None, str], None]  # of a view: so much of so much, and a word on it


def wait_until_serving(connection: Connection, numbers: Mapping[str, int]) -> None:
    """Until each of these views is served by the version of that number."""
    waiting = dict(numbers)
    with going_on(*waiting), _progress() as show:
        while waiting:
            views = {view.name: view for view in connection.verbs.views()}
            for name, number in list(waiting.items()):
                if _serves(views.get(name), name, number, show):
                    del waiting[name]
            if waiting:
                time.sleep(LOOK_S)


def _serves(view: ViewStatus | None, name: str, number: int, show: Show) -> bool:
    if view and view.version == number:
        return True
    coming = view.building if view else None
    if view is None or coming is None or coming.version != number:
        raise ConflictError(
            f"view '{name}': version {number} was replaced before it could serve",
            fix=f"`headrace versions {name}` shows which version replaced it",
        )
    _check(name, number, coming)
    if coming.state == "ready":
        show(name, coming.applied_to, view.commits, f"version {number} of {name} catches up")
    else:
        show(name, coming.events_done or 0, coming.events, f"version {number} of {name}: {coming.state}")
    return False


def _check(view: str, number: int, said: BuildStatus | VersionStatus) -> None:
    """Report what the work is waiting for."""
    trouble = said.stalled or said.error
    if trouble:
        raise NotReadyError(
            f"view '{view}': version {number} cannot be completed: {trouble}",
            fix="the server retries; the previous version keeps serving",
        )


def wait_until_refreshed(
    connection: Connection, view: str, begun: RefreshStatus, before: AuditStatus | None
) -> AuditStatus | None:
    """Until the horizon is where the speed layer was, or drift kept it from there; the newest audit, if one is new."""
    to_commit = begun.applied_to
    with going_on(view), _progress() as show:
        while True:
            version = next((v for v in connection.verbs.versions(view) if v.version == begun.version), None)
            newest = next(iter(connection.verbs.audits(view)), None)
            if version is None or version.state == "retired":
                raise ConflictError(f"view '{view}' was edited meanwhile", fix="refresh it again")
            if version.horizon >= to_commit or (version.alarm and newest != before):
                return newest if newest != before else None
            _check(view, begun.version, version)
            show(view, 0, None, f"{view}: commits {version.horizon} to {to_commit - 1} are being compared")
            time.sleep(LOOK_S)


@contextmanager
def going_on(*views: str) -> Iterator[None]:
    """Ctrl-C ends the waiting, not the work."""
    try:
        yield
    except KeyboardInterrupt:
        look = f"`headrace versions {views[0]}` shows" if len(views) == 1 else "`headrace views` shows"
        typer.echo(f"The server continues; {look} the progress.", err=True)
        raise typer.Exit(130) from None


@contextmanager
def _progress() -> Iterator[Show]:
    """A bar for each view; only to a terminal."""
    if not sys.stderr.isatty():
        yield lambda view, done, of, said: None
        return
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[of]}"), TimeRemainingColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:

        def show(view: str, done: int, of: int | None, said: str) -> None:
            if view not in tasks:
                tasks[view] = progress.add_task(said, total=of, of="")
            events = f"{count(done)} of {count(of)}" if of else ""
            progress.update(tasks[view], completed=done, total=of, description=said, of=events)

        yield show
