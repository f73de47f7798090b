"""`headrace dead-letters STREAM replay`: replays all dead letters in steps, with progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from headrace.cli.output import console, count, say
from headrace.cli.until import wait_until_serving
from headrace.errors import NotReadyError
from headrace.format import Shown
from headrace.names import shell

if TYPE_CHECKING:
    from headrace.client.connect import Connection

POLL_S = 0.2
LONGEST_WAIT_S = 600.0


@dataclass(frozen=True)
class ReplayTotals(Shown):
    """How many dead letters all steps of a replay have read, and how many of them can be parsed or find their key."""

    stream: str
    dry_run: bool
    read: int
    readable: int
    missing_keys: bool = False  # whether they are rows whose key a table did not have
    views: Mapping[str, int] = field(default_factory=dict)  # built anew with keys that were found: their new versions


def replay_all(connection: Connection, stream: str, *, dry_run: bool, wait: bool, quiet: bool) -> ReplayTotals:
    """Run all steps; returns their totals."""
    letters = connection.verbs.dead_letters(stream)
    read = readable = 0
    cursor, first = None, True
    with _progress(enabled=not quiet) as show:
        while first or cursor:
            step = letters.replay(cursor, dry_run=dry_run)
            read += step.read
            readable += step.readable
            cursor, first = step.cursor, False
            show(read, read + step.left)
    if wait and step.views:
        wait_until_serving(connection, step.views)
    elif wait and not dry_run:
        _wait(connection, stream, step.commits, quiet=quiet)
    return ReplayTotals(stream, dry_run, read, readable, step.missing_keys, step.views)


def print_replay(totals: ReplayTotals, stream: str) -> None:
    """Print the totals of a replay."""
    read, readable = totals.read, totals.readable
    why = f"`headrace dead-letters {shell(stream)} count` shows why"
    if totals.missing_keys:
        _print_found(totals, stream)
    elif not read:
        say(f"{stream} has no dead letters")
    elif not readable:
        say(f"none of {count(read)} dead letters can be parsed with the applied definition; {why}")
        say("An edited definition has to be applied first: see `headrace plan`.")
    elif totals.dry_run:
        say(f"{count(readable)} of {count(read)} dead letters can be parsed now; nothing was changed")
    else:
        rest = f"; {count(read - readable)} remain dead letters: {why}" if read > readable else ""
        say(f"{count(readable)} of {count(read)} dead letters are events now{rest}")


def _print_found(totals: ReplayTotals, stream: str) -> None:
    """Print how many rows find the key that a table did not have."""
    sentence = f"{count(totals.readable)} of {count(totals.read)} missing keys are in the tables now"
    views = ", ".join(f"{view} (version {version})" for view, version in totals.views.items())
    if not totals.read:
        say(f"{stream} has no missing keys")
    elif views:
        say(f"{sentence}; built anew with them: {views}")
    else:
        say(f"{sentence}; nothing was changed")


def _wait(connection: Connection, stream: str, commits: int, *, quiet: bool) -> None:
    """Wait until the views of the stream have all these commits."""
    deadline = time.monotonic() + LONGEST_WAIT_S
    with nullcontext() if quiet else console(stderr=True).status("waiting until every view has them"):
        while True:
            views = [view for view in connection.verbs.views() if view.stream == stream]
            behind = [view.name for view in views if (view.applied_to or 0) < commits]
            stalled = [view.name for view in views if view.stalled and view.name in behind]
            if not behind:
                return
            if stalled or time.monotonic() > deadline:
                raise NotReadyError(
                    f"the events are in the log, but not yet in: {', '.join(stalled or behind)}",
                    fix="`headrace views` shows the progress of each view",
                )
            time.sleep(POLL_S)


@contextmanager
def _progress(*, enabled: bool) -> Iterator[Callable[[int, int], None]]:
    """A progress bar of the dead letters that were read; only on a terminal."""
    if not enabled or not sys.stderr.isatty():
        yield lambda read, of: None
        return
    with Progress(
        BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console(stderr=True), transient=True
    ) as progress:
        task = progress.add_task("replay", total=None)
        yield lambda read, of: progress.update(task, completed=read, total=of)
