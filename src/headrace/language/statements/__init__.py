"""The statements of a definition file: one list, and how a text of them is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.errors import DefinitionError, Location
from headrace.language.source_text import END, Mistakes, SourceText, join
from headrace.language.statements.create_alert import AlertStatement, read_alert
from headrace.language.statements.create_sink import SinkStatement, read_sink
from headrace.language.statements.create_stream import DerivedStatement, StreamStatement, read_stream
from headrace.language.statements.create_table import read_table
from headrace.language.statements.create_view import LogicalStatement, ViewStatement, read_logical_view, read_view
from headrace.language.token_cursor import TokenCursor, foreign

T = TypeVar("T")
WrittenStatement = (
    StreamStatement | DerivedStatement | ViewStatement | LogicalStatement | SinkStatement | AlertStatement
)


@dataclass(frozen=True)
class Statement:
    """A kind of statement: the words after CREATE, and what reads the rest from the offset of CREATE on."""

    words: tuple[str, ...]
    read: Callable[[TokenCursor, int], WrittenStatement]
    is_synonym: bool = False


STATEMENTS = (
    Statement(("STREAM",), read_stream),
    Statement(("STREAMING", "TABLE"), read_stream, is_synonym=True),
    Statement(("TABLE",), read_table),
    Statement(("MATERIALIZED", "VIEW"), read_view),
    Statement(("VIEW",), read_logical_view),
    Statement(("SINK",), read_sink),
    Statement(("ALERT",), read_alert),
)
FIRST_WORDS = tuple(statement.words[0] for statement in STATEMENTS if not statement.is_synonym)
NAMES = tuple(" ".join(statement.words) for statement in STATEMENTS if not statement.is_synonym)


def listed(conjunction: str) -> str:
    """Return the names of all statements, as in "STREAM, TABLE or VIEW"."""
    return f"{', '.join(NAMES[:-1])} {conjunction} {NAMES[-1]}"


@dataclass(frozen=True)
class Declared(Generic[T]):
    """The definition that a statement declares, and its place."""

    definition: T
    where: Location


def read_statements(
    source: SourceText, define: Callable[[WrittenStatement], T], is_aggregate: Callable[[str], bool]
) -> tuple[list[Declared[T]], list[DefinitionError]]:
    """Read all statements of a text, and all mistakes: a mistake ends its statement, not the reading.

    `define` makes what a statement declares, or raises. A statement that is refused is read again with what other
    systems write, which knows what to write instead; `is_aggregate` tells the names of aggregates.
    """
    declared: list[Declared[T]] = []
    errors: list[DefinitionError] = []
    cursor = TokenCursor(source, errors, in_statement=True, is_aggregate=is_aggregate)

    def read(cursor: TokenCursor) -> Declared[T]:
        cursor.mistakes, cursor.declaring = Mistakes(), None
        start = cursor.next.start
        statement = _read_statement(cursor, start)
        if cursor.mistakes and not cursor.foreign:
            raise join(cursor.mistakes.errors)
        declared = Declared(define(statement), source.locate(start))
        if cursor.next.kind != END:
            cursor.expect_symbol(";", "the statement")
        return declared

    while cursor.next.kind != END:
        if cursor.accept_symbol(";"):
            continue
        start = cursor.index
        try:
            declared.append(read(cursor))
        except DefinitionError:
            cursor.reset(start)
            declared += foreign.read_again(cursor, read, errors)
    return declared, errors


def _read_statement(cursor: TokenCursor, start: int) -> WrittenStatement:
    """Read one statement, without its semicolon."""
    if cursor.foreign:
        cursor.foreign.read_before_create(cursor)
    cursor.expect("CREATE", "the statement before")
    if cursor.accept("OR") and not (cursor.accept("REPLACE") or cursor.accept("REFRESH")):
        raise cursor.unexpected("REPLACE or REFRESH after CREATE OR")
    if cursor.foreign and cursor.foreign.read_kind(cursor):
        read: Callable[[TokenCursor, int], WrittenStatement] = read_view
    else:
        read = next((each.read for each in STATEMENTS if cursor.accept(*each.words)), _read_unknown)
    return read(cursor, start)


def _read_unknown(cursor: TokenCursor, start: int) -> WrittenStatement:
    raise cursor.foreign.unknown_statement(cursor) if cursor.foreign else cursor.unexpected(listed("or"))
