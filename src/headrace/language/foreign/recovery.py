"""The second pass of a statement: with what other systems write, and without the parts that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from headrace.errors import DefinitionError
from headrace.language.foreign.foreign_syntax import ForeignSyntax
from headrace.language.source_text import END, QUOTED, SYMBOL, WORD, Token, each
from headrace.language.statements.create_view import ViewStatement

if TYPE_CHECKING:
    from headrace.language.statements import Declared
    from headrace.language.token_cursor import TokenCursor

MOST_RECOVERIES = 8  # broken parts of a statement that are left out
_CLAUSES = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT")


def read_again(
    cursor: TokenCursor,
    read: Callable[[TokenCursor], Declared[Any]],
    errors: list[DefinitionError],
) -> list[Declared[Any]]:
    """Read a statement with what other systems write; its mistakes are added to `errors`."""
    start = cursor.index
    cursor.foreign = ForeignSyntax()
    try:
        return [read(cursor)]
    except DefinitionError as e:
        mistakes = [*cursor.mistakes.errors, *each(e)]
        rest = _without_broken_parts(cursor, start, mistakes, read)
        while cursor.next.kind != END and not cursor.accept_symbol(";"):
            cursor.take()
        unreadable = [token.error for token in cursor.tokens[start : cursor.index] if token.error]
        for mistake in (*mistakes, *unreadable):
            mistake.of = cursor.declaring
        errors += mistakes
        return rest
    finally:
        cursor.foreign = None


def _without_broken_parts(
    cursor: TokenCursor,
    start: int,
    mistakes: list[DefinitionError],
    read: Callable[[TokenCursor], Declared[Any]],
) -> list[Declared[Any]]:
    """Return the view of a statement without the parts that could not be read; their mistakes are added."""
    tokens, place = cursor.tokens, cursor.index
    end = next(i for i in range(place, len(tokens)) if tokens[i].kind == END or tokens[i].text == ";")
    statement, after = tokens[start:end], tokens[end:]
    words: set[str] = set()
    rest: list[Declared[Any]] = []
    for _ in range(MOST_RECOVERIES):
        part = broken_part(statement, cursor.index - start)
        if part is None:
            break
        words |= {statement[i].text.lower() for i in part if statement[i].kind in (WORD, QUOTED)}
        statement = [token for i, token in enumerate(statement) if i not in part]
        cursor.tokens, cursor.index = [*tokens[:start], *statement, *after], start
        cursor.foreign = ForeignSyntax()
        try:
            rest = [read(cursor)]
            break
        except DefinitionError as error:
            mistakes += [*cursor.mistakes.errors, *each(error)]
    cursor.tokens, cursor.index = tokens, place
    return [
        replace(one, definition=replace(one.definition, left_out=frozenset(words)))
        for one in rest
        if isinstance(one.definition, ViewStatement)
    ]


def broken_part(tokens: Sequence[Token], at: int) -> range | None:
    """Return the tokens of the part of a view's statement that has the mistake at this token: an item or a clause.

    None if the statement cannot be read without it, as its name, SELECT or FROM.
    """
    if sum(token.upper == "SELECT" for token in tokens) > 1:
        return None  # the parts of a query in another one
    select = next((i for i, token in enumerate(tokens) if token.upper == "SELECT"), len(tokens))
    source = _find_from(tokens, select)
    if not select < at or source is None:
        return None
    if at <= source:
        return _item(tokens, range(select + 1, source), at)  # FROM itself: the last item is broken
    clauses = [i for i in range(source + 1, len(tokens)) if _begins_clause(tokens, i)] + [len(tokens)]
    for start, end in pairwise(clauses):
        if start < at <= end:
            if tokens[start].upper == "GROUP" and start + 2 < end:
                return _item(tokens, range(start + 2, end), at) or range(start, end)
            return range(start, end)
    return None


def _find_from(tokens: Sequence[Token], select: int) -> int | None:
    """Find FROM of the query, not that of EXTRACT(HOUR FROM at); where a parenthesis is not closed, the last FROM."""
    depth, last = 0, None
    for i in range(select + 1, len(tokens)):
        depth = max(0, depth + _step(tokens[i]))
        if _begins_clause(tokens, i) and tokens[i].upper != "ORDER" and not depth:
            break
        if tokens[i].upper == "GROUP" and _begins_clause(tokens, i):
            break
        if tokens[i].upper == "FROM":
            last = i
            if depth == 0:
                return i
    return last


def _item(tokens: Sequence[Token], items: range, at: int) -> range | None:
    """Find the item of a list that has this token, with a comma beside it; None if it is the only one."""
    depth, commas = 0, [items.start - 1]
    for i in items:
        depth = max(0, depth + _step(tokens[i]))
        if tokens[i].kind == SYMBOL and tokens[i].text == "," and depth == 0:
            commas.append(i)
    commas.append(items.stop)
    for before, after in pairwise(commas):
        if before < at <= after:
            if before >= items.start:
                return range(before, after)
            return range(before + 1, after + 1) if after < items.stop else None
    return None


def _begins_clause(tokens: Sequence[Token], i: int) -> bool:
    word = tokens[i].upper
    needs_by = word in ("GROUP", "ORDER")
    return word in _CLAUSES and not (needs_by and (i + 1 == len(tokens) or tokens[i + 1].upper != "BY"))


def _step(token: Token) -> int:
    return {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0) if token.kind == SYMBOL else 0
