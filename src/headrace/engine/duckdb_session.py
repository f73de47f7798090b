"""DuckDB in memory with functions that it lacks: sessions for queries over Arrow tables, and computed fields."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.aggregate import ArrowFunction
from headrace.aggregate.kernels import unchunked
from headrace.define.model import Field, Stream
from headrace.duckdb_connections import add_function, open_duckdb
from headrace.engine.duckdb_terms import duckdb_name, duckdb_sql, duckdb_type
from headrace.engine.time_functions import register
from headrace.engine.udf_calls import give_function
from headrace.language.user_functions import UserFunction
from headrace.lazy import duckdb, pa


class DuckdbSession:
    """Runs queries for any thread, one at a time. The first of them opens it."""

    def __init__(self, **settings: Any) -> None:
        """`settings` are those of `open_duckdb`."""
        self.lock = threading.RLock()
        self._settings = settings
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._functions: set[str] = set()  # names of those that the connection has

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection, for a thread that has the lock."""
        if self._connection is None:
            self._connection = open_duckdb(**self._settings)
            register(self._connection)
            weakref.finalize(self, self._connection.close)  # DuckDB complains of functions that are there at the end
        return self._connection

    def give(self, functions: Iterable[UserFunction | ArrowFunction]) -> None:
        """Register functions of a workspace or of aggregates, each once."""
        for function in functions:
            name = function.full_name if isinstance(function, UserFunction) else function.name
            if name in self._functions:
                continue
            if isinstance(function, UserFunction):
                give_function(self.connection, function)
            else:
                register_function(self.connection, function)
            self._functions.add(name)

    @contextmanager
    def showing(self, **tables: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield the connection, which has these tables while the block runs."""
        with self.lock:
            for name, table in tables.items():
                self.connection.register(name, table)
            try:
                yield self.connection
            finally:
                for name in tables:
                    self.connection.unregister(name)

    def query(self, sql: str, **tables: pa.Table) -> pa.Table:
        """Return the result of a query over these tables."""
        with self.showing(**tables) as connection:
            result: pa.Table = connection.sql(sql).to_arrow_table()
            return result

    def close(self) -> None:
        """Close the connection. The next query opens another one."""
        with self.lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            self._functions.clear()


def register_function(connection: duckdb.DuckDBPyConnection, function: ArrowFunction) -> None:
    """Give a connection the function of an aggregate."""
    # DuckDB would read the annotations of the function itself, some of which only type checkers can resolve.
    takes, gives = f"{duckdb_type(function.of)}{'[]' if function.of_list else ''}", duckdb_type(function.gives)
    run = function.run
    add_function(
        connection, function.name, lambda values: run(unchunked(values)), [takes], gives, of_null=function.of_null
    )


class Computing:
    """Computes fields of a stream from its other ones."""

    def __init__(self, stream: Stream, fields: Sequence[Field]) -> None:
        self._stream = stream
        self._fields = fields
        self._session = DuckdbSession()
        self._select = ""

    def add_to(self, table: pa.Table) -> pa.Table:
        """Return the table, which has the inputs of the fields, followed by the fields."""
        if not self._fields:
            return table
        if not self._select:
            types = self._stream.types()
            fields = [f"{duckdb_sql(f.computed, types)} AS {duckdb_name(f.name)}" for f in self._fields if f.computed]
            self._select = ", ".join(fields)
        values = self._session.query(f"SELECT {self._select} FROM events", events=table)
        for field in self._fields:
            table = table.append_column(field.name, values.column(field.name))
        return table
