"""`headrace subscriptions`: list, create and drop named subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from headrace.cli.options import (
    JsonOption,
    WideOption,
    WorkspaceOption,
    complete_stream,
    complete_view,
    open_connection,
)
from headrace.cli.output import console, count, print_json, say, span
from headrace.cli.table import FittedTable
from headrace.errors import UsageError
from headrace.follow.terms import SubscriptionStatus


class Action(StrEnum):
    """What to do."""

    LIST = "list"
    CREATE = "create"
    DROP = "drop"


class Guarantee(StrEnum):
    """How often an event is delivered."""

    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


def subscriptions(
    action: Annotated[Action, typer.Argument(help="list, create NAME, or drop NAME.", show_default=True)] = Action.LIST,
    name: Annotated[str | None, typer.Argument(help="For create and drop.", metavar="NAME")] = None,
    workspace: WorkspaceOption = ".",
    stream: Annotated[
        str | None,
        typer.Option(help="create: the stream whose events are delivered.", autocompletion=complete_stream),
    ] = None,
    view: Annotated[
        str | None, typer.Option(help="create: the view whose changes are delivered.", autocompletion=complete_view)
    ] = None,
    guarantee: Annotated[Guarantee | None, typer.Option(help="create: default at-least-once.")] = None,
    where: Annotated[str | None, typer.Option(help="create: only events for which this is true.")] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", help="create: latest (default), earliest, a cursor, or a time.", metavar="PLACE"),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(help="create: deliver again what is not acknowledged by then; default 30s.", metavar="DURATION"),
    ] = None,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """List, create or drop named subscriptions.

    Members of one subscription share its events; different subscriptions each get all. `headrace tail STREAM --name
    NAME` is a member.
    """
    if (action is Action.LIST) != (name is None):
        raise UsageError("create and drop take a name, list does not", expected=f"headrace subscriptions {action} NAME")
    with open_connection(workspace) as connection:
        if action is Action.DROP and name is not None:
            connection.verbs.drop_subscription(name)
            result = None
        elif action is Action.CREATE and name is not None:
            terms = {"stream": stream, "view": view, "where": where, "start": start, "timeout": timeout}
            result = [connection.verbs.create_subscription(name, **terms, guarantee=guarantee and str(guarantee))]
        else:
            result = connection.verbs.subscriptions()
    if as_json:
        print_json({"dropped": name} if result is None else result if name is None else result[0])
    elif result is None:
        say(f"subscription {name} was dropped")
    else:
        print_subscriptions(result, wide=wide)


def print_subscriptions(statuses: list[SubscriptionStatus], *, wide: bool) -> None:
    """Print a table of them."""
    if not statuses:
        say("no subscriptions: `headrace subscriptions create NAME --stream STREAM` creates one")
        return
    out = console(wide=wide)
    out.print(subscriptions_table(statuses))
    for status in statuses:
        if status.error:
            out.print(f"{status.name}: {status.error}", style="red", markup=False)


def subscriptions_table(statuses: Sequence[SubscriptionStatus]) -> FittedTable:
    """A row per subscription."""
    titles = ["subscription", "of", "guarantee", "where", "lag", "in flight", "members", "acknowledged", "redelivered"]
    rows = [
        [
            s.name,
            s.stream or s.view or "",
            s.guarantee + (f", {span(s.timeout_ms)}" if s.guarantee == Guarantee.AT_LEAST_ONCE else ""),
            s.where or "–",
            count(s.lag),
            count(s.in_flight),
            count(s.members),
            count(s.acknowledged),
            count(s.redelivered),
        ]
        for s in statuses
    ]
    return FittedTable(titles, rows, titles[4:], ("redelivered", "guarantee", "acknowledged", "members", "in flight"))
