"""`headrace watch`: the changes of a view as they come, as a live table or as lines."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from headrace.cli.ask_command import OPTIONAL, read_key_option
from headrace.cli.common_options import WorkspaceOption, complete_view, open_connection
from headrace.cli.fitted_table import FittedTable
from headrace.cli.live_status import until_quit
from headrace.cli.output import cell, console, key_cell, plain_cell, plural, printable
from headrace.deliver.change_question import ChangeQuestion
from headrace.serve.change_batch import ViewChange

REFRESH_S = 0.25
BRIGHT_S = 1.5  # how long a row that has changed stands out
MOST_ROWS = 10_000  # that a table holds; the oldest windows leave
OTHER_LINES = 6  # of a screen, beside the rows


def watch(
    view: Annotated[str, typer.Argument(help="View to watch.", metavar="VIEW", autocompletion=complete_view)],
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", "-k", metavar="NAME=VALUE", help="Only rows with this key; can be repeated. \\N is NULL."
        ),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="Only rows for which this is true, such as 'hits > 5'.")
    ] = None,
    snapshot: Annotated[bool, typer.Option(help="Begin with all rows, or only with new changes.")] = True,
    settled_only: Annotated[bool, typer.Option("--settled-only", help="Only rows of settled windows.")] = False,
    cursor: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Continue after the change with this cursor.")
    ] = None,
    workspace: WorkspaceOption = ".",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line per change.")] = False,
) -> None:
    """Show the changes of a view as they happen, until Ctrl-C.

    On a terminal it shows the rows as a live table, the newest windows first (q quits); otherwise it prints one line
    per change. If the server restarts, the command waits for it.
    """
    options = {"where": where, "cursor": cursor, "snapshot": str(snapshot), "settled_only": str(settled_only)}
    parameters = [read_key_option(text) for text in key or []]
    parameters += [(name, value) for name, value in options.items() if value is not None]
    question = ChangeQuestion.from_text(view, parameters)
    out = console()
    with open_connection(workspace) as connection, suppress(KeyboardInterrupt):
        changes = connection.changes(question)
        if as_json:
            _print_lines(orjson.dumps(change.as_dict()).decode() for change in changes)
        elif not out.is_terminal:
            _print_lines(map(describe, changes))
        else:
            _show(out, view, changes)


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def describe(change: ViewChange) -> str:
    """A change in one line."""
    if change.op == "restart":
        return "restart: the rows before are void"
    values = [f"{name}={printable(plain_cell(value))}" for name, value in change.row.items() if value is not None]
    return " ".join([change.op, *values])


class LiveRows:
    """The rows of a view, and when each of them changed. One thread adds changes, another one renders."""

    def __init__(self, view: str) -> None:
        self._view = view
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, ...], dict[str, Any]] = {}
        self._changed_at: dict[tuple[str, ...], float] = {}
        self._changes = 0
        self.error: BaseException | None = None
        self.ended = threading.Event()

    def follow(self, changes: Iterable[ViewChange]) -> None:
        """Add changes until they end."""
        try:
            for change in changes:
                self.add(change)
        except BaseException as error:
            self.error = error
        finally:
            self.ended.set()

    def add(self, change: ViewChange) -> None:
        """One change."""
        with self._lock:
            self._changes += 1
            if change.op == "restart":
                self._rows.clear()
                return
            names = list(change.row)
            known_by = names[: names.index("window_end") + 1]
            place = tuple(repr(change.row[name]) for name in known_by)
            self._rows.pop(place, None)
            if change.op == "upsert":
                self._rows[place] = dict(change.row)
                self._changed_at[place] = time.monotonic()
            else:
                self._changed_at.pop(place, None)
            if len(self._rows) > MOST_ROWS:
                oldest = min(self._rows, key=lambda each: (_start(self._rows[each]), self._changed_at[each]))
                del self._rows[oldest], self._changed_at[oldest]

    def render(self, height: int) -> RenderableType:
        """The newest windows first, and within one the rows that changed last."""
        now = time.monotonic()
        with self._lock:
            places = sorted(
                self._rows, key=lambda each: (_start(self._rows[each]), self._changed_at[each]), reverse=True
            )
            visible = [(self._rows[each], now - self._changed_at[each] < BRIGHT_S) for each in places[:height]]
            total, changes = len(places), self._changes
        title = Text(
            f"{self._view} · {plural(total, 'row')} · {plural(changes, 'change')} · q or Ctrl-C quits", style="dim"
        )
        if not visible:
            return Group(title, Text("no rows yet", style="dim"))
        names = [name for name in visible[0][0] if any(row[name] is not None for row, _ in visible)]
        keys = set(list(visible[0][0])[: list(visible[0][0]).index("window_start")])
        numbers = [name for name in names if name not in keys and _is_number(visible[0][0][name])]
        rows = [
            [
                Text(printable(key_cell(row[name]) if name in keys else cell(row[name])), "bold" if bright else "")
                for name in names
            ]
            for row, bright in visible
        ]
        table = FittedTable(names, rows, numbers, OPTIONAL, "--json has all")
        return Group(title, Text(), table)


def _start(row: dict[str, Any]) -> float:
    start = row.get("window_start")
    return start.timestamp() if start is not None else 0.0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _show(out: Console, view: str, changes: Iterable[ViewChange]) -> None:
    rows = LiveRows(view)
    threading.Thread(target=rows.follow, args=[changes], name="changes", daemon=True).start()
    rows.ended.wait(REFRESH_S)
    if rows.error is None:
        with until_quit() as wait, Live(rows.render(out.height), console=out, screen=True, auto_refresh=False) as live:
            while wait(REFRESH_S) and not rows.ended.is_set():
                live.update(rows.render(max(out.height - OTHER_LINES, 1)), refresh=True)
    if rows.error is not None:
        raise rows.error
