"""Who takes events in, and what they reply: values and tokens that clients use without the parts that read events."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from headrace.transport.position import Position

if TYPE_CHECKING:
    from headrace.ingest.formats.layout import Layout
    from headrace.transport.sent import FilePiece


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
    """Whether every serving view has the events of a token."""

    complete: bool
    stalled: list[str]

    def as_dict(self) -> dict[str, Any]:
        return {"complete": self.complete, "stalled": self.stalled}


class Receiver(Protocol):
    """Who takes the pieces: a server, near or far, or the folder of a workspace."""

    def ingest(
        self, stream: str, body: bytes, *, layout: Layout, key: str | None, keep_bad: bool, file: FilePiece | None
    ) -> Future[IngestReply]:
        """Take a piece in."""

    def sent(self, stream: str, name: str, first: str) -> dict[str, Any]:
        """How far a file was sent."""

    def give_up(self) -> None:
        """Try nothing again any more."""

    def sent_on_disk(self, stream: str, name: str) -> dict[str, int] | None:
        """How many events of a file are kept, by mark, as the journal of a dead server says; None if nobody knows."""


def make_token(stream: str, position: Position) -> str:
    """A token says: all of this stream up to this position."""
    return f"{stream}.{position.to_text()}"


def read_token(token: str) -> tuple[str, Position] | None:
    """The stream and position of a token; None if it is not a token."""
    stream, _, position = token.rpartition(".")
    try:
        return (stream, Position.from_text(position)) if stream else None
    except ValueError:
        return None


def merge_tokens(token: str, other: str) -> str:
    """The token that stands for both of two tokens of a stream; an empty one stands for nothing."""
    one, two = read_token(token), read_token(other)
    if one is None or two is None:
        return other if one is None else token
    return make_token(one[0], one[1].merge(two[1]))
