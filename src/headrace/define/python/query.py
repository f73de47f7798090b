"""The query of a view in Python, as written: `visits.where(…).group_by(…).agg(…)`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from headrace.aggregate import Aggregate
from headrace.define.tokens import Source
from headrace.errors import DefinitionError, Location

_PACKAGE = str(Path(__file__).parent)


def caller() -> Location:
    """The place in the user's Python file that called into this package."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    line, _, column, _ = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    return Location(frame.f_code.co_filename, line or frame.f_lineno, (column or 0) + 1)


def source_of(text: object, what: str) -> Source:
    """A piece of SQL in a Python file, with its place."""
    if not isinstance(text, str):
        raise DefinitionError(f"{what} is a text", found=type(text).__name__, fix="write it in quotes", where=caller())
    return Source(text, at=caller())


@dataclass(frozen=True)
class Aggregation:
    """An aggregate as it was written: hr.sum("bytes", where="…")."""

    of: type[Aggregate]
    arguments: tuple[Source, ...]
    parameters: tuple[object, ...]
    where: Source | None
    at: Location


@dataclass(frozen=True)
class Query:
    """A query over a stream, as written; immutable: each method returns a new one."""

    stream: Any  # the model's Stream, which builds on this module
    conditions: tuple[Source, ...] = ()
    groups: tuple[tuple[str | None, Any, Location], ...] = ()  # name if given, a Source or a Window, place
    columns: tuple[tuple[str, Aggregation | Source], ...] = ()  # an aggregate, or an expression over aggregates
    having_conditions: tuple[Source, ...] = ()
    order: tuple[Source, ...] = ()
    most_rows: tuple[int, Location] | None = None

    def where(self, condition: str) -> Query:
        """Only events for which the condition is true; several are joined by AND."""
        return replace(self, conditions=(*self.conditions, source_of(condition, "a condition")))

    def group_by(self, *keys: Any, **keys_by_name: Any) -> Query:
        """Keys as texts, named ones by keyword, and at most one hr.window(…)."""
        at = caller()
        groups = [(None, _key(key), at) for key in keys] + [(name, _key(key), at) for name, key in keys_by_name.items()]
        return replace(self, groups=(*self.groups, *groups))

    def agg(self, **columns: Aggregation | str) -> Query:
        """The columns: hits=hr.count(), bytes=hr.sum("bytes"), mean="bytes / hits", …"""
        for name, column in columns.items():
            if not isinstance(column, Aggregation | str):
                raise DefinitionError(
                    f"the column '{name}' is not an aggregate",
                    found=repr(column),
                    fix=f'write {name}=hr.count() or {name}=hr.sum("…")',
                    where=caller(),
                )
        written = {name: source_of(of, "a column") if isinstance(of, str) else of for name, of in columns.items()}
        return replace(self, columns=(*self.columns, *written.items()))

    def having(self, condition: str) -> Query:
        """Only rows for which the condition is true, in answers; several are joined by AND."""
        return replace(self, having_conditions=(*self.having_conditions, source_of(condition, "a condition")))

    def order_by(self, *items: str) -> Query:
        """The order of rows in answers: "hits DESC", "page", …"""
        return replace(self, order=(*self.order, *(source_of(item, "an item of the order") for item in items)))

    def limit(self, rows: int) -> Query:
        """How many rows an answer has, unless the question says how many."""
        if not isinstance(rows, int) or isinstance(rows, bool):
            raise DefinitionError("limit takes a number of rows", found=repr(rows), where=caller())
        return replace(self, most_rows=(rows, caller()))


class Queryable:
    """The methods of a stream that begin a query."""

    def where(self, condition: str) -> Query:
        """Only events for which the condition is true."""
        return Query(self).where(condition)

    def group_by(self, *keys: Any, **keys_by_name: Any) -> Query:
        """Keys as texts, named ones by keyword, and at most one hr.window(…)."""
        return Query(self).group_by(*keys, **keys_by_name)

    def agg(self, **columns: Aggregation | str) -> Query:
        """The columns of a view over all events."""
        return Query(self).agg(**columns)


def _key(key: object) -> object:
    return source_of(key, "a key") if isinstance(key, str) else key
