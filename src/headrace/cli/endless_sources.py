"""The sources of `headrace send` that have no end: sockets, a watched folder, the output of a command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer

from headrace.errors import InterruptedSendError, UsageError
from headrace.ingest.formats.format_detection import FileLayout, Format, check_format
from headrace.lazy import later

if TYPE_CHECKING:
    from headrace.api.connect import Connection
    from headrace.ingest.sending import Sending, SendProgress, SendReply
    from headrace.ingest.sources import command_lines, endless_sending, sockets, watched_folder
    from headrace.ingest.sources.endless_sending import LineSource
else:  # loaded by their first use
    endless_sending = later("headrace.ingest.sources.endless_sending")
    watched_folder = later("headrace.ingest.sources.watched_folder")
    command_lines = later("headrace.ingest.sources.command_lines")
    sockets = later("headrace.ingest.sources.sockets")

_LINES = (None, Format.NDJSON, Format.TEXT)
LOOPBACK = ("127.", "localhost:", "[::1]", "::1")


@dataclass(frozen=True)
class EndlessSources:
    """What the options name; at most one of the first five is given."""

    paths: list[Path]
    listen: str | None
    connect: str | None
    watch: Path | None
    command: str | None
    pattern: str | None
    once: bool

    @property
    def is_endless(self) -> bool:
        """Whether it is a source that does not end by itself."""
        return not self.paths

    def check(self, layout: FileLayout, *, follow: bool, again: bool) -> None:
        """Refuse options that do not belong together."""
        options = {"--listen": self.listen, "--connect": self.connect, "--watch": self.watch, "--command": self.command}
        names = (["PATH"] if self.paths else []) + [name for name, value in options.items() if value is not None]
        if len(names) != 1:
            several = " and ".join(names) or "none"
            raise UsageError("send takes one source", found=several, expected=f"PATH or one of {', '.join(options)}")
        name = names[0]
        if self.pattern is not None and self.watch is None:
            raise UsageError(f"--pattern does not belong to {name}", expected="--watch DIR --pattern '*.json'")
        if self.once and self.connect is None and self.command is None:
            raise UsageError(f"--once does not belong to {name}", expected="--connect or --command")
        if self.paths:
            return
        if follow or again:
            option = "--follow" if follow else "--again"
            raise UsageError(f"{option} does not belong to {name}", expected="PATH")
        if self.watch is None and layout.format not in _LINES:
            raise UsageError(f"{name} does not take {layout.format}", expected="lines: ndjson or text")


def send_endless(
    connection: Connection, stream: str, sources: EndlessSources, layout: FileLayout, progress: SendProgress
) -> SendReply:
    """Send what a source gives until it ends, or the command is interrupted or terminated."""
    sending = connection.sending(stream, progress, endless=True)
    if not sources.once:
        note_without_server(connection, progress)
    with stop_signals(sending.give_up) as stopping:
        if sources.watch is not None:
            return _watch(sending, sources, layout, stopping, progress)
        shape = sending.declared
        format = layout.format or (Format.TEXT if shape.format == Format.TEXT else Format.NDJSON)
        check_format(stream, shape.format, format)
        endless_sending.pump(sending, _line_source(sources, progress.note), stopping, progress.note, _announce)
    return sending.reply


def note_without_server(connection: Connection, progress: SendProgress) -> None:
    """Say that a command without end keeps a server from starting."""
    if connection.url is None:
        progress.note("no server is running: events are stored, and `headrace up` waits until this command ends")


def _watch(
    sending: Sending, sources: EndlessSources, layout: FileLayout, stopping: threading.Event, progress: SendProgress
) -> SendReply:
    assert sources.watch is not None
    watch = watched_folder.FolderWatch(sending, sources.watch, sources.pattern, layout, stopping, progress.note)
    _announce(f"watching folder '{sources.watch}'. The same command continues where this one stops")
    watch.run()
    return watch.reply


def _line_source(sources: EndlessSources, say: Callable[[str], None]) -> LineSource:
    if sources.listen is not None:
        if not sources.listen.startswith(LOOPBACK):
            say("everyone who can reach this port can send events to the stream; there is no authentication")
        return sockets.Listener(*sockets.parse_address(sources.listen, "--listen"))
    if sources.connect is not None:
        return sockets.SocketReader(*sockets.parse_address(sources.connect, "--connect"), say, once=sources.once)
    return command_lines.Command(sources.command or "", say, once=sources.once)


def _announce(promise: str) -> None:
    typer.echo(f"{promise}. Ctrl-C ends it.", err=True)


@contextmanager
def stop_signals(give_up: Callable[[], None]) -> Iterator[threading.Event]:
    """The event is set by the first Ctrl-C or SIGTERM, so that what was read is still sent; a second one interrupts."""
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()
        give_up()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    except KeyboardInterrupt:
        raise InterruptedSendError("interrupted", fix="some lines that were read were not sent") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
