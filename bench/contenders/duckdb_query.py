"""DuckDB alone, as the yardstick of a batch: one query over the files. It keeps no log and merges nothing later."""

from __future__ import annotations

import time

import duckdb

from bench.contenders.job import CORES, Job, serve

QUERY = """CREATE TABLE traffic AS
SELECT page, time_bucket(INTERVAL 1 MINUTE, "at") AS pane, count(*) AS hits, sum(bytes)::BIGINT AS bytes,
       max(bytes) AS largest
FROM read_json($files, format = 'newline_delimited', columns = {
    visitor: 'VARCHAR', page: 'VARCHAR', status: 'INTEGER', bytes: 'BIGINT', "at": 'TIMESTAMP'})
GROUP BY ALL
"""
POINT = "SELECT sum(hits) FROM traffic WHERE page = '/p/1'"
COPY = "COPY (SELECT page, epoch(pane)::BIGINT AS pane, hits, bytes, largest FROM traffic) TO '{}' (FORMAT csv)"


def run(job: Job) -> float:
    """The whole job: query, then one point answer."""
    with duckdb.connect(str(job.folder / "traffic.duckdb")) as connection:
        connection.execute(f"SET threads = {CORES}")
        start = time.monotonic()
        connection.execute(QUERY, {"files": job.files})
        connection.execute(POINT).fetchall()
        seconds = time.monotonic() - start
        connection.execute(COPY.format(job.rows))
    return seconds


if __name__ == "__main__":
    serve(run, f"DuckDB {duckdb.__version__}")
