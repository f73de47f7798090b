"""`headrace explain`: the events of the log behind one cell of a view."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from headrace.api.shared_options import CELL
from headrace.cli.ask_command import read_key_option
from headrace.cli.common_options import (
    JsonOption,
    WideOption,
    WorkspaceOption,
    complete_view,
    open_connection,
    shared_options,
)
from headrace.cli.fitted_table import FittedTable
from headrace.cli.output import cell, console, count, key_cell, plain_cell, plural, print_json, printable, size, span
from headrace.cli.waiting import waiting
from headrace.format import version_shown
from headrace.serve.explanation import CellQuestion, ExplainedEvent, Explanation
from headrace.spark.jobs import Job

SHOWN_CHARACTERS = 120


@shared_options(CELL)
def explain(
    view: Annotated[str, typer.Argument(help="View to explain.", metavar="VIEW", autocompletion=complete_view)],
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            "-k",
            metavar="NAME=VALUE",
            help="Value of a key; one option for each key of the view. \\N is NULL.",
        ),
    ] = None,
    *,
    options: Mapping[str, str] = MappingProxyType({}),
    limit: Annotated[str | None, typer.Option(metavar="N", help="Maximum number of events.", show_default="50")] = None,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after an earlier page.")] = None,
    workspace: WorkspaceOption = ".",
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the events behind one cell of a view.

    Shows arrival, delay and contribution of each event, and whether it is late or a correction. Spark reads the events
    from the lake: in the running server, else in the command itself, where it takes some seconds to start.
    """
    values = {**options, "limit": limit, "cursor": cursor}
    parameters = [read_key_option(text) for text in key or []]
    parameters += [(name, value) for name, value in values.items() if value is not None]
    question, job = CellQuestion.from_text(view, parameters), Job()
    with open_connection(workspace) as connection, waiting("reading the log") as show:
        show(job.progress)
        explanation = connection.explained(question, job)
    if as_json:
        print_json(explanation.as_dict())
    else:
        console(wide=wide).print(render(explanation))


def render(explanation: Explanation) -> RenderableType:
    """The cell, its events, and their totals."""
    parts: list[Any] = [Text(_title(explanation), style="bold")]
    answer = explanation.cell
    if answer.values:
        hidden = (*(name for name, _ in explanation.keys), "window_start", "window_end")
        columns = [(at, name, of) for at, (name, of) in enumerate(answer.columns) if name not in hidden]
        values = [
            ("settled" if value else "provisional") if name == "settled" else cell(value)
            for (_, name, _), value in ((column, answer.values[0][column[0]]) for column in columns)
        ]
        parts += [FittedTable([name for _, name, _ in columns], [values], [n for _, n, of in columns if of.is_numeric])]
    parts.append(Text())
    if explanation.events:
        times = ["arrived", "event time", "delay", "late by"]
        numbers = ["position", "commit", *times[2:], *(name for name, of in explanation.columns if of.is_numeric)]
        is_joined = any(event.joined for event in explanation.events)
        titles = ["position", "commit", *times, "", *dict(explanation.columns), *["joined to"] * is_joined, "event"]
        columns_read = [name for name, _ in explanation.columns]
        rows = [_row(event, columns_read, is_joined=is_joined) for event in explanation.events]
        parts += [FittedTable(titles, rows, numbers, ("commit", "arrived"), fold=["event"]), Text()]
    return Group(*parts, *(Text(line, style="dim") for line in footer(explanation)))


def _title(explanation: Explanation) -> str:
    keys = [f"{name}={printable(key_cell(value))}" for name, value in explanation.key.items()]
    start, end = explanation.window_start, explanation.window_end
    window = [f"{cell(start)} to {cell(end)} UTC"] if start and end else []
    return " · ".join([explanation.cell.view, *keys, *window])


def _row(event: ExplainedEvent, columns: list[str], *, is_joined: bool) -> list[str]:
    mark = "correction" if event.correction else ""
    arguments = [printable(plain_cell(event.arguments[name])) if name in event.arguments else "" for name in columns]
    late_by = span(event.behind_ms) if event.late else ""
    times = [_to_ms(event.arrived), cell(event.event_time), span(event.delay_ms), late_by]
    text = printable(event.value[:SHOWN_CHARACTERS])
    whole = event.whole and len(event.value) <= SHOWN_CHARACTERS
    value = text if whole else f"{text}… ({size(event.bytes)})"
    joined = [printable(" · ".join(map(str, event.joined)))[:SHOWN_CHARACTERS]] * is_joined
    not_yet = "" if event.in_view else " not in the view yet"
    return [str(event.position), count(event.commit), *times, (mark + not_yet).strip(), *arguments, *joined, value]


def _to_ms(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03d}"


def footer(explanation: Explanation) -> list[str]:
    """The totals of the events, and notes on them."""
    answer = explanation.cell
    batch, speed = answer.events.get("batch", 0), answer.events.get("speed", 0)
    agrees = "the view has the same count" if explanation.agrees else "the view has a different count"
    lines = [
        f"{plural(explanation.found, 'event')} of {plural(explanation.commits, 'commit')}: "
        f"{explanation.on_time:,} on time + {explanation.late:,} late, "
        f"{plural(explanation.corrections, 'correction')} · {agrees}: {batch:,} batch, {speed:,} speed · version "
        f"{count(version_shown(answer.view, answer.version, answer.commits))} · {span(explanation.took_ms)}"
    ]
    if explanation.note:
        lines.append(explanation.note)
    if not explanation.found:
        near = " and ".join(f"--at {time:%Y-%m-%dT%H:%M:%SZ}" for time in explanation.nearest)
        lines.append(f"the nearest windows of this key with events: {near}" if near else "this key has no event at all")
    if explanation.next_cursor is not None:
        lines.append(f"more events: --cursor {explanation.next_cursor} (or a larger --limit)")
    return lines
