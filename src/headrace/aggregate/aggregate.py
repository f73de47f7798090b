"""The base class of aggregates: a commutative monoid, with everything that other packages need of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from headrace.aggregate.merges import Merge, order_of
from headrace.aggregate.signature import Argument, Constant, Parameter
from headrace.language.terms import Expression
from headrace.lazy import pa
from headrace.types import BIGINT, INT, Type, array

Value = Any
Partial = tuple[Any, ...]  # one item per column of the aggregate; None is the identity of every merge


@dataclass(frozen=True)
class BatchOnly:
    """Of a column that only the batch layer fills, and that may be left out where it would take too much memory."""

    absent: str  # DuckDB's SQL for what stands in its place: whatever this is merged with, the result is the same
    bytes_per_event: int  # at most
    most_bytes: int  # of one value


@dataclass(frozen=True)
class PartialColumn:
    """A column that partials of an aggregate occupy in the store."""

    suffix: str  # "" for an aggregate with one column
    type: Type
    merge: Merge
    batch_only: BatchOnly | None = None


@dataclass(frozen=True)
class ArrowFunction:
    """A function for DuckDB that it does not have, over Arrow arrays."""

    name: str
    of: Type
    gives: Type
    run: Callable[[pa.Array], pa.Array]
    of_list: bool = False  # it takes lists of `of`
    of_null: bool = False  # it is called for NULL, and may give NULL for a value; else NULL in, NULL out


@dataclass(frozen=True)
class Example:
    """Events, each as the arguments of `lift`, and the value that is presented for them."""

    types: tuple[Type, ...]  # of the arguments
    events: tuple[tuple[Value, ...], ...]
    result: Value
    parameters: tuple[Constant, ...] = ()


@dataclass(frozen=True)
class Aggregate(ABC):
    """A summary that can be built in pieces, in any order, and merged. `where` is SQL's FILTER.

    A subclass with a `name`, in any module of this package, is an aggregate of SQL, of Python (`hr.name`) and of the
    reference pages, and the tests of all aggregates try it. Who calls what:

    - definitions: `name`, `takes`, `constants`, `refuse`, `distinct`, `instead_of_distinct`, `other_names`;
    - reference pages: `summary`, `gives`, `signatures`, `approximate`;
    - Spark jobs of both layers: `spark_sql`, `batch_sql`, and `ordered`, which decides what they read of the lake;
    - the fused lane of the speed layer: `duckdb_sql`, `prepares` and `lifts`;
    - a store: `columns` with their merges, `functions`, `subtract_columns`; the audit of the two layers: `agrees`;
    - answers: `type`, `present`, `present_arrow`, `failure`, `narrow_type`, `empty`, `approximate`, `is_exact`,
      `bound`;
    - tests: `lift`, `merge`, `subtract`, which are the reference for Spark and the store, and `examples`.
    """

    arguments: tuple[Expression, ...] = ()
    where: Expression | None = None
    parameters: tuple[Constant, ...] = ()
    placed: bool = False  # of one that is `ordered`: whether several rows can be made of one event; views decide it

    name: ClassVar[str]
    takes: ClassVar[tuple[Argument, ...]] = ()
    constants: ClassVar[tuple[Parameter, ...]] = ()
    summary: ClassVar[str]  # one sentence
    gives: ClassVar[str]  # the type of the result, in words
    examples: ClassVar[tuple[Example, ...]]
    distinct: ClassVar[str | None] = None  # the aggregate that name(DISTINCT …) is: itself where that changes nothing
    other_names: ClassVar[tuple[str, ...]] = ()  # in other systems; refused with the name to write
    approximate: ClassVar[str | None] = None  # the error bound in words, if it is approximate
    has_bounds: ClassVar[bool] = False  # whether `bound` states the error of each value
    may_be_exact: ClassVar[bool] = False  # whether some values of an approximate one are exact: `is_exact` says which
    empty: ClassVar[Value] = None  # what is presented where there is no event
    # Whether ties are broken by the order of events: `lift` and `spark_columns` then also take, after the arguments,
    # the event time in microseconds and the position in the log, which no two events of a stream share; and if it is
    # `placed`, the place of the row among those that were made of one event.
    ordered: ClassVar[bool] = False
    functions: ClassVar[tuple[Merge, ...]] = ()  # its merges whose `fold` is None
    internal: ClassVar[bool] = False  # whether definitions cannot call it: parts of the product make it
    runs_in_duckdb: ClassVar[bool] = False  # whether `duckdb_columns` is there; else Spark computes all its partials

    # Definitions and reference pages

    @classmethod
    def refuse(cls, arguments: Sequence[Expression], parameters: Sequence[Constant] = ()) -> str | None:
        """Why this aggregate cannot take these, and what to write instead; or None. Subclasses add reasons."""
        most = cls.most_arguments()
        if (most is not None and len(arguments) > most) or len(parameters) > len(cls.constants):
            return f"{cls.name} takes {cls.arity()}, found {len(arguments) + len(parameters)}"
        for index, argument in enumerate(cls.arguments_of(len(arguments))):
            rule = f"{cls.name} takes {argument.kind.words}"
            rule += f" as '{argument.name}'" if len(cls.takes) > 1 else ""
            if index < len(arguments):
                expression = arguments[index]
                if not argument.kind.takes(expression.type):
                    fix = argument.kind.advice(expression.type, expression.sql) or f"see {cls.signature()}"
                    return f"{rule}, found {expression.type} ({expression.sql}); {fix}"
            elif not argument.optional:
                return f"{rule}, found nothing; write {cls.signature()}"
        missing = next((each for each in cls.constants[len(parameters) :] if not each.optional), None)
        if missing is not None:
            return f"{cls.name} takes {missing.words} as '{missing.name}', found nothing; write {cls.signature()}"
        return None

    @classmethod
    def instead_of_distinct(cls, argument: str) -> str:
        """What to write instead of name(DISTINCT argument)."""
        return f"{cls.name}({argument}) without DISTINCT"

    @classmethod
    def signature(cls) -> str:
        """The call with all arguments and parameters that it needs, as in the documentation."""
        return cls._call([parameter.name for parameter in cls.constants if not parameter.optional])

    @classmethod
    def signatures(cls) -> tuple[str, ...]:
        """Each way to call it."""
        every = (f"{cls.name}(*)",) if cls.is_of_all_events() else ()
        names = [parameter.name for parameter in cls.constants]
        longer = [cls._call(names[: at + 1]) for at, parameter in enumerate(cls.constants) if parameter.optional]
        return (*every, cls.signature(), *longer)

    @classmethod
    def _call(cls, parameters: Sequence[str]) -> str:
        names = [f"{argument.name}, …" if argument.repeats else argument.name for argument in cls.takes]
        return f"{cls.name}({', '.join([*names, *parameters])})"

    @classmethod
    def most_arguments(cls) -> int | None:
        """How many arguments it takes at most; None: any number."""
        return None if cls.takes and cls.takes[-1].repeats else len(cls.takes)

    @classmethod
    def arguments_of(cls, count: int) -> tuple[Argument, ...]:
        """What each of so many arguments is, and those that are missing: the last one again if it repeats."""
        return cls.takes + cls.takes[-1:] * (count - len(cls.takes))

    @classmethod
    def is_of_all_events(cls) -> bool:
        """Whether name(*) has a meaning."""
        return bool(cls.takes) and cls.takes[0].optional

    @classmethod
    def arity(cls) -> str:
        """How many arguments and parameters it takes, in words."""
        if cls.most_arguments() is None:
            return "one or more arguments"
        count = len(cls.takes) + len(cls.constants)
        optional = sum(parameter.optional for parameter in cls.constants)
        if optional:
            return f"{count - optional} to {count} arguments"
        return {0: "no argument", 1: "one argument"}.get(count, f"{count} arguments")

    @property
    def sql(self) -> str:
        """The aggregate as in SELECT."""
        values = [expression.sql for expression in self.arguments] + [_literal(value) for value in self.parameters]
        call = f"{self.name}({', '.join(values) or '*' * self.is_of_all_events()})"
        return f"{call} FILTER (WHERE {self.where})" if self.where else call

    @property
    def argument(self) -> Expression:
        """The first argument of an aggregate that has one."""
        return self.arguments[0]

    # What is computed

    @property
    @abstractmethod
    def type(self) -> Type:
        """The type of the presented value."""

    @property
    @abstractmethod
    def columns(self) -> tuple[PartialColumn, ...]:
        """The columns of a partial."""

    @property
    def stored_as(self) -> Aggregate:
        """What names its columns in a store: aggregates with one and the same partial share them."""
        return self

    @property
    def zero(self) -> Partial:
        """The partial of no event: `merge(zero, p) == p`."""
        return (None,) * len(self.columns)

    @abstractmethod
    def spark_columns(self, *arguments: Any, **_: Any) -> tuple[str, ...]:
        """Spark SQL for each column: the merged partial of a group of events. Each argument is SQL."""

    @property
    def order(self) -> tuple[tuple[str, Type], ...]:
        """What orders events, of an aggregate that is `ordered`: names and types in its partials."""
        place = (("place", array(INT)),) if self.placed else ()
        return (("time", BIGINT), ("position", BIGINT), *place) if self.ordered else ()

    def placing(self, placed: bool) -> Self:
        """The same aggregate over rows of which several can be made of one event, or over events."""
        return replace(self, placed=placed and self.ordered)

    def spark_sql(self, *order: str) -> tuple[str, ...]:
        """`spark_columns` with its arguments; aggregates that are `ordered` also get SQL for the order of events.

        `order` is SQL for event time, position and, if there is one, place.
        """
        return self.spark_columns(*(expression.sql for expression in self.arguments), *order[: len(self.order)])

    def batch_columns(self, *arguments: Any, **_: Any) -> tuple[str, ...]:
        """`spark_columns` for the batch layer, of an aggregate with columns that only this layer fills."""
        return self.spark_columns(*arguments)

    def batch_sql(self, *order: str) -> tuple[str, ...]:
        """`batch_columns` with its arguments, as in `spark_sql`."""
        return self.batch_columns(*(expression.sql for expression in self.arguments), *order[: len(self.order)])

    def duckdb_columns(self, *arguments: Any, **_: Any) -> tuple[str, ...]:
        """`spark_columns` in DuckDB's SQL, of an aggregate that `runs_in_duckdb`. Each argument is SQL."""
        raise NotImplementedError(f"{self.name} does not run in DuckDB")

    def duckdb_sql(self, *order: str) -> tuple[str, ...]:
        """`duckdb_columns` with its arguments, as in `spark_sql`."""
        return self.duckdb_columns(*(expression.sql for expression in self.arguments), *order[: len(self.order)])

    @property
    def prepares(self) -> ArrowFunction | None:
        """What `duckdb_columns` takes instead of its argument: of a field it is computed once for all views."""
        return None

    @property
    def lifts(self) -> tuple[ArrowFunction, ...]:
        """The functions that `duckdb_columns` calls and DuckDB does not have."""
        return ()

    def filtered(self, sql_aggregate: str, *conditions: str) -> str:
        """The SQL aggregate over the events that satisfy `where` and these conditions."""
        every = [*([self.where.sql] if self.where else []), *conditions]
        joined = every[0] if len(every) == 1 else " AND ".join(f"({condition})" for condition in every)
        return f"{sql_aggregate} FILTER (WHERE {joined})" if every else sql_aggregate

    def of_values(self, sql_aggregate: str, *values: str) -> str:
        """The SQL aggregate over those of these events in which none of the values is NULL."""
        return self.filtered(sql_aggregate, *(f"({value}) IS NOT NULL" for value in values))

    def or_null(self, sql_aggregate: str, value: str) -> str:
        """The same in Spark's SQL, NULL without such an event: Spark would give the sketch of an empty set."""
        return f"CASE WHEN {self.of_values('count(*)', value)} > 0 THEN {self.of_values(sql_aggregate, value)} END"

    @abstractmethod
    def lift(self, *arguments: Any, **_: Any) -> Partial:
        """The partial of one event that satisfies `where`, from the values of its arguments (None is NULL)."""

    def merge(self, a: Partial, b: Partial) -> Partial:
        """The partial of both."""
        return tuple(
            y if x is None else x if y is None else column.merge.pair(x, y)
            for column, x, y in zip(self.columns, a, b, strict=True)
        )

    @property
    def subtracts(self) -> bool:
        """Whether `subtract` undoes a merge exactly."""
        return False

    def subtract(self, total: Partial, part: Partial) -> Partial:
        """The partial that gives `total` when it is merged with `part`."""
        raise NotImplementedError(f"{self.name} cannot subtract")

    def subtract_columns(self, total: Sequence[str], part: Sequence[str]) -> tuple[str, ...]:
        """`subtract` in DuckDB's SQL, for each column. What it takes is SQL for the columns of both."""
        raise NotImplementedError(f"{self.name} cannot subtract")

    def agrees(self, a: Partial, b: Partial) -> bool:
        """Whether two partials are equal within the aggregate's stated tolerance."""
        return bool(order_of(self.present(a)) == order_of(self.present(b)))

    # Answers

    @abstractmethod
    def present(self, partial: Partial) -> Value:
        """The value of a partial in an answer."""

    def is_exact(self, partial: Partial) -> bool:
        """Whether the value of a partial is exact."""
        return self.approximate is None

    def bound(self, partial: Partial) -> float | None:
        """How far the value of a partial is from the true one in 95 of 100 cases, at most; None: it is not known."""
        return None

    @property
    def failure(self) -> str | None:
        """Why `present` gives None, of an aggregate that does so only where there is no value: answers name it."""
        return None

    def present_arrow(self, partials: Sequence[pa.Array]) -> pa.Array | None:
        """The same for many rows at once, an array for each column of the partials; None: one by one."""
        return None

    @property
    def narrow_type(self) -> Type | None:
        """An integer type that answers use instead of `type` if all their values fit in it."""
        return None

    @property
    def spark_type(self) -> Type:
        """The type that an expression over this aggregate gives it: that of Spark's aggregate."""
        return self.narrow_type or self.type


class Plain(Aggregate):
    """An aggregate whose partial is its value."""

    def present(self, partial: Partial) -> Value:
        return partial[0]

    def present_arrow(self, partials: Sequence[pa.Array]) -> pa.Array | None:
        return partials[0]


def _literal(value: Constant) -> str:
    if isinstance(value, tuple):
        return f"array({', '.join(map(_literal, value))})"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value).upper() if isinstance(value, bool) else str(value)
