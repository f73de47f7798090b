"""`headrace dead-letters`: list, count, show and replay events that could not be parsed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from headrace.cli.common_options import JsonOption, WideOption, WorkspaceOption, complete_stream, open_connection
from headrace.cli.fitted_table import FittedTable
from headrace.cli.output import console, count, print_json, printable, say, size
from headrace.cli.waiting import wait_until_serving
from headrace.errors import NotReadyError, UsageError
from headrace.format import Shown
from headrace.name_encoding import shell

if TYPE_CHECKING:
    from headrace.api.connect import Connection
    from headrace.lake.dead_letters import DeadLetter, DeadLetterPage, DeadLetterReason


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
    letters = connection.dead_letters(stream)
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
        say(f"{sentence}; rebuilt with them: {views}")
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


SHOWN_CHARACTERS = 100


class DeadLetterAction(StrEnum):
    """What to do with dead letters."""

    LIST = "list"
    COUNT = "count"
    SHOW = "show"
    REPLAY = "replay"


def dead_letters(
    stream: Annotated[
        str,
        typer.Argument(help="Stream of the dead letters, or a view.", metavar="STREAM", autocompletion=complete_stream),
    ],
    action: Annotated[
        DeadLetterAction,
        typer.Argument(
            help="list: newest first. count: number per reason. show: the complete event at POSITION. "
            "replay: parse all of them again with the current definition; join rows with a missing key to the current "
            "tables.",
            metavar="ACTION",
            show_default=True,
        ),
    ] = DeadLetterAction.LIST,
    position: Annotated[
        int | None,
        typer.Argument(help="show: position of the dead letter, as printed by list.", metavar="POSITION", min=0),
    ] = None,
    workspace: WorkspaceOption = ".",
    limit: Annotated[int, typer.Option(help="list: maximum number to print.", metavar="N", min=1, max=1000)] = 20,
    cursor: Annotated[
        int | None,
        typer.Option(
            help="list: continue with older ones; the end of a list prints the cursor.", metavar="CURSOR", min=0
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="list: only reasons that contain this text.", metavar="TEXT")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="replay: only count what can be parsed now.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="replay: return when every view has the events.")] = False,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """List events that could not be parsed, or replay them.

    If the applied definition has been changed to accept them, `headrace dead-letters STREAM replay` stores those that
    can now be parsed as events, each exactly once. If it is interrupted or killed, run it again.

    The dead letters of a derived stream or a view are rows for which a Python function failed, and rows whose key is
    missing in a joined table.
    """
    if (action is DeadLetterAction.SHOW) != (position is not None):
        raise UsageError(
            "show needs the position of a dead letter; the other actions take none",
            expected=f"headrace dead-letters {stream} show POSITION",
            fix="`list` shows positions",
        )
    with open_connection(workspace) as connection:
        letters = connection.dead_letters(stream)
        result: Any
        if position is not None:
            result = letters.show(position)
        elif action is DeadLetterAction.COUNT:
            result = letters.reasons()
        elif action is DeadLetterAction.REPLAY:
            result = replay_all(connection, stream, dry_run=dry_run, wait=wait, quiet=as_json)
        else:
            result = letters.page(limit, cursor, reason)
        note = None if as_json or not _has_none(result) else _unread(connection, stream)
    if as_json:
        print_json(result)
    elif action is DeadLetterAction.REPLAY:
        print_replay(result, stream)
    else:
        out = console(wide=wide)
        _PRINTERS[action](out, result, stream)
        if note:
            out.print(note)


def _has_none(result: Any) -> bool:
    """Whether this is a list or count that shows that there are no dead letters."""
    return result == [] or getattr(result, "total", None) == 0


def _unread(connection: Connection, stream: str) -> str | None:
    """A note on events of a stream that were sent and not read yet: some of them may be dead letters."""
    status = connection.verbs.status()
    if status.state == "starting":  # they are read once Spark runs
        return "events that were sent may not have been read yet: the pipeline is starting"
    backlog_bytes = next((each.backlog_bytes for each in status.streams if each.name == stream), None)
    if status.url is None and backlog_bytes:
        return f"{size(backlog_bytes)} of events are not processed yet: `headrace up` processes them"
    return None


def _print_page(out: Console, page: DeadLetterPage, stream: str) -> None:
    letters, total = page.dead_letters, page.total
    if not letters:
        out.print(f"none of {count(total)} dead letters matches" if total else f"{stream} has no dead letters")
        return
    rows = [[str(each.position), each.arrived[:19], printable(each.reason), _event_start(each)] for each in letters]
    out.print(FittedTable(["position", "arrived", "reason", "event"], rows, ["position"], fold=["event"]))
    more = f"; --cursor {page.next_cursor} shows those before" if page.next_cursor is not None else ""
    out.print(f"{count(len(letters))} of {count(total)} dead letters{more}")


def _event_start(letter: DeadLetter) -> str:
    text = printable(letter.value[:SHOWN_CHARACTERS])
    return text if letter.whole and len(letter.value) <= SHOWN_CHARACTERS else f"{text}… ({size(letter.bytes)})"


def _print_reasons(out: Console, reasons: list[DeadLetterReason], stream: str) -> None:
    if not reasons:
        out.print(f"{stream} has no dead letters")
        return
    rows = [[count(why.count), printable(why.reason), printable(why.newest), str(why.position)] for why in reasons]
    out.print(FittedTable(["count", "reason", "newest", "at position"], rows, ["count", "at position"]))


def _print_one(out: Console, letter: DeadLetter, stream: str) -> None:
    out.print(f"position {letter.position}, arrived {letter.arrived}, {count(letter.bytes)} bytes")
    out.print(f"reason: {printable(letter.reason)}")
    out.print(printable(letter.value))


_PRINTERS: dict[DeadLetterAction, Callable[[Console, Any, str], None]] = {
    DeadLetterAction.LIST: _print_page,
    DeadLetterAction.COUNT: _print_reasons,
    DeadLetterAction.SHOW: _print_one,
}
