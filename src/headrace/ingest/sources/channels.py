"""Complete lines from channels in their order of arrival, and the pauses before a channel is started again."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from typing import Protocol

from headrace.ingest.formats.stored_lines import LONGEST_EVENT_BYTES

FIRST_S = 1.0
LONGEST_S = 60.0
RAN_LONG_S = 60.0


class BackOff:
    """The pause before the next attempt."""

    def __init__(self) -> None:
        self._pause_s = FIRST_S
        self._until = 0.0

    @property
    def is_over(self) -> bool:
        """Return whether it is time for the next attempt."""
        return time.monotonic() >= self._until

    def start(self, ran_s: float) -> str:
        """Begin a pause, after it has run for so long; returns the words for it."""
        if ran_s >= RAN_LONG_S:
            self._pause_s = FIRST_S
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_S)
        self._until = time.monotonic() + pause_s
        return f"in {pause_s:.0f} s"


READ_BYTES = 256 << 10  # of one channel before the next has its turn


class Channel(Protocol):
    """A source of lines that is read without blocking."""

    label: str

    def fileno(self) -> int:
        """The descriptor that a selector waits for."""

    def read(self, size: int) -> bytes:
        """Some bytes; none at the end. BlockingIOError: none so far. Another OSError: it was cut off."""

    def close(self) -> None:
        """Close the channel, whose lines are stored."""

    def abort(self) -> None:
        """Close the channel whose lines are not all stored."""


class Intake:
    """Reads channels. Their lines wait here until they are taken; a channel at its end waits for its lines."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._selector = selectors.DefaultSelector()
        self._rests: dict[Channel, bytes] = {}  # the incomplete line of each open channel
        self._wakers: dict[int, Callable[[], None]] = {}
        self._lines: list[bytes] = []
        self.waiting_bytes = 0
        self.since = 0.0  # when the oldest line arrived that was not taken
        self._ended: list[Channel] = []  # read to their ends; their lines are not stored yet

    @property
    def channels(self) -> int:
        """The number of open channels."""
        return len(self._rests)

    def add(self, channel: Channel) -> None:
        """Read a channel from now on."""
        self._rests[channel] = b""
        self._selector.register(channel.fileno(), selectors.EVENT_READ, channel)

    def wake(self, descriptor: int, call: Callable[[], None] | None) -> None:
        """Call a function when a descriptor is ready, such as that of a listening socket; None: no more."""
        if descriptor in self._wakers:
            self._selector.unregister(descriptor)
            del self._wakers[descriptor]
        if call:
            self._wakers[descriptor] = call
            self._selector.register(descriptor, selectors.EVENT_READ, call)

    def read(self, timeout_s: float) -> list[Channel]:
        """Wait until something can be read, and read some of each channel; returns those that have ended."""
        if not self._selector.get_map():
            time.sleep(timeout_s)
            return []
        ended = []
        for key, _ in self._selector.select(timeout_s):
            if key.fd in self._wakers:
                self._wakers[key.fd]()
            elif key.data in self._rests and self._read(key.data):
                ended.append(key.data)
        return ended

    def take(self) -> tuple[bytes, list[Channel]]:
        """The lines that wait, and the channels that have ended and are complete with them."""
        lines, self._lines, self.waiting_bytes = b"".join(self._lines), [], 0
        ended, self._ended = self._ended, []
        return lines, ended

    def close(self) -> None:
        """Cut off the channels that have not ended."""
        for channel in (*self._rests, *self._ended):
            channel.abort()
        self._rests.clear()
        self._selector.close()

    def _read(self, channel: Channel) -> bool:
        """Read some of a channel; whether it has ended."""
        try:
            block = channel.read(READ_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            lost = f"; {len(self._rests[channel]):,} bytes of an incomplete line are left out"
            self._say(f"{channel.label}: {error.strerror or error}{lost if self._rests[channel] else ''}")
            self._drop(channel)
            channel.abort()
            return True
        if not block:
            rest = self._rests[channel]
            self._put(rest + b"\n" if rest.strip() else b"")  # the last line needs no line end
            self._drop(channel)
            self._ended.append(channel)
            return True
        cut = block.rfind(b"\n") + 1
        if cut:
            self._put(self._rests[channel] + block[:cut])
            self._rests[channel] = block[cut:]
        else:
            self._rests[channel] += block
        if len(self._rests[channel]) <= LONGEST_EVENT_BYTES:
            return False
        self._say(f"{channel.label}: a line is longer than {LONGEST_EVENT_BYTES >> 20} MB: the connection is closed")
        self._drop(channel)
        channel.abort()
        return True

    def _put(self, lines: bytes) -> None:
        if not lines:
            return
        if not self._lines:
            self.since = time.monotonic()
        self._lines.append(lines)
        self.waiting_bytes += len(lines)

    def _drop(self, channel: Channel) -> None:
        self._selector.unregister(channel.fileno())
        del self._rests[channel]
