"""Plain Structured Streaming: JSON files, an aggregation of each micro-batch, and an upsert into DuckDB.

The upsert records the number of its micro-batch in the same transaction, because foreachBatch may repeat one. With the
argument `log` each micro-batch is also written as Parquet, to a folder of its own that a repetition overwrites.
"""

from __future__ import annotations

import os
import sys
import time

import duckdb
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.contenders.job import CORES, JAVA_MEMORY, LOG, Job, serve

FILES_PER_TRIGGER = 2
SCHEMA = "visitor STRING, page STRING, status INT, bytes BIGINT, at TIMESTAMP"
TABLES = """
CREATE TABLE traffic (page VARCHAR, pane TIMESTAMP, hits BIGINT, bytes BIGINT, largest BIGINT,
                      PRIMARY KEY (page, pane));
CREATE TABLE applied (batch BIGINT PRIMARY KEY);
"""
UPSERT = """INSERT INTO traffic BY NAME SELECT * FROM partials
ON CONFLICT (page, pane) DO UPDATE
SET hits = hits + excluded.hits, bytes = bytes + excluded.bytes, largest = greatest(largest, excluded.largest)
"""
POINT = "SELECT sum(hits) FROM traffic WHERE page = '/p/1'"
COPY = "COPY (SELECT page, epoch(pane)::BIGINT AS pane, hits, bytes, largest FROM traffic) TO '{}' (FORMAT csv)"


def session(more: dict[str, str] | None = None) -> SparkSession:
    """A local session with settings that suit a job of this size, and more."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": JAVA_MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        **(more or {}),
    }
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("plain")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def run(spark: SparkSession, job: Job, *, keep_log: bool) -> float:
    """One streaming query over all files, until DuckDB has its rows and answers."""
    source = job.folder / "source"
    source.mkdir()
    for file in job.files:
        (source / os.path.basename(file)).symlink_to(file)
    with duckdb.connect(str(job.folder / "traffic.duckdb")) as connection:
        connection.execute(TABLES)

        def upsert(batch: DataFrame, number: int) -> None:
            window = f.window("at", "1 minute").start.alias("pane")
            sums = (f.count("*").alias("hits"), f.sum("bytes").alias("bytes"), f.max("bytes").alias("largest"))
            if keep_log:
                batch.persist()  # or else the JSON is parsed twice
                batch.write.mode("overwrite").parquet(str(job.folder / "log" / f"batch={number}"))
            partials = batch.groupBy("page", window).agg(*sums).toArrow()
            batch.unpersist()
            connection.register("partials", partials)
            connection.execute("BEGIN")
            if not connection.execute("SELECT 1 FROM applied WHERE batch = ?", [number]).fetchall():
                connection.execute("INSERT INTO applied VALUES (?)", [number])
                connection.execute(UPSERT)
            connection.execute("COMMIT")
            connection.unregister("partials")

        start = time.monotonic()
        events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", FILES_PER_TRIGGER).json(str(source))
        query = (
            events.writeStream.foreachBatch(upsert)
            .option("checkpointLocation", str(job.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        connection.execute(POINT).fetchall()
        seconds = time.monotonic() - start
        connection.execute(COPY.format(job.rows))
    return seconds


if __name__ == "__main__":
    spark = session()
    keep_log = LOG in sys.argv[1:]
    serve(lambda job: run(spark, job, keep_log=keep_log), f"PySpark {pyspark.__version__}")
