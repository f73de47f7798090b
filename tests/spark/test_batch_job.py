"""The batch layer's Spark job computes each group once, however it is divided into tasks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
from bench.ours import history
from bench.ours.events import ONE_VIEW, STREAM

from headrace.define.catalog import parse
from headrace.errors import UnavailableError
from headrace.lake.delta_table import LakeTable
from headrace.maintain.partials_job import BatchJob
from headrace.store.version import Base, Version
from tests import wording

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


def test_one_job_runs_at_a_time_and_work_that_was_stopped_does_not_wait(monkeypatch: Any, tmp_path: Path) -> None:
    """Two jobs have more tasks than Spark has slots beside those for new commits."""
    running, most, began, may_end = 0, 0, threading.Event(), threading.Event()

    def write(*_: Any, **__: Any) -> list[str]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        began.set()
        assert may_end.wait(60)
        running -= 1
        return []

    monkeypatch.setattr(BatchJob, "_write", write)
    arguments: Any = (None, history.VISITS, None, [], (0, 1), tmp_path)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(BatchJob(Any).write, *arguments)
        assert began.wait(60)
        with wording.raises(UnavailableError):
            BatchJob(Any, stopped=lambda: True).write(*arguments)
        others = [pool.submit(BatchJob(Any).write, *arguments) for _ in range(3)]
        may_end.set()
        assert [each.result(60) for each in (first, *others)] == [[]] * 4
    assert most == 1
