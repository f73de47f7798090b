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
from headrace.define.relation import Join, Relation
from headrace.engine.duckdb_relations import join_rows, rows_sql
from headrace.lake.table_schema import ARRIVED, COMMIT, COMMITTED_AT, DEAD, POSITION, VALUE, table_schema, utc_us
from headrace.maintain import table_versions
from headrace.maintain.table_versions import TableAt, forget_tables, show_table, table_at
from tests.effort import examples

CATALOG = parse(
    "CREATE STREAM clicks (k INT, n INT, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS ts);"
    "CREATE TABLE users (id INT PRIMARY KEY, plan STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);"
    "CREATE STREAM plain AS SELECT n, plan FROM clicks c JOIN users u ON u.id = c.k;"
    "CREATE STREAM timed AS SELECT n, plan FROM clicks c LEFT JOIN users FOR SYSTEM_TIME AS OF c.ts u ON u.id = c.k;"
)
LOG = CATALOG.streams["users"]


def relation_of(stream: str) -> Relation:
    relation = CATALOG.streams[stream].relation
    assert relation is not None
    return relation


def join_of(stream: str) -> Join:
    return relation_of(stream).branches[0].joins[0]


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

    def history(self, version: int, last: int = 99) -> list[dict[str, Any]]:
        """The latest change of each key and time, of those that are not after a second."""
        known = [row for row in self.rows() if row[COMMIT] < version and row["at"] <= last * 1_000_000]
        return list({(row["id"], row["at"]): row for row in known}.values())

    def plan_at(self, key: int | None, second: int, version: int) -> str | None:
        own = [row for row in self.history(version, second) if row["id"] == key]
        latest = max(own, key=lambda row: row["at"], default=None)
        return None if latest is None or latest["_deleted"] else latest["plan"]

    def write(self) -> None:
        schema = table_schema(LOG)
        for commit in range(len(self.changes)):
            rows = [row for row in self.rows() if row[COMMIT] == commit]
            columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
            pq.write_table(pa.Table.from_arrays(columns, schema=schema), self.folder / f"{commit}.parquet")

    def at(self, pin: int, version: int, stream: str = "plain") -> TableAt:
        join, snapshot = join_of(stream), self.folder / f"snapshot-{stream}-{version}.parquet"
        times = ["_of_1"] if join.as_of else []
        if not snapshot.exists():
            latest = self.history(version) if join.as_of else list(self.latest(version).values())
            rows = [
                {"_of_0": row["id"], "_deleted": row["_deleted"], "_column_0": row["plan"]}
                | dict.fromkeys(times, row["at"])
                | {"_order": {"_time": row["at"], POSITION: row[POSITION]}}
                for row in latest
            ]
            pq.write_table(pa.Table.from_pylist(rows, _snapshot_schema(times)), snapshot)
        files = tuple(str(self.folder / f"{commit}.parquet") for commit in range(version, pin))
        return table_at(join, pin, LOG, str(self.folder), files, [str(snapshot)], version)

    def expected(self, pin: int) -> dict[int, str | None]:
        return {key: row["plan"] for key, row in self.latest(pin).items() if not row["_deleted"]}


def _snapshot_schema(times: list[str]) -> pa.Schema:
    order = pa.struct([("_time", pa.int64()), (POSITION, pa.int64())])
    keys = [("_of_0", pa.int32()), *((name, pa.int64()) for name in times)]
    return pa.schema([*keys, ("_deleted", pa.bool_()), ("_column_0", pa.string()), ("_order", order)])


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    forget_tables()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
    forget_tables()


def shown(connection: duckdb.DuckDBPyConnection, at: TableAt) -> dict[int, str | None]:
    show_table(connection, at)
    return dict(connection.execute(f"SELECT _of_0, _column_0 FROM {at.side.name}").fetchall())


@settings(max_examples=examples(25), deadline=None)
@given(changes=commits, requests=st.lists(request, min_size=3, max_size=8))
def test_rows_at_any_pin(
    tmp_path_factory: pytest.TempPathFactory, changes: list[list[Any]], requests: list[tuple[int, int]]
) -> None:
    """Snapshots are rebuilt, and streams that are joined to one table are at different pins."""
    forget_tables()
    log = TableLog(tmp_path_factory.mktemp("log"), changes)
    log.write()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for one, other in requests:
            version, pin = sorted((one % (len(changes) + 1), other % (len(changes) + 1)))
            assert shown(connection, log.at(pin, version)) == log.expected(pin), (version, pin)


@settings(max_examples=examples(25), deadline=None)
@given(changes=commits, requests=st.lists(request, min_size=3, max_size=6), threshold=st.sampled_from([0, 64]))
def test_rows_as_of_the_time_of_an_event(
    tmp_path_factory: pytest.TempPathFactory, changes: list[list[Any]], requests: list[tuple[int, int]], threshold: int
) -> None:
    """Late changes and deletions count from their time on, as far as they were known at the pin."""
    forget_tables()
    log = TableLog(tmp_path_factory.mktemp("log"), changes)
    log.write()
    keys, seconds = [0, 1, 2, 3, 4, None], range(7)
    events = [(at, key, second) for at, (key, second) in enumerate((key, each) for key in keys for each in seconds)]
    columns = [pa.array(column) for column in zip(*events, strict=True)]
    table = pa.table(
        [columns[0], columns[1], pa.array([s * 1_000_000 for _, _, s in events], utc_us())], ["n", "k", "ts"]
    )
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = 'UTC'; SET asof_loop_join_threshold = {threshold}")
        connection.register("events", table)
        sql = rows_sql(relation_of("timed"), CATALOG.streams["clicks"], (), "events", joins=join_rows)
        for one, other in requests:
            version, pin = sorted((one % (len(changes) + 1), other % (len(changes) + 1)))
            show_table(connection, log.at(pin, version, "timed"))
            rows = dict(connection.execute(f"SELECT n, plan FROM ({sql})").fetchall())
            assert rows == {at: log.plan_at(key, second, pin) for at, key, second in events}, (version, pin)


def test_a_worker_that_missed_commits_before_a_new_snapshot(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    log = TableLog(tmp_path, [[(1, 0, "free", 1)], [(1, 1, "pro", 1)], [(2, 2, "pro", 1)]])
    log.write()
    assert shown(connection, log.at(1, 0)) == {1: "free"}
    assert shown(connection, log.at(3, 2)) == {1: "pro", 2: "pro"}, "the change of commit 1 is in the snapshot only"


def test_tables_that_are_not_used_any_more_are_dropped(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = TableLog(tmp_path, [[(1, 0, "free", 1)], [(1, 1, "pro", 1)]])
    log.write()
    assert shown(connection, log.at(1, 0)) == {1: "free"}
    monkeypatch.setattr(table_versions, "UNUSED_S", -1.0)
    show_table(connection, log.at(1, 0, "timed"))
    assert len(connection.execute("SELECT * FROM duckdb_tables()").fetchall()) == 1
    monkeypatch.undo()
    assert shown(connection, log.at(2, 0)) == {1: "pro"}, "it is loaded again"
