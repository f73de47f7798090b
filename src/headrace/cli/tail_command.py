"""`headrace tail`: the events of a stream as they come."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from headrace.api.consumer import tail_pages
from headrace.cli.common_options import WorkspaceOption, complete_stream, open_connection
from headrace.cli.output import key_cell, printable
from headrace.deliver.delivery_status import DEFAULT_BATCH
from headrace.deliver.event_page import EventQuestion
from headrace.errors import UsageError

if TYPE_CHECKING:
    from headrace.api.connect import Connection

DEFAULT_LAST = 10


def tail(
    stream: Annotated[str, typer.Argument(help="Stream to read.", metavar="STREAM", autocompletion=complete_stream)],
    workspace: WorkspaceOption = ".",
    last: Annotated[
        int | None,
        typer.Option("-n", "--last", help="Begin with the last N events (default 10), before --where.", metavar="N"),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", help="Where to begin: earliest, latest, a cursor, or a commit time.", metavar="PLACE"),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            help="Only events for which this condition is true, such as 'status >= 500'.", metavar="CONDITION"
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for new events until Ctrl-C.")] = True,
    limit: Annotated[int | None, typer.Option(help="End after N events.", metavar="N", min=1)] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Read as a member of this named subscription, and acknowledge what is printed.", metavar="NAME"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value per line.")] = False,
) -> None:
    """Print the events of a stream as they arrive.

    Without --from it begins with the last 10 events. Each line contains the cursor of an event and its fields.
    """
    if start is not None and last is not None:
        raise UsageError("-n and --from contradict each other", fix="use one of both; --limit ends after N events")
    if name is not None and (last is not None or not follow):
        raise UsageError("a subscription has its own position", fix="omit -n and --no-follow with --name")
    with open_connection(workspace) as connection, suppress(KeyboardInterrupt):
        if name is not None:
            _print_received(connection, stream, name, start, where, limit, as_json=as_json)
            return
        begin = DEFAULT_LAST if start is None and last is None else last
        question = EventQuestion(start=start, last=begin, where=where)
        lines = _lines(connection, stream, question, follow=follow)
        for line in itertools.islice(lines, limit):
            _print_event(line, as_json=as_json)


def _lines(
    connection: Connection, stream: str, question: EventQuestion, *, follow: bool
) -> Iterator[Mapping[str, Any]]:
    for page in tail_pages(connection.verbs, stream, question, follow=follow):
        yield from map(orjson.loads, page.lines)


def _print_received(
    connection: Connection,
    stream: str,
    name: str,
    start: str | None,
    where: str | None,
    limit: int | None,
    *,
    as_json: bool,
) -> None:
    most = DEFAULT_BATCH if limit is None else min(limit, DEFAULT_BATCH)
    subscription: Any = connection.subscribe(stream, name=name, start=start, where=where, limit=most)
    with closing(subscription):
        for received in itertools.islice(subscription, limit):
            _print_event(received.content, as_json=as_json)
            received.ack()


def _print_event(content: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        line = orjson.dumps(content).decode()
    else:
        fields = content["event"] if "event" in content else content.get("row", {})
        head = content["op"] if "op" in content else content["cursor"]
        line = f"{head}  {'  '.join(f'{name}={printable(key_cell(value))}' for name, value in fields.items())}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
