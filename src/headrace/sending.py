"""Pieces of lines on their way to a stream: a few at once, each taken once, the token of the reply covers all."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Protocol

from headrace.errors import HeadraceError, TooLargeError
from headrace.files import Declared, Piece
from headrace.lake.formats.layout import Format, Layout
from headrace.lake.ingest import IngestReply, read_token

IN_FLIGHT = 2  # one request on the wire while the next is read

Send = Callable[[bytes, Layout, str], Future[IngestReply]]  # lines, their layout, the key that they are taken once by


class Progress(Protocol):
    """Hears how sending goes."""

    def sent(self, read_bytes: int, events: int) -> None:
        """So much more of the files is safe now."""

    def waits(self, error: HeadraceError, pause_s: float) -> None:
        """The server cannot take more now; the same piece is sent again after a pause."""


class Sending:
    """One run of sending. What fails stops it; `reply` says what was safe by then."""

    def __init__(self, send: Send, declared: Declared, progress: Progress | None = None) -> None:
        self._send = send
        self._layout = Layout(Format.TEXT if declared.format == Format.TEXT else Format.NDJSON)
        self._progress = progress
        self._run = uuid.uuid4().hex
        self._number = 0
        self._on_their_way: deque[tuple[Piece, Future[IngestReply]]] = deque()
        self.reply = IngestReply(0, [], "")

    def add(self, piece: Piece) -> None:
        """Send one more piece, once there is room on the way."""
        while len(self._on_their_way) >= IN_FLIGHT:
            self._settle()
        self._on_their_way.append(self._sent(piece))

    def finish(self) -> IngestReply:
        """Wait for what is on its way."""
        while self._on_their_way:
            self._settle()
        return self.reply

    def _sent(self, piece: Piece) -> tuple[Piece, Future[IngestReply]]:
        key = f"{self._run}-{self._number}"
        self._number += 1
        return piece, self._send(piece.lines, self._layout, key)

    def _settle(self) -> None:
        piece, future = self._on_their_way[0]
        try:
            said = future.result()  # an interrupt while waiting leaves it to the next call
        except TooLargeError:
            halves = _halves(piece)  # the server takes less at once than we thought
            if not halves:
                raise
            self._on_their_way.popleft()
            self._on_their_way.extendleft(self._sent(half) for half in halves)
            return
        self._on_their_way.popleft()
        # A token stands for all positions before its own, and so the furthest stands for all.
        token = max((self.reply.token, said.token), key=_position)
        self.reply = IngestReply(self.reply.accepted + said.accepted, [], token)
        if self._progress:
            self._progress.sent(piece.read_bytes, said.accepted)


def send_all(sending: Sending, pieces: Iterable[Piece]) -> IngestReply:
    """Send all pieces. An error says what was sent before it, since that is not taken back."""
    try:
        for piece in pieces:
            sending.add(piece)
        return sending.finish()
    except HeadraceError as error:
        if sending.reply.accepted:
            sent = f"{sending.reply.accepted:,} events before it were sent and stay"
            error.fix = f"{error.fix}; {sent}" if error.fix else sent
        raise


def _halves(piece: Piece) -> list[Piece]:
    """A piece in two, if it has more than one line."""
    lines = piece.lines
    cut = lines.rfind(b"\n", 0, len(lines) // 2) + 1 or lines.find(b"\n") + 1
    if not 0 < cut < len(lines):
        return []
    return [Piece(lines[:cut], 0), Piece(lines[cut:], piece.read_bytes)]


def _position(token: str) -> int:
    read = read_token(token)
    return read[1] if read else -1
