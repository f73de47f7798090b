"""Computed fields: one DuckDB connection for all events of a stream, opened for the first."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.define.model import Field, Stream
from headrace.engine.duckdb_terms import duckdb_name, duckdb_sql
from headrace.engine.time_functions import register


class Computing:
    """Computes these fields of a stream from its other ones."""

    def __init__(self, stream: Stream, fields: Sequence[Field]) -> None:
        self._stream = stream
        self._fields = fields
        self._duckdb: Any = None
        self._select = ""

    def add_to(self, table: pa.Table) -> pa.Table:
        """The table, which has the inputs of the fields, followed by the fields."""
        if not self._fields:
            return table
        if self._duckdb is None:
            self._open()
        self._duckdb.register("events", table)
        values = self._duckdb.sql(f"SELECT {self._select} FROM events").to_arrow_table()
        for field in self._fields:
            table = table.append_column(field.name, values.column(field.name))
        return table

    def _open(self) -> None:
        import duckdb  # takes 0.1 s to import, and few streams have computed fields

        self._duckdb = duckdb.connect(config={"threads": 1, "autoload_known_extensions": False})
        self._duckdb.execute("SET TimeZone = 'UTC'")
        register(self._duckdb)
        weakref.finalize(self, self._duckdb.close)  # DuckDB complains of functions that are there at the end
        types = self._stream.types()
        columns = [f"{duckdb_sql(f.computed, types)} AS {duckdb_name(f.name)}" for f in self._fields if f.computed]
        self._select = ", ".join(columns)
