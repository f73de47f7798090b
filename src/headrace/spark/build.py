"""The one place where a Spark session is built. It loads PySpark, so it is imported when Spark is about to start."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from headrace.errors import MachineError
from headrace.spark.session import (
    BATCH_POOL,
    QUICK_JAVA,
    SPEED_POOLS,
    JavaPriorities,
    java_command,
    java_of,
    java_process,
)

LARGEST_OUTPUT = 1_000_000  # bytes of Java's messages that are kept at the next start
SPEED_WEIGHT = 8
SLOTS_PER_CORE = 2
_LOCAL = re.compile(r"local(?:\[ *(?P<cores>\*|\d+) *(?P<failures>(?:, *\d+ *)?)\])?")

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""


def build_session(
    scratch: Path,
    *,
    master: str = "local[*]",
    driver_memory: str = "1g",
    java_options: str = QUICK_JAVA,
    log: Path | None = None,
    app: str = "headrace",
    more: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session with the settings that Headrace relies on, and more of Spark. `scratch` is for its temporary files."""
    java_command()
    scratch.mkdir(parents=True, exist_ok=True)
    # Workers must run the same interpreter, and so the same packages, as the driver.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    properties = scratch / "log4j2.properties"
    properties.write_text(_LOG4J.format(log=log or scratch / "spark.log"))
    pools = scratch / "pools.xml"
    cores = _cores(master)
    pools.write_text(_pools(cores))
    # After an OutOfMemoryError a JVM may continue without some of its threads: it is better to restart it.
    options = f"{java_options} -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError -Xss4m -Djava.io.tmpdir={scratch}"
    options += f" -Dlog4j2.configurationFile=file:{properties}"
    settings = {"spark.app.name": app, "spark.master": _with_slots(master, cores)}
    settings |= _settings(scratch, cores, driver_memory, options, pools)
    settings |= more or {}
    _start_java(settings, _output_file(log or scratch / "spark.log"))
    _silence_pyspark()
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    # When Java ends, this server loses its connection and would print a stack trace.
    accumulators: Any = session.sparkContext._accumulatorServer
    accumulators.handle_error = lambda request, client: None
    java = java_process(session)
    if java is not None:
        JavaPriorities(java.pid).lower()
    return session


def _output_file(log: Path) -> Path:
    """The file for messages of Java that do not go through Log4j, and for those of the Python workers."""
    return log.with_name(f"{log.stem}-java.log")


def _start_java(settings: Mapping[str, str], output: Path) -> None:
    """Start the JVM as PySpark does, but with its messages in a file: it prints a warning at every start."""
    java = java_of(SparkContext._gateway)
    if java is not None and java.poll() is not None:
        discard()  # Java ended before its session was there: nobody else knows of it
    elif SparkContext._gateway is not None:
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    large = output.exists() and output.stat().st_size > LARGEST_OUTPUT
    with output.open("wb" if large else "ab") as messages:
        start = messages.tell()
        try:
            conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
            gateway = launch_gateway(conf, {"stdout": messages, "stderr": messages})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            lines = output.read_bytes()[start:].decode(errors="replace").split("\n")
            errors = [line for line in lines if line.strip() and not line.startswith("WARNING")]
            raise MachineError(
                "Java did not start", found="; ".join(errors[:2]) or None, fix=f"{output} has what it printed"
            ) from error
    SparkContext._ensure_initialized(gateway=gateway)


def _silence_pyspark() -> None:
    """PySpark prints a stack trace as JSON for each error that it raises; the code that catches it reports it."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def discard() -> None:
    """Forget the session and end its Java process, so that the next `build_session` starts a new one.

    PySpark keeps gateway, context and session as class attributes and has no public way to reset them.
    """
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    java = java_of(gateway)
    if context is not None:
        context._jsc = None  # there is nothing left to stop
        context.stop()
    if gateway is not None:
        with suppress(Exception):  # its sockets may be closed already
            gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    if java is not None:
        if java.stdin is not None:
            with suppress(OSError):
                java.stdin.close()
        java.kill()  # it may live on after its context has stopped
        java.wait()


def _cores(master: str) -> int:
    local = _LOCAL.fullmatch(master)
    if local and local["cores"] != "*":
        return int(local["cores"] or 1)
    return os.cpu_count() or 2


def _with_slots(master: str, cores: int) -> str:
    """A local master with more slots than builds take: a new commit never waits for a task of one."""
    local = _LOCAL.fullmatch(master)
    return f"local[{cores * SLOTS_PER_CORE}{local['failures'] or ''}]" if local else master


def _settings(scratch: Path, cores: int, driver_memory: str, java_options: str, pools: Path) -> dict[str, str]:
    return {
        # Correct results
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.legacy.sizeOfNull": "false",  # size(NULL) is NULL, not -1
        "spark.sql.ansi.enabled": "false",  # one x/0 must not stall a view forever
        "spark.sql.legacy.timeParserPolicy": "CORRECTED",
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",  # the files of the lake have them
        # A stack overflow fails its job, and so stalls one view; by default it would end the whole JVM
        "spark.executor.killOnFatalError.depth": "0",
        # Many small jobs: no listener, web UI or second plan that they do not need
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.default.parallelism": str(cores),
        "spark.shuffle.sort.bypassMergeThreshold": "8",  # builds exchange 64 parts: not a file for each part and task
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": pools.as_uri(),
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),  # of strings that workers match: they may be long
        "spark.python.worker.reuse": "true",
        # Workers of RDDs and of mapInArrow then have one environment, and so one daemon, which `warm_up` starts
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        "spark.python.daemon.module": "headrace.spark.daemon",
        "spark.sql.codegen.cache.maxEntries": "1000",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        "spark.sql.ui.retainedExecutions": "5",
        # One machine
        "spark.driver.memory": driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.extraJavaOptions": java_options,
    }


def _pools(cores: int) -> str:
    """Spark's allocation file. Pools that it does not name weigh 1, as builds do."""
    shares = {BATCH_POOL: (1, 0), **dict.fromkeys(SPEED_POOLS, (SPEED_WEIGHT, cores))}
    pools = "".join(
        f'<pool name="{name}"><schedulingMode>FAIR</schedulingMode>'
        f"<weight>{weight}</weight><minShare>{least}</minShare></pool>\n"
        for name, (weight, least) in shares.items()
    )
    return f'<?xml version="1.0"?>\n<allocations>\n{pools}</allocations>\n'


def warm_up(spark: SparkSession) -> None:
    """Start the Python workers, so that the first events do not wait for them. Their daemon imports what they use."""
    tasks = spark.sparkContext.defaultParallelism
    spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(list).collect()
