"""A query in Python, as written: `visits.where(…).select(…)` of a stream, and `….group_by(…).agg(…)` of a view."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from headrace.aggregate import Aggregate
from headrace.errors import DefinitionError, Location
from headrace.language.source_text import SourceText

_PACKAGE = str(Path(__file__).parent)


def caller() -> Location:
    """The place in the user's Python file that called into this package."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    line, _, column, _ = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    return Location(frame.f_code.co_filename, line or frame.f_lineno, (column or 0) + 1)


def source_of(text: object, what: str) -> SourceText:
    """A piece of SQL in a Python file, with its place."""
    if not isinstance(text, str):
        raise DefinitionError(f"{what} is a text", found=type(text).__name__, fix="write it in quotes", where=caller())
    return SourceText(text, at=caller())


@dataclass(frozen=True)
class Aggregation:
    """An aggregate as it was written: hr.sum("bytes", where="…")."""

    of: type[Aggregate]
    arguments: tuple[SourceText, ...]
    parameters: tuple[object, ...]
    where: SourceText | None
    at: Location


@dataclass(frozen=True)
class Conditions:
    """where(…), once or more."""

    sources: tuple[SourceText, ...]


@dataclass(frozen=True)
class SelectStep:
    """select(…), with_columns(…) or drop(…)."""

    kind: Literal["select", "with_columns", "drop"]
    columns: tuple[tuple[str | None, SourceText], ...]  # a name if one was given
    at: Location


@dataclass(frozen=True)
class Explosion:
    """explode(…)."""

    values: SourceText
    names: tuple[str, ...]
    outer: bool
    position: str | None
    at: Location


@dataclass(frozen=True)
class Union:
    """union(…)."""

    others: tuple[Any, ...]  # queries and streams
    at: Location


@dataclass(frozen=True)
class Sampling:
    """sample(…)."""

    percent: float
    keys: tuple[SourceText, ...]
    seed: int | None
    at: Location


@dataclass(frozen=True)
class Mapping:
    """map(…)."""

    function: str
    arguments: tuple[SourceText, ...]
    name: str | None
    at: Location


@dataclass(frozen=True)
class Joining:
    """join(…)."""

    table: Any  # the model's Table
    on: SourceText
    how: str
    as_of: SourceText | None
    alias: str | None
    at: Location


RowStep = Conditions | SelectStep | Explosion | Union | Sampling | Mapping | Joining
HOW = ("inner", "left", "semi", "anti")


class Queryable:
    """The methods of a stream and of a query that make rows of it, and those that begin the query of a view."""

    def where(self, condition: str) -> Query:
        """Only events for which the condition is true; several are joined by AND."""
        return self._query().where(condition)

    def group_by(self, *keys: Any, **keys_by_name: Any) -> Query:
        """Keys as texts, named ones by keyword, and at most one hr.window(…)."""
        return self._query().group_by(*keys, **keys_by_name)

    def agg(self, **columns: Aggregation | str) -> Query:
        """The columns: hits=hr.count(), bytes=hr.sum("bytes"), mean="bytes / hits", …"""
        return self._query().agg(**columns)

    def select(self, *columns: str, **columns_by_name: str) -> Query:
        """Rows of these columns: names, expressions, "*"; named expressions by keyword, as in secs="ms / 1000.0"."""
        return self._selection("select", columns, columns_by_name)

    def with_columns(self, **columns: str) -> Query:
        """The rows with further columns; one that has the name of a column replaces it."""
        return self._selection("with_columns", (), columns)

    def drop(self, *columns: str) -> Query:
        """The rows without these columns."""
        return self._selection("drop", columns, {})

    def explode(
        self, values: str, *, as_: str | Sequence[str] = (), outer: bool = False, position: str | None = None
    ) -> Query:
        """A row for each element of an array, named `as_`, or for each entry of a map, named `as_=("key", "value")`.

        With `outer` rows without elements are kept. `position` names a column with the element's place, from 0 on.
        """
        names = (as_,) if isinstance(as_, str) else tuple(as_)
        step = Explosion(source_of(values, "what is exploded"), names, outer, position, caller())
        return self._query().then(step)

    def union(self, *others: Queryable) -> Query:
        """These rows and those of other streams and queries; columns are matched by their place."""
        at = caller()
        for other in others:
            if not isinstance(other, Queryable):
                raise DefinitionError("union takes streams and queries of rows", found=type(other).__name__, where=at)
        return self._query().then(Union(tuple(other._query() for other in others), at))

    def sample(self, percent: float, *, by: str | Sequence[str] = (), seed: int | None = None) -> Query:
        """A share of the rows: of all events, or of the values of `by`. Views over it scale counts and sums."""
        at = caller()
        if isinstance(percent, bool) or not isinstance(percent, int | float):
            raise DefinitionError("sample takes a share in percent", found=repr(percent), expected="as in 10", where=at)
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
            raise DefinitionError("the seed of a sample is a whole number", found=repr(seed), where=at)
        keys = (by,) if isinstance(by, str) else tuple(by)
        return self._query().then(Sampling(float(percent), tuple(source_of(key, "a key") for key in keys), seed, at))

    def join(
        self, table: Any, *, on: str, how: str = "inner", as_of: str | None = None, alias: str | None = None
    ) -> Query:
        """The rows with the columns of the row of a table that has the same key, as it was at the commit of the event.

        `on` compares the whole primary key, as in "user_id = users.id"; a name alone is a column of both. `how` is
        "inner", "left", "semi" or "anti". With `as_of`, a time of the event, the table is as it was at that time.
        `alias` stands for its name in expressions: it is needed where a table is joined twice.
        """
        at = caller()
        if not isinstance(table, Queryable) or not hasattr(table, "key"):
            raise DefinitionError(
                "join takes a table", found=getattr(table, "name", None) or type(table).__name__,
                fix="make one with hr.Table(…); joins of two streams are not available yet", where=at,
            )  # fmt: skip
        if how not in HOW:
            raise DefinitionError("join: 'how' is not known", found=repr(how), expected=", ".join(HOW), where=at)
        time = None if as_of is None else source_of(as_of, "as_of")
        return self._query().then(Joining(table, source_of(on, "on"), how, time, alias, at))

    def map(self, function: Callable[..., Any] | str, *arguments: str, as_: str | None = None) -> Query:
        """The rows with what a function made by `hr.udf` computes of them: the columns that it gives.

        Its arguments are expressions; without any they are the columns that are named as the function's. A function
        that gives a single value makes one column, named `as_`, or as the function.
        """
        at = caller()
        name = function if isinstance(function, str) else getattr(function, "__name__", None)
        if name is None:
            raise DefinitionError("map takes a function", found=repr(function), fix="decorate one by @hr.udf", where=at)
        sources = tuple(source_of(argument, "an argument") for argument in arguments)
        return self._query().then(Mapping(name.lower(), sources, as_, at))

    def _selection(
        self, kind: Literal["select", "with_columns", "drop"], columns: Sequence[str], by_name: dict[str, str]
    ) -> Query:
        at = caller()
        if not columns and not by_name:
            raise DefinitionError(f"{kind} names no column", fix=f'write {kind}(…), as in {kind}("url")', where=at)
        items = [*((None, column) for column in columns), *by_name.items()]
        sources = tuple((name, source_of(column, "a column")) for name, column in items)
        return self._query().then(SelectStep(kind, sources, at))

    def _query(self) -> Query:
        return Query(self)


@dataclass(frozen=True, repr=False)
class Query(Queryable):
    """A query over a stream, as written; immutable: each method returns a new one."""

    stream: Any  # the model's Stream, which builds on this module
    steps: tuple[RowStep, ...] = ()  # what makes rows of its events, before the conditions
    conditions: tuple[SourceText, ...] = ()
    groups: tuple[tuple[str | None, Any, Location], ...] = ()  # name if given, a Source or a Window, place
    columns: tuple[tuple[str, Aggregation | SourceText], ...] = ()  # an aggregate, or an expression over aggregates
    having_conditions: tuple[SourceText, ...] = ()
    order: tuple[SourceText, ...] = ()
    most_rows: tuple[int, Location] | None = None

    def __repr__(self) -> str:
        conditions = " AND ".join(condition.text for condition in self.conditions)
        columns = ", ".join(name for name, _ in self.columns)
        return f"query over {self.stream.name}{conditions and f' where {conditions}'}{columns and f' ({columns})'}"

    def then(self, step: RowStep) -> Query:
        """The query with a step that makes other rows."""
        if self.is_of_view:
            raise DefinitionError(
                "rows are made before they are grouped", fix="write group_by and agg last", where=caller()
            )
        conditions = (Conditions(self.conditions),) if self.conditions else ()
        return replace(self, steps=(*self.steps, *conditions, step), conditions=())

    @property
    def is_of_view(self) -> bool:
        """Return True if it groups rows or shapes answers, which a stream cannot."""
        return bool(self.groups or self.columns or self.having_conditions or self.order or self.most_rows)

    def _query(self) -> Query:
        return self

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
        """Return how many rows an answer has, unless the question says how many."""
        if not isinstance(rows, int) or isinstance(rows, bool):
            raise DefinitionError("limit takes a number of rows", found=repr(rows), where=caller())
        return replace(self, most_rows=(rows, caller()))


def _key(key: object) -> object:
    return source_of(key, "a key") if isinstance(key, str) else key
