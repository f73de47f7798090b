"""Small texts that others keep in the store, by kind and name: the progress of sinks, the state of alerts."""

from __future__ import annotations

import duckdb

from headrace.store.duckdb.database import run


def read_kept(connection: duckdb.DuckDBPyConnection, kind: str) -> dict[str, str]:
    """The texts of a kind, by name; none if the file is from before there were any."""
    if not run(connection, "SELECT 1 FROM duckdb_tables() WHERE table_name = 'kept'"):
        return {}
    return dict(run(connection, "SELECT name, value FROM kept WHERE kind = ?", [kind]))


def write_kept(connection: duckdb.DuckDBPyConnection, kind: str, name: str, value: str | None) -> None:
    """Keep a text in place of the one before; None: no longer."""
    ((known,),) = run(connection, "SELECT count(*) FROM kept WHERE kind = ? AND name = ?", [kind, name])
    if value is None:
        run(connection, "DELETE FROM kept WHERE kind = ? AND name = ?", [kind, name])
    elif known:
        run(connection, "UPDATE kept SET value = ? WHERE kind = ? AND name = ?", [value, kind, name])
    else:
        run(connection, "INSERT INTO kept VALUES (?, ?, ?)", [kind, name, value])
