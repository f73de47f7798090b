"""Wires the parts of a workspace together, starts and stops them. It holds no rules of its own."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from headrace.define.definitions import Catalog
from headrace.deliver.alerts.running_alerts import Alerts
from headrace.deliver.live_feed import LiveFeeds
from headrace.deliver.sinks.running_sinks import Sinks
from headrace.deliver.table_changes import TableChanges
from headrace.disk import disk_full, is_disk_full
from headrace.errors import HeadraceError
from headrace.lazy import later
from headrace.server.answering import Answering
from headrace.server.applied_definitions import AppliedDefinitions
from headrace.server.ingest_tokens import IngestTokens
from headrace.server.leasing import take_lease
from headrace.server.leftovers import clean
from headrace.server.lookup import Lookup
from headrace.server.monitor import Monitor
from headrace.server.running_logs import RunningLogs
from headrace.server.running_stream import RunningStream
from headrace.server.threads import join_all
from headrace.spark.failures import one_line
from headrace.spark.process import SparkProcess
from headrace.store.open_store import open_store
from headrace.workspace.lease import Lease
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.server import rehearsal
    from headrace.spark import build
else:  # loaded by their first use
    build = later("headrace.spark.build")
    rehearsal = later("headrace.server.rehearsal")

BEAT_S = 0.5
APPLY_ENDS_S = 3.0  # how long a stop waits for an apply: it ends before its next step
FLOWING_WITHIN_S = 60.0  # from Spark's start to where every stream looks for events
THREADS_END_S = 5.0  # how long a stop waits for the threads of the runtime
UPKEEP_NICE = 10

log = structlog.get_logger("headrace.runtime")


class Runtime:
    """One process that holds a workspace: transport, Spark, maintain, store."""

    def __init__(self, workspace: Workspace, url: str, lease: Lease) -> None:
        self.workspace = workspace
        self.url = url
        self.stopped = threading.Event()
        self._lease = lease
        self._spark = SparkProcess(self._start_session, self._on_session, self.stopped)
        self._scratch = workspace.data / "scratch" / f"{lease.fence}"
        self._store = open_store(workspace, lease.fence)
        self.definitions = AppliedDefinitions(
            workspace, lease, self._store, lambda: self._spark.current, self._start_pipeline, self.stopped.is_set
        )
        self.lookup = Lookup(lambda: self.definitions.running)
        self.monitor = Monitor(workspace, url, self._store, self.definitions, self._spark)
        past = workspace.data / "scratch" / f"past-{lease.fence}"
        self.answering = Answering(
            workspace.settings, self._store, self.lookup, self.monitor.freshness, self._spark.session, past
        )
        self.tokens = IngestTokens(self._store, lambda: self.lookup.pipelines, self.stopped)
        tables = TableChanges(self.lookup.lake_of)
        self.logs = RunningLogs(
            workspace.subscriptions,
            self._store,
            self.lookup,
            lease.check,
            tables,
            lambda view: self.definitions.versions.start_refresh(view, full=True, tables="missing"),
        )
        self.monitor.count_failed = self.logs.count_failed
        self.sinks = Sinks(self._store, workspace, self.logs.log)
        self.alerts = Alerts(workspace.alerts, self._store, self.lookup.count_events, url, workspace)
        self.feeds = LiveFeeds(self._store, self.stopped)
        self.definitions.on_applied, self.definitions.notify = self._follow, self._notify
        self._started: float | None = None
        self._threads: list[threading.Thread] = []
        clean(self._store, workspace.builds)

    @classmethod
    def open(cls, workspace: Workspace, url: str) -> Runtime:
        """Take the lease and open journals and store; Spark comes with `start`."""
        lease = take_lease(workspace, url)
        try:
            return cls(workspace, url, lease)
        except BaseException:
            lease.release()
            raise

    # Start and stop

    def start(self) -> None:
        """Start Spark and the pipelines in the background."""
        self._started = time.monotonic()
        self.logs.begin()
        # Not joined: it may be starting Java, which nothing interrupts, and it uses nothing that a stop closes.
        threading.Thread(target=self._run_spark, name="spark", daemon=True).start()
        parts = {"supervisor": self._supervise, "upkeep": self._keep_up, "batch": self._run_batch}
        self._threads = [threading.Thread(target=run, name=name, daemon=True) for name, run in parts.items()]
        for thread in self._threads:
            thread.start()
        self.sinks.reconcile(self.definitions.running.catalog)
        self.alerts.start(self.definitions.running.catalog)

    def begin_stop(self) -> None:
        """End long work, such as questions and an apply, while requests in flight are still answered."""
        self.stopped.set()
        self.answering.begin_stop()

    def stop(self) -> None:
        """Stop everything; what was acknowledged is on disk."""
        self.begin_stop()
        self._stop_spark_work()  # an apply may be waiting for some of it
        held = self.definitions.changing.acquire(timeout=APPLY_ENDS_S)
        if not held:
            log.warning("stopping beside an apply that does not end")
        try:
            self._stop_spark_work()  # of pipelines that the apply has started meanwhile
            for pipeline in self.lookup.pipelines.values():
                pipeline.close()
            self._spark.stop()
        finally:
            if held:
                self.definitions.changing.release()
        self._notify()
        self.sinks.stop(THREADS_END_S)
        self.logs.close()
        self.alerts.stop()
        # Before what they use is closed. Each of them looks at `stopped`; the jobs that they wait for were cancelled.
        join_all([*self._threads, *self.feeds.threads, self._spark.starting], THREADS_END_S)
        self.answering.close()
        self._store.close()
        self._lease.release()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _stop_spark_work(self) -> None:
        for pipeline in self.lookup.pipelines.values():
            pipeline.stop_spark()
        self._spark.cancel_all_jobs()

    def _run_spark(self) -> None:
        """Keep Spark running until the server stops."""
        with self._failing():
            self._spark.run()

    def _start_session(self, restart: int) -> SparkSession:
        """A new session. What the Java before it left in its scratch folder is removed."""
        if restart == 0:
            _clear(self._scratch.parent)
        else:
            shutil.rmtree(self._scratch / f"spark-{restart - 1}", ignore_errors=True)
        settings = self.workspace.settings
        spark = build.build_session(
            self._scratch / f"spark-{restart}",
            master=settings.spark_master,
            driver_memory=settings.spark_memory,
            java_options=settings.spark_java_options,
            log=self.workspace.logs / "spark.log",
        )
        build.warm_up(spark)
        return spark

    def _on_session(self, spark: SparkSession) -> None:
        """The first session starts the pipelines; with a later one they continue by themselves."""
        with self._failing():
            with self.definitions.changing:
                for pipeline in self.lookup.pipelines.values():
                    self._start_pipeline(pipeline)
                self.monitor.beat()
            log.info("pipeline ready", seconds=round(time.monotonic() - (self._started or 0), 1))
            self.answering.prepare()
            if self.monitor.warming_up:
                self._rehearse(spark)
                self._wait_until_flowing()
                self.monitor.warming_up = None

    def _start_pipeline(self, pipeline: RunningStream) -> None:
        if self._spark.starts and not self.stopped.is_set():
            pipeline.start(self._spark.session, self._scratch, self._notify)

    def _wait_until_flowing(self) -> None:
        """Until every stream looks for events, or says why it does not."""
        deadline = time.monotonic() + FLOWING_WITHIN_S
        while time.monotonic() < deadline and not self.stopped.wait(0.05):
            if all(pipeline.flowing or pipeline.error for pipeline in self.lookup.pipelines.values()):
                return

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """What goes wrong here is the end of this process."""
        try:
            yield
        except HeadraceError as error:
            self._fail(error)
        except Exception as error:
            log.exception("spark cannot start")
            self._fail(
                disk_full("Spark cannot start", self._scratch)
                if is_disk_full(error)
                else HeadraceError(
                    f"Spark cannot start: {one_line(error)}",
                    fix=f"see {self.workspace.logs / 'spark.log'}",
                )
            )

    def _rehearse(self, spark: SparkSession) -> None:
        """Make the first real events quick. Those that have come already do the same, and must not share the cores."""
        if not self.workspace.settings.rehearse or self._ends_rehearsal():
            return
        self.monitor.warming_up = "Spark has started and processes a test event"
        began = time.monotonic()
        try:
            rehearsal.rehearse(spark, self._scratch, self._ends_rehearsal)
        except Exception as error:  # it is a convenience: what fails here will fail, and be told, for real events
            if not self.stopped.is_set():
                log.warning("the rehearsal failed", error=str(error).splitlines()[0])
        else:
            log.info("rehearsed", seconds=round(time.monotonic() - began, 1))

    def _ends_rehearsal(self) -> bool:
        return self.stopped.is_set() or any(pipeline.backlog_bytes() for pipeline in self.lookup.pipelines.values())

    def _supervise(self) -> None:
        while not self.stopped.wait(BEAT_S):
            try:
                self._lease.check()
                if self.monitor.starting:
                    continue
                for pipeline in self.lookup.pipelines.values():
                    pipeline.supervise()
                self.monitor.beat()
            except HeadraceError as error:
                self._fail(error)
            except Exception:
                if not self.stopped.is_set():
                    log.exception("supervision failed")

    def _keep_up(self) -> None:
        """Upkeep of all lakes, one after the other, behind everything else."""
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), UPKEEP_NICE)
        while not self.stopped.wait(self.workspace.settings.upkeep_every_s):
            if self._spark.current is None:
                continue
            for pipeline in self.lookup.pipelines.values():
                pipeline.keep_up(self.stopped.is_set)

    def _run_batch(self) -> None:
        """The batch layer of all streams: a piece of work each in turn, so that none waits for a long build."""
        while not self.stopped.is_set():
            worked = False
            try:
                for pipeline in self.lookup.pipelines.values() if self._spark.current is not None else ():
                    if pipeline.batch is not None:
                        worked = pipeline.batch.run_once() or worked
            except Exception:
                if not self.stopped.is_set():
                    log.exception("the batch layer failed")
            if worked:
                self._notify()
            else:
                self.stopped.wait(BEAT_S)

    def _follow(self, catalog: Catalog) -> None:
        """Sinks and alerts follow the definitions."""
        self.sinks.reconcile(catalog)
        self.alerts.redefine(catalog)

    def _notify(self) -> None:
        """A version moved, another one serves, or the server stops: whoever waits looks again."""
        self.tokens.notify()
        self.sinks.wake()
        self.alerts.notify()
        self.feeds.notify()
        self.logs.notify()

    def _fail(self, error: HeadraceError) -> None:
        """This process must stop: say why, and let whoever waits for it know."""
        if not self.stopped.is_set():
            log.error("stopping", error=str(error))
            self.monitor.failed = error
            self.stopped.set()


def _clear(scratch: Path) -> None:
    """Remove what earlier processes left. Nothing in it counts."""
    if scratch.exists():
        for left in scratch.iterdir():
            shutil.rmtree(left, ignore_errors=True)
