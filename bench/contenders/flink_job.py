"""PyFlink's Table API in streaming mode: JSON files, tumbling windows, and a file sink that DuckDB reads.

The watermark is two hours behind, so that no event is late: subtasks read the parts of a file in any order, and Flink
drops events of windows that have fired. All windows fire when the input ends. With the argument `log` a second sink
keeps every event as CSV, a format that PyFlink has without further libraries.
"""

from __future__ import annotations

import os
import sys
import time

# This module runs in an environment of its own, see scripts/contenders.
import duckdb
from pyflink.table import EnvironmentSettings, TableEnvironment
from pyflink.version import __version__

from bench.contenders.job import CORES, JAVA_MEMORY, LOG, Job, serve

SETTINGS = {
    "parallelism.default": str(CORES),
    "taskmanager.numberOfTaskSlots": str(CORES),
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
}
SOURCE = """CREATE TEMPORARY TABLE visits (
  visitor STRING, page STRING, status INT, `bytes` BIGINT, `at` TIMESTAMP_LTZ(3),
  WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json',
        'json.timestamp-format.standard' = 'ISO-8601')
"""
SINK = """CREATE TEMPORARY TABLE traffic (
  page STRING, pane TIMESTAMP(3), hits BIGINT, `bytes` BIGINT, largest BIGINT
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
"""
INSERT = """INSERT INTO traffic
SELECT page, window_start, count(*), sum(`bytes`), max(`bytes`)
FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(`at`), INTERVAL '1' MINUTE))
GROUP BY page, window_start, window_end
"""
LOG_SINK = """CREATE TEMPORARY TABLE events (
  visitor STRING, page STRING, status INT, `bytes` BIGINT, `at` TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
"""
LOG_INSERT = "INSERT INTO events SELECT visitor, page, status, `bytes`, `at` FROM visits"
LOAD = """CREATE TABLE traffic AS SELECT * FROM read_csv($files, header = false, columns = {
    page: 'VARCHAR', pane: 'TIMESTAMP', hits: 'BIGINT', bytes: 'BIGINT', largest: 'BIGINT'})
"""
POINT = "SELECT sum(hits) FROM traffic WHERE page = '/p/1'"
COPY = "COPY (SELECT page, epoch(pane)::BIGINT AS pane, hits, bytes, largest FROM traffic) TO '{}' (FORMAT csv)"


def environment() -> TableEnvironment:
    """A table environment on a cluster inside this process's Java."""
    os.environ["FLINK_ENV_JAVA_OPTS"] = (
        f"-Xmx{JAVA_MEMORY} -Duser.timezone=UTC --add-opens=java.base/java.net=ALL-UNNAMED"  # to load connectors
    )
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in SETTINGS.items():
        tables.get_config().set(name, value)
    return tables


def run(tables: TableEnvironment, job: Job, *, keep_log: bool) -> float:
    """One job over all files, until DuckDB has its rows and answers."""
    source, sink = job.folder / "source", job.folder / "sink"
    source.mkdir()
    for file in job.files:
        os.link(file, source / os.path.basename(file))
    for name in ("visits", "traffic", "events"):
        tables.execute_sql(f"DROP TEMPORARY TABLE IF EXISTS {name}")
    tables.execute_sql(SOURCE.format(path=source.as_uri()))
    tables.execute_sql(SINK.format(path=sink.as_uri()))
    tables.execute_sql(LOG_SINK.format(path=(job.folder / "log").as_uri()))
    statements = tables.create_statement_set()  # both sinks in one job, which reads the source once
    statements.add_insert_sql(INSERT)
    if keep_log:
        statements.add_insert_sql(LOG_INSERT)
    with duckdb.connect(str(job.folder / "traffic.duckdb")) as connection:
        start = time.monotonic()
        statements.execute().wait()
        connection.execute(LOAD, {"files": [str(file) for file in sink.glob("part-*")]})
        connection.execute(POINT).fetchall()
        seconds = time.monotonic() - start
        connection.execute(COPY.format(job.rows))
    return seconds


if __name__ == "__main__":
    tables = environment()
    keep_log = LOG in sys.argv[1:]
    serve(lambda job: run(tables, job, keep_log=keep_log), f"PyFlink {__version__}")
