"""`headrace tables`, `sinks` and `subscriptions`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headrace.cli.common_options import (
    JsonOption,
    WideOption,
    WorkspaceOption,
    complete_sink,
    complete_stream,
    complete_view,
    open_connection,
)
from headrace.cli.fitted_table import FittedTable
from headrace.cli.output import console, count, print_json, record_table, say, span
from headrace.deliver.delivery_status import SubscriptionStatus
from headrace.errors import UsageError
from headrace.format import freshness

if TYPE_CHECKING:
    from headrace.server.status import SinkStatus


NO_TABLES = "no tables yet: CREATE TABLE … PRIMARY KEY in definitions/, then `headrace up`"


def tables(workspace: WorkspaceOption = ".", wide: WideOption = False, as_json: JsonOption = False) -> None:
    """List the tables: primary key, rows, version, freshness."""
    with open_connection(workspace) as connection:
        statuses = connection.verbs.tables()
    if as_json:
        print_json(statuses)
        return
    out = console(wide=wide)
    if not statuses:
        out.print(NO_TABLES)
        return
    cells = [
        {
            "table": table.name,
            "primary key": ", ".join(table.key),
            "rows": count(table.rows),
            "version": count(table.version),
            "changes": count(table.changes),
            "dead letters": count(table.dead_letters),
            "latest by": table.latest_by or "arrival",
            "made from": ", ".join(table.derived_from) or "–",
            "freshness": freshness(table.freshness_ms, table.freshness_reason),
            "problem": table.problem or "–",
        }
        for table in statuses
    ]
    left = ("table", "primary key", "latest by", "made from", "freshness", "problem")
    out.print(record_table(cells, left, ("changes", "dead letters", "made from", "latest by", "version")))
    out.print()
    columns = [[table.name, column.name, column.type] for table in statuses for column in table.columns]
    out.print(FittedTable(["table", "column", "type"], columns))


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
        raise UsageError(f"'{action}' is not an action of sinks", expected=", ".join(ACTIONS))
    if action is not None and name is None:
        raise UsageError(f"{action} needs the name of a sink", fix=f"such as `headrace sinks {action} to_kafka`")
    with open_connection(workspace) as connection:
        if action is not None and name is not None:
            verbs = connection.verbs
            change = {"pause": verbs.pause_sink, "resume": verbs.resume_sink, "retry": verbs.retry_sink}[action]
            statuses = [change(name)]
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


class SubscriptionAction(StrEnum):
    """What to do."""

    LIST = "list"
    CREATE = "create"
    DROP = "drop"


class GuaranteeOption(StrEnum):
    """How often an event is delivered."""

    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


def subscriptions(
    action: Annotated[
        SubscriptionAction, typer.Argument(help="list, create or drop.", metavar="ACTION", show_default=True)
    ] = SubscriptionAction.LIST,
    name: Annotated[
        str | None, typer.Argument(help="Name of the subscription to create or drop.", metavar="NAME")
    ] = None,
    workspace: WorkspaceOption = ".",
    stream: Annotated[
        str | None,
        typer.Option(
            help="create: the stream whose events are delivered.", metavar="STREAM", autocompletion=complete_stream
        ),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(
            help="create: the view whose changes are delivered.", metavar="VIEW", autocompletion=complete_view
        ),
    ] = None,
    guarantee: Annotated[
        GuaranteeOption | None,
        typer.Option(help="create: at-least-once (default) or at-most-once.", metavar="GUARANTEE"),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            help="create: only events for which this condition is true, such as 'status >= 500'.", metavar="CONDITION"
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", help="create: where to begin: latest (default), earliest, a cursor, or a time.", metavar="PLACE"
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            help="create: time after which unacknowledged events are delivered again; default 30s.", metavar="DURATION"
        ),
    ] = None,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """List, create or drop named subscriptions.

    Each subscription receives all events of its stream, or all changes of its view. Several readers, its members,
    can share a subscription: each event is then delivered to one of them. `headrace tail STREAM --name NAME` is a
    member.
    """
    if (action is SubscriptionAction.LIST) != (name is None):
        raise UsageError(
            "create and drop need the name of a subscription; list takes none",
            expected=f"headrace subscriptions {action} NAME",
        )
    with open_connection(workspace) as connection:
        if action is SubscriptionAction.DROP and name is not None:
            connection.verbs.drop_subscription(name)
            result = None
        elif action is SubscriptionAction.CREATE and name is not None:
            status = connection.verbs.create_subscription(
                name,
                stream=stream,
                view=view,
                guarantee=guarantee and str(guarantee),
                where=where,
                start=start,
                timeout=timeout,
            )
            result = [status]
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
            s.guarantee + (f", {span(s.timeout_ms)}" if s.guarantee == GuaranteeOption.AT_LEAST_ONCE else ""),
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
