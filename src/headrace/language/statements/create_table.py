"""Reads CREATE TABLE: columns with a primary key, or PRIMARY KEY (…) AS SELECT.

Without a primary key it is the table of other systems that is a stream here.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.language.identifiers import read_declared_name
from headrace.language.source_text import Token
from headrace.language.statements.create_stream import (
    DerivedStatement,
    StreamStatement,
    read_declared,
    read_defining_query,
    read_key_columns,
    read_only_watermark,
)
from headrace.language.token_cursor import TokenCursor


@dataclass(frozen=True)
class DerivedTable(DerivedStatement):
    """CREATE TABLE … PRIMARY KEY (…) AS SELECT as it was written."""

    key: tuple[Token, ...] = ()


def read_table(cursor: TokenCursor, start: int) -> StreamStatement | DerivedTable:
    """Read what follows CREATE TABLE."""
    created = cursor.tokens[cursor.index - 1]
    if _has_key_before_query(cursor):
        return _read_derived(cursor, start, created)
    return read_declared(cursor, created, "table")


def sees_table(cursor: TokenCursor) -> bool:
    """Return True before a TABLE with columns, or with a key and a query."""
    if not cursor.sees("TABLE"):
        return False
    index = cursor.index
    cursor.take()
    has_key = _has_key_before_query(cursor)
    cursor.accept("IF", "NOT", "EXISTS")
    declares = cursor.ahead(1).text == "("
    cursor.reset(index)
    return has_key or declares


def _has_key_before_query(cursor: TokenCursor) -> bool:
    """Return True if PRIMARY KEY stands between the name of the table and AS."""
    index = cursor.index
    cursor.accept("IF", "NOT", "EXISTS")
    cursor.take()
    if cursor.sees_symbol("(") and cursor.ahead(1).upper == "WATERMARK":
        cursor.skip_parentheses()
    has_key = cursor.sees("PRIMARY", "KEY")
    cursor.reset(index)
    return has_key


def _read_derived(cursor: TokenCursor, start: int, created: Token) -> DerivedTable:
    """Read name PRIMARY KEY (a, b) AS SELECT …."""
    name = read_declared_name(cursor, "table")
    watermark = read_only_watermark(cursor, name) if cursor.sees_symbol("(") else None
    cursor.expect("PRIMARY", f"CREATE TABLE {name.text}")
    cursor.expect("KEY", "PRIMARY")
    key = tuple(read_key_columns(cursor))
    query = read_defining_query(cursor, created, "table", f"PRIMARY KEY of table '{name.text}'")
    mistakes = tuple(cursor.mistakes.errors)
    outline = cursor.outline(start)
    return DerivedTable(cursor.source, name.start, name.text, query, watermark, mistakes, outline, key)
