"""`headrace plan` and `headrace apply`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headrace.cli.common_options import JsonOption, NoWaitOption, WorkspaceOption, open_connection
from headrace.cli.output import console, print_json, say
from headrace.cli.waiting import wait_until_serving
from headrace.errors import DefinitionError, UsageError
from headrace.format import about, span
from headrace.name_encoding import shell
from headrace.plan.cost import sum_up

if TYPE_CHECKING:
    from headrace.api.connect import Connection
    from headrace.plan.planned_change import Plan
    from headrace.server.status import FieldStatus, StreamStatus

CHANGES_EXIT_CODE = 4
_MARKS = {"create": ("+", "green"), "change": ("~", "yellow"), "drop": ("-", "red"), "refuse": ("!", "red bold")}


def plan(
    workspace: WorkspaceOption = ".",
    as_json: JsonOption = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help=f"Exit with {CHANGES_EXIT_CODE} if there are changes.")
    ] = False,
) -> None:
    """Show what `apply` would change. Compares the definitions folder with the applied definitions.

    Changes nothing. Exits with 2 if a definition has an error or a change is refused, with 4 if --exit-code is given
    and there are changes, else with 0.
    """
    with open_connection(workspace) as connection:
        plan_ = connection.plan()
    if as_json:
        print_json(plan_.as_dict())
    else:
        print_plan(plan_)
    if plan_.refused:
        raise typer.Exit(DefinitionError.exit_code)
    if exit_code and not plan_.empty:
        raise typer.Exit(CHANGES_EXIT_CODE)


def apply(
    workspace: WorkspaceOption = ".",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    no_wait: NoWaitOption = False,
    as_json: JsonOption = False,
) -> None:
    """Apply the definitions folder. Works on a running server; asks for confirmation on a terminal.

    Waits until all builds are done; the old versions serve until then. Ctrl-C stops waiting, not the builds.
    """
    with open_connection(workspace) as connection:
        offline = connection.url is None
        plan_ = connection.plan()
        if not as_json:
            print_plan(plan_)
        if plan_.refused:
            first = plan_.refused[0]
            raise DefinitionError(
                f"{first.what} '{first.name}' cannot be changed this way", fix=f"nothing was changed; {first.reason}"
            )
        readable: dict[str, int] = {}
        pending: dict[str, int] = {}
        took_s: float | None = None  # what the builds took
        if not plan_.empty:
            confirm("apply", "Apply?", yes=yes, as_json=as_json)
            before = {stream.name: stream.fields for stream in connection.verbs.streams()}
            began = time.monotonic()
            connection.apply(plan_.fingerprint)
            readable = _perhaps_readable(before, connection.verbs.streams())
            pending = _pending_versions(connection, plan_)
            if pending and not no_wait:
                wait_until_serving(connection, pending)
                pending, took_s = {}, time.monotonic() - began
    if as_json:
        times = {} if took_s is None else {"builds": {"took_s": round(took_s, 3), "estimated_s": _estimated_s(plan_)}}
        print_json({**plan_.as_dict(), "applied": not plan_.empty, "perhaps_readable": readable, **times})
    elif not plan_.empty:
        estimated_s = _estimated_s(plan_)
        estimate = "" if estimated_s is None else f"; the estimate was {about(estimated_s)}"
        say("Applied." if took_s is None else f"Applied. The builds took {span(took_s * 1000)}{estimate}.")
        if offline and plan_.reading:
            say("No server is running: the next `headrace up` runs the builds.")
        for view, version in pending.items():
            say(
                f"Version {version} of view {view} is being built: "
                f"`headrace versions {shell(view)}` shows the progress."
            )
        for stream, dead in readable.items():
            say(
                f"{dead:,} dead letters of stream {stream} may be valid now: "
                f"`headrace dead-letters {shell(stream)} replay`"
            )


def _estimated_s(plan_: Plan) -> float | None:
    """What the builds of a plan take together, if that is known."""
    costs = [change.cost for change in plan_.builds]
    known = [cost for cost in costs if cost is not None]
    return sum_up(known).seconds if known and len(known) == len(costs) else None


def _perhaps_readable(before: Mapping[str, Sequence[FieldStatus]], streams: Sequence[StreamStatus]) -> dict[str, int]:
    """How many dead letters the streams have whose fields were loosened."""
    changed_streams = [
        stream for stream in streams if any(field not in stream.fields for field in before.get(stream.name, ()))
    ]
    return {stream.name: stream.dead_letters for stream in changed_streams if stream.dead_letters}


def _pending_versions(connection: Connection, plan_: Plan) -> dict[str, int]:
    """The versions of the plan's views that do not serve yet."""
    if connection.url is None:
        return {}  # without a server nothing is built
    names = {change.name for change in plan_.changes if change.what in ("view", "table")}
    building = {view.name: view.building for view in connection.verbs.views()}
    return {name: build.version for name in sorted(names) if (build := building.get(name))}


def confirm(command: str, question: str, *, yes: bool, as_json: bool) -> None:
    """Ask for confirmation; exits unless the answer is yes."""
    if yes:
        return
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"{command} asks for confirmation, but there is no terminal", fix="give --yes")
    if not typer.confirm(question):
        say("Nothing was changed.")
        raise typer.Exit(1)


def print_plan(plan_: Plan, *, stderr: bool = False) -> None:
    """Print a plan."""
    out = console(stderr=stderr)
    if plan_.empty:
        out.print("No changes: all definitions are applied.")
        return
    for change in plan_.changes:
        mark, style = _MARKS[change.kind]
        out.print(Text.assemble((f"{mark} {change.what} {change.name}", style), f"  {change.reason}"))
        for detail in change.details:
            out.print(Text(f"    {detail}", style="dim"))
        if change.hint is not None:
            out.print(Text(f"    hint: {change.hint}", style="dim"))
    out.print(Text(_summary(plan_)))
    if plan_.refused:
        out.print("Nothing is applied while a change is refused.")


def _summary(plan_: Plan) -> str:
    labels = {"create": "to create", "change": "to change", "drop": "to drop", "refuse": "refused"}
    counts = {kind: sum(change.kind == kind for change in plan_.changes) for kind in labels}
    kinds = ", ".join(f"{number} {labels[kind]}" for kind, number in counts.items() if number)
    free = sum(change.kind == "change" and change.how == "free" for change in plan_.changes)
    builds = [change.cost for change in plan_.builds]
    estimates = [cost for cost in builds if cost is not None]
    costs = [f"{free} free"] if free else []
    if plan_.reading:
        total = f" ({sum_up(estimates)})" if len(estimates) == len(builds) else ""
        costs.append(f"{len(plan_.reading)} by a build{total}")
    return f"{kinds}: {', '.join(costs)}" if costs else kinds
