"""Reads CREATE SINK: the view or stream, then WHERE, WITH, FORMAT and EMIT, in any order."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import DefinitionError
from headrace.language.expressions import read_expression
from headrace.language.identifiers import read_declared_name
from headrace.language.source_text import SourceText
from headrace.language.statements.with_options import WrittenOption, read_options
from headrace.language.syntax import Node
from headrace.language.token_cursor import TokenCursor


@dataclass(frozen=True)
class SinkStatement:
    """CREATE SINK as it was written."""

    source: SourceText
    at: int
    name: str
    reads: str  # the name of a view or a stream
    reads_at: int
    where: Node | None
    options: tuple[WrittenOption, ...]
    format: str | None
    encode: str | None
    on_close: bool | None
    mistakes: tuple[DefinitionError, ...] = ()


def read_sink(cursor: TokenCursor, start: int) -> SinkStatement:
    """Read what follows CREATE SINK."""
    name = read_declared_name(cursor, "sink")
    if cursor.foreign:
        cursor.foreign.refuse_sink_of_query(cursor, name)
    cursor.expect("FROM", f"CREATE SINK {name.text}")
    reads = cursor.expect_name("a view or a stream")
    clauses: set[str] = set()
    where: Node | None = None
    options: list[WrittenOption] = []
    format_ = encode = None
    on_close: bool | None = None
    while not cursor.at_end():
        word, at = cursor.next.upper, cursor.next.start
        if word in clauses:
            raise cursor.error(at, f"sink '{name.text}' has two {word} clauses", fix="keep one")
        clauses.add(word)
        if cursor.accept("WHERE"):
            where = read_expression(cursor)
        elif cursor.sees("WITH"):
            options = read_options(cursor)
        elif cursor.accept("FORMAT"):
            format_, encode = _read_format(cursor)
        elif cursor.accept("EMIT"):
            on_close = _read_emit(cursor)
        else:
            raise cursor.unexpected("WHERE, WITH (…), FORMAT, EMIT or ';'")
    if "WITH" not in clauses:
        raise cursor.error(
            name.start, f"sink '{name.text}' names no connector",
            fix="add WITH (connector = 'kafka', …), or 'postgres', 'files' or 'http'",
        )  # fmt: skip
    return SinkStatement(
        cursor.source, name.start, name.text, reads.text, reads.start, where, tuple(options), format_, encode, on_close,
        tuple(cursor.mistakes.errors),
    )  # fmt: skip


def _read_format(cursor: TokenCursor) -> tuple[str | None, str | None]:
    """Read the mode and the encoding of FORMAT UPSERT ENCODE JSON."""
    format_ = None if cursor.sees("ENCODE") else cursor.expect_name("a format").text
    encode = cursor.expect_name("an encoding").text if cursor.accept("ENCODE") else None
    if format_ is not None and encode is None and format_.upper() in ("JSON", "PARQUET"):
        return None, format_  # FORMAT JSON
    return format_, encode


def _read_emit(cursor: TokenCursor) -> bool:
    """Return True for rows of closed windows only."""
    if cursor.accept("ON", "WINDOW", "CLOSE") or cursor.accept("FINAL"):
        return True
    if cursor.accept("CHANGES"):
        return False
    raise cursor.unexpected("ON WINDOW CLOSE or CHANGES after EMIT")
