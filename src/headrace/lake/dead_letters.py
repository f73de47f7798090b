"""Dead letters as values. Clients import them without the engines that read the lake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.format import Shown

DEFAULT_LIMIT = 20
MOST_LIMIT = 1000


@dataclass(frozen=True)
class DeadLetter(Shown):
    """An event that could not be parsed, and why."""

    position: int
    commit: int
    arrived: str
    reason: str
    value: str  # with bytes that are not UTF-8 escaped
    bytes: int  # of the whole event
    whole: bool  # whether `value` is all of it
    base64: str | None  # the exact bytes, if they are not UTF-8


@dataclass(frozen=True)
class DeadLetterPage(Shown):
    """Some dead letters of a stream, newest first. `next_cursor` is for the next page; None: this is the last one."""

    holds: ClassVar[Mapping[str, type[Shown]]] = {"dead_letters": DeadLetter}

    stream: str
    total: int
    dead_letters: tuple[DeadLetter, ...]
    next_cursor: int | None


@dataclass(frozen=True)
class DeadLetterReason(Shown):
    """A kind of reason (without values), how many dead letters have it, and the newest of them."""

    reason: str
    count: int
    newest: str  # the complete reason
    position: int


@dataclass(frozen=True)
class ReplayStep(Shown):
    """The result of one step. `cursor` is for the next step; None: all letters that existed at the start were read."""

    read: int
    readable: int
    left: int  # not read yet by this replay
    commits: int  # of the stream, after it: a view that has applied them all has the events
    cursor: str | None
    missing_keys: bool = False  # whether they are rows whose key a table did not have
    views: Mapping[str, int] = field(default_factory=dict)  # rebuilt with keys that were found: their new versions
