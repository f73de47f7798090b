"""PyFlink's Table API with Flink's own Kafka connector: the job of `flink_job`, from a topic to its present end.

The connector's jar is in .bench/jars/flink, if Maven had it.
"""

from __future__ import annotations

import time
from pathlib import Path

# This module runs in an environment of its own, see scripts/contenders.
import duckdb
from pyflink.table import TableEnvironment
from pyflink.version import __version__

from bench.contenders.flink_job import COPY, INSERT, LOAD, POINT, SINK, environment
from bench.contenders.job import JARS, Job, serve

SOURCE = """CREATE TEMPORARY TABLE visits (
  visitor STRING, page STRING, status INT, `bytes` BIGINT, `at` TIMESTAMP_LTZ(3),
  WATERMARK FOR `at` AS `at` - INTERVAL '2' HOUR
) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}',
        'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json',
        'json.timestamp-format.standard' = 'ISO-8601')
"""


def run(tables: TableEnvironment, job: Job) -> float:
    """One job over the topic, until DuckDB has its rows and answers."""
    sink = job.folder / "sink"
    for name in ("visits", "traffic"):
        tables.execute_sql(f"DROP TEMPORARY TABLE IF EXISTS {name}")
    tables.execute_sql(SOURCE.format(topic=job.topic, servers=job.servers))
    tables.execute_sql(SINK.format(path=sink.as_uri()))
    with duckdb.connect(str(job.folder / "traffic.duckdb")) as connection:
        start = time.monotonic()
        tables.execute_sql(INSERT).wait()
        connection.execute(LOAD, {"files": [str(file) for file in sink.glob("part-*")]})
        connection.execute(POINT).fetchall()
        seconds = time.monotonic() - start
        connection.execute(COPY.format(job.rows))
    return seconds


if __name__ == "__main__":
    tables = environment()
    jars = ";".join(path.resolve().as_uri() for path in Path(JARS, "flink").glob("*.jar"))
    tables.get_config().set("pipeline.jars", jars)
    serve(lambda job: run(tables, job), f"PyFlink {__version__}")
