"""Makes a store file what an older Headrace wrote."""

from __future__ import annotations

from pathlib import Path

import duckdb

_COLUMNS = "v.*, b.* EXCLUDE (view, number, ordinal, stream)"


def as_format_4(file: Path, *statements: str) -> None:
    """What a version has per stream were columns of its own row, and an audit named no stream."""
    with duckdb.connect(str(file)) as connection:
        for statement in (
            f"CREATE TABLE older AS SELECT {_COLUMNS} FROM versions AS v JOIN bases AS b USING (view, number)",
            "DROP TABLE versions",
            "DROP TABLE bases",
            "ALTER TABLE older RENAME TO versions",
            "ALTER TABLE audits DROP COLUMN stream",
            "UPDATE store_format SET version = 4",
            *statements,
        ):
            connection.execute(statement)
