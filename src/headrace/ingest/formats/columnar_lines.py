"""Parquet files, data frames and Arrow tables as NDJSON lines: whole columns at a time, no Python for each row."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.errors import HeadraceError, IngestError, TooLargeError
from headrace.ingest.receiver import IngestReply, merge_tokens
from headrace.parse.json_text import json_lines, json_text, line_bytes

ROWS = 8192  # read at once
PIECE_BYTES = 4 << 20  # of text that is written at once, or one row


def parquet_lines(file: Any, rows: int = ROWS, piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
    """Lines in pieces, from a seekable file."""
    try:
        reader = pq.ParquetFile(file, pre_buffer=False)
        # Repeated strings stay dictionaries until they are written: a small file may hold very long text.
        strings = [name for name in reader.schema_arrow.names if _is_text(reader.schema_arrow.field(name).type)]
        reader = pq.ParquetFile(file, pre_buffer=False, read_dictionary=strings)
        names = reader.schema_arrow.names
        _check_names(names)
        for batch in reader.iter_batches(batch_size=rows, use_threads=False):
            for part in _in_pieces(batch, piece_bytes):
                texts = [json_text(name, column) for name, column in zip(names, part.columns, strict=True)]
                yield line_bytes(json_lines(names, texts, len(part))).to_pybytes()
    except (pa.ArrowException, OSError) as error:
        raise IngestError(
            "the Parquet file cannot be read",
            found=str(error).partition("\n")[0],
            fix="it may be incomplete; the footer at its end is needed",
        ) from error


def _in_pieces(batch: pa.RecordBatch, piece_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows, in parts whose strings fit a piece."""
    sizes = np.zeros(len(batch), dtype=np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            lengths = pc.binary_length(column.dictionary).take(column.indices)
            sizes += np.asarray(pc.fill_null(lengths, 0), dtype=np.int64)
    ends = np.cumsum(sizes)
    start = 0
    while start < len(batch):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + piece_bytes, side="right")))
        yield batch.slice(start, stop - start)
        start = stop


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_binary(type_))


def _check_names(names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise IngestError("the Parquet file cannot be read", found=f"the column '{twice[0]}' twice")


TABLE_ROWS = 8192  # that become lines at once
TABLE_PIECE_BYTES = 4 << 20  # of lines that one request has, or a little more

Send = Callable[[bytes, str | None], Future[IngestReply]]  # lines, and their idempotency key


@dataclass(frozen=True)
class TablePiece:
    """The lines of rows from `first` on, one for each."""

    first: int
    lines: bytes
    key: str | None

    def halves(self) -> list[TablePiece]:
        """The piece in two; nothing if it is one row."""
        cut = self.lines.rfind(b"\n", 0, len(self.lines) // 2) + 1 or self.lines.find(b"\n") + 1
        if cut == len(self.lines):
            return []
        first, second = self.lines[:cut], self.lines[cut:]
        keys = [self.key and f"{self.key}.{half}" for half in (1, 2)]
        return [TablePiece(self.first, first, keys[0]), TablePiece(self.first + first.count(b"\n"), second, keys[1])]


def as_table(events: Any) -> pa.Table | None:
    """A table of Arrow, a data frame of pandas, or of a library that exports Arrow streams, such as Polars, as a table
    of Arrow. None for other values. The index of a data frame is a column if it has a name.
    """
    if isinstance(events, pa.Table):
        return events
    pandas = sys.modules.get("pandas")  # a program that has a data frame has imported it
    try:
        if pandas is not None and isinstance(events, pandas.DataFrame):
            has_name = any(name is not None for name in events.index.names)
            return pa.Table.from_pandas(events, preserve_index=has_name)
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
    table: pa.Table, send: Send, key: str | None, *, rows: int = TABLE_ROWS, piece_bytes: int = TABLE_PIECE_BYTES
) -> IngestReply:
    """Send all rows in pieces; one is in flight while the next is made. Refused rows are reported by their index."""
    reply = IngestReply(0, [], "")
    waiting: list[tuple[TablePiece, Future[IngestReply]]] = []
    try:
        for piece in _pieces(table, key, rows, piece_bytes):
            waiting.append((piece, send(piece.lines, piece.key)))
            while len(waiting) > 1:
                reply = _settle(reply, waiting, send)
        while waiting:
            reply = _settle(reply, waiting, send)
    except HeadraceError as error:
        if reply.accepted:
            note = f"{reply.accepted:,} rows before it were sent and stored"
            error.fix = f"{error.fix}; {note}" if error.fix else note
        raise
    return reply


def _settle(reply: IngestReply, waiting: list[tuple[TablePiece, Future[IngestReply]]], send: Send) -> IngestReply:
    """The reply including that of the oldest piece in flight. A piece too large for the server is sent in halves."""
    piece, future = waiting.pop(0)
    try:
        piece_reply = future.result()
    except TooLargeError:
        halves = piece.halves()
        if not halves:
            raise
        waiting[:0] = [(half, send(half.lines, half.key)) for half in halves]
        return reply
    refused = [{**row, "index": row["index"] + piece.first} for row in piece_reply.refused]
    token = merge_tokens(reply.token, piece_reply.token)
    return IngestReply(reply.accepted + piece_reply.accepted, [*reply.refused, *refused], token)


def _pieces(table: pa.Table, key: str | None, rows: int, piece_bytes: int) -> Iterator[TablePiece]:
    """The rows as lines. The first piece has the unchanged key."""
    first, row, lines, number = 0, 0, [], 0
    for batch_lines in _lines(table, rows):
        lines.append(batch_lines)
        row += batch_lines.count(b"\n")
        if sum(map(len, lines)) >= piece_bytes:
            yield TablePiece(first, b"".join(lines), _piece_key(key, number))
            first, lines, number = row, [], number + 1
    if lines:
        yield TablePiece(first, b"".join(lines), _piece_key(key, number))


def _lines(table: pa.Table, rows: int) -> Iterator[bytes]:
    names = table.column_names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise IngestError("the table cannot be sent", found=f"the column '{twice}' twice", expected="each name once")
    for batch in table.to_batches(max_chunksize=rows):
        texts = [json_text(name, column) for name, column in zip(names, batch.columns, strict=True)]
        yield line_bytes(json_lines(names, texts, len(batch))).to_pybytes()


def _piece_key(key: str | None, number: int) -> str | None:
    return key if key is None or number == 0 else f"{key}-{number}"
