"""The changes of a batch as Arrow; and events of a stream, which become Python objects only if one asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.deliver.sinks.sink_writer import COMMIT, OP, POSITION, VERSION, SinkBatch, SinkChange
from headrace.serve.json_values import converter
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


def json_lines(batch: SinkBatch) -> list[bytes]:
    """Each change as a JSON object: its columns, and `_op`, `_version`, `_commit`; of an event its `_position`, too."""
    if isinstance(batch.changes, EventRows):
        return _event_lines(batch.changes.events, batch.columns)
    converters = [(name, converter(of)) for name, of in batch.columns]
    lines = []
    for change in batch.changes:
        row: dict[str, Any] = {}
        for name, convert in converters:
            if name in change.row:
                value = change.row[name]
                row[name] = value if value is None or convert is None else convert(value)
        row |= {OP: change.op, VERSION: change.version, COMMIT: change.commit}
        lines.append(orjson.dumps(row if change.position is None else {**row, POSITION: change.position}))
    return lines


def _event_lines(events: pa.Table, columns: Columns) -> list[bytes]:
    """The same for events, column by column: there are many of them."""
    values = [_json_values(events.column(name), of) for name, of in columns]
    places = [events.column(name).to_pylist() for name in (COMMIT, POSITION)]
    names = [*(name for name, _ in columns), COMMIT, POSITION]
    ends = {OP: "upsert", VERSION: 0}
    rows = zip(*values, *places, strict=True)
    return [orjson.dumps({**dict(zip(names, row, strict=True)), **ends}) for row in rows]


def _json_values(column: pa.ChunkedArray, of: Type) -> list[Any]:
    if of.name == "TIMESTAMP":
        # Without its zone, which is UTC: the text of a time with a zone takes ten times as long.
        texts = pc.replace_substring(column.cast(pa.timestamp("us")).cast(pa.string()), " ", "T")
        seconds = pc.replace_substring(texts, ".000000", "")
        return pc.binary_join_element_wise(seconds, "Z", "").to_pylist()
    convert = converter(of)
    if of.name == "DOUBLE" and pc.all(pc.is_finite(column)).as_py() is not False:
        convert = None
    values = column.to_pylist()
    if of.is_nested:  # a table has maps as dictionaries
        values = [row["value"] for row in pa.table({"value": column}).to_pylist(maps_as_pydicts="lossy")]
    return values if convert is None else [None if value is None else convert(value) for value in values]
