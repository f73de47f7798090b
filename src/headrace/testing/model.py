"""A test of definitions as it is written: events given, a question, and what is expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from headrace.errors import Location
from headrace.testing.document import Fields, Node, Text


@dataclass(frozen=True)
class Tolerance:
    """How far a number may be from the expected one: an amount, or a share of it."""

    amount: Decimal
    relative: bool = False


@dataclass(frozen=True)
class ExpectedLetter:
    """A dead letter: parts of its reason and, if given, of the event; and its stream."""

    reason: str
    event: str = ""
    stream: str | None = None

    def __str__(self) -> str:
        stream = f" of stream '{self.stream}'" if self.stream else ""
        event = f", event {self.event!r}" if self.event else ""
        return f"{self.reason!r}{event}{stream}"


@dataclass(frozen=True)
class Expected:
    """What a test expects. None: it says nothing about it, and then there must be no dead letter and no error."""

    rows: tuple[Fields, ...] | None = None
    ordered: bool = False  # rows come in this order
    exact: bool = False  # rows have no other columns than the expected ones
    tolerance: Mapping[str, Tolerance] | None = None  # by column; "" is every column
    dead_letters: tuple[ExpectedLetter, ...] | None = None
    corrections: int | None = None
    errors: tuple[str, ...] | None = None  # parts of the errors of the definitions or the question
    changes: Mapping[str, Text] | None = None  # what `plan` says of streams and views

    def tolerance_of(self, column: str) -> Tolerance | None:
        """That of a column, if one is given."""
        by_column = self.tolerance or {}
        return by_column.get(column, by_column.get(""))


@dataclass(frozen=True)
class DefinitionTest:
    """A test of a file."""

    name: str
    where: Location
    events: Mapping[str, tuple[Text, Node]]  # given, by stream: its name where it is written, and its events
    ask: Fields | Text | None
    definitions: Text | None  # SQL that is added to the definitions folder
    expected: Expected

    @property
    def id(self) -> str:
        """What it is selected by: its file and its name."""
        return f"{self.where.file}::{self.name}"
