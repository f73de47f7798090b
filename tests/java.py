"""A Java that is quick for tests: Spark's classes come from an archive, and only the quick compiler runs.

The Spark of most tests lives for seconds, in which Java does little but load and compile. The archive is made once per
.venv, by `python -m tests.java`; without it all goes as ever, only slower.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(sys.prefix) / "spark.jsa"
# One compiler alone gets 48 MB for its code. When they are full, Spark's scheduler fails and a job waits for ever.
QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
OPTIONS = f"{QUICK} -XX:SharedArchiveFile={ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off"


def end_java(gateway: Any) -> None:
    """Let the Java behind a gateway end by itself: it runs while its standard input is open."""
    java = gateway.proc
    gateway.shutdown()
    java.stdin.close()
    java.wait(300)


def make_archive() -> None:
    """Run a little of all that tests do with Spark, and archive the classes that it has loaded."""
    from pyspark import SparkContext

    from headrace.spark.build import build_session, warm_up

    unfinished = ARCHIVE.with_suffix(f".{os.getpid()}")
    options = f"{QUICK} -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = build_session(folder / "spark", master="local[2]", java_options=options)
        warm_up(spark)
        query = spark.readStream.format("rate").load().writeStream.format("noop").start()
        events = spark.range(100).selectExpr("id % 3 AS key", "timestamp_millis(id) AS at", "md5(string(id)) AS text")
        groups = events.where("text > '1'").groupBy("key", "at").agg({"text": "max", "key": "sum", "*": "count"})
        groups.write.parquet(str(folder / "grouped"))
        assert spark.read.parquet(str(folder / "grouped")).orderBy("key").toArrow().num_rows
        query.stop()
        spark.stop()
        end_java(SparkContext._gateway)
    if unfinished.exists():
        unfinished.replace(ARCHIVE)
    else:
        sys.stderr.write("java: this Java keeps no archive of classes; tests take longer\n")


if __name__ == "__main__":
    make_archive()
