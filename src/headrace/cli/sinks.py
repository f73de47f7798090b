"""`headrace sinks`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headrace.cli.options import JsonOption, WideOption, WorkspaceOption, complete_sink, open_connection
from headrace.cli.output import console, count, print_json, record_table, span
from headrace.cli.table import FittedTable
from headrace.errors import UsageError

if TYPE_CHECKING:
    from headrace.server.state import SinkStatus

NO_SINKS = "no sinks yet: CREATE SINK in definitions/ declares one, `headrace up` starts it"
ACTIONS = ("pause", "resume", "retry")


def sinks(
    action: Annotated[str | None, typer.Argument(metavar="[ACTION]", help="pause, resume or retry.")] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="[SINK]", help="The sink.", autocompletion=complete_sink)
    ] = None,
    workspace: WorkspaceOption = ".",
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the sinks: state, rows, errors, lag. Or pause one, resume it, or retry a stalled one now."""
    if action is not None and action not in ACTIONS:
        raise UsageError(f"'{action}' cannot be done to a sink", expected=", ".join(ACTIONS))
    if action is not None and name is None:
        raise UsageError(f"{action} needs the name of a sink", fix=f"such as `headrace sinks {action} to_kafka`")
    with open_connection(workspace) as connection:
        if action is not None and name is not None:
            statuses = [connection.verbs.change_sink(name, action)]
        else:
            statuses = connection.verbs.sinks()
    if as_json:
        print_json(statuses)
        return
    out = console(wide=wide)
    if not statuses:
        out.print(NO_SINKS)
        return
    out.print(sinks_table(statuses))
    for sink in statuses:
        if sink.reason:
            again = "" if sink.retry_in_s is None else f"; next attempt in {span(sink.retry_in_s * 1000)}"
            out.print(Text(f"{sink.name}: {sink.reason}{again}"))


def sinks_table(sinks: Sequence[SinkStatus]) -> FittedTable:
    """A row for each sink."""
    cells = [
        {
            "sink": sink.name,
            "from": sink.source,
            "connector": sink.connector,
            "mode": f"{sink.mode}, on close" if sink.on_close and sink.mode != "append" else sink.mode,
            "state": sink.state,
            "rows": count(sink.rows),
            "errors": count(sink.errors),
            "lag": "–" if sink.lag_s is None else span(sink.lag_s * 1000),
            "last sent": "–" if sink.last_sent is None else sink.last_sent.replace("T", " ")[:19],
        }
        for sink in sinks
    ]
    left = ("sink", "from", "connector", "mode", "state", "last sent")
    return record_table(cells, left, ("mode", "last sent", "connector", "from"))
