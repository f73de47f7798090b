"""`headrace ask`: a question to a view, once or again every second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.options import JsonOption, WorkspaceOption, complete_view, open_connection
from headrace.cli.output import cell, console, freshness, make_table, print_json
from headrace.cli.waiting import waiting
from headrace.errors import QuestionError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from headrace.client import Connection
    from headrace.serve import Answer, Question

REFRESH_S = 1.0
SCREENFUL = 50  # rows that a person is shown, if they ask for no number
AROUND_ROWS = 12  # lines of the screen for titles and footer


def ask(
    view: Annotated[str, typer.Argument(help="View to ask.", metavar="VIEW", autocompletion=complete_view)],
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", "-k", metavar="NAME=VALUE", help="Only rows with this key; may be given again. \\N is NULL."
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Keys to keep, the others are merged; '' for the grand total."),
    ] = None,
    start: Annotated[
        str | None, typer.Option(metavar="TIME", help="Closed bound: ISO 8601, or -1h before the newest event.")
    ] = None,
    end: Annotated[str | None, typer.Option(metavar="TIME", help="Open bound, of the same forms.")] = None,
    window: Annotated[str | None, typer.Option(metavar="SPAN", help="Size of the windows, such as 1h.")] = None,
    every: Annotated[str | None, typer.Option(metavar="SPAN", help="How far apart windows start, such as 5m.")] = None,
    limit: Annotated[str | None, typer.Option(metavar="N", help="Most rows to show.")] = None,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on where an answer ended.")] = None,
    version_as_of: Annotated[
        str | None,
        typer.Option(metavar="N", help="What the view said when N commits, not versions of it, were in the answer."),
    ] = None,
    timestamp_as_of: Annotated[
        str | None, typer.Option(metavar="TIME", help="The same by the time of a commit: ISO 8601.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Ask again every second until Ctrl-C.")] = False,
    workspace: WorkspaceOption = ".",
    as_json: JsonOption = False,
) -> None:
    """Ask a view: rows, and how fresh and how complete they are."""
    from headrace.serve import Question  # with it come the parts that read answers

    if limit is None and not as_json and sys.stdout.isatty():
        limit = str(SCREENFUL)
    named = {"by": by, "start": start, "end": end, "window": window, "every": every, "limit": limit, "cursor": cursor}
    named |= {"version_as_of": version_as_of, "timestamp_as_of": timestamp_as_of}
    parameters = [read_key_option(text) for text in key or []]
    parameters += [(name, value) for name, value in named.items() if value is not None]
    question = Question.from_text(view, parameters)
    with open_connection(workspace) as connection:
        if question.as_of is not None:
            past = _ask_past(connection, question, watch)
            print_json(past.as_dict()) if as_json else console().print(render(past))
        elif watch:
            _watch(lambda: connection.answer(question), as_json=as_json)
        elif as_json:
            print_json(connection.answer(question).as_dict())
        else:
            console().print(render(connection.answer(question)))


def _ask_past(connection: Connection, question: Question, watch: bool) -> Answer:
    if watch:
        raise QuestionError("the past does not change", found="--watch", fix="leave it out")
    from headrace.history import Job

    job = Job()
    with waiting("reading the log") as show:
        show(job.progress)
        return connection.answer(question, job)


def _watch(answer: Callable[[], Answer], *, as_json: bool) -> None:
    """Show the answer every second; Ctrl-C is the end that is meant, so it is no failure."""
    from rich.live import Live

    with suppress(KeyboardInterrupt):
        if as_json:
            while True:
                print_json(answer().as_dict())
                sys.stdout.flush()
                time.sleep(REFRESH_S)
        out = console()
        with Live(render(answer(), _fitting(out)), console=out, auto_refresh=False) as live:
            while True:
                time.sleep(REFRESH_S)
                live.update(render(answer(), _fitting(out)), refresh=True)


def _fitting(out: Console) -> int:
    """How many rows fit on the screen with what is said around them."""
    return max(1, out.height - AROUND_ROWS)


def read_key_option(text: str) -> tuple[str, str]:
    """NAME=VALUE of --key as the parameter of a question."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise QuestionError(f"--key '{text}' is not a key and a value", expected="such as --key page=/home")
    return f"key.{name}", value


def render(answer: Answer, most: int | None = None) -> RenderableType:
    """The rows as a table, at most so many of them, with what they stand for below."""
    from rich.console import Group
    from rich.text import Text

    timeless = answer.windows is None  # all time: nothing to show in these two
    shown = [
        i for i, (name, _) in enumerate(answer.columns) if not (timeless and name in ("window_start", "window_end"))
    ]
    titles = [answer.columns[i][0] for i in shown]
    numbers = [name for name, of in answer.columns if of.is_numeric]
    cells = [[_cell(answer.columns[i][0], row[i]) for i in shown] for row in answer.values[:most]]
    body: Any = make_table(titles, cells, numbers) if cells else Text("no rows")
    hidden = len(answer.values) - len(cells)
    lines = [*([f"… and {hidden:,} rows more"] if hidden else []), *footer(answer)]
    return Group(body, Text(), *(Text(line, style="dim") for line in lines))


def _cell(name: str, value: Any) -> str:
    if name == "settled":
        return "settled" if value else "provisional"
    return cell(value)


def footer(answer: Answer) -> list[str]:
    """What the rows stand for: version, how far, how fresh, how settled, how exact."""
    commits = ", ".join(f"{stream} commit {number:,}" for stream, number in answer.commits.items())
    newest = f", newest event {answer.newest_event:%Y-%m-%d %H:%M:%S} UTC" if answer.newest_event else ""
    fresh = freshness(answer.freshness_ms, answer.freshness_reason)
    settled = [name for name, _ in answer.columns].index("settled") if _has_settled(answer) else None
    done = sum(bool(row[settled]) for row in answer.values) if settled is not None else 0
    lines = [
        f"version {answer.version} · as of {commits}{newest} · freshness: {fresh}",
        ("1 row" if len(answer.values) == 1 else f"{len(answer.values):,} rows")
        + (f": {done:,} settled, {len(answer.values) - done:,} provisional" if settled is not None else "")
        + f" · events: {answer.events.get('batch', 0):,} batch, {answer.events.get('speed', 0):,} speed"
        + f" · corrections: {answer.corrections:,}",
    ]
    lines += [f"{name}: {error}" for name, error in answer.approximate.items()]
    if answer.stalled:
        lines.append(f"stalled: {answer.stalled}")
    if answer.next_cursor:
        lines.append(f"more rows: --cursor {answer.next_cursor} (or a larger --limit)")
    return lines


def _has_settled(answer: Answer) -> bool:
    return any(name == "settled" for name, _ in answer.columns)
