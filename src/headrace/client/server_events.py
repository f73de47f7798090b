"""Server-sent events of a reply, as a client reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

EVENT_STREAM = "text/event-stream"


@dataclass
class ServerEvents:
    """Reads server-sent events line by line."""

    name: str = "message"
    id: str | None = None  # of the last one that had any
    _own_id: str | None = None
    _data: list[bytes] = field(default_factory=list)

    def read(self, lines: Iterator[bytes]) -> Iterator[tuple[str, str | None, bytes]]:
        """Name, own id and content of each event; one that has an id alone has no content."""
        for raw in lines:
            line = raw.rstrip(b"\r\n")
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if not line:
                if self._data or self._own_id is not None:
                    yield self.name, self._own_id, b"\n".join(self._data)
                self.name, self._own_id, self._data = "message", None, []
            elif name == b"event":
                self.name = value.decode()
            elif name == b"id":
                self.id = self._own_id = value.decode()
            elif name == b"data":
                self._data.append(value)
