"""Sends the lines of a source without end, until it ends or the command is interrupted.

One piece is in flight; what arrives meanwhile is the next one. If that is full, nothing more is read, so that a sender
waits as the stream does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from headrace.errors import HeadraceError, InterruptedSendError
from headrace.format import plural
from headrace.ingest.input_files import PIECE_BYTES, Piece
from headrace.ingest.line_buffers import count_newlines
from headrace.ingest.sending import Sending
from headrace.ingest.sources.channels import Channel, Intake

LINGER_S = 0.05  # how long a line waits for others
BUSY_S = 0.01  # while a reply is waited for
IDLE_S = 0.2


class LineSource(Protocol):
    """A source that opens channels, and opens them again."""

    promise: str  # what is said at the start: what it reads, and that it cannot be continued
    error: HeadraceError | None  # why it has ended, if not as it should

    @property
    def is_finished(self) -> bool:
        """Return whether no more lines will arrive."""

    def open(self, intake: Intake) -> None:
        """Begin; an error if that is not possible."""

    def ended(self, channel: Channel) -> None:
        """A channel has ended."""

    def check(self) -> None:
        """Open again the channels that have ended, when it is time; called often."""

    def close(self) -> None:
        """Stop it."""


def pump(
    sending: Sending,
    source: LineSource,
    stopping: threading.Event,
    say: Callable[[str], None],
    started: Callable[[str], None],
) -> None:
    """Send what a source gives, until it ends or is to stop: then what has been read is still sent."""
    intake = Intake(say)
    closing: list[Channel] = []  # complete when the piece in flight is stored
    try:
        source.open(intake)
        started(source.promise)
        while not stopping.is_set() and not (source.is_finished and not intake.waiting_bytes):
            _step(sending, source, intake, closing)
        if stopping.is_set():
            source.close()
            intake.read(0.0)
        _finish(sending, intake, closing)
        if source.error:
            raise source.error
    except HeadraceError as error:
        if stopping.is_set():
            raise _interrupted(sending, intake, closing, error) from error
        sending.explain(error)
        raise
    finally:
        source.close()
        for channel in closing:
            channel.abort()
        intake.close()


def _step(sending: Sending, source: LineSource, intake: Intake, closing: list[Channel]) -> None:
    for channel in intake.read(BUSY_S if sending.is_busy or intake.waiting_bytes else IDLE_S):
        source.ended(channel)
    source.check()
    is_full = intake.waiting_bytes >= PIECE_BYTES
    is_due = intake.waiting_bytes and time.monotonic() - intake.since >= LINGER_S
    if is_full or (is_due and not sending.is_busy):
        _post(sending, intake, closing)
    elif not sending.is_busy and not intake.waiting_bytes:
        _finish(sending, intake, closing)


def _post(sending: Sending, intake: Intake, closing: list[Channel]) -> None:
    """Send what waits, once the piece before it is stored."""
    sending.finish()
    _close(closing)
    lines, ended = intake.take()
    closing += ended
    if lines:
        sending.add(Piece(lines, len(lines)))


def _finish(sending: Sending, intake: Intake, closing: list[Channel]) -> None:
    _post(sending, intake, closing)
    sending.finish()
    _close(closing)


def _close(channels: list[Channel]) -> None:
    while channels:
        channels.pop().close()


def _interrupted(
    sending: Sending, intake: Intake, closing: list[Channel], error: HeadraceError
) -> InterruptedSendError:
    """The error if the last lines cannot be sent: how many are stored, how many are not."""
    stored, unsure = sending.stop()
    lines, ended = intake.take()
    closing += ended  # the other side must learn that not all of its lines are stored
    lost = count_newlines(lines)
    parts = [f"{plural(stored, 'event')} sent"]
    if unsure:
        parts.append(f"{plural(unsure, 'event')} without a reply")
    if lost:
        parts.append(f"{plural(lost, 'event')} not sent")
    return InterruptedSendError(f"interrupted, and not all could be sent: {error.message}", fix=", ".join(parts))
