"""The protocol of what accepts events, its replies and tokens. Clients import it without the parsers of events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from headrace.format import Shown
from headrace.name_encoding import decode_name, encode_name
from headrace.transport.position import Position

if TYPE_CHECKING:
    from concurrent.futures import Future

    from headrace.ingest.formats.format_detection import FileLayout
    from headrace.transport.sent_files import FilePiece


@dataclass(frozen=True)
class IngestReply:
    """The reply to an ingest request. Use the token to wait until every view has the events."""

    accepted: int
    refused: list[dict[str, Any]]
    token: str

    def as_dict(self) -> dict[str, Any]:
        return {"accepted": self.accepted, "refused": self.refused, "token": self.token}


@dataclass(frozen=True)
class TokenState:
    """Return whether every serving view has the events of a token."""

    complete: bool
    stalled: list[str]

    def as_dict(self) -> dict[str, Any]:
        return {"complete": self.complete, "stalled": self.stalled}


@dataclass(frozen=True)
class SentContent(Shown):
    """A content that was sent under the name of a file: up to which mark, and how many events."""

    mark: str
    first: str
    events: int
    token: str
    arrived: str


@dataclass(frozen=True)
class SameContent(Shown):
    """A content that was sent under another name and begins with the same event."""

    name: str
    mark: str
    first: str
    events: int
    token: str
    arrived: str

    @classmethod
    def of(cls, name: str, content: SentContent) -> Self:
        """The content of this name."""
        return cls(name, **vars(content))


@dataclass(frozen=True)
class SentStatus(Shown):
    """The part of a file that was sent to a stream. Each piece that is stored under its name changes the version."""

    holds: ClassVar[Mapping[str, type[Shown]]] = {"contents": SentContent, "same": SameContent}

    version: int
    contents: tuple[SentContent, ...]  # the newest last
    same: tuple[SameContent, ...]


class Receiver(Protocol):
    """The receiver of pieces: a server in this process or another, or the folder of a workspace."""

    def ingest(
        self,
        stream: str,
        body: bytes | memoryview,
        *,
        layout: FileLayout,
        key: str | None,
        keep_bad: bool,
        file: FilePiece | None,
    ) -> Future[IngestReply]:
        """Accept a piece."""

    def sent(self, stream: str, name: str, first: str) -> SentStatus:
        """The part of a file that was sent."""

    def give_up(self) -> None:
        """Stop retrying."""

    def sent_on_disk(self, stream: str, name: str) -> dict[str, int] | None:
        """The number of stored events of a file, by mark, from the journal of a lost server; None if not known."""


def make_token(stream: str, position: Position) -> str:
    """A token for all events of a stream up to a position."""
    return f"{encode_name(stream)}.{position.to_text()}"


def read_token(token: str) -> tuple[str, Position] | None:
    """The stream and position of a token; None if it is not a token."""
    stream, _, position = token.rpartition(".")
    try:
        return (decode_name(stream), Position.from_text(position)) if stream else None
    except ValueError:
        return None


def merge_tokens(token: str, other: str) -> str:
    """The token for all that two tokens of a stream cover; an empty token covers nothing."""
    one, two = read_token(token), read_token(other)
    if one is None or two is None:
        return other if one is None else token
    return make_token(one[0], one[1].merge(two[1]))
