"""`headrace sql`: a SELECT over the views, or, with --events, over the events of the lake."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from headrace.cli.common_options import JsonOption, WideOption, WorkspaceOption, open_connection
from headrace.cli.fitted_table import FittedTable
from headrace.cli.output import console, plain_cell, plural, print_json, span, view_state
from headrace.cli.waiting import waiting
from headrace.errors import HeadraceError, UsageError
from headrace.format import commits_of
from headrace.lazy import later
from headrace.spark.jobs import Job
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from headrace.serve.sql import event_queries, view_queries
    from headrace.serve.sql.sql_answer import SqlAnswer, SqlLimit
else:  # loaded by their first use
    event_queries = later("headrace.serve.sql.event_queries")
    view_queries = later("headrace.serve.sql.view_queries")

NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL")


def sql(
    query: Annotated[
        str | None,
        typer.Argument(
            help="A SELECT statement; - reads it from standard input.", metavar="[QUERY]", show_default=False
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", metavar="FILE", help="Read the statement from a file.")
    ] = None,
    events: Annotated[
        bool, typer.Option("--events", help="Query the stored events with Spark; needs the workspace folder.")
    ] = False,
    limit: Annotated[
        str | None, typer.Option(metavar="N", help="Maximum number of rows, or all.", show_default="1000")
    ] = None,
    workspace: WorkspaceOption = ".",
    wide: WideOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a SELECT over the views. Each view is a table: keys, window_start, window_end, columns, settled.

    VIEW VERSION AS OF N and VIEW TIMESTAMP AS OF 'TIME' query an earlier state; Spark computes it from the lake.

    With --events each stream is a table: its fields, _commit, _committed_at, _arrived, _position and _value, the event
    as received. NAME_dead_letters contains the dead letters with their _reason. Spark takes some seconds to start.
    """
    text, most = _read_query(query, file), _read_limit(limit)
    if as_csv and as_json:
        raise UsageError("--csv and --json cannot be combined", fix="give one of them")
    if events:
        answer = _ask_events(workspace, text, most)
    else:
        job = Job()
        with open_connection(workspace) as connection, waiting("running the query") as show:
            show(job.progress)
            answer = connection.select(text, most, job)
    _print(answer, as_csv=as_csv, as_json=as_json, wide=wide)


def _read_limit(text: str | None) -> SqlLimit:
    if text is None:
        return None
    if text.strip().lower() == "all":
        return "all"
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(
            "--limit is not a number of rows", found=repr(text)[:40], expected="such as 50, or all"
        ) from error


def _ask_events(workspace: str, text: str, limit: SqlLimit) -> SqlAnswer:
    if workspace.startswith(("http://", "https://")):
        raise UsageError(
            "--events reads the files of a workspace",
            found=f"URL {workspace}",
            expected="the folder of a workspace on this machine",
        )
    view_queries.check_text(text, limit)  # before Spark is started
    with waiting("Spark is starting") as show, event_queries.open_events(Workspace.open(workspace)) as events:
        show(events.progress)
        return events.sql(text, limit)


def _read_query(query: str | None, file: Path | None) -> str:
    if (query is None) == (file is None):
        raise UsageError(
            "no query was given" if query is None else "two queries were given",
            expected="one, as an argument, from a file (-f FILE) or from standard input (-)",
        )
    if query == "-":
        return sys.stdin.read()
    if file is None:
        return query or ""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise HeadraceError(f"file '{file}' cannot be read: {reason}") from error


def _print(answer: SqlAnswer, *, as_csv: bool, as_json: bool, wide: bool) -> None:
    if as_json:
        print_json(answer.as_dict())
        return
    if as_csv:
        _print_csv(answer)
        if answer.truncated:
            sys.stderr.write(f"note: {_more_rows(answer)}\n")
        return
    titles = [name for name, _ in answer.columns]
    numbers = [name for name, of in answer.columns if of.startswith(NUMBERS)]
    rows = [[plain_cell(value) for value in row.values()] for row in answer.rows()]  # keys are not known here
    body: Any = FittedTable(titles, rows, numbers) if rows else Text("no rows")
    lines = [*([_more_rows(answer)] if answer.truncated else []), *_footer(answer)]
    console(wide=wide).print(Group(body, Text(), *(Text(line, style="dim") for line in lines)))


def _more_rows(answer: SqlAnswer) -> str:
    more = "more rows" if answer.more_rows is None else plural(answer.more_rows, "more row")
    return f"{more}: these are the first {answer.table.num_rows:,}; --limit all shows all"


def _print_csv(answer: SqlAnswer) -> None:
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow([name for name, _ in answer.columns])
    for row in answer.as_dict()["rows"]:
        out.writerow(["" if value is None else value for value in row.values()])


def _footer(answer: SqlAnswer) -> list[str]:
    """The metadata of the answer: commits, versions, freshness, error bounds."""
    lines = [f"{plural(answer.table.num_rows, 'row')} · {span(answer.took_ms)}"]
    if not answer.views and answer.commits:
        lines.append(
            f"events of {commits_of(answer.commits)}"
            + (f" · {answer.freshness_reason}" if answer.freshness_reason else "")
        )
    for name, view in answer.views.items():
        lines += view_state(name, view)
    return lines
