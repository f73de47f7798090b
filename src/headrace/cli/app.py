"""The `headrace` command: its subcommands, and how their failures are reported."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from headrace.cli.error_output import print_error
from headrace.errors import UsageError
from headrace.lazy import later

if TYPE_CHECKING:
    from importlib import metadata
else:  # loaded by their first use
    metadata = later("importlib.metadata")


COMMANDS = {  # the module of each, and the first sentence of its help, so that --help needs none of them
    "init": ("init_command", "Create a workspace."),
    "plan": ("plan_commands", "Show what `apply` would change."),
    "apply": ("plan_commands", "Apply the definitions folder."),
    "test": ("check_commands", "Test the definitions."),
    "up": ("up_command", "Run the server of a workspace until Ctrl-C."),
    "send": ("send_commands", "Send events from files, sockets, folders or commands."),
    "generate": ("send_commands", "Send generated events for the fields of a stream."),
    "ask": ("ask_command", "Query a view."),
    "watch": ("watch_command", "Show the changes of a view as they happen, until Ctrl-C."),
    "explain": ("explain_command", "Show the events behind one cell of a view."),
    "sql": ("sql_command", "Run a SELECT over the views."),
    "status": ("status_commands", "Show the state of the server, streams, views and sinks."),
    "tail": ("tail_command", "Print the events of a stream as they arrive."),
    "subscriptions": ("list_commands", "List, create or drop named subscriptions."),
    "streams": ("status_commands", "List the streams: fields, events, dead letters, lateness."),
    "tables": ("list_commands", "List the tables: primary key, rows, version, freshness."),
    "views": ("status_commands", "List the views: keys, columns, version, freshness, lane."),
    "graph": ("graph_command", "Show the dependencies of all definitions, with rates."),
    "sinks": ("list_commands", "List the sinks: state, rows, errors, lag."),
    "versions": ("version_commands", "List the versions of a view."),
    "rollback": ("version_commands", "Roll a view back to an earlier version."),
    "refresh": ("version_commands", "Refresh a view."),
    "audit": ("version_commands", "List the audits of a view."),
    "alerts": ("alerts_command", "List the alerts: state, incidents, silences."),
    "dead-letters": ("dead_letters_command", "List events that could not be parsed, or replay them."),
    "skip": ("skip_command", "Skip events of a Kafka stream."),
    "doctor": ("check_commands", "Check the workspace."),
    "demo": ("demo_command", "Run a web shop's traffic and check every row of every view."),
}


def load_command(name: str) -> Any:
    """The command of this name, from its module."""
    module = import_module(f"headrace.cli.{COMMANDS[name][0]}")
    single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    single.command(name)(getattr(module, name.replace("-", "_")))
    return typer.main.get_command(single)


class _Commands(TyperGroup):
    """Loads only the command that runs; of the others, only name and summary are needed."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=summary) for name, (_, summary) in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name else command, rest


app = typer.Typer(
    name="headrace",
    cls=_Commands,
    help="Real-time analytics on Apache Spark: streams of events and materialized views.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(show: bool) -> None:
    if show:
        typer.echo(f"headrace {metadata.version('headrace')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Real-time analytics on Apache Spark: streams of events and materialized views."""


def main() -> NoReturn:
    """Run the command line. No stack trace reaches the user unless HEADRACE_DEBUG=1."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit code."""
    as_json = "--json" in arguments
    try:
        code = app(args=arguments or ["--help"], prog_name="headrace", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except typer.Abort:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader has closed the pipe; the interpreter must not report that at exit
        return 0
    except Exception as error:
        return print_error(_as_usage(error) or error, as_json=as_json)


def _as_usage(error: Exception) -> UsageError | None:
    """The error for invalid options or arguments."""
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        return None
    message = " ".join(str(format_message()).split())
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "headrace"
    return UsageError(message[:1].lower() + message[1:].rstrip("."), fix=f"see `{path} --help`")
