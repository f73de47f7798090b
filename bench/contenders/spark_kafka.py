"""Structured Streaming with Spark's own Kafka connector: the job of `spark_job`, from a topic instead of files.

The connector's jars are in .bench/jars/spark, if Maven had them.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import duckdb
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.contenders.job import JARS, Job, serve
from bench.contenders.spark_job import COPY, POINT, SCHEMA, TABLES, UPSERT, session

PER_TRIGGER = 1_000_000


def run(spark: SparkSession, job: Job) -> float:
    """One streaming query over the topic, until DuckDB has its rows and answers."""
    with duckdb.connect(str(job.folder / "traffic.duckdb")) as connection:
        connection.execute(TABLES)

        def upsert(batch: DataFrame, number: int) -> None:
            window = f.window("at", "1 minute").start.alias("pane")
            sums = (f.count("*").alias("hits"), f.sum("bytes").alias("bytes"), f.max("bytes").alias("largest"))
            connection.register("partials", batch.groupBy("page", window).agg(*sums).toArrow())
            connection.execute("BEGIN")
            if not connection.execute("SELECT 1 FROM applied WHERE batch = ?", [number]).fetchall():
                connection.execute("INSERT INTO applied VALUES (?)", [number])
                connection.execute(UPSERT)
            connection.execute("COMMIT")
            connection.unregister("partials")

        start = time.monotonic()
        options = {
            "kafka.bootstrap.servers": job.servers,
            "subscribe": job.topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(PER_TRIGGER),
        }
        messages = spark.readStream.format("kafka").options(**options).load()
        events = messages.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")
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
    jars = ",".join(str(path) for path in Path(JARS, "spark").glob("*.jar"))
    spark = session({"spark.jars": jars})
    serve(lambda job: run(spark, job), f"PySpark {pyspark.__version__}")
    sys.exit(0)
