"""A whole answer, read page by page.

Pages are read one after the other while the view is updated. Rows are ordered by window and key, and a page starts
after the last row of the previous one, so no row is duplicated, and none that existed all the time is missing. Each row
is as of its page: `commits` of the answer is the number of commits in all of its rows; later pages may have more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from headrace.errors import ConflictError
from headrace.serve.question import HIGHEST_LIMIT, Question

if TYPE_CHECKING:
    from headrace.serve.answer import Answer
    from headrace.types import Type

ATTEMPTS = 3

Row = tuple[Any, ...]


def read_whole(ask: Callable[[Question], Answer], question: Question, page_rows: int = HIGHEST_LIMIT) -> Answer:
    """All rows of a question; read again from the start if the view is edited meanwhile."""
    for _ in range(ATTEMPTS):
        pages = [ask(question)]  # without a limit of its own it ends where LIMIT of the view says
        try:
            while cursor := pages[-1].next_cursor:
                pages.append(ask(replace(question, limit=page_rows, cursor=cursor)))
        except ConflictError as error:
            conflict = error
            continue
        return join(pages)
    if pages[0].parts is not None:
        raise conflict  # of a logical view also the parts may have changed
    raise ConflictError(f"view '{question.view}' was edited {ATTEMPTS} times while its rows were read", fix="retry")


def join(pages: Sequence[Answer]) -> Answer:
    """Pages of one question as one answer. It is as fresh as the least fresh of them."""
    first, last = pages[0], pages[-1]
    if len(pages) == 1:
        return first
    stale = next((page for page in pages if page.freshness_ms is None), None)
    worst = stale or max(pages, key=lambda page: page.freshness_ms or 0)
    columns, values = _columns(pages)
    starts = accumulate((len(page.values) for page in pages), initial=0)
    placed = list(zip(pages, starts, strict=False))  # each with the place of its first row
    return replace(
        first,
        columns=columns,
        values=values,
        next_cursor=last.next_cursor,
        more_rows=last.more_rows,
        version=last.version,
        freshness_ms=worst.freshness_ms,
        freshness_reason=worst.freshness_reason,
        events={layer: sum(page.events[layer] for page in pages) for layer in first.events},
        corrections=sum(page.corrections for page in pages),
        stalled=last.stalled,
        approximate={name: error for page in pages for name, error in page.approximate.items()},
        errors=tuple(replace(error, row=start + error.row) for page, start in placed for error in page.errors),
        estimates={
            name: tuple(start + row for page, start in placed for row in page.estimates.get(name, ()))
            for name in dict.fromkeys(name for page in pages for name in page.estimates)
        },
        bounds={name: tuple(bound for page in pages for bound in page.bounds[name]) for name in first.bounds},
    )


def _columns(pages: Sequence[Answer]) -> tuple[tuple[tuple[str, Type], ...], list[Row]]:
    """Columns and rows of all pages. A sum of integers may be BIGINT on one page and DECIMAL on another, where a value
    is too large for BIGINT: then it is DECIMAL on all.
    """
    columns = list(pages[0].columns)
    for page in pages:
        columns = [of if of[1].name == "DECIMAL" else own for own, of in zip(columns, page.columns, strict=True)]
    values: list[Row] = []
    for page in pages:
        wide = {at for at, (own, of) in enumerate(zip(columns, page.columns, strict=True)) if own != of}
        values += [_widen(row, wide) for row in page.values] if wide else page.values
    return tuple(columns), values


def _widen(row: Row, wide: set[int]) -> Row:
    return tuple(Decimal(value) if at in wide and value is not None else value for at, value in enumerate(row))
