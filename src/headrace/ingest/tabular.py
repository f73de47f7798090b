"""Data frames and Arrow tables as NDJSON lines to send: whole columns at a time, no Python for each row."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.errors import HeadraceError, IngestError, TooLargeError
from headrace.ingest.formats.columns import json_lines, json_text, line_bytes
from headrace.ingest.receiver import IngestReply, merge_tokens

ROWS = 8192  # that become lines at once
PIECE_BYTES = 4 << 20  # of lines that one request has, or a little more

Send = Callable[[bytes, str | None], Future[IngestReply]]  # lines, and the key that they are taken once by


@dataclass(frozen=True)
class Piece:
    """The lines of rows from `first` on, one for each."""

    first: int
    lines: bytes
    key: str | None

    def halves(self) -> list[Piece]:
        """The piece in two; nothing if it is one row."""
        cut = self.lines.rfind(b"\n", 0, len(self.lines) // 2) + 1 or self.lines.find(b"\n") + 1
        if cut == len(self.lines):
            return []
        first, second = self.lines[:cut], self.lines[cut:]
        keys = [self.key and f"{self.key}.{half}" for half in (1, 2)]
        return [Piece(self.first, first, keys[0]), Piece(self.first + first.count(b"\n"), second, keys[1])]


def as_table(events: Any) -> pa.Table | None:
    """The table that a value is: of Arrow, a data frame of pandas, or of a library that gives Arrow streams, such as
    Polars. None if it is no table. An index of a data frame is a column if it has a name.
    """
    if isinstance(events, pa.Table):
        return events
    pandas = sys.modules.get("pandas")  # who has a data frame has loaded it
    try:
        if pandas is not None and isinstance(events, pandas.DataFrame):
            named = any(name is not None for name in events.index.names)
            return pa.Table.from_pandas(events, preserve_index=named)
        if isinstance(events, pa.RecordBatch):
            return pa.Table.from_batches([events])
        if hasattr(events, "__arrow_c_stream__"):
            return pa.table(events)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise IngestError(
            f"the {type(events).__name__} cannot be sent",
            found=str(error).partition("\n")[0],
            expected="columns with values of one type each",
        ) from error
    return None


def send_table(
    table: pa.Table, send: Send, key: str | None, *, rows: int = ROWS, piece_bytes: int = PIECE_BYTES
) -> IngestReply:
    """Send all rows in pieces, the next one made while one is on its way. Refused rows are named by their number."""
    reply = IngestReply(0, [], "")
    waiting: list[tuple[Piece, Future[IngestReply]]] = []
    try:
        for piece in _pieces(table, key, rows, piece_bytes):
            waiting.append((piece, send(piece.lines, piece.key)))
            while len(waiting) > 1:
                reply = _settle(reply, waiting, send)
        while waiting:
            reply = _settle(reply, waiting, send)
    except HeadraceError as error:
        if reply.accepted:
            sent = f"{reply.accepted:,} rows before it were sent and stored"
            error.fix = f"{error.fix}; {sent}" if error.fix else sent
        raise
    return reply


def _settle(reply: IngestReply, waiting: list[tuple[Piece, Future[IngestReply]]], send: Send) -> IngestReply:
    """The reply with that of the piece that waits longest. One that is too large for the server goes in halves."""
    piece, future = waiting.pop(0)
    try:
        said = future.result()
    except TooLargeError:
        halves = piece.halves()
        if not halves:
            raise
        waiting[:0] = [(half, send(half.lines, half.key)) for half in halves]
        return reply
    refused = [{**row, "index": row["index"] + piece.first} for row in said.refused]
    token = merge_tokens(reply.token, said.token)
    return IngestReply(reply.accepted + said.accepted, [*reply.refused, *refused], token)


def _pieces(table: pa.Table, key: str | None, rows: int, piece_bytes: int) -> Iterator[Piece]:
    """The rows as lines. The first piece has the key as it is."""
    first, row, lines, number = 0, 0, [], 0
    for some in _lines(table, rows):
        lines.append(some)
        row += some.count(b"\n")
        if sum(map(len, lines)) >= piece_bytes:
            yield Piece(first, b"".join(lines), _numbered(key, number))
            first, lines, number = row, [], number + 1
    if lines:
        yield Piece(first, b"".join(lines), _numbered(key, number))


def _lines(table: pa.Table, rows: int) -> Iterator[bytes]:
    names = table.column_names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise IngestError("the table cannot be sent", found=f"the column '{twice}' twice", expected="each name once")
    for batch in table.to_batches(max_chunksize=rows):
        texts = [json_text(name, column) for name, column in zip(names, batch.columns, strict=True)]
        yield line_bytes(json_lines(names, texts, len(batch))).to_pybytes()


def _numbered(key: str | None, number: int) -> str | None:
    return key if key is None or number == 0 else f"{key}-{number}"
