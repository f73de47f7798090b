"""The fast parser: all events at once, column by column. If it cannot decide one of them, it returns no result.

The second parser (`event_verdict.py`) accepts all that this one accepts, with the same values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from headrace.define.model import Field
from headrace.duckdb_connections import literal
from headrace.engine.duckdb_session import DuckdbSession
from headrace.language.paths import Steps
from headrace.lazy import duckdb
from headrace.parse.block_checks import beyond_limits, is_utf8, is_valid
from headrace.parse.frames import Frames, frame_lines
from headrace.parse.nested import plan_passes
from headrace.types import Type, arrow_type

_DATE_LENGTH = 10
_LARGE_BYTES = 1 << 20  # an event of this size with a MAP in it is read alone: DuckDB takes many times its memory


class Columnar:
    """Reads JSON objects into typed columns."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.schema = pa.schema([(field.name, arrow_type(field.type)) for field in fields])
        self._read = pa.schema([(field.name, _read_type(field.type)) for field in fields])
        self._passes = plan_passes([(field.steps, self._read.field(field.name)) for field in fields])
        self._able = all(_is_able(field) for field in fields)
        self._maps = [(f.name, Maps(f.steps, Columnar([Field("value", f.type.inner)]))) for f in fields if _is_map(f)]

    def read(self, frames: Frames) -> pa.Table | None:
        """The columns of all frames; None if the second parser must read some of them."""
        if not len(frames):
            return self.schema.empty_table()
        data = frames.data
        if not self._able or (data[frames.starts] != ord("{")).any() or (data[frames.ends - 1] != ord("}")).any():
            return None
        if self._maps and int((frames.ends - frames.starts).max()) > _LARGE_BYTES:
            return None
        block = data[int(frames.starts[0]) : int(frames.ends[-1])]
        # Undeclared fields are skipped unread, so their values must not change the verdict.
        if not is_utf8(block) or beyond_limits(frames):
            return None
        try:
            table = self._read_passes(block, len(frames))
            return None if table is None else self._with_types(table, frames)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

    def _read_passes(self, block: npt.NDArray[np.uint8], rows: int) -> pa.Table | None:
        columns: dict[str, pa.ChunkedArray] = {}
        for each in self._passes:
            table = _read_json(block, each.schema)
            if len(table) != rows:
                return None
            if each.schema == self._read:
                return table
            columns.update(each.columns(table))
        return pa.table([columns[name] for name in self._read.names], schema=self._read)

    def _with_types(self, table: pa.Table, frames: Frames) -> pa.Table | None:
        """The table with the types of the stream, if every value fits its type."""
        for name, maps in self._maps:
            column = maps.read(frames, table.column(name).is_null())
            if column is None:
                return None
            table = table.set_column(table.schema.get_field_index(name), self.schema.field(name), column)
        if self._read != self.schema:
            if not all(_has_dates_only(of, table.column(of.name)) for of in self.schema):
                return None
            table = table.cast(self.schema)
        return table if all(is_valid(leaf) for column in table.columns for leaf in _leaves(column)) else None


def _read_json(block: npt.NDArray[np.uint8], schema: pa.Schema) -> pa.Table:
    table = pj.read_json(
        pa.BufferReader(pa.py_buffer(block)),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    table.validate(full=True)
    return table


def _is_map(field: Field) -> bool:
    return field.type.name == "MAP"


def _is_able(field: Field) -> bool:
    """Return whether the columnar reader can read the field: MAPs only outermost, without DECIMALs in them."""
    of = field.type
    if of.name != "MAP":
        return not _has_map(of)
    return not _has_map(of.inner) and "DECIMAL" not in str(of) and all(isinstance(step, str) for step in field.steps)


def _has_map(of: Type) -> bool:
    return of.name == "MAP" or any(_has_map(part) for _, part in of.parts)


def _read_type(of: Type) -> pa.DataType:
    """The type for pyarrow, which reads a DATE only from integers, and no MAP."""
    match of.name:
        case "DATE":
            return pa.string()
        case "MAP":
            return pa.struct([])
        case "ARRAY":
            return pa.list_(_read_type(of.inner))
        case "STRUCT":
            return pa.struct([pa.field(name, _read_type(part)) for name, part in of.parts])
    return arrow_type(of)


def _leaves(array: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    """The arrays of single values inside of an array."""
    if isinstance(array, pa.ChunkedArray):
        for chunk in array.chunks:
            yield from _leaves(chunk)
    elif pa.types.is_list(array.type):
        yield from _leaves(array.values)
    elif pa.types.is_map(array.type):
        yield from _leaves(array.items)
    elif pa.types.is_struct(array.type):
        for index in range(array.type.num_fields):
            yield from _leaves(array.field(index))
    else:
        yield array


def _has_dates_only(of: pa.Field, column: pa.ChunkedArray) -> bool:
    """Return whether the texts for DATEs have the length of one; the cast checks the rest."""
    return all(
        pc.all(pc.equal(pc.binary_length(leaf), _DATE_LENGTH)).as_py() is not False
        for leaf, type_ in zip(_leaves(column), _leaf_types(of.type) * column.num_chunks, strict=True)
        if pa.types.is_date32(type_) and not pa.types.is_date32(leaf.type)
    )


def _leaf_types(of: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_list(of):
        return _leaf_types(of.value_type)
    if pa.types.is_map(of):
        return _leaf_types(of.item_type)
    if pa.types.is_struct(of):
        return [leaf for index in range(of.num_fields) for leaf in _leaf_types(of.field(index).type)]
    return [of]


class ValueReader(Protocol):
    """Reads the field `value` of JSON objects."""

    def read(self, frames: Frames) -> pa.Table | None: ...


class Maps:
    """Reads one field that is a MAP, in objects only."""

    def __init__(self, steps: Steps, values: ValueReader) -> None:
        pointer = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)
        self._pointer = literal(pointer)
        self._values = values
        self._session = DuckdbSession()

    def read(self, frames: Frames, missing: pa.ChunkedArray) -> pa.Array | None:
        """The MAPs of all frames, whose JSON is valid; None if the second parser must read some of them."""
        parts = self._cut(frames)
        if parts is None:
            return None
        keys, texts = parts
        offsets = keys.offsets
        if not offsets.equals(texts.offsets) or _has_twice(keys):
            return None
        values = self._read_values(texts.flatten())
        if values is None:
            return None
        return pa.MapArray.from_arrays(offsets, keys.flatten(), values, mask=missing.combine_chunks())

    def _cut(self, frames: Frames) -> tuple[pa.Array, pa.Array] | None:
        try:
            rows = self._session.query(
                "SELECT coalesce(json_keys(value), []) AS keys, "
                "CAST(coalesce(json_extract(value, '$.*'), []) AS VARCHAR[]) AS texts "
                f"FROM (SELECT json_extract(event, {self._pointer}) AS value FROM events)",
                events=pa.table({"event": frames.values().view(pa.string())}),
            )
        except duckdb.Error:
            return None
        keys, texts = (rows.column(name).combine_chunks() for name in ("keys", "texts"))
        return keys, texts

    def _read_values(self, texts: pa.Array) -> pa.Array | None:
        lines = pc.binary_join_element_wise('{"value":', texts, "}\n", "")
        size = pc.sum(pc.binary_length(lines)).as_py() or 0
        table = self._values.read(frame_lines(memoryview(lines.buffers()[2])[:size] if size else b""))
        return None if table is None or len(table) != len(texts) else table.column("value").combine_chunks()


def _has_twice(keys: pa.Array) -> bool:
    """Return whether an object has a key twice."""
    dictionary = keys.flatten().dictionary_encode()
    pairs = pc.list_parent_indices(keys).to_numpy().astype(np.int64) * max(len(dictionary.dictionary), 1)
    pairs += dictionary.indices.to_numpy()
    return len(np.unique(pairs)) != len(pairs)
