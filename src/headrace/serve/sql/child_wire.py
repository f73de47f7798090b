"""The protocol between a server and its SQL child over a socket: length-prefixed JSON and Arrow frames."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

HEADER = struct.Struct("<cQ")
JSON, SCHEMA, ROWS, END = b"J", b"S", b"R", b"E"
RUN, FORGET = {"run": True}, {"run": False}  # sent to a child after the tables of its query, or if it is not to run


class BrokenFrameError(Exception):
    """The other process has ended, or what it sent is not a frame."""


@dataclass(frozen=True)
class Frame:
    """One message."""

    kind: bytes
    payload: pa.Buffer

    def json(self) -> Any:
        """The content of a JSON frame."""
        try:
            return orjson.loads(memoryview(self.payload))
        except ValueError as error:
            raise BrokenFrameError("no JSON") from error

    def schema(self) -> pa.Schema:
        """The content of a SCHEMA frame."""
        try:
            return pa.ipc.read_schema(self.payload)
        except (pa.ArrowException, OSError) as error:
            raise BrokenFrameError("no schema") from error

    def rows(self, schema: pa.Schema) -> pa.RecordBatch:
        """The content of a ROWS frame, every value of it valid."""
        if self.kind != ROWS:
            raise BrokenFrameError(f"a frame {self.kind!r} among rows")
        try:
            piece = pa.ipc.read_record_batch(self.payload, schema)
            piece.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise BrokenFrameError("no rows") from error
        return piece


class Wire:
    """One end of the connection. A frame longer than `most` is refused before it is read."""

    def __init__(self, end: socket.socket, most: int) -> None:
        self.socket = end
        self._most = most

    def send_json(self, content: Any) -> None:
        """Send a JSON value."""
        self._send(JSON, orjson.dumps(content))

    def send_schema(self, schema: pa.Schema) -> None:
        """Announce rows."""
        self._send(SCHEMA, schema.serialize())

    def send_rows(self, rows: pa.RecordBatch) -> None:
        """Send rows of the schema that was announced."""
        self._send(ROWS, rows.serialize())

    def send_end(self) -> None:
        """There are no more rows."""
        self._send(END, b"")

    def receive(self) -> Frame:
        """The next frame."""
        kind, length = HEADER.unpack(self._read(HEADER.size))
        if length > self._most:
            raise BrokenFrameError(f"a frame of {length} bytes")
        return Frame(kind, pa.py_buffer(self._read(length)))

    def expect(self, kind: bytes) -> Frame:
        """The next frame, which must be of this kind."""
        frame = self.receive()
        if frame.kind != kind:
            raise BrokenFrameError(f"a frame {frame.kind!r}, not {kind!r}")
        return frame

    def _send(self, kind: bytes, payload: bytes | pa.Buffer) -> None:
        body = memoryview(payload)
        self.socket.sendall(HEADER.pack(kind, body.nbytes))
        self.socket.sendall(body)

    def _read(self, length: int) -> bytearray:
        content = bytearray(length)
        rest = memoryview(content)
        while rest:
            count = self.socket.recv_into(rest)
            if not count:
                raise BrokenFrameError("the other process has ended")
            rest = rest[count:]
        return content
