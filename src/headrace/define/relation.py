"""Rows made from the events of base streams, one event at a time: filtered, projected, exploded, joined to tables.

A relation needs no memory, so that it is composed into the jobs of its readers and stored nowhere. It is inert: its
steps run by DuckDB in `engine/duckdb_relations.py`, by Spark in `engine/spark_relations.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from headrace.language.terms import Expression
from headrace.types import INT, Type

Reads = tuple[tuple[str, Type], ...]
JoinKind = Literal["inner", "left", "semi", "anti"]

# Beside the columns of rows, where an event can make several: their order among each other, as a list of numbers.
PLACE = "_place"


@dataclass(frozen=True)
class Filter:
    """Keeps the rows for which a condition is true."""

    condition: Expression


@dataclass(frozen=True)
class Project:
    """Makes rows of these columns and no others."""

    columns: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class Explode:
    """Makes a row of each element of an array or map, beside all columns of the row that it came from."""

    values: Expression  # of type ARRAY or MAP
    names: tuple[str, ...]  # of the element; of a map's key and value
    types: tuple[Type, ...]
    outer: bool = False  # whether a row without elements is kept, with NULL
    position: str | None = None  # the name of a column with the element's place, from 0 on


@dataclass(frozen=True)
class Map:
    """Adds the columns that a Python function of the workspace computes of Arrow arrays. A failure is a dead letter."""

    function: str  # as `language/user_functions.py` names it, with its digest
    arguments: tuple[Expression, ...]
    columns: Reads


@dataclass(frozen=True)
class TableLog:
    """Where the changes of a table are, and how they are made: a change of this changes the rows of a join."""

    stream: str  # the base stream whose lake has them
    key: Reads  # the columns of the primary key
    event_time: str | None  # the column by which the latest change is chosen; None: the time of arrival
    relation: Relation | None = None  # of a table AS SELECT; None: the events of the stream, which may delete rows


@dataclass(frozen=True)
class Join:
    """Adds columns of the row of a table that has the same key; a semi or anti join only chooses rows by it.

    The table is as it was at the commit of the event; with `as_of`, as it was at that time, as known at the commit.
    """

    table: str
    kind: JoinKind
    keys: tuple[tuple[Expression, str], ...]  # of the row, and the column of the table: its whole primary key
    log: TableLog
    columns: tuple[tuple[str, str, Type], ...] = ()  # the name in the row, and the column of the table with its type
    as_of: Expression | None = None
    condition: Expression | None = None  # over the row with these columns: which of the table's rows match
    keep_missing: bool = False  # of an inner join: whether events without a row are dead letters, to be replayed

    @property
    def reads(self) -> Reads:
        """The columns of the table that it needs: its key first."""
        return tuple(dict.fromkeys([*self.log.key, *((column, of) for _, column, of in self.columns)]))


@dataclass(frozen=True)
class SampleRows:
    """Keeps a share of the rows, chosen by a seeded hash of a key, or of the position of the event."""

    percent: float
    seed: int = 0
    keys: tuple[Expression, ...] = ()


RowStep = Filter | Project | Explode | Map | Join | SampleRows


def expressions_of(step: RowStep) -> tuple[Expression, ...]:
    """The expressions of a step, over the rows before it; the condition of a join is over the rows after it."""
    match step:
        case Filter():
            return (step.condition,)
        case Project():
            return tuple(of for _, of in step.columns)
        case Explode():
            return (step.values,)
        case Map():
            return step.arguments
        case Join():
            return (*(of for of, _ in step.keys), *filter(None, (step.as_of, step.condition)))
        case SampleRows():
            return step.keys


def types_after(types: Mapping[str, Type], step: RowStep) -> dict[str, Type]:
    """The columns after a step: an element has the name of an earlier column instead of it."""
    match step:
        case Project():
            return {name: of.type for name, of in step.columns}
        case Explode():
            position = {step.position: INT} if step.position else {}
            return {**types, **position, **dict(zip(step.names, step.types, strict=True))}
        case Map():
            return {**types, **dict(step.columns)}
        case Join() if step.kind in ("inner", "left"):
            return {**types, **{name: of for name, _, of in step.columns}}
    return dict(types)


@dataclass(frozen=True)
class Branch:
    """The rows that come from one base stream. A stream may have several branches."""

    stream: str
    reads: Reads  # the fields of the stream that it needs
    steps: tuple[RowStep, ...]
    patience_ms: int | None = None  # None: that of the stream
    own_time: bool = False  # whether its rows have another event time than the events, which then says what is settled

    @property
    def joins(self) -> tuple[Join, ...]:
        """Its joins to tables."""
        return tuple(step for step in self.steps if isinstance(step, Join))


@dataclass(frozen=True)
class Relation:
    """Rows of one shape. Every branch ends with the columns of `fields`."""

    branches: tuple[Branch, ...]
    fields: Reads
    event_time: str | None  # the field that holds it; None: the time of arrival

    @property
    def streams(self) -> tuple[str, ...]:
        """The base streams, each once."""
        return tuple(dict.fromkeys(branch.stream for branch in self.branches))

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that rows are joined to, each once."""
        return tuple(dict.fromkeys(join.table for branch in self.branches for join in branch.joins))

    @property
    def repeats(self) -> bool:
        """Return True if one event can make several rows."""
        exploded = any(isinstance(step, Explode) for branch in self.branches for step in branch.steps)
        return exploded or len(self.streams) < len(self.branches)

    @property
    def maps(self) -> tuple[Map, ...]:
        """Its calls of functions."""
        return tuple(step for branch in self.branches for step in branch.steps if isinstance(step, Map))

    def calling(self) -> Iterator[Expression | str]:
        """Yield what may call functions of a user: its expressions, and the names of those that are steps."""
        for step in (step for branch in self.branches for step in branch.steps):
            if isinstance(step, Map):
                yield step.function
            if isinstance(step, Join) and step.log.relation:
                yield from step.log.relation.calling()
            yield from expressions_of(step)

    @property
    def leaves_out(self) -> bool:
        """Return True if rows can be dead letters: a function fails for them, or a table does not have their key."""
        joins = (join for branch in self.branches for join in branch.joins)
        return bool(self.maps) or any(join.kind in ("inner", "semi") for join in joins)

    @property
    def by_position(self) -> bool:
        """Return True if rows are chosen by the positions of events."""
        steps = (step for branch in self.branches for step in branch.steps)
        return any(isinstance(step, SampleRows) and not step.keys for step in steps)

    @property
    def logs(self) -> tuple[str, ...]:
        """The streams that hold the changes of these tables, and of those that their own rows are joined to."""
        own = [join.log for branch in self.branches for join in branch.joins]
        names = ((log.stream, *(log.relation.logs if log.relation else ())) for log in own)
        return tuple(dict.fromkeys(name for each in names for name in each))

    def branches_of(self, stream: str) -> tuple[Branch, ...]:
        """The branches that read a base stream."""
        return tuple(branch for branch in self.branches if branch.stream == stream)

    def patience_of(self, stream: str, declared_ms: int) -> int:
        """The patience for the rows of a base stream, which itself declares this one."""
        of_branches = [branch.patience_ms for branch in self.branches_of(stream)]
        return max((declared_ms if each is None else each for each in of_branches), default=declared_ms)

    def has_own_time(self, stream: str) -> bool:
        """Return True if rows of a base stream are settled by their own event time, and not by that of the stream."""
        return any(branch.own_time for branch in self.branches_of(stream))

    def without_patience(self) -> Relation:
        """Return how the rows are made, whenever they are settled."""
        return replace(self, branches=tuple(replace(branch, patience_ms=None) for branch in self.branches))

    def reads_of(self, stream: str) -> Reads:
        """The fields of a base stream that it needs."""
        return tuple(dict.fromkeys(read for branch in self.branches_of(stream) for read in branch.reads))
