"""`headrace skip`: the deliberate way on after events in Kafka are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headrace.cli.common_options import JsonOption, WorkspaceOption, complete_stream, open_connection
from headrace.cli.output import console, print_json, say
from headrace.cli.plan_commands import confirm

if TYPE_CHECKING:
    from headrace.server.status import SkipStatus


def skip(
    stream: Annotated[str, typer.Argument(help="Kafka stream.", metavar="STREAM", autocompletion=complete_stream)],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="PLACE",
            help="Where to continue: earliest (the first event that still exists), latest, a time such as "
            "2026-11-17T12:00:00Z, or offsets of partitions such as 0:42,1:300.",
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    workspace: WorkspaceOption = ".",
    as_json: JsonOption = False,
) -> None:
    """Skip events of a Kafka stream. Asks for confirmation on a terminal, after listing the offsets.

    A stream stops when events that it has not read are lost (by retention, or when a topic is recreated), and reports
    their offsets. This command lets it continue. The lake records the skipped offsets; stored events are kept.
    """
    with open_connection(workspace) as connection:
        step = connection.verbs.skip(stream, to, dry_run=True)
        if step.skipped:
            if not as_json:
                _print(step)
            confirm("skip", "Leave them out?", yes=yes, as_json=as_json)
            step = connection.verbs.skip(stream, to)
    if as_json:
        print_json(step)
    elif step.commit is None:
        say(f"Nothing to skip: stream {stream} continues where it is.")
    else:
        say(f"Stream {stream} continues there; commit {step.commit} of its log records it.")


def _print(step: SkipStatus) -> None:
    out = console()
    out.print(Text(f"stream {step.stream} leaves out:", style="yellow"))
    for each in step.skipped:
        out.print(Text(f"    {each}"))
