"""The one place where a Spark session is built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import MachineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Session = Callable[[], "SparkSession"]  # the current session; NotReadyError while a server starts Java

OLDEST_JAVA = 17
JAVA_NICENESS = 5
LARGEST_OUTPUT = 1_000_000  # bytes of Java's messages that are kept at the next start
# Java's optimizing compiler as usual for loops over events, but later for methods that are only called often: planning
# many small jobs would otherwise keep it busy for minutes.
QUICK_JAVA = "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000"
_JAVA_FIX = "install a JDK 17 or newer (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"

# New commits before history: a free core goes to the speed layer while that has a waiting task. Builds take the rest.
# The names are those that append, maintain and the batch layer set for their jobs.
SPEED_POOLS = ("append", "maintain")
SPEED_WEIGHT = 8
BATCH_POOL = "batch"

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


def java_command() -> str:
    """The Java command for Spark. Raises if there is none, or it is too old."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not command or not Path(command).exists():
        raise MachineError(
            "Java was not found",
            found=f"JAVA_HOME={home}" if home else None,
            expected="Java 17 or newer",
            fix=_JAVA_FIX,
        )
    output = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', output)
    if not version or int(version.group(1)) < OLDEST_JAVA:
        line = version.group(0) if version else output.strip().splitlines()[:1]
        raise MachineError("Java is too old", found=f"{line}", expected="Java 17 or newer", fix=_JAVA_FIX)
    return command


def build_session(
    scratch: Path,
    *,
    master: str = "local[*]",
    driver_memory: str = "1g",
    java_options: str = QUICK_JAVA,
    log: Path | None = None,
    app: str = "headrace",
) -> SparkSession:
    """A session with the settings that Headrace relies on. `scratch` is for Spark's temporary files."""
    java_command()
    scratch.mkdir(parents=True, exist_ok=True)
    # Workers must run the same interpreter, and so the same packages, as the driver.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    properties = scratch / "log4j2.properties"
    properties.write_text(_LOG4J.format(log=log or scratch / "spark.log"))
    pools = scratch / "pools.xml"
    pools.write_text(_pools(os.cpu_count() or 2))
    from pyspark.sql import SparkSession

    # After an OutOfMemoryError a JVM may continue without some of its threads: it is better to restart it.
    options = f"{java_options} -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError -Xss4m -Djava.io.tmpdir={scratch}"
    options += f" -Dlog4j2.configurationFile=file:{properties}"
    settings = {"spark.app.name": app, "spark.master": master, **_settings(scratch, driver_memory, options, pools)}
    _start_java(settings, _output_file(log or scratch / "spark.log"))
    _silence_pyspark()
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    # When Java ends, this server loses its connection and would print a stack trace.
    accumulators: Any = session.sparkContext._accumulatorServer
    accumulators.handle_error = lambda request, client: None
    _yield_to_answers(session)
    return session


def _output_file(log: Path) -> Path:
    """The file for messages of Java that do not go through Log4j, and for those of the Python workers."""
    return log.with_name(f"{log.stem}-java.log")


def _start_java(settings: Mapping[str, str], output: Path) -> None:
    """Start the JVM as PySpark does, but with its messages in a file: it prints a warning at every start."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
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
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def java_process(session: SparkSession) -> subprocess.Popen[bytes] | None:
    """The Java process that this process started for a session; None if another process started it."""
    return getattr(session.sparkContext._gateway, "proc", None)


def is_alive(session: SparkSession) -> bool:
    """Whether Java still runs and answers; distinguishes a failed job from a crash of Java."""
    java = java_process(session)
    if java is not None and java.poll() is not None:
        return False
    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except Exception:  # errors of Py4J and of the system have no common base; a discarded context has no _jsc
        return False


def discard(session: SparkSession) -> None:
    """Forget a session whose Java process has ended, so that the next `build_session` starts a new one.

    PySpark keeps gateway, context and session as class attributes and has no public way to reset them.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context, gateway, java = session.sparkContext, session.sparkContext._gateway, java_process(session)
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
        java.wait()


def _yield_to_answers(session: SparkSession) -> None:
    """Give Java and its workers a lower priority than this process: answers stay fast while jobs run."""
    java = java_process(session)
    if java is not None:
        for thread in Path(f"/proc/{java.pid}/task").glob("*"):  # on Linux each thread has its own priority
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, int(thread.name), JAVA_NICENESS)


def _settings(scratch: Path, driver_memory: str, java_options: str, pools: Path) -> dict[str, str]:
    cores = str(os.cpu_count() or 2)
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
        "spark.sql.shuffle.partitions": cores,
        "spark.default.parallelism": cores,
        "spark.shuffle.sort.bypassMergeThreshold": "8",  # builds exchange 64 parts: not a file for each part and task
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": pools.as_uri(),
        "spark.sql.streaming.pollingDelay": "50ms",
        "spark.sql.streaming.numRecentProgressUpdates": "5",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),  # of strings that workers match: they may be long
        "spark.python.worker.reuse": "true",
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

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    spark.range(tasks, numPartitions=tasks).mapInArrow(pass_on, "id BIGINT").collect()
