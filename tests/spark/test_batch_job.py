"""The batch layer's Spark job computes each group once, however it is divided into tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from headrace.bench import history
from headrace.bench.events import ONE_VIEW, STREAM
from headrace.define.catalog import parse
from headrace.lake.table import LakeTable
from headrace.maintain.batch_job import BatchJob
from headrace.store.version import Base, Version

VIEW = parse(STREAM + ONE_VIEW).views["traffic"]
SUMS = """SELECT page, _pane, sum(_events), count(*) FROM read_parquet($files) GROUP BY ALL ORDER BY ALL"""
TRUE = """SELECT page, epoch_ms(date_trunc('minute', "at")), count(*), 1 FROM read_parquet($files)
WHERE _commit >= 1 GROUP BY ALL ORDER BY ALL"""


def test_partials_of_a_long_range(spark: Any, tmp_path: Path) -> None:
    table = LakeTable(tmp_path / "visits", history.VISITS, fence=1)
    for events in (1_000, 500_000, 100_000):
        history.extend(table, events)
    version = Version(VIEW, 1, "", "building", (Base(VIEW.streams[0], 60_000),))
    files = table.files(0, 3)  # more than needed: a file may hold other commits
    paths = BatchJob(lambda: spark).write(table, history.VISITS, version, files, (1, 3), tmp_path / "slice")
    lake = [str(table.folder / file.path) for file in files]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        sums = connection.execute(SUMS, {"files": paths}).fetchall()
        assert sums == connection.execute(TRUE, {"files": lake}).fetchall() != []
