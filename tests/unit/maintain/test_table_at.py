"""The rows of a table in a worker: at any pin, from any snapshot and in any order of requests they are right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.define.catalog import parse
from headrace.define.relation_duckdb import changes_sql, side_name
from headrace.lake.schema import ARRIVED, COMMIT, COMMITTED_AT, DEAD, POSITION, VALUE, table_schema
from headrace.maintain.table_at import TableAt, forget_tables, show_table

CATALOG = parse(
    "CREATE STREAM clicks (k INT);"
    "CREATE TABLE users (id INT PRIMARY KEY, plan STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);"
    "CREATE MATERIALIZED VIEW v AS SELECT plan, count(*) AS n FROM clicks c JOIN users u ON u.id = c.k GROUP BY plan;"
)
RELATION = CATALOG.views["v"].relation
assert RELATION is not None
JOIN = RELATION.branches[0].joins[0]
LOG = CATALOG.streams["users"]
SNAPSHOT = pa.schema(
    [
        ("_of_0", pa.int32()),
        ("_deleted", pa.bool_()),
        ("_column_0", pa.string()),
        ("_order", pa.struct([("_time", pa.int64()), (POSITION, pa.int64())])),
    ]
)
# A change: key, event time in seconds, plan; it deletes the row without a plan in 1 of 4 cases.
change = st.tuples(st.integers(0, 3), st.integers(0, 5), st.sampled_from(["free", "pro", None]), st.integers(0, 3))
commits = st.lists(st.lists(change, min_size=1, max_size=4), min_size=4, max_size=8)
request = st.tuples(st.integers(0, 100), st.integers(0, 100))  # a pin, and the version of the snapshot that it has


@dataclass(frozen=True)
class TableLog:
    """A log of changes: one file per commit, and the snapshots of it."""

    folder: Path
    changes: list[list[tuple[int, int, str | None, int]]]

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for commit, changes in enumerate(self.changes):
            for key, second, plan, deleted in changes:
                rows.append(
                    {"id": key, "plan": plan, "at": second * 1_000_000, "_deleted": deleted == 0 and plan is None}
                    | {COMMIT: commit, POSITION: len(rows), COMMITTED_AT: 0, ARRIVED: 0, VALUE: b"{}", DEAD: False}
                )
        return rows

    def latest(self, version: int) -> dict[int, dict[str, Any]]:
        """The latest change of each key in the commits before a version."""
        known = [row for row in self.rows() if row[COMMIT] < version]
        return {row["id"]: row for row in sorted(known, key=lambda row: (row["at"], row[POSITION]))}

    def write(self) -> None:
        schema = table_schema(LOG)
        for commit in range(len(self.changes)):
            rows = [row for row in self.rows() if row[COMMIT] == commit]
            columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
            pq.write_table(pa.Table.from_arrays(columns, schema=schema), self.folder / f"{commit}.parquet")

    def at(self, pin: int, version: int) -> TableAt:
        snapshot = self.folder / f"snapshot-{version}.parquet"
        if not snapshot.exists():
            rows = [
                {"_of_0": key, "_deleted": row["_deleted"], "_column_0": row["plan"]}
                | {"_order": {"_time": row["at"], POSITION: row[POSITION]}}
                for key, row in self.latest(version).items()
            ]
            pq.write_table(pa.Table.from_pylist(rows, SNAPSHOT), snapshot)
        files = tuple(str(self.folder / f"{commit}.parquet") for commit in range(version, pin))
        reads = (COMMIT, ARRIVED, POSITION, "id", "plan", "at", "_deleted")
        return TableAt(
            side_name(JOIN), 1, ("INTEGER", "VARCHAR"), (str(snapshot),), version, pin, str(self.folder), LOG, reads,
            files, changes_sql(JOIN, "changes"),
        )  # fmt: skip

    def expected(self, pin: int) -> dict[int, str | None]:
        return {key: row["plan"] for key, row in self.latest(pin).items() if not row["_deleted"]}


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    forget_tables()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
    forget_tables()


def shown(connection: duckdb.DuckDBPyConnection, at: TableAt) -> dict[int, str | None]:
    show_table(connection, at)
    return dict(connection.execute(f"SELECT _of_0, _column_0 FROM {at.name}").fetchall())


@settings(max_examples=40, deadline=None)
@given(changes=commits, requests=st.lists(request, min_size=3, max_size=8))
def test_rows_at_any_pin(
    tmp_path_factory: pytest.TempPathFactory, changes: list[list[Any]], requests: list[tuple[int, int]]
) -> None:
    """Snapshots are made anew, and streams that are joined to one table are at different pins."""
    forget_tables()
    log = TableLog(tmp_path_factory.mktemp("log"), changes)
    log.write()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for one, other in requests:
            version, pin = sorted((one % (len(changes) + 1), other % (len(changes) + 1)))
            assert shown(connection, log.at(pin, version)) == log.expected(pin), (version, pin)


def test_a_worker_that_missed_commits_before_a_new_snapshot(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    log = TableLog(tmp_path, [[(1, 0, "free", 1)], [(1, 1, "pro", 1)], [(2, 2, "pro", 1)]])
    log.write()
    assert shown(connection, log.at(1, 0)) == {1: "free"}
    assert shown(connection, log.at(3, 2)) == {1: "pro", 2: "pro"}, "the change of commit 1 is in the snapshot only"
