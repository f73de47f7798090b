"""Aggregates that choose values by order: min, max, any_value; by the order of events: first, last, min_by, max_by,
and the latest row of a table's key.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from headrace.aggregate.aggregate import Aggregate, Example, Partial, PartialColumn, Plain, Value
from headrace.aggregate.merges import GREATEST, LEAST, MAX, MIN, Merge, first_of
from headrace.aggregate.signature import KEPT, SINGLE, Argument, Constant, Parameter, whole
from headrace.language.terms import Expression
from headrace.lazy import pa, pc
from headrace.types import BOOLEAN, DOUBLE, INT, STRING, Type, array, struct

MOST = 1_000  # values that first, last, min_by, max_by and sample keep
N = Parameter("n", int, f"a whole number from 1 to {MOST:,}", (2,), optional=True)


class _Extreme(Plain):
    """What min and max share: one value, NULL and NaN skipped."""

    takes = (Argument("expression", SINGLE),)
    gives = "the type of the expression"
    runs_in_duckdb = True

    @property
    def type(self) -> Type:
        return self.argument.type

    def spark_columns(self, x: str) -> tuple[str, ...]:
        # NaN has no place in an order that every engine shares; + 0.0 makes -0.0 and 0.0 one value.
        value = f"nanvl({x}, NULL) + 0.0D" if self.type == DOUBLE else x
        return (self.filtered(f"{self.name}({value})"),)

    def duckdb_columns(self, x: str) -> tuple[str, ...]:
        value = f"CASE WHEN NOT isnan({x}) THEN {x} + CAST(0 AS DOUBLE) END" if self.type == DOUBLE else x
        return (self.filtered(f"{self.name}({value})"),)

    def lift(self, x: Value) -> Partial:
        if isinstance(x, float):
            return (None if math.isnan(x) else x + 0.0,)
        return (x,)


class Min(_Extreme):
    """min(x)."""

    name = "min"
    distinct = "min"
    summary = "The minimum of an expression."
    examples = (Example((INT,), ((2,), (None,), (-1,)), -1), Example((STRING,), ((None,),), None))

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", self.type, MIN),)


class Max(_Extreme):
    """max(x)."""

    name = "max"
    distinct = "max"
    summary = "The maximum of an expression."
    examples = (Example((INT,), ((2,), (None,), (-1,)), 2), Example((STRING,), ((None,),), None))

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", self.type, MAX),)


class AnyValue(Plain):
    """any_value(x): the least, which is one of them whatever the order of events; NULL skipped."""

    name = "any_value"
    distinct = "any_value"
    takes = (Argument("expression", SINGLE),)
    summary = "One of the non-NULL values of an expression; always the same value for the same events."
    gives = "the type of the expression"
    examples = (Example((STRING,), (("a",), (None,), ("a",)), "a"), Example((INT,), ((None,),), None))
    other_names = ("arbitrary",)
    runs_in_duckdb = True

    @property
    def type(self) -> Type:
        return self.argument.type

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", self.type, LEAST),)

    def spark_columns(self, x: str) -> tuple[str, ...]:
        return (self.filtered(f"min({x})"),)

    duckdb_columns = spark_columns

    def lift(self, x: Value) -> Partial:
        return (x,)


class Chosen(Aggregate):
    """The value of the first or the last event in an order, or with n an array of those of n events.

    A partial holds with each value its place in the order. Events that are equal in it are ordered by event time,
    then position: of those with the greatest place the last one is chosen, of those with the least the first one.
    Rows that were made of one event follow each other as they were made.
    """

    constants: ClassVar[tuple[Parameter, ...]] = (N,)
    gives = "the type of the value; with n an ARRAY of it"
    ordered = True
    runs_in_duckdb = True
    greatest: ClassVar[bool]

    @classmethod
    def refuse(cls, arguments: Sequence[Expression], parameters: Sequence[Constant] = ()) -> str | None:
        reason = super().refuse(arguments, parameters)
        if reason is None and parameters and not 1 <= whole(parameters[-1]) <= MOST:
            return f"{cls.name} takes {cls.constants[-1].words} as 'n', found {parameters[-1]}"
        return reason

    @property
    def count(self) -> int | None:
        """How many values; None: one, which is not in an array."""
        return whole(self.parameters[-1]) if self.parameters else None

    @property
    def type(self) -> Type:
        return self.argument.type if self.count is None else array(self.argument.type)

    @property
    def places(self) -> tuple[tuple[str, Type], ...]:
        """What events are ordered by, before time and position."""
        return ()

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        item = struct(*self.places, *self.order, ("value", self.argument.type))
        if self.count is None:
            merge: Merge = GREATEST if self.greatest else LEAST
            return (PartialColumn("", item, merge),)
        return (PartialColumn("", array(item), first_of(self.count, greatest=self.greatest)),)

    def spark_columns(self, *values: str) -> tuple[str, ...]:
        *order, value = self._item(values)
        parts = dict(zip(self._names(), order, strict=True))
        fields = ", ".join(f"'{name}', {sql}" for name, sql in (*parts.items(), ("value", value)))
        place = ", ".join(parts.values())
        function = "max_by" if self.greatest else "min_by"
        count = "" if self.count is None else f", {self.count}"
        aggregate = f"{function}(named_struct({fields}), struct({place}){count})"
        return (self.filtered(aggregate, *self._conditions(values)),)

    def duckdb_columns(self, *values: str) -> tuple[str, ...]:
        *order, value = self._item(values)
        parts = zip((*self._names(), "value"), (*order, value), strict=True)
        fields = ", ".join(f"'{name}': {sql}" for name, sql in parts)
        function, count = "max" if self.greatest else "min", "" if self.count is None else f", {self.count}"
        return (self.filtered(f"{function}({{{fields}}}{count})", *self._conditions(values)),)

    def lift(self, *values: Value) -> Partial:
        *order, value = self._lifted(values)
        if None in order[: len(self.places)]:
            return (None,)
        item = {**dict(zip(self._names(), order, strict=True)), "value": value}
        return (item,) if self.count is None else ([item],)

    def _item(self, values: Sequence[str]) -> tuple[str, ...]:
        """SQL for the parts of a partial, from what `spark_columns` is given."""
        value, *order = values
        return (*order, value)

    def _names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in (*self.places, *self.order))

    def _lifted(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The same of values."""
        return self._item(values)

    def _conditions(self, values: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"({by}) IS NOT NULL" for by in values[1 : -len(self.order)])

    def present(self, partial: Partial) -> Value:
        if partial[0] is None:
            return None
        return partial[0]["value"] if self.count is None else [item["value"] for item in partial[0]]

    def present_arrow(self, partials: Sequence[pa.Array]) -> pa.Array | None:
        return value_of(partials[0])


def value_of(items: pa.Array) -> pa.Array:
    """The field `value` of each struct, or of each struct in lists."""
    if pa.types.is_struct(items.type):
        return pc.struct_field(items, "value")
    lengths = pc.fill_null(pc.list_value_length(items), 0).cast(pa.int32())
    ends = pc.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    values = pc.struct_field(pc.list_flatten(items), "value")
    return pa.ListArray.from_arrays(offsets, values, mask=items.is_null())


class _ByTime(Chosen):
    takes = (Argument("expression", KEPT),)


class First(_ByTime):
    """first(x): of the earliest event, NULL or not."""

    name = "first"
    summary = (
        "The value of an expression in the earliest event by event time, then position, NULL or not; "
        "with n an array of the n earliest, in that order."
    )
    greatest = False
    examples = (
        Example((STRING,), (("b", 2, 1), ("a", 1, 3), (None, 1, 4)), "a"),
        Example((INT,), ((7, 2, 1), (8, 1, 3), (None, 1, 4)), [8, None], (2,)),
    )
    other_names = ("first_value", "earliest_by_offset")


class Last(_ByTime):
    """last(x): of the latest event, NULL or not."""

    name = "last"
    summary = (
        "The value of an expression in the latest event by event time, then position, NULL or not; "
        "with n an array of the n latest, the latest first."
    )
    greatest = True
    examples = (
        Example((STRING,), (("b", 2, 1), ("a", 1, 3), ("c", 2, 2)), "c"),
        Example((INT,), ((7, 2, 1), (8, 1, 3), (None, 1, 4)), [7, None], (2,)),
    )
    other_names = ("last_value", "latest", "latest_by_offset")


class _By(Chosen):
    takes = (Argument("value", KEPT), Argument("by", SINGLE))

    @property
    def places(self) -> tuple[tuple[str, Type], ...]:
        return (("by", self.arguments[1].type),)


class MinBy(_By):
    """min_by(x, y)."""

    name = "min_by"
    summary = (
        "The value of the event with the least `by`, or of the earliest one if there are several; NULL in `by` is "
        "skipped. With n an array of n values, the least first."
    )
    greatest = False
    examples = (
        Example((STRING, INT), (("a", 2, 1, 1), ("b", 1, 2, 2), ("c", 1, 2, 3), ("d", None, 0, 4)), "b"),
        Example((STRING, INT), (("a", 2, 1, 1), ("b", 1, 2, 2), (None, 1, 2, 3)), ["b", None], (2,)),
    )
    other_names = ("arg_min", "argmin")


class MaxBy(_By):
    """max_by(x, y)."""

    name = "max_by"
    summary = (
        "The value of the event with the greatest `by`, or of the latest one if there are several; NULL in `by` is "
        "skipped. With n an array of n values, the greatest first."
    )
    greatest = True
    examples = (
        Example((STRING, INT), (("a", 1, 1, 1), ("b", 2, 2, 2), ("c", 2, 2, 3), ("d", None, 9, 4)), "c"),
        Example((STRING, INT), (("a", 1, 1, 1), ("b", 2, 2, 2), (None, 2, 2, 3)), [None, "b"], (2,)),
    )
    other_names = ("arg_max", "argmax")


DELETED = "deleted"


class LatestRow(Chosen):
    """latest_row(a, b, …, deleted): its arguments in the latest event; NULL if `deleted` is true in it.

    All of them come from one event, so that no row mixes two.
    """

    name = "latest_row"
    internal = True
    takes = (Argument("expression", KEPT, repeats=True),)
    constants = ()
    summary = "The values of several expressions in the latest event by event time, then position."
    gives = "a STRUCT of c0, c1, … and deleted"
    greatest = True
    examples = (
        Example((STRING, BOOLEAN), (("b", None, 2, 1), ("a", None, 1, 3)), {"c0": "b", "deleted": None}),
        Example((INT, BOOLEAN), ((1, False, 1, 1), (None, False, 2, 2)), {"c0": None, "deleted": False}),
        Example((STRING, BOOLEAN), (("b", None, 1, 1), (None, True, 2, 3)), None),
    )

    @property
    def names(self) -> tuple[str, ...]:
        """The field of the struct that holds each argument."""
        return (*(f"c{at}" for at in range(len(self.arguments) - 1)), DELETED)

    @property
    def type(self) -> Type:
        return struct(*((name, each.type) for name, each in zip(self.names, self.arguments, strict=True)))

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        item = struct(*self.order, ("value", self.type))
        return (PartialColumn("", item, GREATEST),)

    def spark_columns(self, *values: str) -> tuple[str, ...]:
        row, order = self._split(values)
        fields = ", ".join(f"'{name}', {sql}" for name, sql in zip(self.names, row, strict=True))
        return super().spark_columns(f"named_struct({fields})", *order)

    def duckdb_columns(self, *values: str) -> tuple[str, ...]:
        row, order = self._split(values)
        fields = ", ".join(f"'{name}': {sql}" for name, sql in zip(self.names, row, strict=True))
        return super().duckdb_columns(f"{{{fields}}}", *order)

    def lift(self, *values: Value) -> Partial:
        row, order = self._split(values)
        return super().lift(dict(zip(self.names, row, strict=True)), *order)

    def _split(self, values: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        """The values of the row, and what orders it."""
        return values[: len(self.arguments)], values[len(self.arguments) :]

    def present(self, partial: Partial) -> Value:
        row = super().present(partial)
        return None if row is None or row[DELETED] is True else row

    def present_arrow(self, partials: Sequence[pa.Array]) -> pa.Array | None:
        rows = value_of(partials[0])
        deleted = pc.struct_field(rows, DELETED)
        if not pa.types.is_boolean(deleted.type):
            return rows
        return pc.if_else(pc.fill_null(deleted, False), pa.scalar(None, rows.type), rows)
