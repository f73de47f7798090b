"""Aggregates that collect values: count(DISTINCT …), collect_set, collect_list, and a sample of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar

from headrace.aggregate.aggregate import Aggregate, Example, Partial, PartialColumn, Value
from headrace.aggregate.merges import bounded, bounded_sql
from headrace.aggregate.ordered import MOST, Chosen
from headrace.aggregate.signature import KEPT, SINGLE, Argument, Parameter
from headrace.lazy import pa, pc
from headrace.types import BIGINT, DOUBLE, INT, STRING, Type, array, struct

LIMIT = 10_000  # values that a set or a list keeps for a key and window; beyond it there is an error in that cell
SAMPLE_SEED = "headrace"
RANK_DIGITS = 16  # of the hash that orders a sample


class _Kept(Aggregate):
    """What sets and lists share: a sorted list of values; beyond the limit an empty one, which absorbs all others."""

    runs_in_duckdb = True
    distinct_values: ClassVar[bool]
    instead: ClassVar[str]  # what to write where there are too many values

    @property
    def item_type(self) -> Type:
        """The type of a kept value."""
        return self.argument.type

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", array(self.item_type), bounded(LIMIT, distinct=self.distinct_values)),)

    @property
    def failure(self) -> str | None:
        values = "different values" if self.distinct_values else "values"
        return f"{self.sql} has more than {LIMIT:,} {values}; use {self.instead.format(x=self.argument.sql)}"

    def _spark(self, gathered: str) -> tuple[str, ...]:
        """SQL for a partial from the aggregate that gathers the values, none of them NULL."""
        empty = f"slice({gathered}, 1, 0)"
        return (
            f"CASE WHEN size({gathered}) > {LIMIT} THEN {empty} "
            f"WHEN size({gathered}) > 0 THEN sort_array({gathered}) END",
        )

    def _duckdb(self, gathered: str) -> tuple[str, ...]:
        return (bounded_sql(gathered, LIMIT),)


class _Set(_Kept):
    distinct_values = True

    def spark_columns(self, *values: str) -> tuple[str, ...]:
        item = f"named_struct({_fields(values, ', ')})" if len(values) > 1 else self._plain(values[0], "0.0D")
        gathered = self.of_values(f"collect_set({item})", *values)
        # Spark keeps each NaN as a value of its own.
        return self._spark(f"array_distinct({gathered})" if self.item_type == DOUBLE else gathered)

    def duckdb_columns(self, *values: str) -> tuple[str, ...]:
        zero = "CAST(0 AS DOUBLE)"
        item = f"{{{_fields(values, ': ')}}}" if len(values) > 1 else self._plain(values[0], zero)
        return self._duckdb(self.of_values(f"list(DISTINCT {item})", *values))

    def _plain(self, value: str, zero: str) -> str:
        return f"({value}) + {zero}" if self.item_type == DOUBLE else value  # -0.0 and 0.0 are one value

    def lift(self, *values: Value) -> Partial:
        if None in values:
            return (None,)
        if len(values) > 1:
            return ([{f"v{at}": each for at, each in enumerate(values)}],)
        return ([values[0] + 0.0 if isinstance(values[0], float) else values[0]],)


def _fields(values: Sequence[str], between: str) -> str:
    return ", ".join(f"'v{at}'{between}{value}" for at, value in enumerate(values))


class CountDistinct(_Set):
    """count(DISTINCT x, …): how many different values, exactly."""

    name = "count_distinct"
    distinct = "count_distinct"
    takes = (Argument("expression", SINGLE, repeats=True),)
    summary = (
        "The exact number of distinct values of an expression, or of several together. Events where one is NULL "
        f"are skipped. At most {LIMIT:,} for a key and window; use approx_count_distinct if there are more."
    )
    gives = "BIGINT"
    examples = (
        Example((STRING,), (("a",), (None,), ("b",), ("a",)), 2),
        Example((STRING, INT), (("a", 1), ("a", None), ("a", 2), ("a", 1)), 2),
    )
    empty = 0
    instead = "approx_count_distinct({x}), which has no limit"

    @classmethod
    def signatures(cls) -> tuple[str, ...]:
        return ("count(DISTINCT expression, …)",)

    @property
    def sql(self) -> str:
        call = f"count(DISTINCT {', '.join(argument.sql for argument in self.arguments)})"
        return f"{call} FILTER (WHERE {self.where})" if self.where else call

    @property
    def type(self) -> Type:
        return BIGINT

    @property
    def item_type(self) -> Type:
        if len(self.arguments) == 1:
            return self.argument.type
        return struct(*((f"v{at}", argument.type) for at, argument in enumerate(self.arguments)))

    def present(self, partial: Partial) -> Value:
        return 0 if partial[0] is None else len(partial[0]) or None

    def present_arrow(self, partials: Sequence[pa.Array]) -> pa.Array | None:
        lengths = pc.list_value_length(partials[0]).cast(pa.int64())
        known = pc.if_else(pc.equal(lengths, 0), pa.scalar(None, pa.int64()), lengths)
        return pc.if_else(partials[0].is_null(), 0, known)


class CollectSet(_Set):
    """collect_set(x): the different values, sorted."""

    name = "collect_set"
    distinct = "collect_set"
    takes = (Argument("expression", SINGLE),)
    summary = (
        "The distinct values of an expression as an array, sorted; NULL is skipped. "
        f"At most {LIMIT:,} for a key and window."
    )
    gives = "ARRAY of the type of the expression"
    examples = (
        Example((STRING,), (("b",), (None,), ("a",), ("b",)), ["a", "b"]),
        Example((INT,), ((None,),), []),
    )
    empty: ClassVar[Value] = []
    other_names = ("array_agg_distinct", "group_uniq_array")
    instead = "approx_count_distinct({x}) for their number, or sample({x}, 100) for some of them"

    @property
    def type(self) -> Type:
        return array(self.argument.type)

    def present(self, partial: Partial) -> Value:
        return [] if partial[0] is None else partial[0] or None


class CollectList(_Kept):
    """collect_list(x): all values in the order of events."""

    name = "collect_list"
    takes = (Argument("expression", KEPT),)
    summary = (
        "The values of an expression as an array, by event time, then position; NULL is skipped. "
        f"At most {LIMIT:,} for a key and window."
    )
    gives = "ARRAY of the type of the expression"
    examples = (
        Example((STRING,), (("b", 2, 1), (None, 2, 2), ("a", 1, 3), ("b", 3, 4)), ["a", "b", "b"]),
        Example((INT,), ((None, 1, 1),), []),
    )
    empty: ClassVar[Value] = []
    other_names = ("array_agg", "group_array")
    ordered = True
    distinct_values = False
    instead = "last({x}, 100) for the latest ones, or sample({x}, 100)"

    @classmethod
    def instead_of_distinct(cls, argument: str) -> str:
        return f"collect_set({argument})"

    @property
    def type(self) -> Type:
        return array(self.argument.type)

    @property
    def item_type(self) -> Type:
        return struct(*self.order, ("value", self.argument.type))

    def spark_columns(self, x: str, *order: str) -> tuple[str, ...]:
        fields = ", ".join(f"'{name}', {sql}" for name, sql in self._parts(x, order).items())
        return self._spark(self.of_values(f"collect_list(named_struct({fields}))", x))

    def duckdb_columns(self, x: str, *order: str) -> tuple[str, ...]:
        fields = ", ".join(f"'{name}': {sql}" for name, sql in self._parts(x, order).items())
        return self._duckdb(self.of_values(f"list({{{fields}}})", x))

    def lift(self, x: Value, *order: Value) -> Partial:
        return (None if x is None else [self._parts(x, order)],)

    def _parts(self, x: Value, order: Sequence[Value]) -> dict[str, Value]:
        return {**dict(zip((name for name, _ in self.order), order, strict=True)), "value": x}

    def present(self, partial: Partial) -> Value:
        if partial[0] is None:
            return []
        return [item["value"] for item in partial[0]] or None


class Sample(Chosen):
    """sample(x, n): those with the least hash of their position, which has no relation to their values."""

    name = "sample"
    takes = (Argument("expression", KEPT),)
    constants = (Parameter("n", int, f"a whole number from 1 to {MOST:,}", (2,)),)
    summary = (
        "A random sample of n values of an expression as an array, each event as likely as any other; NULL is "
        "skipped. Of the same events always the same."
    )
    gives = "ARRAY of the type of the expression"
    examples = (Example((INT,), ((7, 1, 1), (None, 1, 2), (8, 1, 3)), [7, 8], (5,)),)
    other_names = ("reservoir_sample", "group_array_sample")
    greatest = False

    @property
    def places(self) -> tuple[tuple[str, Type], ...]:
        return (("rank", STRING),)

    def _item(self, values: Sequence[str]) -> tuple[str, ...]:
        value, time, *place = values  # a list of numbers is written alike in both engines
        texts = ", ".join(f"CAST({number} AS STRING)" for number in place)
        rank = f"left(md5(concat('{SAMPLE_SEED}', {texts})), {RANK_DIGITS})"
        return (rank, time, *place, value)

    def _lifted(self, values: Sequence[Any]) -> tuple[Any, ...]:
        value, time, *place = values
        text = "".join(map(str, place))
        digest = hashlib.md5(f"{SAMPLE_SEED}{text}".encode(), usedforsecurity=False).hexdigest()
        return (None if value is None else digest[:RANK_DIGITS], time, *place, value)

    def _conditions(self, values: Sequence[str]) -> tuple[str, ...]:
        return (f"({values[0]}) IS NOT NULL",)
