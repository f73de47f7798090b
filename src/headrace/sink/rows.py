"""The changes of a batch as Arrow; and events of a stream, which become Python objects only if one asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

import pyarrow as pa

from headrace.sink.base import COMMIT, OP, POSITION, VERSION, SinkBatch, SinkChange
from headrace.types import Type, arrow_type

if TYPE_CHECKING:
    from headrace.aggregate import Value

Columns = Sequence[tuple[str, Type]]


class EventRows(Sequence[SinkChange]):
    """Events of a stream. `events` has COMMIT and POSITION, then the fields."""

    def __init__(self, events: pa.Table, columns: Columns) -> None:
        self.events = events
        self._names = [name for name, _ in columns]
        self._changes: list[SinkChange] | None = None

    def __len__(self) -> int:
        return len(self.events)

    @overload
    def __getitem__(self, index: int) -> SinkChange: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SinkChange]: ...
    def __getitem__(self, index: int | slice) -> SinkChange | Sequence[SinkChange]:
        return self._all()[index]

    def __iter__(self) -> Iterator[SinkChange]:
        return iter(self._all())

    def _all(self) -> list[SinkChange]:
        if self._changes is None:
            commits, positions = (self.events.column(name).to_pylist() for name in (COMMIT, POSITION))
            rows: list[dict[str, Value]] = self.events.select(self._names).to_pylist(maps_as_pydicts="lossy")
            places = zip(rows, commits, positions, strict=True)
            self._changes = [SinkChange("upsert", row, 0, commit, position) for row, commit, position in places]
        return self._changes


def arrow_table(batch: SinkBatch, *, with_op: bool) -> pa.Table:
    """The changes as a table: `_op` if asked for, `_version`, `_commit` or `_commit`, `_position`, then the columns."""
    if isinstance(batch.changes, EventRows):
        return batch.changes.events.select([COMMIT, POSITION, *(name for name, _ in batch.columns)])
    changes = batch.changes
    arrays: dict[str, pa.Array] = {OP: pa.array([change.op for change in changes], pa.string())} if with_op else {}
    arrays[VERSION] = pa.array([change.version for change in changes], pa.int64())
    arrays[COMMIT] = pa.array([change.commit for change in changes], pa.int64())
    for name, of in batch.columns:
        arrays[name] = pa.array([change.row.get(name) for change in changes], arrow_type(of))
    return pa.table(arrays)
