"""`headrace dead-letters`: list, count, show and replay events that could not be parsed."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from headrace.cli.options import JsonOption, WideOption, WorkspaceOption, complete_stream, open_connection
from headrace.cli.output import console, count, print_json, printable, size
from headrace.cli.replay import print_replay, replay_all
from headrace.cli.table import FittedTable
from headrace.errors import UsageError

if TYPE_CHECKING:
    from headrace.client.connect import Connection
    from headrace.lake.letters import DeadLetter, DeadLetterPage, DeadLetterReason

SHOWN_CHARACTERS = 100


class Action(StrEnum):
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
        Action,
        typer.Argument(
            help="list: newest first. count: number per reason. show: the complete event at POSITION. "
            "replay: parse all of them again with the current definition; of missing keys, look for them in the tables "
            "of now.",
            show_default=True,
        ),
    ] = Action.LIST,
    position: Annotated[int | None, typer.Argument(help="For show.", metavar="POSITION", min=0)] = None,
    workspace: WorkspaceOption = ".",
    limit: Annotated[int, typer.Option(help="list: maximum number to print.", min=1, max=1000)] = 20,
    cursor: Annotated[
        int | None, typer.Option(help="list: continue here, from the end of the previous list.", min=0)
    ] = None,
    reason: Annotated[str | None, typer.Option(help="list: only reasons that contain this text.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="replay: only count what can be parsed now.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="replay: return when every view has the events.")] = False,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """List events that could not be parsed, or replay them.

    After `headrace apply` of a loosened definition, `headrace dead-letters STREAM replay` turns those that can now be
    parsed into events, each exactly once. If it is interrupted or killed, run it again.

    Of a derived stream or a view they are the rows that a Python function failed for, and those whose key a joined
    table does not have.
    """
    if (action is Action.SHOW) != (position is not None):
        raise UsageError(
            "show takes a position, other actions do not",
            expected=f"headrace dead-letters {stream} show POSITION",
            fix="`list` shows positions",
        )
    with open_connection(workspace) as connection:
        letters = connection.verbs.dead_letters(stream)
        result: Any
        if position is not None:
            result = letters.show(position)
        elif action is Action.COUNT:
            result = letters.reasons()
        elif action is Action.REPLAY:
            result = replay_all(connection, stream, dry_run=dry_run, wait=wait, quiet=as_json)
        else:
            result = letters.page(limit, cursor, reason)
        note = None if as_json or not _has_none(result) else _unread(connection, stream)
    if as_json:
        print_json(result)
    elif action is Action.REPLAY:
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


_PRINTERS: dict[Action, Callable[[Console, Any, str], None]] = {
    Action.LIST: _print_page,
    Action.COUNT: _print_reasons,
    Action.SHOW: _print_one,
}
