"""Sends files to a stream in parts; each file continues at its stored mark.

A piece has the marks of its file before and after it, and the stream accepts it only if the first one is the stored
mark. So each event of a file is stored once, however often sending is interrupted, repeated or done by two processes
at the same time. One piece is in flight while the next is read.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

from headrace.errors import (
    SEND_AGAIN,
    ChangedFileError,
    HeadraceError,
    InterruptedSendError,
    OverloadError,
    StaleMarkError,
    TooLargeError,
    UnavailableError,
)
from headrace.format import plural
from headrace.ingest.file_marks import hash_of_event
from headrace.ingest.formats.format_detection import FileLayout, Format
from headrace.ingest.input_files import Piece, Resumable, StreamShape
from headrace.ingest.line_buffers import count_newlines
from headrace.ingest.receiver import IngestReply, Receiver, merge_tokens
from headrace.ingest.sending_state import SentPart, find_sent_part
from headrace.transport.sent_files import FilePiece

if TYPE_CHECKING:
    from concurrent.futures import Future

STALE_PAUSE_S = 0.2  # before the next attempt, if another process is sending the same file
LAST_REPLY_S = 5.0  # how long an interrupted command waits for the piece in flight
AGAIN_S = 1.0  # before a piece is sent again to a server that did not reply for a while


class SendProgress(Protocol):
    """Receives the progress of sending."""

    def sent(self, read_bytes: int, events: int) -> None:
        """Note that this much more of the files is stored."""

    def waits(self, error: HeadraceError, pause_s: float) -> None:
        """The stream accepts no more at present; the request is repeated after a pause."""

    def note(self, text: str) -> None:
        """A remark about a file."""


@dataclass(frozen=True)
class SendReply(IngestReply):
    """The reply for files: `accepted` events were sent now, `already_sent` ones before."""

    already_sent: int = 0
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "already_sent": self.already_sent, "notes": list(self.notes)}


@dataclass
class _InFlight:
    """A piece without a reply so far, and what it takes to send it again."""

    piece: Piece
    key: str
    file: FilePiece | None
    future: Future[IngestReply]


@dataclass
class _Counts:
    accepted: int = 0
    already_sent: int = 0
    token: str = ""
    notes: list[str] = field(default_factory=list)


class Sending:
    """One run of sending. An error stops it; `reply` says what is stored so far.

    A patient one sends a piece again, with the same key, for as long as the server cannot be reached. One that knows
    renames continues a file under the name that it had before.
    """

    def __init__(
        self,
        receiver: Receiver,
        declared: StreamShape,
        progress: SendProgress | None = None,
        *,
        again: bool = False,
        patient: bool = False,
        renames: bool = False,
    ) -> None:
        self.declared = declared
        self._receiver = receiver
        self._stream = declared.stream
        self._layout = FileLayout(Format.TEXT if declared.format == Format.TEXT else Format.NDJSON)
        self._progress = progress
        self._again = again
        self._patient = patient
        self._renames = renames
        self._stopped = False
        self._run = uuid.uuid4().hex
        self._number = 0
        self._sent_part: SentPart | None = None
        self._accepted_of_file = 0
        self._in_flight: _InFlight | None = None
        self._counts = _Counts()

    def sibling(self) -> Self:
        """Another run to the same stream, for a file that is sent together with others."""
        options = {"again": self._again, "patient": self._patient, "renames": self._renames}
        return type(self)(self._receiver, self.declared, self._progress, **options)

    @property
    def reply(self) -> SendReply:
        """The events that are stored so far."""
        counts, sent_part = self._counts, self._sent_part
        already = counts.already_sent + (sent_part.before if sent_part else 0)
        return SendReply(counts.accepted, [], counts.token, already, tuple(counts.notes))

    @property
    def is_busy(self) -> bool:
        """Return whether the reply to a piece has not arrived."""
        return self._in_flight is not None and not self._in_flight.future.done()

    def send(self, file: Resumable) -> None:
        """Send the part of a file that the stream does not have."""
        while True:
            try:
                skip = self.begin(file)
                if self._sent_part and self._sent_part.nothing_new:
                    self._report(file.size, 0)
                    return
                for piece in file.pieces(skip=skip):
                    self.add(piece)
                self.finish()
                return
            except StaleMarkError as error:
                self.wait_for_other(error)

    def begin(self, file: Resumable) -> int:
        """Look up how much of a file was sent; returns how many of its lines need not be sent."""
        if file.name is None:
            self._end_part()
            return 0
        first = file.first() or ""
        standing = self._receiver.sent(self._stream, file.name, first)
        sent_part = find_sent_part(file, first, standing, self._note, again=self._again, renames=self._renames)
        if self._sent_part is None or self._sent_part.name != sent_part.name or self._again:
            self._end_part()
        sent_part.before -= self._accepted_of_file  # by this run, before another process sent some
        self._sent_part = sent_part
        self._counts.token = merge_tokens(self._counts.token, sent_part.token)
        return sent_part.lines

    def restart(self) -> None:
        """The file that is being sent was replaced by another of its name, or emptied."""
        sent_part = self._sent_part
        assert sent_part is not None, "only a file with a name is followed"
        self._end_part()
        version = self._receiver.sent(self._stream, sent_part.name, "").version
        self._sent_part = SentPart(sent_part.name, "", version, "", start=True)

    def add(self, piece: Piece) -> None:
        """Send one more piece, once the previous one is stored."""
        self.finish()
        self._post(piece)

    def finish(self) -> None:
        """Wait for the piece in flight."""
        while self._in_flight:
            piece = self._in_flight.piece
            try:
                reply = self._in_flight.future.result()  # after an interrupt, the next call waits for it
            except TooLargeError:
                self._in_flight = None
                halves = piece.halves()  # the server has a lower limit
                if not halves:
                    raise
                self._post(halves[0])
                self.finish()
                self._post(halves[1])
                continue
            except (UnavailableError, OverloadError) as error:
                if self._patient and not self._stopped:
                    self._post_again(error)
                    continue
                if isinstance(error, OverloadError):
                    self._in_flight = None
                raise  # it may be stored nevertheless
            except HeadraceError:
                self._in_flight = None
                raise
            self._in_flight = None
            self._count(piece, reply)

    def wait_for_other(self, error: StaleMarkError) -> None:
        """Wait a moment before the mark is read again, since another process sends the same file."""
        if self._again:
            error.fix = "another process is sending this file; wait for it, then retry"
            raise error
        self.wait(error, STALE_PAUSE_S)

    def wait(self, error: HeadraceError, pause_s: float) -> None:
        """Pause, and say why."""
        if self._progress:
            self._progress.waits(error, pause_s)
        time.sleep(pause_s)

    def interrupted(self) -> InterruptedSendError:
        """The error after Ctrl-C."""
        stored, unsure = self.stop()
        return InterruptedSendError("interrupted", fix=self._describe_stored(stored, unsure) or "nothing was sent")

    def stop(self) -> tuple[int, int]:
        """Stop sending; returns how many events are stored, and how many more may be."""
        self.give_up()
        return self._count_stored()

    def give_up(self) -> None:
        """Make each further request only once."""
        self._stopped = True
        self._receiver.give_up()

    def explain(self, error: HeadraceError) -> None:
        """Add to an error what is stored: that is not undone."""
        note = self._describe_stored(*self._count_stored())
        if note:
            # The note says the same of all requests, and what to do.
            error.fix = f"{error.fix}; {note}" if error.fix and error.fix != SEND_AGAIN else note

    # Pieces in flight

    def _post(self, piece: Piece) -> None:
        if piece.is_blank:
            self._report(piece.read_bytes, 0)
            return
        sent_part = self._sent_part
        if sent_part and sent_part.start and not sent_part.first:
            sent_part.first = hash_of_event(piece.first_event)
        file = sent_part.piece(piece.mark) if sent_part and piece.mark else None
        key = f"{self._run}-{self._number}"
        self._number += 1
        self._in_flight = _InFlight(piece, key, file, self._request(piece, key, file))

    def _post_again(self, error: HeadraceError) -> None:
        """Repeat the piece in flight. Its key says that it is the same."""
        flight = self._in_flight
        assert flight is not None, "a reply was waited for"
        self.wait(error, AGAIN_S)
        flight.future = self._request(flight.piece, flight.key, flight.file)

    def _request(self, piece: Piece, key: str, file: FilePiece | None) -> Future[IngestReply]:
        return self._receiver.ingest(self._stream, piece.lines, layout=self._layout, key=key, keep_bad=True, file=file)

    def _count(self, piece: Piece, reply: IngestReply) -> None:
        self._counts.token = merge_tokens(self._counts.token, reply.token)
        self._counts.accepted += reply.accepted
        self._accepted_of_file += reply.accepted
        if self._sent_part and reply.accepted:
            self._sent_part.after, self._sent_part.start = str(piece.mark), False
        self._report(piece.read_bytes, reply.accepted)

    def _end_part(self) -> None:
        if self._sent_part:
            self._counts.already_sent += self._sent_part.before
        self._sent_part, self._accepted_of_file = None, 0

    def _report(self, read_bytes: int, events: int) -> None:
        if self._progress:
            self._progress.sent(read_bytes, events)

    def _note(self, text: str) -> None:
        if text not in self._counts.notes:
            self._counts.notes.append(text)
            if self._progress:
                self._progress.note(text)

    # What is stored

    def _count_stored(self) -> tuple[int, int]:
        """The number of stored events of the files, and of those that may be: the events of a piece without a reply."""
        unsure = 0
        if self._in_flight:
            piece = self._in_flight.piece
            try:
                reply = self._in_flight.future.result(LAST_REPLY_S)
                self._in_flight = None
                self._count(piece, reply)
            except (UnavailableError, TimeoutError):
                unsure = self._look_for(piece)
            except HeadraceError:
                self._in_flight = None  # it was refused
        return self.reply.accepted + self.reply.already_sent, unsure

    def _look_for(self, piece: Piece) -> int:
        """Count a piece without a reply if it is stored; returns how many events may be stored if that is not known."""
        sent_part, events = self._sent_part, count_newlines(piece.lines)
        if sent_part is None or piece.mark is None:
            return events
        try:
            status = self._receiver.sent(self._stream, sent_part.name, "")
            if sent_part.start and status.version == sent_part.version:
                return 0  # with --again, an earlier run may have stored the same mark
            counts = {content.mark: content.events for content in status.contents}
        except HeadraceError:
            on_disk = self._receiver.sent_on_disk(self._stream, sent_part.name)
            if on_disk is None:
                return events
            counts = on_disk
        if str(piece.mark) in counts:
            self._counts.accepted += counts[str(piece.mark)] - sent_part.before - self._accepted_of_file
        return 0

    def _describe_stored(self, stored: int, unsure: int) -> str | None:
        if not stored and not unsure:
            return None
        events = f"{plural(stored, 'event')} {'is' if stored == 1 else 'are'} kept"
        if unsure:
            events = f"at least {events}, and {unsure:,} more may be"
        if self._sent_part is None:
            return f"{events}; this input cannot be resumed: send only what comes after them"
        without = " without --again" if self._again else ""
        return f"{events}; the same command{without} continues where it stopped"


def send_all(sending: Sending, files: Iterable[Resumable]) -> SendReply:
    """Send all files. An error, or Ctrl-C, says how many events are stored and how to continue."""
    errors: list[ChangedFileError] = []
    try:
        for file in files:
            try:
                sending.send(file)
            except ChangedFileError as error:  # the other files are still sent
                errors.append(error)
    except KeyboardInterrupt:
        raise sending.interrupted() from None
    except HeadraceError as error:
        sending.explain(error)
        raise
    if errors:
        if len(errors) > 1:
            errors[0].message += f" (and {len(errors) - 1:,} more files)"
        raise errors[0]
    return sending.reply
