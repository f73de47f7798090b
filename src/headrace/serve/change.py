"""A change of a view: a row that is new, other or gone; and a batch of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from headrace.format import iso
from headrace.serve.change_cursor import Cursor
from headrace.types import Type

if TYPE_CHECKING:
    from headrace.aggregate import Value

Row = tuple[Any, ...]
Columns = tuple[tuple[str, Type], ...]


@dataclass(frozen=True)
class Change:
    """A row that is new or other than it was, or one that is gone: then it has only what it is known by.

    The op restart, which only readers of a feed see, has no row: all that came before is void.
    """

    op: Literal["upsert", "delete", "restart"]
    row: Mapping[str, Value]  # keys, window_start, window_end, columns, settled
    version: int
    commit: int  # the tick of its values: of two changes of a row in one version the one with the higher is later
    cursor: str | None = None  # of the last change of a batch: a reader can continue behind it

    def with_cursor(self, cursor: str) -> Change:
        """The same as the last change of a batch."""
        return replace(self, cursor=cursor)

    def as_dict(self) -> dict[str, Any]:
        """As `headrace watch --json` shows it."""
        change: dict[str, Any] = {"op": self.op}
        if self.op != "restart":
            change["row"] = {name: _encode(value) for name, value in self.row.items()}
        return {**change, "version": self.version, "commit": self.commit, "cursor": self.cursor}


def row_of(columns: Columns, values: Row) -> dict[str, Value]:
    """A row by the names of its columns; one that is gone has only the first ones."""
    return {name: value for (name, _), value in zip(columns, values, strict=False)}


@dataclass(frozen=True)
class ChangeBatch:
    """Changes, and the cursor after them."""

    view: str
    columns: Columns
    keys: tuple[str, ...]  # what a row is known by: its keys, and its window if the view has windows
    upserts: Sequence[Row]  # in the order of columns
    deletes: Sequence[Row]  # only the first columns: keys and times
    cursor: Cursor
    version: int
    commit: int
    snapshot: bool = False  # rows of the present state, whether they have changed or not
    restarted: bool = False  # all that came before is void: replace it by what follows
    more: bool = False  # there is more to read at once
    first: bool = False  # the reader has had none of these rows before

    def __len__(self) -> int:
        return len(self.upserts) + len(self.deletes)

    @cached_property
    def changes(self) -> list[Change]:
        """Each change by itself; a row is never both in the deletes and in the upserts."""
        deleted = [Change("delete", row_of(self.columns, row), self.version, self.commit) for row in self.deletes]
        return deleted + [Change("upsert", row_of(self.columns, r), self.version, self.commit) for r in self.upserts]


def _encode(value: Any) -> Any:
    """A value as JSON has it; see `values`."""
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [_encode(each) for each in value]
    if isinstance(value, dict):
        return {name: _encode(each) for name, each in value.items()}
    return value
