"""`headrace send` and `headrace generate`: files, standard input, endless sources or generated events to a stream."""

from __future__ import annotations

import signal
import time
from contextlib import nullcontext
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.api.shared_options import INTAKE
from headrace.cli.common_options import JsonOption, WorkspaceOption, complete_stream, open_connection
from headrace.cli.endless_sources import EndlessSources, note_without_server, send_endless, stop_signals
from headrace.cli.output import console, print_json, say
from headrace.cli.waiting import WaitLines, show_progress
from headrace.errors import IngestError, NotReadyError, UsageError
from headrace.format import plural
from headrace.ingest.formats.format_detection import FileLayout, Format, check_format, format_of, make_layout
from headrace.lazy import later
from headrace.name_encoding import shell

if TYPE_CHECKING:
    from headrace.api import objects
    from headrace.api.connect import Connection
    from headrace.ingest import growing_file, input_files
    from headrace.ingest import sending as sending_module
    from headrace.ingest.receiver import TokenState
    from headrace.ingest.sending import SendProgress, SendReply
else:  # loaded by their first use
    input_files = later("headrace.ingest.input_files")
    objects = later("headrace.api.objects")
    sending_module = later("headrace.ingest.sending")
    growing_file = later("headrace.ingest.growing_file")


WAIT_SLICE_S = 5.0


DELIMITER, FIELDS = (typer.Option(metavar=each.metavar, help=each.help) for each in INTAKE.values())


class FileFormat(StrEnum):
    """The format of the files."""

    AUTO = "auto"
    NDJSON = "ndjson"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    TEXT = "text"


def send(
    stream: Annotated[str, typer.Argument(help="Stream to send to.", metavar="STREAM", autocompletion=complete_stream)],
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files, folders, or - for standard input.", metavar="PATH...")
    ] = None,
    workspace: WorkspaceOption = ".",
    format: Annotated[
        FileFormat,
        typer.Option(
            "--format",
            help="auto, ndjson, json, csv, parquet or text; auto uses the name of the file, then its content.",
            metavar="FORMAT",
        ),
    ] = FileFormat.AUTO,
    delimiter: Annotated[str | None, DELIMITER] = None,
    fields: Annotated[str | None, FIELDS] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Also send lines that are appended to a file of NDJSON or text.")
    ] = False,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Accept connections, and send the lines that arrive.")
    ] = None,
    connect: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Connect to a server, and send the lines that it writes.")
    ] = None,
    watch: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Send the files of a folder, then new files and appended lines.")
    ] = None,
    pattern: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Names of the files for --watch; default: known suffixes.")
    ] = None,
    command: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Run a shell command, and send the lines that it prints.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when the command or the connection ends; default: restart it.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Send everything, including what was sent before; it counts again.")
    ] = False,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="For a table: the file is the complete table; rows with other keys are deleted."
        ),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until every view has the events; print how many could not be parsed.")
    ] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Timeout of --wait.")] = 600.0,
    as_json: JsonOption = False,
) -> None:
    """Send events from files, sockets, folders or commands.

    Files are NDJSON, JSON, CSV, Parquet or lines of text, also compressed with gzip or zstd. Events that cannot be
    parsed are stored as dead letters. If a file was sent before, only new events are sent; after an interruption, the
    same command continues where it stopped. With --listen, --connect, --watch or --command it sends until Ctrl-C.
    """
    layout = make_layout(None if format is FileFormat.AUTO else Format(format.value), delimiter, fields)
    sources = EndlessSources(paths or [], listen, connect, watch, command, pattern, once)
    sources.check(layout, follow=follow, again=again)
    files = input_files.find_files(sources.paths)
    if replace and (len(files) != 1 or follow or again or sources.is_endless):
        raise UsageError("--replace takes one file, which is the whole table", fix="leave out the other options")
    if not as_json and any(path.is_dir() for path in sources.paths):
        say(f"{len(files):,} files", err=True)
    began = time.monotonic()
    endless = follow or sources.is_endless
    with open_connection(workspace) as connection:
        connection.on_wait(WaitLines().waits)
        before = _dead_letters(connection, stream) if wait else (0, 0)
        with show_progress(files, endless=endless) as progress:
            if replace:
                reply = _replace(connection, stream, files[0], layout)
            elif sources.is_endless:
                reply = send_endless(connection, stream, sources, layout, progress)
            elif follow:
                reply = _follow(connection, stream, files, layout, progress, again=again)
            else:
                reply = connection.send_files(stream, files, progress, layout, again=again)
        took = time.monotonic() - began
        if not reply.accepted and not reply.already_sent and not endless:
            raise IngestError("no events found in the input", fix="nothing was sent")
        if not as_json:
            _print_reply(reply, took, files)
            if reply.accepted and connection.url is None:
                say(f"{plural(reply.accepted, 'event')} not processed yet: `headrace up` processes them")
        state = _wait(connection, reply.token, timeout, quiet=as_json) if wait and reply.token else None
        after = _dead_letters(connection, stream) if state else before
    if as_json:
        print_json({**reply.as_dict(), "seconds": round(took, 3), **(state.as_dict() if state else {})})
    if state and not state.complete:
        why = f"stalled: {', '.join(state.stalled)}" if state.stalled else f"not all views had them after {timeout:g} s"
        raise NotReadyError(f"the events are stored, but {why}", fix="`headrace views` shows the progress of each view")
    if state and not as_json:
        say("All views include them.")
        dead, repeats = after[0] - before[0], after[1] - before[1]
        if dead > 0:
            say(f"{dead:,} could not be parsed: `headrace dead-letters {shell(stream)}` shows why", err=True)
        if repeats > 0:
            say(f"{plural(repeats, 'repeated event')}: sent before, and not counted again", err=True)


def _replace(connection: Connection, name: str, file: Path, layout: FileLayout) -> SendReply:
    """Make the rows of a file the whole table."""
    table = connection.table(name)
    reply = table.replace(list(objects.read_rows(file, layout, table.table_status)))
    if reply.refused:
        first = reply.refused[0]
        say(f"{len(reply.refused):,} refused (first: row {first['index']}, {first['reason']})", err=True)
    return sending_module.SendReply(reply.accepted, reply.refused, reply.token)


def _dead_letters(connection: Connection, stream: str) -> tuple[int, int]:
    """The number of events of the stream that could not be parsed, and of those that were duplicates."""
    streams = [each for each in connection.verbs.streams() if each.name == stream]
    repeats = sum(each.duplicates or 0 for each in streams)
    return sum(each.dead_letters or 0 for each in streams) - repeats, repeats


def _print_reply(reply: SendReply, took_s: float, files: list[Path]) -> None:
    if reply.already_sent and not reply.accepted:
        what = f"'{files[0]}'" if len(files) == 1 else f"{len(files):,} files" if files else "the folder"
        events = plural(reply.already_sent, "event")
        say(f"Nothing new in {what}: {events} sent before (`--again` sends everything again)")
        return
    rate = reply.accepted / max(took_s, 1e-3)
    token = f"; token {reply.token}" if reply.token else ""
    before = f"; {plural(reply.already_sent, 'event')} sent before" if reply.already_sent else ""
    say(f"{plural(reply.accepted, 'event')} sent in {took_s:.1f} s ({rate:,.0f} events/s){before}{token}")


def _follow(
    connection: Connection,
    stream: str,
    files: list[Path],
    layout: FileLayout,
    progress: SendProgress | None,
    *,
    again: bool,
) -> SendReply:
    """Send the content of a file and what is appended to it, until the command is interrupted or terminated."""
    if len(files) != 1 or files[0] == input_files.STANDARD_INPUT:
        raise UsageError("--follow takes one file", found=f"{len(files)} files" if len(files) > 1 else "-")
    sending = connection.sending(stream, progress, again=again)
    declared = sending.declared
    with files[0].open("rb") as file:
        file_format = layout.format or format_of(files[0].name, file.read(4096), declared.format, declared.types)
    file_format = (
        Format.NDJSON if file_format is Format.JSON and layout.format is None else file_format
    )  # it has one line so far
    check_format(stream, declared.format, file_format)
    if file_format not in (Format.NDJSON, Format.TEXT):
        raise UsageError(f"--follow does not take {file_format}", expected="a file of lines: ndjson or text")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        growing_file.follow(sending, input_files.SourceFile(files[0], declared, replace(layout, format=file_format)))
    except KeyboardInterrupt:
        sending.stop()  # the normal end
    finally:
        signal.signal(signal.SIGTERM, before)
    return sending.reply


def _wait(connection: Connection, token: str, timeout_s: float, *, quiet: bool) -> TokenState:
    """Wait until every view has the events, or is stalled."""
    out = console(stderr=True)
    deadline = time.monotonic() + timeout_s
    with nullcontext() if quiet else out.status("waiting until every view has them"):
        while True:
            remaining_s = deadline - time.monotonic()
            state = connection.wait(token, max(0.0, min(WAIT_SLICE_S, remaining_s)))
            if state.complete or state.stalled or remaining_s <= WAIT_SLICE_S:
                return state


def generate(
    stream: Annotated[str, typer.Argument(help="Stream to send to.", metavar="STREAM", autocompletion=complete_stream)],
    workspace: WorkspaceOption = ".",
    events: Annotated[
        int | None, typer.Option(metavar="COUNT", help="Number of events; default: until Ctrl-C.")
    ] = None,
    rate: Annotated[float, typer.Option(metavar="COUNT", help="Events per second.")] = 1000.0,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="The same seed gives the same events.")] = 0,
    field: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=RULE", help="Rule of a field, such as 'page=zipf(50)'; can be repeated."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time of the first event (default: 2026-01-01), or now to use the clock."),
    ] = None,
    at_once: Annotated[
        bool,
        typer.Option(
            "--at-once", help="Send as fast as the stream accepts events; --rate then only spaces the event times."
        ),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Send all events, including those sent before; they count again.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send generated events for the fields of a stream.

    Values are generated by the types of the fields, or by rules for them. The same seed and rules give the same events.
    Events that were sent before are not sent again; after an interruption, the same command continues where it stopped.
    """
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
                reply = sending_module.send_all(sending, [generated])
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
