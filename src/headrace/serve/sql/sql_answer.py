"""The answer to SQL over views: an Arrow table, and the freshness of the views that it was computed from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import Any, Literal

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregate import Value
from headrace.format import freshness, iso, plural
from headrace.html import value as shown
from headrace.serve.answer_html import ROWS, block, quiet
from headrace.serve.answer_html import table as html_table

YEARS_S = (-62_135_596_800, 253_402_300_799)  # the first and the last second, since 1970
DAY_S = 86_400
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000}  # nanoseconds in 64 bits stay within


def within_years(table: pa.Table) -> pa.Table:
    """The table, with NULL for each such value."""
    columns = [_chunked(column) if _holds_time(column.type) else column for column in table.columns]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _chunked(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([_within(chunk) for chunk in column.chunks], type=column.type)


def _holds_time(of: pa.DataType) -> bool:
    if pa.types.is_nested(of):
        return any(_holds_time(of.field(i).type) for i in range(of.num_fields))
    return _bounds(of) is not None


def _bounds(of: pa.DataType) -> tuple[int, int] | None:
    """The first and the last value within the years, as numbers."""
    first, last = YEARS_S
    if pa.types.is_date32(of):
        return first // DAY_S, last // DAY_S
    if pa.types.is_timestamp(of) and of.unit in UNITS:
        return first * UNITS[of.unit], (last + 1) * UNITS[of.unit] - 1
    return None


def _within(array: pa.Array) -> pa.Array:
    of = array.type
    if not _holds_time(of):
        return array
    if pa.types.is_struct(of):
        parts = [_within(part) for part in array.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(of), mask=array.is_null())
    if pa.types.is_map(of):
        lists = array.cast(pa.list_(pa.struct([of.key_field, of.item_field])))
        keys, items = (_within(part) for part in lists.flatten().flatten())
        return pa.MapArray.from_arrays(_offsets(lists), keys, items, type=of)
    if pa.types.is_nested(of):
        lists = array.cast(pa.list_(of.value_field))
        return pa.ListArray.from_arrays(_offsets(lists), _within(lists.flatten())).cast(of)
    first, last = _bounds(of) or (0, 0)
    number = array.cast(pa.int32() if pa.types.is_date32(of) else pa.int64())
    inside = pc.and_(pc.greater_equal(number, first), pc.less_equal(number, last))
    return pc.if_else(inside, array, pa.scalar(None, of))


def _offsets(lists: pa.Array) -> pa.Array:
    """The offset of each list in the flattened items; None for a list that is NULL."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_pylist()
    starts = zip(accumulate(lengths, initial=0), [*lists.is_valid().to_pylist(), True], strict=True)
    return pa.array([start if valid else None for start, valid in starts], pa.int32())


TYPE_NAMES = {
    "VARCHAR": "STRING",
    "INTEGER": "INT",
    "BLOB": "BINARY",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
    "TIMESTAMP": "TIMESTAMP_NTZ",
}
ARROW_STREAM = "application/vnd.apache.arrow.stream"
ALL_ROWS: Literal["all"] = "all"
SqlLimit = int | Literal["all"] | None  # maximum number of rows; None: the default limit
METADATA = b"headrace"  # key of the answer's metadata in the metadata of an Arrow schema


@dataclass(frozen=True)
class SqlAnswer:
    """The rows of a SELECT, with metadata."""

    columns: tuple[tuple[str, str], ...]  # name and type, as SQL writes it
    table: pa.Table
    truncated: bool  # there are more rows than the limit
    more_rows: int | None  # how many; None: not counted
    views: Mapping[
        str, Mapping[str, Any]
    ]  # those that were read: version, commits, freshness and what they approximate
    commits: Mapping[str, int]  # per stream, the number of its commits in all views that were read
    at: str
    freshness_ms: int | None
    freshness_reason: str | None
    took_ms: int

    def rows(self) -> list[dict[str, Value]]:
        """A dictionary per row."""
        return list(self.table.to_pylist())

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.table

    def pandas(self) -> Any:
        """The rows as a pandas data frame."""
        return self.table.to_pandas()

    def _repr_html_(self) -> str:
        """The first rows as a notebook shows them."""
        names = [name for name, _ in self.columns]
        first = self.table.slice(0, ROWS)
        rows = [list(map(shown, row)) for row in zip(*(column.to_pylist() for column in first.columns), strict=True)]
        numbers = [field.name for field in self.table.schema if pa.types.is_integer(field.type)]
        more = f"{plural(self.table.num_rows, 'row')}{' and more' if self.truncated else ''}"
        return block(
            html_table(names, rows, numbers), quiet(f"{more} · {freshness(self.freshness_ms, self.freshness_reason)}")
        )

    def as_dict(self) -> dict[str, Any]:
        """The answer as HTTP and `--json` show it."""
        names = [name for name, _ in self.columns]
        columns = [[_json_value(value) for value in column.to_pylist()] for column in self.table.columns]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return {"rows": rows, **self._metadata()}

    def as_arrow(self) -> bytes:
        """The answer as one Arrow stream; `from_arrow` is the inverse."""
        table = self.table.replace_schema_metadata({METADATA: orjson.dumps(self._metadata())})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return bytes(sink.getvalue())

    @classmethod
    def from_arrow(cls, content: bytes) -> SqlAnswer:
        """The answer from the output of `as_arrow`."""
        table = pa.ipc.open_stream(content).read_all()
        metadata = orjson.loads((table.schema.metadata or {})[METADATA])
        return cls(
            columns=tuple((column["name"], column["type"]) for column in metadata["columns"]),
            table=table.replace_schema_metadata(None),
            truncated=metadata["truncated"],
            more_rows=metadata["more_rows"],
            views=metadata["views"],
            commits=metadata["as_of"]["commits"],
            at=metadata["as_of"]["at"],
            freshness_ms=metadata["freshness_ms"],
            freshness_reason=metadata["freshness_reason"],
            took_ms=metadata["took_ms"],
        )

    def _metadata(self) -> dict[str, Any]:
        return {
            "columns": [{"name": name, "type": of} for name, of in self.columns],
            "truncated": self.truncated,
            "more_rows": self.more_rows,
            "as_of": {"commits": dict(self.commits), "at": self.at},
            "freshness_ms": self.freshness_ms,
            "freshness_reason": self.freshness_reason,
            "views": {name: dict(of) for name, of in self.views.items()},
            "took_ms": self.took_ms,
        }


def make_table(pieces: Sequence[pa.RecordBatch], schema: pa.Schema, types: Sequence[str]) -> tuple[pa.Table, list[str]]:
    """The result with unique column names and integers narrowed to BIGINT where all values fit; and its types."""
    table = within_years(pa.Table.from_batches(pieces, schema))
    names = _distinct(schema.names)
    columns, type_names = [], []
    for column, of in zip(table.columns, types, strict=True):
        if of in ("HUGEINT", "UHUGEINT", "UBIGINT"):
            column, of = _narrow(column)
        columns.append(column)
        type_names.append(TYPE_NAMES.get(of, of))
    return pa.Table.from_arrays(columns, names=names), type_names


def _narrow(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, str]:
    try:
        return column.cast(pa.int64()), "BIGINT"
    except pa.ArrowInvalid:
        return column, "DECIMAL(38,0)" if pa.types.is_decimal(column.type) else "UBIGINT"


def _distinct(names: Sequence[str]) -> list[str]:
    unique_names: dict[str, None] = {}
    for name in names:
        unique, number = name, 1
        while unique in unique_names:
            unique, number = f"{name}_{number}", number + 1
        unique_names[unique] = None
    return list(unique_names)


def _json_value(value: Any) -> Any:
    """Any SQL value as JSON; values without a JSON form become text."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if -(1 << 63) <= value < 1 << 63 else str(value)
        case float():
            return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case Decimal():
            return f"{value:f}"
        case datetime():
            return iso(value) if value.tzinfo else value.isoformat()
        case date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case bytes():
            return value.hex()
        case list() | tuple():
            return [_json_value(item) for item in value]
        case dict():
            return {str(name): _json_value(item) for name, item in value.items()}
        case _:
            return str(value)
