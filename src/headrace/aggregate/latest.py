"""The latest row of a key, which tables keep. Definitions cannot call it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.aggregate.base import Example, Partial, PartialColumn, Value
from headrace.aggregate.merges import GREATEST
from headrace.aggregate.ordered import Chosen, value_of
from headrace.aggregate.signature import KEPT, Argument
from headrace.types import BOOLEAN, INT, STRING, Type, struct

if TYPE_CHECKING:
    import pyarrow as pa

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
        # They take 0.1 s to import: not for definitions.
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = value_of(partials[0])
        deleted = pc.struct_field(rows, DELETED)
        if not pa.types.is_boolean(deleted.type):
            return rows
        return pc.if_else(pc.fill_null(deleted, False), pa.scalar(None, rows.type), rows)
