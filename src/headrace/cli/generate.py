"""`headrace generate`: events made from the fields of a stream."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from headrace.cli.options import JsonOption, WorkspaceOption, complete_stream, open_connection
from headrace.cli.output import print_json, say
from headrace.cli.progress import WaitLines, show_progress
from headrace.cli.sources import note_without_server, stop_signals
from headrace.errors import UsageError
from headrace.format import plural


def generate(
    stream: Annotated[str, typer.Argument(help="Stream to send to.", metavar="STREAM", autocompletion=complete_stream)],
    workspace: WorkspaceOption = ".",
    events: Annotated[int | None, typer.Option(metavar="COUNT", help="How many; without it, until Ctrl-C.")] = None,
    rate: Annotated[float, typer.Option(metavar="COUNT", help="Events per second.")] = 1000.0,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="The same seed gives the same events.")] = 0,
    field: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=RULE", help="Rule of a field, such as 'page=zipf(50)'; several times."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time of the first event (default: 2026-01-01), or now for the clock's."),
    ] = None,
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Send as fast as the stream takes them; --rate is that of their times.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Send all events, including those sent before; they count again.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send generated events that fit the fields of a stream.

    Values are made by the types of the fields, or by rules for them. The same seed and rules give the same events.
    Those that were sent before are not sent again; after an interruption, the same command continues where it stopped.
    """
    from headrace.ingest.sending import send_all  # loads Arrow: not for --help

    rules = dict(map(_rule, field or []))
    began = time.monotonic()
    with open_connection(workspace) as connection:
        connection.on_wait(WaitLines().waits)
        with show_progress([], endless=True) as progress:
            sending = connection.sending(stream, progress, again=again, endless=True)
            if events is None:
                note_without_server(connection, progress)
            with stop_signals(sending.give_up) as stopping:
                options = {"events": events, "seed": seed, "rate": rate, "rules": rules, "start": start}
                generated = connection.generated(stream, **options, stopping=stopping, at_once=at_once)
                reply = send_all(sending, [generated])
    took_s = time.monotonic() - began
    if as_json:
        print_json({**reply.as_dict(), "seconds": round(took_s, 3)})
    if stopping.is_set() and events is not None and reply.accepted + reply.already_sent < events:
        raise sending.interrupted()
    if as_json:
        return
    if reply.already_sent and not reply.accepted:
        sent_before = plural(reply.already_sent, "event")
        say(f"Nothing new: {sent_before} sent before (`--again` sends everything again)")
        return
    before = f"; {plural(reply.already_sent, 'event')} sent before" if reply.already_sent else ""
    say(f"{plural(reply.accepted, 'event')} sent in {took_s:.1f} s{before}; token {reply.token}")


def _rule(text: str) -> tuple[str, str]:
    name, mark, rule = text.partition("=")
    if not mark or not name.strip():
        raise UsageError(f"--field '{text}' is not a rule of a field", expected="NAME=RULE, such as 'page=zipf(50)'")
    return name.strip(), rule
