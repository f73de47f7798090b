"""Connections that send any bytes to a server, and where its journal ends."""

from __future__ import annotations

import socket
from typing import Any, ClassVar

import orjson

from tests.surfaces.conftest import Served


class Line:
    """A connection that sends any bytes."""

    open_lines: ClassVar[list[Line]] = []  # closed after each test

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=120)
        self.open_lines.append(self)

    def send(self, text: str | bytes) -> Line:
        self.socket.sendall(text.encode() if isinstance(text, str) else text)
        return self

    def reply(self) -> tuple[int, dict[str, str], Any]:
        """Status, headers and body of the reply."""
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = self.socket.recv(65536)
            assert chunk, f"closed after {data!r}"
            data += chunk
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *others = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in others)}
        while len(rest) < int(headers["content-length"]):
            rest += self.socket.recv(65536)
        return int(first.split()[1]), headers, orjson.loads(rest)

    def is_closed(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    @classmethod
    def close_all(cls) -> None:
        while cls.open_lines:
            cls.open_lines.pop().socket.close()


def journal_end(served: Served) -> int:
    return served.runtime.lookup.pipelines["visits"].transport.end.offset()
