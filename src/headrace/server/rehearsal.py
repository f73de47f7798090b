"""A rehearsal: events of a throwaway stream through append, both lanes and store, so that real ones find all warm.

Java compiles and Spark plans everything for the first time in it, which takes seconds.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint
from headrace.ingest.formats.format_detection import FileLayout, Format
from headrace.ingest.intake import Ingest
from headrace.lake.append import Append
from headrace.lake.delta_table import LakeTable
from headrace.maintain.fused_lane import Fused
from headrace.maintain.speed_layer import Speed
from headrace.store.open_store import open_temporary
from headrace.transport.journal.journal import Journal

_STREAM = """
CREATE STREAM rehearsal (name STRING, n BIGINT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
"""
_VIEW = """
CREATE MATERIALIZED VIEW {name} AS
SELECT name, count(*) AS hits, sum(n) AS total, avg(n) AS mean, max(n) AS most, approx_count_distinct(n) AS different
FROM rehearsal WHERE n > 0 GROUP BY name, window(at, '1 minute');
"""
_EVENT = b'{"name":"a","n":1,"at":"2024-05-17T10:05:03Z"}\n'
ROUNDS = 3  # the first one loads classes, the next ones still get quicker
LONGEST_S = 30.0
POLL_S = 0.05


def rehearse(spark: SparkSession, scratch: Path, stopping: Callable[[], bool]) -> None:
    """Play it, and leave nothing behind. Ends early when `stopping` says so."""
    folder = scratch / "rehearsal"
    catalog = parse(_STREAM + _VIEW.format(name="fused") + _VIEW.format(name="behind"))
    stream = catalog.streams["rehearsal"]
    table = LakeTable(folder / "lake", stream, fence=1)
    journal = Journal(folder / "journal", fence=1)
    store = open_temporary(folder)
    fused = Fused(stream.name, table, store, folder)
    append = Append(lambda: spark, stream, journal.reader, table, folder, companion=fused)
    speed = Speed(lambda: spark, stream, table, store, folder, fused=fused)
    ingest = Ingest(stream, journal)

    def register(name: str) -> None:
        view = catalog.views[name]
        store.register(view, fingerprint(view), catalog.patience_ms(view))

    try:
        register("fused")
        append.start()
        for done in range(ROUNDS):
            ingest.take(_EVENT, layout=FileLayout(Format.NDJSON), key=None, keep_bad=False).result()
            deadline = time.monotonic() + LONGEST_S
            while table.state.next_commit <= done and append.is_active() and time.monotonic() < deadline:
                if stopping():
                    return
                time.sleep(POLL_S)
            fused.run_once()
        if stopping():
            return
        register("behind")  # all commits: Spark computes it
        speed.run_once()
    finally:
        append.stop()
        speed.close()
        journal.close()
        store.close()
        shutil.rmtree(folder, ignore_errors=True)
