"""Reads CREATE ALERT: a SELECT over a view with its condition, or the absence of events."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import DefinitionError
from headrace.language.expressions import read_expression
from headrace.language.identifiers import read_declared_name
from headrace.language.literals import read_duration
from headrace.language.source_text import QUOTED, WORD, SourceText
from headrace.language.statements.with_options import WrittenOption, read_options, sees_options
from headrace.language.syntax import Node, SelectItem, Star
from headrace.language.token_cursor import TokenCursor

_NOT_IN_ALERTS = ("GROUP", "HAVING", "ORDER", "LIMIT", "JOIN")


@dataclass(frozen=True)
class AlertStatement:
    """CREATE ALERT as it was written; one for absence has no `where` and no `items`."""

    source: SourceText
    at: int
    name: str
    reads: str
    reads_at: int
    items: tuple[SelectItem, ...]
    where: Node | None
    for_ms: int
    absent_ms: int | None
    options: tuple[WrittenOption, ...]
    on_close: bool
    mistakes: tuple[DefinitionError, ...] = ()


def read_alert(cursor: TokenCursor, start: int) -> AlertStatement:
    """Read what follows CREATE ALERT."""
    name = read_declared_name(cursor, "alert")
    items: list[SelectItem] = []
    where: Node | None = None
    absent_ms: int | None = None
    if cursor.accept("ON"):
        if not (cursor.accept("STREAM") or cursor.accept("VIEW")):
            cursor.accept("MATERIALIZED", "VIEW")
        reads = cursor.expect_name("a stream or a view")
        cursor.expect("WHEN", "the name")
        if not cursor.accept("ABSENT") and not cursor.accept("NO", "EVENTS"):
            raise cursor.unexpected("NO EVENTS or ABSENT after WHEN")
        cursor.expect("FOR", "WHEN NO EVENTS")
        absent_ms = read_duration(cursor)
    else:
        cursor.expect("AS", f"CREATE ALERT {name.text}")
        cursor.expect("SELECT", "AS")
        items = _read_items(cursor)
        cursor.expect("FROM", "the columns")
        reads = cursor.expect_name("a view")
        where = _read_condition(cursor, name.text)
    for_ms, options, on_close = _read_clauses(cursor, name.text, absent=absent_ms is not None)
    return AlertStatement(
        cursor.source, name.start, name.text, reads.text, reads.start, tuple(items), where, for_ms, absent_ms,
        tuple(options), on_close, tuple(cursor.mistakes.errors),
    )  # fmt: skip


def _read_clauses(cursor: TokenCursor, name: str, *, absent: bool) -> tuple[int, list[WrittenOption], bool]:
    """Read FOR, WITH and EMIT, in any order."""
    for_ms, on_close = 0, False
    options: list[WrittenOption] = []
    clauses: set[str] = set()
    while not cursor.at_end():
        word, at = cursor.next.upper, cursor.next.start
        if word in clauses:
            raise cursor.error(at, f"alert '{name}' has two {word} clauses", fix="keep one")
        clauses.add(word)
        if sees_options(cursor):
            options = read_options(cursor)
        elif not absent and cursor.accept("FOR"):
            for_ms = read_duration(cursor)
        elif not absent and cursor.accept("EMIT", "ON", "WINDOW", "CLOSE"):
            on_close = True
        elif absent or not cursor.accept("EMIT", "CHANGES"):
            raise cursor.unexpected("WITH (…) or ';'" if absent else "FOR, WITH (…), EMIT ON WINDOW CLOSE or ';'")
    return for_ms, options, on_close


def _read_items(cursor: TokenCursor) -> list[SelectItem]:
    """Read the items of SELECT; none for `*`."""
    if cursor.accept_symbol("*"):
        return []
    items = [_read_item(cursor)]
    while cursor.accept_symbol(","):
        items.append(_read_item(cursor))
    return [] if len(items) == 1 and isinstance(items[0].node, Star) else items


def _read_item(cursor: TokenCursor) -> SelectItem:
    node = read_expression(cursor)
    if cursor.accept("AS") or (cursor.next.kind in (WORD, QUOTED) and not cursor.sees("FROM")):
        return SelectItem(node, cursor.expect_name("a column").text)
    return SelectItem(node, None)


def _read_condition(cursor: TokenCursor, name: str) -> Node:
    if cursor.next.upper in _NOT_IN_ALERTS:
        raise cursor.error(
            cursor.next.start, f"alert '{name}': {cursor.next.upper} belongs to a view",
            fix="make a materialized view of the query; an alert has WHERE over its columns",
        )  # fmt: skip
    cursor.expect("WHERE", "the view")
    return read_expression(cursor)
