"""Wires the parts of a workspace together, starts and stops them. It holds no rules of its own."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from headrace.alert.alerts import Alerts
from headrace.alert.status import AlertStatus, SilenceStatus
from headrace.asof.questions import LakeQuestions
from headrace.define.kafka import parse_place
from headrace.define.model import Stream
from headrace.disk import disk_full, is_disk_full
from headrace.errors import HeadraceError, NotFoundError, did_you_mean
from headrace.follow.change_question import ChangeQuestion
from headrace.follow.events import read_events
from headrace.follow.feed import ViewFeeds
from headrace.follow.page import EventPage, EventQuestion
from headrace.follow.subscribe import subscribe
from headrace.follow.terms import SubscriptionStatus
from headrace.format import iso_us
from headrace.ingest.formats.layout import Layout
from headrace.ingest.receiver import IngestReply, SentStatus, TokenState
from headrace.lake.dead import DeadLetters
from headrace.lake.table import LakeTable
from headrace.plan.change import Plan, RollbackStep
from headrace.serve.answer import Answer
from headrace.serve.cell_question import CellQuestion
from headrace.serve.change import Change
from headrace.serve.evaluate import answer
from headrace.serve.explanation import Explanation
from headrace.serve.question import Question
from headrace.serve.recent import RecentAnswers
from headrace.server.definitions import Definitions
from headrace.server.describe import describe_definition
from headrace.server.following import Following
from headrace.server.monitor import Monitor
from headrace.server.sinks import describe_sink, sink_warnings
from headrace.server.state import (
    AuditStatus,
    RefreshStatus,
    SinkStatus,
    SkipStatus,
    StreamDefinition,
    StreamStatus,
    VersionStatus,
    ViewStatus,
    WorkspaceStatus,
)
from headrace.server.stored import clean, take_lease
from headrace.server.stream import RunningStream
from headrace.server.threads import join_all
from headrace.server.tokens import Tokens
from headrace.sink.sinks import Sinks
from headrace.spark.failures import one_line
from headrace.spark.jobs import Job
from headrace.spark.process import SparkProcess
from headrace.sql.answer import SqlAnswer, SqlLimit
from headrace.sql.children import Children
from headrace.sql.query import run_sql
from headrace.store.opening import open_store
from headrace.transport.sent import FilePiece
from headrace.workspace.lease import Lease
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        self._definitions = Definitions(
            workspace, lease, self._store, lambda: self._spark.current, self._start_pipeline, self.stopped.is_set
        )
        self._changing = self._definitions.changing
        self._versions = self._definitions.versions
        self.monitor = Monitor(workspace, url, self._store, self._definitions, self._spark)
        self._recent = RecentAnswers(self._store, self.monitor.freshness)
        self._children = Children.of(workspace.settings)
        self._lake_questions = LakeQuestions(
            self._store,
            self._lake_of,
            self._spark.session,
            self.monitor.freshness,
            workspace.data / "scratch" / f"past-{lease.fence}",
        )
        self._tokens = Tokens(self._store, lambda: self._pipelines, self.stopped)
        self._sinks = Sinks(self._store, workspace, self._lake_of)
        self.following = Following(workspace.subscriptions, self._store, self._pipeline, lease.check)
        self.monitor.subscriptions = self.following.subscriptions.statuses
        self._alerts = Alerts(workspace.alerts, self._store, self._count_events, url, workspace)
        self.feeds = ViewFeeds(self._store, self.stopped)
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
        self.following.begin()
        # Not joined: it may be starting Java, which nothing interrupts, and it uses nothing that a stop closes.
        threading.Thread(target=self._run_spark, name="spark", daemon=True).start()
        parts = {"supervisor": self._supervise, "upkeep": self._keep_up, "batch": self._run_batch}
        self._threads = [threading.Thread(target=run, name=name, daemon=True) for name, run in parts.items()]
        for thread in self._threads:
            thread.start()
        self._sinks.reconcile(self._definitions.running.catalog)
        self._alerts.start(self._definitions.running.catalog)

    @property
    def _pipelines(self) -> Mapping[str, RunningStream]:
        """Those that are there now; the mapping does not change while it is looked at."""
        return self._definitions.running.pipelines

    def stop(self) -> None:
        """Stop everything; what was acknowledged is on disk."""
        self.stopped.set()
        self._stop_spark_work()  # an apply may be waiting for some of it
        held = self._changing.acquire(timeout=APPLY_ENDS_S)
        if not held:
            log.warning("stopping beside an apply that does not end")
        try:
            self._stop_spark_work()  # of pipelines that the apply has started meanwhile
            for pipeline in self._pipelines.values():
                pipeline.close()
            self._spark.stop()
        finally:
            if held:
                self._changing.release()
        self._notify()
        self._sinks.stop(THREADS_END_S)
        self.following.close()
        self._alerts.stop()
        # Before what they use is closed. Each of them looks at `stopped`; the jobs that they wait for were cancelled.
        join_all([*self._threads, *self.feeds.threads, self._spark.starting], THREADS_END_S)
        self._children.close()
        self._lake_questions.close()
        self._store.close()
        self._lease.release()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _stop_spark_work(self) -> None:
        for pipeline in self._pipelines.values():
            pipeline.stop_spark()
        self._spark.cancel_all_jobs()

    def _run_spark(self) -> None:
        """Keep Spark running until the server stops."""
        with self._failing():
            self._spark.run()

    def _start_session(self, restart: int) -> SparkSession:
        """A new session. What the Java before it left in its scratch folder is removed."""
        # It loads PySpark: the server accepts events first.
        from headrace.spark.build import build_session, warm_up

        if restart == 0:
            _clear(self._scratch.parent)
        else:
            shutil.rmtree(self._scratch / f"spark-{restart - 1}", ignore_errors=True)
        settings = self.workspace.settings
        spark = build_session(
            self._scratch / f"spark-{restart}",
            master=settings.spark_master,
            driver_memory=settings.spark_memory,
            java_options=settings.spark_java_options,
            log=self.workspace.logs / "spark.log",
        )
        warm_up(spark)
        return spark

    def _on_session(self, spark: SparkSession) -> None:
        """The first session starts the pipelines; with a later one they go on by themselves."""
        with self._failing():
            with self._changing:
                for pipeline in self._pipelines.values():
                    self._start_pipeline(pipeline)
                self.monitor.beat()
            log.info("pipeline ready", seconds=round(time.monotonic() - (self._started or 0), 1))
            self._children.prepare()
            if self.monitor.warming_up:
                self._rehearse(spark)
                self._wait_until_flowing()
                self.monitor.warming_up = None

    def _start_pipeline(self, pipeline: RunningStream) -> None:
        if self._spark.starts and not self.stopped.is_set():
            pipeline.start(self._spark.session, self._scratch, self._notify)

    def _notify(self) -> None:
        """A version moved, another one serves, or the server stops: who waits looks again."""
        self._tokens.notify()
        self._sinks.wake()
        self._alerts.notify()
        self.feeds.notify()
        self.following.notify()

    def _wait_until_flowing(self) -> None:
        """Until every stream looks for events, or says why it does not."""
        deadline = time.monotonic() + FLOWING_WITHIN_S
        while time.monotonic() < deadline and not self.stopped.wait(0.05):
            if all(pipeline.flowing or pipeline.error for pipeline in self._pipelines.values()):
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
        from headrace.server.rehearsal import rehearse  # loads PySpark: the server accepts events first

        began = time.monotonic()
        try:
            rehearse(spark, self._scratch, self._ends_rehearsal)
        except Exception as error:  # it is a convenience: what fails here will fail, and be told, for real events
            if not self.stopped.is_set():
                log.warning("the rehearsal failed", error=str(error).splitlines()[0])
        else:
            log.info("rehearsed", seconds=round(time.monotonic() - began, 1))

    def _ends_rehearsal(self) -> bool:
        return self.stopped.is_set() or any(pipeline.backlog_bytes() for pipeline in self._pipelines.values())

    def _supervise(self) -> None:
        while not self.stopped.wait(BEAT_S):
            try:
                self._lease.check()
                if self.monitor.starting:
                    continue
                for pipeline in self._pipelines.values():
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
            for pipeline in self._pipelines.values():
                pipeline.keep_up(self.stopped.is_set)

    def _run_batch(self) -> None:
        """The batch layer of all streams: a piece of work each in turn, so that none waits for a long build."""
        while not self.stopped.is_set():
            worked = False
            try:
                for pipeline in self._pipelines.values() if self._spark.current is not None else ():
                    if pipeline.batch is not None:
                        worked = pipeline.batch.run_once() or worked
            except Exception:
                if not self.stopped.is_set():
                    log.exception("the batch layer failed")
            if worked:
                self._notify()
            else:
                self.stopped.wait(BEAT_S)

    def _fail(self, error: HeadraceError) -> None:
        """This process must stop: say why, and let whoever waits for it know."""
        if not self.stopped.is_set():
            log.error("stopping", error=str(error))
            self.monitor.failed = error
            self.stopped.set()

    # Definitions

    def plan(self) -> Plan:
        """What the definitions folder asks for, against what runs."""
        return self._definitions.plan()

    def apply(self, expect: str | None = None) -> Plan:
        """Make what is wanted run. `expect` is the fingerprint of the plan that a person said yes to."""
        try:
            with self._changing:
                plan = self._definitions.apply(expect)
                self._sinks.reconcile(self._definitions.running.catalog)
                self._alerts.redefine(self._definitions.running.catalog)
            return plan
        finally:
            self._notify()

    def rollback(self, view: str, to: int | None = None, *, dry_run: bool = False) -> RollbackStep:
        """Make a view what it was in an earlier version; with `dry_run`, say what that takes."""
        try:
            return self._definitions.rollback(view, to, dry_run=dry_run)
        finally:
            self._notify()

    # Events and questions

    def ingest(
        self,
        stream: str,
        body: bytes | memoryview,
        *,
        layout: Layout,
        key: str | None,
        keep_bad: bool,
        file: FilePiece | None = None,
    ) -> Future[IngestReply]:
        """Take a request in; done when it is on disk."""
        return self._pipeline(stream).ingest.take(body, layout=layout, key=key, keep_bad=keep_bad, file=file)

    def sent(self, stream: str, name: str, first: str) -> SentStatus:
        """How far a file was sent to a stream."""
        return self._pipeline(stream).ingest.sent(name, first)

    def ask(self, question: Question, job: Job | None = None) -> Answer:
        """Answer from the store, in one snapshot; AS OF from the lake, by a Spark job."""
        if question.as_of is not None:
            return self._lake_questions.ask(question, job)
        return answer(self._store, question, self.monitor.freshness, datetime.now(UTC))

    def recall(self, view: str, text: bytes) -> bytes | None:
        """The JSON of the answer to a question that was asked before, if the view has not changed; it never waits."""
        return self._recent.find(view, text, datetime.now(UTC))

    def ask_json(self, question: Question, text: bytes) -> bytes:
        """The JSON of the answer from the store, to be recalled by the text of the question."""
        return self._recent.ask(question, text, datetime.now(UTC))

    def changes(self, question: ChangeQuestion) -> Generator[Change, None, None]:
        """The changes of a view as they come, until the server stops."""
        return subscribe(self.feeds, question, self.stopped)

    def sql(self, query: str, limit: SqlLimit = None, job: Job | None = None) -> SqlAnswer:
        """Run a SELECT over the views, in a process of its own; Spark computes views AS OF first."""
        as_of = partial(self._lake_questions.as_of, job=job)
        try:
            return run_sql(self._store, self._children, query, limit, self.monitor.freshness, datetime.now(UTC), as_of)
        finally:
            self._children.prepare()

    def explain(self, question: CellQuestion, job: Job | None = None) -> Explanation:
        """The events behind a cell, found in the lake by Spark."""
        return self._lake_questions.explain(question, job)

    def _lake_of(self, stream: str) -> tuple[Stream, LakeTable]:
        pipeline = self._pipeline(stream)
        return pipeline.stream, pipeline.table

    def versions(self, view: str) -> list[VersionStatus]:
        """The versions of a view, newest first."""
        return self._versions.of(view)

    def audits(self, view: str) -> list[AuditStatus]:
        """What came of comparing the two layers of a view, newest first."""
        return self._versions.audits(view)

    def refresh(self, view: str, *, full: bool = False) -> RefreshStatus:
        """Have the batch layer take over what the speed layer has; in full: build the view anew beside it."""
        return self._versions.refresh(view, full=full)

    def stream(self, name: str) -> StreamDefinition:
        """What a stream is declared to be."""
        return describe_definition(self._pipeline(name).stream)

    def streams(self) -> list[StreamStatus]:
        """All streams with their metrics."""
        return self.monitor.streams()

    def views(self) -> list[ViewStatus]:
        """All views with their versions and freshness."""
        return self.monitor.views()

    def status(self) -> WorkspaceStatus:
        """The state of the server, streams, views and sinks."""
        status, sinks = self.monitor.status(), tuple(self.sinks())
        return replace(
            status,
            warnings=(*status.warnings, *sink_warnings(sinks), *self.following.subscriptions.problems().values()),
            sinks=sinks,
            alerts=tuple(self.alerts()),
        )

    def sinks(self) -> list[SinkStatus]:
        """All sinks with their state and lag."""
        return [describe_sink(state) for state in self._sinks.states()]

    def change_sink(self, name: str, action: str) -> SinkStatus:
        """Pause a sink, resume it, or have a stalled one try again now."""
        state = self._sinks.retry(name) if action == "retry" else self._sinks.pause(name, action == "pause")
        return describe_sink(state)

    def events(self, stream: str, question: EventQuestion, wait_s: float = 0.0) -> EventPage:
        """The next events of a stream; without any, wait for some."""
        return read_events(self.following.log(stream), question, wait_s)

    def subscriptions(self) -> list[SubscriptionStatus]:
        """The named subscriptions."""
        return self.following.subscriptions.statuses()

    def create_subscription(self, name: str, **terms: Any) -> SubscriptionStatus:
        """Create a named subscription, or find the one with these terms."""
        return self.following.subscriptions.create(name, **terms)

    def drop_subscription(self, name: str) -> None:
        """Forget a named subscription."""
        self.following.subscriptions.drop(name)

    def dead_letters(self, stream: str) -> DeadLetters:
        """What a stream could not read."""
        return self._pipeline(stream).dead_letters()

    def alerts(self) -> list[AlertStatus]:
        """All alerts with their incidents and silences."""
        return self._alerts.status()

    def silence(self, alert: str, for_ms: int, values: Mapping[str, object], reason: str = "") -> SilenceStatus:
        """Send no notices of an alert for a time."""
        return self._alerts.silence(alert, values, for_ms, reason)

    def end_silence(self, alert: str, id: str | None = None) -> int:
        """End a silence of an alert, or all of them."""
        return self._alerts.end_silence(alert, id)

    def _count_events(self, stream: str) -> tuple[int, str | None] | None:
        """How many events a stream has, and when the newest was; None while that is not known."""
        pipeline = self._pipelines.get(stream)
        lake = pipeline.lake if pipeline else None
        return None if pipeline is None or lake is None else (pipeline.table.rows(), iso_us(lake.newest_us))

    def skip(self, stream: str, to: str, *, dry_run: bool = False) -> SkipStatus:
        """Leave out offsets of a stream in Kafka; with `dry_run`, only say which."""
        return self._pipeline(stream).skip(parse_place(to), dry_run=dry_run)

    def token(self, token: str) -> TokenState:
        """Whether every view that answers, or is about to, has what the token stands for."""
        return self._tokens.state(token)

    def wait_token(self, token: str, timeout_s: float) -> TokenState:
        """The same, but wait for it to be complete."""
        return self._tokens.wait(token, timeout_s)

    def _pipeline(self, stream: str) -> RunningStream:
        pipelines = self._pipelines
        if stream not in pipelines:
            hint = did_you_mean(stream, pipelines)
            raise NotFoundError(
                f"stream '{stream}' does not exist", fix=f"{hint + ' ' if hint else ''}`headrace streams` lists all"
            )
        return pipelines[stream]


def _clear(scratch: Path) -> None:
    """Remove what earlier processes left. Nothing in it counts."""
    if scratch.exists():
        for left in scratch.iterdir():
            shutil.rmtree(left, ignore_errors=True)
