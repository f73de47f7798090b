"""The `headrace` command: its subcommands, and what a failure of any of them looks like."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from headrace.cli import ask, audit, dead_letters, demo, doctor, explain, init, overview, plan, send, sql, up, versions
from headrace.cli.output import print_error
from headrace.errors import UsageError

app = typer.Typer(
    name="headrace",
    help="Real-time analytics on Apache Spark: streams of events and materialized views.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    init.init, plan.plan, plan.apply, up.up, send.send, ask.ask, explain.explain, sql.sql,
    overview.status, overview.streams, overview.views,
    versions.versions, versions.rollback, audit.refresh, audit.audit, dead_letters.dead_letters, doctor.doctor,
    demo.demo, demo.bench,
):  # fmt: skip
    app.command()(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"headrace {version('headrace')}")
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
    """Run one command and give its exit code."""
    as_json = "--json" in arguments
    try:
        code = app(args=arguments or ["--help"], prog_name="headrace", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except typer.Abort:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone; the interpreter must not complain about it at exit
        return 0
    except Exception as error:
        return print_error(_as_usage(error) or error, as_json=as_json)


def _as_usage(error: Exception) -> UsageError | None:
    """The error for invalid options or arguments."""
    message = getattr(error, "format_message", None)
    if message is None:
        return None
    said = " ".join(str(message()).split())
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "headrace"
    return UsageError(said[:1].lower() + said[1:].rstrip("."), fix=f"see `{path} --help`")
