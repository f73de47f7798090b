"""Lines over TCP: connections to a port of this process, or one connection to another process."""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Callable

from headrace.errors import HeadraceError, IngestError, UsageError
from headrace.ingest.sources.channels import BackOff, Channel, Intake

MOST_CONNECTIONS = 1000
CONNECT_S = 10.0
_NOT_AGAIN = "A socket cannot be read again: what comes while this command does not run is not sent"
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets the connection


def parse_address(text: str, option: str) -> tuple[str, int]:
    """A host and a port."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{option} '{text}' is not an address", expected="HOST:PORT, such as 127.0.0.1:7777")
    return host, int(port)


class IncomingLines:
    """A connection. The other side sees its end when all lines are stored, and a reset if they are not."""

    def __init__(self, connected: socket.socket, label: str) -> None:
        connected.setblocking(False)
        self._socket = connected
        self.label = label

    def fileno(self) -> int:
        """The descriptor that a selector waits for."""
        return self._socket.fileno()

    def read(self, size: int) -> bytes:
        """Some bytes; none at the end."""
        return self._socket.recv(size)

    def close(self) -> None:
        """Close the channel, whose lines are stored."""
        self._socket.close()

    def abort(self) -> None:
        """Close the channel whose lines are not all stored."""
        if self._socket.fileno() >= 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._socket.close()


class Listener:
    """Accepts connections at an address."""

    is_finished = False
    error: HeadraceError | None = None

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.promise = ""
        self._listening: socket.socket | None = None
        self._intake: Intake | None = None
        self._full = False

    def open(self, intake: Intake) -> None:
        """Listen."""
        address = f"{self._host}:{self._port}"
        try:
            family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
            listening = socket.create_server((self._host, self._port), family=family, backlog=128)
        except socket.gaierror as error:
            raise IngestError(f"host '{self._host}' is not known", expected="an address of this machine") from error
        except OSError as error:
            raise _cannot_listen(address, self._port, error) from error
        listening.setblocking(False)
        self._listening, self._intake = listening, intake
        self.promise = f"listening on {self._host}:{listening.getsockname()[1]}. {_NOT_AGAIN}"
        intake.wake(listening.fileno(), self._accept)

    def ended(self, channel: Channel) -> None:
        """Do nothing: other clients may connect."""

    def check(self) -> None:
        """Accept again, if there were too many connections."""
        if self._full and self._listening and self._intake and self._intake.channels < MOST_CONNECTIONS:
            self._full = False
            self._intake.wake(self._listening.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more."""
        if self._listening and self._intake:
            self._intake.wake(self._listening.fileno(), None)
            self._listening.close()
            self._listening = None

    def _accept(self) -> None:
        assert self._listening is not None
        assert self._intake is not None
        try:
            connected, address = self._listening.accept()
            self._intake.add(IncomingLines(connected, f"connection from {address[0]}:{address[1]}"))
        except (BlockingIOError, ConnectionError):
            return  # it went away again
        except OSError:  # too many open files
            self._full = True
        if self._full or self._intake.channels >= MOST_CONNECTIONS:
            self._full = True
            self._intake.wake(self._listening.fileno(), None)


class SocketReader:
    """Reads the lines of a server; connects again when the connection is lost."""

    error: HeadraceError | None = None

    def __init__(self, host: str, port: int, say: Callable[[str], None], *, once: bool) -> None:
        self._host, self._port, self._say, self._once = host, port, say, once
        self._address = f"{host}:{port}"
        self._back_off = BackOff()
        self._intake: Intake | None = None
        self._connected_at: float | None = None
        self.is_finished = False
        self.promise = f"connected to {self._address}. {_NOT_AGAIN}"

    def open(self, intake: Intake) -> None:
        """Connect. A server that was never reached is not waited for."""
        self._intake = intake
        try:
            self._connect()
        except OSError as error:
            why = error.strerror or str(error)
            raise IngestError(f"{self._address} cannot be connected to: {why}", fix="nothing was sent") from error

    def ended(self, channel: Channel) -> None:
        """The server has closed the connection, or it was lost."""
        ran_s = time.monotonic() - (self._connected_at or 0.0)
        self._connected_at = None
        self.is_finished = self._once
        if not self._once:
            self._say(f"the connection to {self._address} has ended; connecting again {self._back_off.start(ran_s)}")

    def check(self) -> None:
        """Connect again when it is time."""
        if self._connected_at is not None or self.is_finished or not self._back_off.is_over:
            return
        try:
            self._connect()
            self._say(f"connected to {self._address} again")
        except OSError as error:
            why = error.strerror or str(error)
            self._say(f"{self._address} cannot be connected to: {why}; trying again {self._back_off.start(0.0)}")

    def close(self) -> None:
        """Connect no more."""
        self.is_finished = True

    def _connect(self) -> None:
        assert self._intake is not None
        connected = socket.create_connection((self._host, self._port), timeout=CONNECT_S)
        self._connected_at = time.monotonic()
        self._intake.add(IncomingLines(connected, f"connection to {self._address}"))


def _cannot_listen(address: str, port: int, error: OSError) -> IngestError:
    if error.errno == errno.EADDRINUSE:
        return IngestError(
            f"port {port} is in use", fix="use another port, or end the process that listens there; nothing was sent"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return IngestError(f"listening on {address} is not allowed", expected="a port from 1024 on")
    return IngestError(f"listening on {address} is not possible: {error.strerror or error}")
