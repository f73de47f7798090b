"""After a syntax error: the part of a view that it can be read without, so that its other mistakes are found too."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from headrace.language.source_text import SYMBOL, Token

_CLAUSES = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT")


def broken_part(tokens: Sequence[Token], at: int) -> range | None:
    """The tokens of the part of a view's statement that has the mistake at this token: an item or a clause.

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
    """FROM of the query, not that of EXTRACT(HOUR FROM at); where a parenthesis is not closed, the last FROM."""
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
    """The item of a list that has this token, with a comma beside it; None if it is the only one."""
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
