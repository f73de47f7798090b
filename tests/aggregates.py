"""Aggregates for tests: the arguments to try, and three aggregates that only tests have.

`count_above`, `tally` and `newest_by` have a parameter, no argument, and several arguments with the order of events.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from headrace.aggregate import (
    MAX,
    SUM,
    Aggregate,
    Argument,
    Constant,
    Example,
    Merge,
    Parameter,
    Partial,
    PartialColumn,
)
from headrace.aggregate.signature import NUMBER, SINGLE
from headrace.language.terms import Expression
from headrace.types import BIGINT, INT, STRING, Type, struct


def argument_types(cls: type[Aggregate], types: Sequence[Type]) -> list[tuple[Type, ...]]:
    """Types of arguments that an aggregate accepts, so that each argument has each type at least once."""
    candidates: list[tuple[Type, ...]] = [()] if all(argument.optional for argument in cls.takes) else []
    for arguments in argument_counts(cls):
        places = [[of for of in types if argument.kind.takes(of)] for argument in arguments]
        most = max(map(len, places))
        candidates += [tuple(of[(n + place) % len(of)] for place, of in enumerate(places)) for n in range(most)]
    return [types_ for types_ in candidates if cls.refuse(expressions(types_), parameters(cls)[0]) is None]


def argument_counts(cls: type[Aggregate]) -> list[tuple[Argument, ...]]:
    """The arguments of a call, if there are some: one that repeats once, and twice."""
    repeats = cls.takes and cls.takes[-1].repeats
    return [takes for takes in (cls.takes, cls.arguments_of(len(cls.takes) + 1) if repeats else ()) if takes]


def parameters(cls: type[Aggregate]) -> list[tuple[Constant, ...]]:
    """Parameters to try, with and without those that are optional."""
    tried = list(product(*(constant.examples for constant in _required(cls))))
    if len(_required(cls)) < len(cls.constants):
        tried.append(tuple(constant.examples[0] for constant in cls.constants))
    return tried


def _required(cls: type[Aggregate]) -> list[Parameter]:
    return [parameter for parameter in cls.constants if not parameter.optional]


def expressions(types: Sequence[Type]) -> tuple[Expression, ...]:
    """Arguments of these types: the columns that `column` names."""
    return tuple(Expression.stored(column(of), of) for of in types)


def column(of: Type) -> str:
    """The name of a test column of a type."""
    return "x_" + str(of).lower().replace("(", "_").replace(",", "_").replace(")", "")


def every_aggregate(classes: Sequence[type[Aggregate]], types: Sequence[Type]) -> list[Aggregate]:
    """Each of the classes over the arguments and parameters to try."""
    return [
        cls(expressions(types_), None, constants)
        for cls in classes
        for types_ in argument_types(cls, types)
        for constants in parameters(cls)
    ]


def case_name(aggregate: Aggregate) -> str:
    """A test's id."""
    parts = [str(argument.type) for argument in aggregate.arguments] + [str(value) for value in aggregate.parameters]
    return "-".join([aggregate.name, *(parts or ["star"])])


class Tally(Aggregate):
    """tally(): how many events."""

    name = "tally"
    summary = "How many events."
    gives = "BIGINT"
    examples = (Example((), ((), ()), 2),)
    empty = 0
    type = BIGINT
    columns = (PartialColumn("", BIGINT, SUM),)

    def spark_columns(self) -> tuple[str, ...]:
        return (self.filtered("count(*)"),)

    def lift(self) -> Partial:
        return (1,)

    def present(self, partial: Partial) -> Any:
        return partial[0] or 0


class CountAbove(Aggregate):
    """count_above(x, limit): events whose x is above a limit."""

    name = "count_above"
    takes = (Argument("expression", NUMBER),)
    constants = (Parameter("limit", float, "a number", (0.0, 1.5)),)
    summary = "How many events have a number above a limit."
    gives = "BIGINT"
    examples = (Example((INT,), ((1,), (2,), (None,)), 1, (1.5,)),)
    empty = 0
    type = BIGINT
    columns = (PartialColumn("", BIGINT, SUM),)

    def spark_columns(self, x: str) -> tuple[str, ...]:
        return (self.filtered(f"count_if({x} > {self.parameters[0]}D)"),)

    def lift(self, x: Any) -> Partial:
        return (int(x is not None and x > self.parameters[0]),)

    def present(self, partial: Partial) -> Any:
        return partial[0] or 0


def _rank(value: dict[str, Any]) -> tuple[Any, ...]:
    return value["by"], value["time"], value["position"]


class NewestBy(Aggregate):
    """newest_by(x, y): the x of the event with the greatest y; of several the newest, then the last of the log."""

    name = "newest_by"
    takes = (Argument("value", SINGLE), Argument("by", SINGLE))
    summary = "The value of the event with the greatest other value."
    gives = "the type of the value"
    ordered = True
    examples = (
        Example((STRING, INT), (("a", 1, 10, 3), ("b", 2, 10, 1), ("c", 2, 10, 2), ("d", None, 10, 4)), "c"),
        Example((STRING, INT), (("a", 1, 11, 1), ("b", 1, 10, 2)), "a"),
    )
    largest = Merge("largest", lambda a, b: max(a, b, key=_rank), MAX.sql, MAX.fold)

    @property
    def type(self) -> Type:
        return self.arguments[0].type

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        of = struct(("by", self.arguments[1].type), ("time", BIGINT), ("position", BIGINT), ("value", self.type))
        return (PartialColumn("", of, self.largest),)

    def spark_columns(self, value: str, by: str, time: str, position: str) -> tuple[str, ...]:
        row = f"named_struct('by', {by}, 'time', {time}, 'position', {position}, 'value', {value})"
        return (self.filtered(f"max(CASE WHEN {by} IS NOT NULL THEN {row} END)"),)

    def lift(self, value: Any, by: Any, time: int, position: int) -> Partial:
        return (None if by is None else {"by": by, "time": time, "position": position, "value": value},)

    def present(self, partial: Partial) -> Any:
        return partial[0] and partial[0]["value"]


TEST_ONLY: tuple[type[Aggregate], ...] = (Tally, CountAbove, NewestBy)
