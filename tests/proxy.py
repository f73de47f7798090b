"""A connection to a server that can be paused after some bytes, resumed, or cut."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit

BLOCK = 64 << 10


class Proxy:
    """Passes what comes on its own port of loopback to a server, which may change, and back."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._target = ("127.0.0.1", 9)  # where nothing listens
        self._is_cut = False
        self._sockets: set[socket.socket] = set()
        self._changed = threading.Condition()
        self._passed_bytes = 0  # bytes from the client since `hold_after`
        self._limit: int | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, url: str) -> None:
        """Pass new connections to this server."""
        parts = urlsplit(url)
        assert parts.hostname
        assert parts.port
        self._target, self._is_cut = (parts.hostname, parts.port), False

    def hold_after(self, size: int) -> None:
        """Stop forwarding when the client has sent this many more bytes."""
        with self._changed:
            self._passed_bytes, self._limit = 0, size

    @property
    def holds(self) -> bool:
        return self._limit is not None and self._passed_bytes >= self._limit

    def release(self) -> None:
        """Forward everything again."""
        with self._changed:
            self._limit = None
            self._changed.notify_all()

    def cut(self) -> None:
        """End all connections, and refuse new ones until `mend` or another target."""
        self._is_cut = True
        for each in list(self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self.release()

    def mend(self) -> None:
        """Let connections in again."""
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = None if self._is_cut else socket.create_connection(self._target, timeout=5)
                except OSError:
                    server = None
                if server is None:
                    client.close()
                    continue
                server.settimeout(None)
                self._sockets |= {client, server}
                threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        with suppress(OSError):
            while block := source.recv(BLOCK):
                with self._changed:
                    self._passed_bytes += len(block) if counts else 0
                    self._changed.wait_for(lambda: not self.holds)
                sink.sendall(block)
        for each in (source, sink):
            self._sockets.discard(each)
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()  # a sender gets an error
