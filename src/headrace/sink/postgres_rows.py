"""The rows of a batch as COPY of PostgreSQL takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import xxhash
from psycopg import sql

from headrace.sink.base import SinkBatch
from headrace.sink.encode import KeyEncoder, json_text
from headrace.sink.postgres_table import Shape
from headrace.types import Type

NUL, NUL_SYMBOL = "\0", "\u2400"  # PostgreSQL refuses U+0000 in text; U+2400 is the picture of it


class Rows:
    """The rows of a batch as COPY takes them; of several changes of one row only the last counts."""

    def __init__(self, batch: SinkBatch, shape: Shape) -> None:
        self.shape = shape
        self.names = [name for name, _ in shape.types]
        self.values: list[list[Any]] = []
        self.deleted: list[str] = []  # keys
        convert = [(name, _converter(of)) for name, of in batch.columns]
        if shape.keyed:
            encode = KeyEncoder(batch.columns, batch.keys)
            for key, change in {row_key(encode(change.row)): change for change in batch.changes}.items():
                if change.op == "delete":
                    self.deleted.append(key)
                else:
                    self.values.append([*_values(change.row, convert), key, change.version, change.commit])
            return
        for change in batch.changes:
            if change.op == "upsert":
                place = (change.version, change.commit) if batch.keys else (change.commit, change.position)
                self.values.append([*_values(change.row, convert), *place])

    @property
    def quoted(self) -> sql.Composed:
        """The names of the columns."""
        return sql.SQL(", ").join(map(sql.Identifier, self.names))

    @property
    def declared(self) -> sql.Composed:
        """The columns with their types."""
        columns = self.shape.types
        return sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(n), sql.SQL(of)) for n, of in columns)


def row_key(key: bytes) -> str:
    """What tells a row from others, a UUID: keys may be NULL, and longer than an entry of an index may be."""
    return xxhash.xxh3_128_hexdigest(key)


Convert = Callable[[Any], Any]


def _values(row: Mapping[str, Any], convert: Sequence[tuple[str, Convert | None]]) -> list[Any]:
    values = []
    for name, function in convert:
        value = row[name]
        values.append(value if value is None or function is None else function(value))
    return values


def _converter(of: Type) -> Convert | None:
    """What makes a value of ours one that PostgreSQL takes; None: it is one."""
    if of.name == "STRING":
        return _without_nul
    if of.name == "ARRAY" and not of.inner.is_nested:
        if of.inner.name != "STRING":
            return None
        return lambda items: [None if item is None else _without_nul(item) for item in items]
    return json_text(of, NUL_SYMBOL) if of.is_nested else None


def _without_nul(text: str) -> str:
    return text.replace(NUL, NUL_SYMBOL) if NUL in text else text
