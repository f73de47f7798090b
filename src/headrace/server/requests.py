"""What a running workspace is asked and told: each request is passed on to the part that it is for."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import orjson

from headrace.define.definitions import Catalog, graph_of, views_reading
from headrace.define.kafka_source import parse_place
from headrace.define.model import LogicalView, Stream
from headrace.deliver.alerts.running_alerts import Alerts
from headrace.deliver.change_question import ChangeQuestion
from headrace.deliver.delivery_status import AlertStatus, SilenceStatus, SubscriptionStatus
from headrace.deliver.event_page import EventPage, EventQuestion
from headrace.deliver.failed_events import FailedCalls
from headrace.deliver.live_feed import LiveFeed, LiveFeeds, subscribe
from headrace.deliver.sinks.running_sinks import Sinks
from headrace.deliver.stream_logs import read_events
from headrace.errors import QuestionError, no_own_log, not_a_stream, not_a_view, unknown
from headrace.format import iso_us
from headrace.ingest.formats.format_detection import FileLayout
from headrace.ingest.intake import Ingest, refuse_derived
from headrace.ingest.receiver import IngestReply, SentStatus, TokenState
from headrace.lake.dead_letter_pages import DeadLetters
from headrace.lake.delta_table import LakeTable
from headrace.plan.planned_change import Plan, RollbackStep
from headrace.serve.answer import Answer
from headrace.serve.change_batch import ViewChange
from headrace.serve.evaluate import answer
from headrace.serve.explanation import CellQuestion, Explanation
from headrace.serve.past.past_questions import LakeQuestions
from headrace.serve.question import Question
from headrace.serve.question_times import AsOf
from headrace.serve.recent_answers import RecentAnswers
from headrace.serve.sql.children import Children
from headrace.serve.sql.logical_answers import AnswerPages, ask_logical
from headrace.serve.sql.sql_answer import SqlAnswer, SqlLimit
from headrace.serve.sql.view_queries import run_sql
from headrace.server.applied_definitions import AppliedDefinitions
from headrace.server.composed_status import describe_graph, describe_logical, refuse_logical
from headrace.server.describe_stream import describe_definition
from headrace.server.ingest_tokens import IngestTokens
from headrace.server.monitor import Monitor
from headrace.server.open_logs import OpenLogs
from headrace.server.running_stream import RunningStream
from headrace.server.sink_status import describe_sink, sink_warnings
from headrace.server.status import (
    AuditStatus,
    GraphStatus,
    LogicalStatus,
    RefreshStatus,
    SinkStatus,
    SkipStatus,
    StreamDefinition,
    StreamStatus,
    TableStatus,
    VersionStatus,
    ViewStatus,
    WorkspaceStatus,
)
from headrace.server.view_versions import ViewVersions
from headrace.spark.jobs import Job
from headrace.store.store_contract import Store
from headrace.store.time_limit import TimeLimit
from headrace.transport.sent_files import FilePiece


class Requests:
    """The requests of a `Runtime`, which makes the parts. All of them may be called from any thread."""

    monitor: Monitor
    following: OpenLogs
    feeds: LiveFeeds
    stopped: threading.Event
    _store: Store
    _definitions: AppliedDefinitions
    _versions: ViewVersions
    _changing: threading.RLock
    _recent: RecentAnswers
    _question_limit: TimeLimit
    _pages: AnswerPages
    _children: Children
    _lake_questions: LakeQuestions
    _tokens: IngestTokens
    _sinks: Sinks
    _alerts: Alerts

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
        refuse_logical(self._logical, view, "versions")
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
        layout: FileLayout,
        key: str | None,
        keep_bad: bool,
        file: FilePiece | None = None,
    ) -> Future[IngestReply]:
        """Take a request in; done when it is on disk."""
        return self._intake(stream).take(body, layout=layout, key=key, keep_bad=keep_bad, file=file)

    def sent(self, stream: str, name: str, first: str) -> SentStatus:
        """How far a file was sent to a stream."""
        return self._intake(stream).sent(name, first)

    def ask(self, question: Question, job: Job | None = None) -> Answer:
        """Answer from the store, in one snapshot; AS OF from the lake, by a Spark job."""
        logical = self._logical.get(question.view)
        if logical is not None:
            return ask_logical(logical, question, partial(self._sql_as_of, job), self._pages)
        self._refuse_stream(question.view)
        if question.as_of is not None:
            return self._lake_questions.ask(question, job)
        with self._question_limit.watch():
            return answer(self._store, question, self.monitor.freshness, datetime.now(UTC))

    def recall(self, view: str, text: bytes) -> bytes | None:
        """The JSON of the answer to a question that was asked before, if the view has not changed; it never waits."""
        return self._recent.find(view, text, datetime.now(UTC))

    def ask_json(self, question: Question, text: bytes) -> bytes:
        """The JSON of the answer from the store, to be recalled by the text of the question."""
        if question.view in self._logical:
            return orjson.dumps(self.ask(question).as_dict())
        self._refuse_stream(question.view)
        with self._question_limit.watch():
            return self._recent.ask(question, text, datetime.now(UTC))

    def ask_cached(self, question: Question, text: bytes) -> bytes | None:
        """The same if the rows are in memory; else None. It never waits."""
        if question.view in self._logical:
            return None
        self._refuse_stream(question.view)
        return self._recent.ask_cached(question, text, datetime.now(UTC))

    def changes(self, question: ChangeQuestion) -> Generator[ViewChange, None, None]:
        """The changes of a view as they come, until the server stops."""
        refuse_logical(self._logical, question.view, "changes")
        return subscribe(self.feeds, question, self.stopped)

    def feed(self, view: str, *, settled_only: bool = False) -> LiveFeed:
        """The changes of a view, shared by all who follow it."""
        refuse_logical(self._logical, view, "changes")
        return self.feeds.feed(view, settled_only=settled_only)

    def sql(self, query: str, limit: SqlLimit = None, job: Job | None = None) -> SqlAnswer:
        """Run a SELECT over the views, in a process of its own; Spark computes views AS OF first."""
        return self._sql_as_of(job, query, limit, None)

    def _sql_as_of(self, job: Job | None, query: str, limit: SqlLimit, as_of: AsOf | None) -> SqlAnswer:
        try:
            return run_sql(
                self._store,
                self._children,
                query,
                limit,
                self.monitor.freshness,
                datetime.now(UTC),
                partial(self._lake_questions.as_of, job=job),
                self._logical,
                as_of,
            )
        finally:
            self._children.prepare()

    def explain(self, question: CellQuestion, job: Job | None = None) -> Explanation:
        """The events behind a cell, found in the lake by Spark."""
        refuse_logical(self._logical, question.view, "events of its own")
        return self._lake_questions.explain(question, job)

    def _lake_of(self, stream: str) -> tuple[Stream, LakeTable]:
        pipeline = self._pipeline(stream)
        return pipeline.stream, pipeline.table

    def versions(self, view: str) -> list[VersionStatus]:
        """The versions of a view, newest first."""
        refuse_logical(self._logical, view, "versions")
        return self._versions.of(view)

    def audits(self, view: str) -> list[AuditStatus]:
        """What came of comparing the two layers of a view, newest first."""
        refuse_logical(self._logical, view, "audits")
        return self._versions.audits(view)

    def refresh(self, view: str, *, full: bool = False, tables: str | None = None) -> RefreshStatus:
        """Have the batch layer take over what the speed layer has; in full: build the view anew beside it."""
        refuse_logical(self._logical, view, "rows to refresh")
        return self._versions.refresh(view, full=full, tables=tables)

    def stream(self, name: str) -> StreamDefinition:
        """What a stream is declared to be."""
        derived = self._derived(name)
        return describe_definition(derived or self._pipeline(name).stream)

    def streams(self) -> list[StreamStatus]:
        """All streams with their metrics."""
        return self.monitor.streams()

    def views(self) -> list[ViewStatus]:
        """All views with their versions and freshness."""
        return self.monitor.views()

    def tables(self) -> list[TableStatus]:
        """All tables with rows, version and freshness."""
        return self.monitor.tables()

    @property
    def catalog(self) -> Catalog:
        """The definitions that run."""
        return self._definitions.running.catalog

    def logical_views(self) -> list[LogicalStatus]:
        """All logical views with their freshness."""
        return describe_logical(self._logical, self.monitor.views()) if self._logical else []

    def status(self) -> WorkspaceStatus:
        """The state of the server, streams, views and sinks."""
        status, sinks = self.monitor.status(), tuple(self.sinks())
        return replace(
            status,
            warnings=(*status.warnings, *sink_warnings(sinks), *self.following.subscriptions.problems().values()),
            sinks=sinks,
            logical=tuple(describe_logical(self._logical, status.views)),
            alerts=tuple(self.alerts()),
        )

    def graph(self) -> GraphStatus:
        """What reads what, with rates and freshness."""
        return describe_graph(graph_of(self._definitions.running.catalog), self.status(), self.tables())

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
        refuse_logical(self._logical, terms.get("view") or "", "changes")
        return self.following.subscriptions.create(name, **terms)

    def drop_subscription(self, name: str) -> None:
        """Drop a named subscription."""
        self.following.subscriptions.drop(name)

    def dead_letters(self, stream: str) -> DeadLetters | FailedCalls:
        """What a stream could not read; of a derived one or a view, the rows that it leaves out."""
        derived, catalog = self._derived(stream), self._definitions.running.catalog
        if derived is not None or (stream in catalog.views and stream not in catalog.streams):
            following = self.following
            calls = following.failed_calls(derived) if derived else following.view_letters(catalog.views[stream])
            calls.refill = partial(self._refill, stream)
            return calls
        return self._pipeline(stream).dead_letters()

    def _refill(self, name: str) -> dict[str, int]:
        """Build a view, or those that read a derived stream, anew with the keys that were missing; their versions."""
        views = views_reading(self._definitions.running.catalog, name)
        if not views:
            raise QuestionError(
                f"no materialized view reads stream '{name}': nothing can be replayed",
                fix="readers of its events continue after their cursors; `headrace tail` shows the rows of new events",
            )
        return {view: self.refresh(view, full=True, tables="missing").version for view in views}

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

    def _intake(self, stream: str) -> Ingest:
        derived = self._derived(stream)
        if derived is not None:
            refuse_derived(derived)
        return self._pipeline(stream).ingest

    def _refuse_stream(self, view: str) -> None:
        catalog = self._definitions.running.catalog
        if view in catalog.streams and view not in catalog.views:
            raise not_a_view(view)

    def _derived(self, stream: str) -> Stream | None:
        """The stream, if it is a derived one: it has no pipeline."""
        known = self._definitions.running.catalog.streams.get(stream)
        return known if known is not None and known.relation is not None else None

    def _pipeline(self, stream: str) -> RunningStream:
        pipelines = self._pipelines
        derived = self._derived(stream)
        if derived is not None and derived.relation is not None:
            raise no_own_log(stream, derived.relation.streams)
        if stream not in pipelines:
            catalog = self._definitions.running.catalog
            known = stream in catalog.views or stream in catalog.logical
            raise not_a_stream(stream) if known else unknown("stream", stream, pipelines)
        return pipelines[stream]

    @property
    def _logical(self) -> Mapping[str, LogicalView]:
        return self._definitions.running.catalog.logical

    @property
    def _pipelines(self) -> Mapping[str, RunningStream]:
        """Those that are there now; the mapping does not change while it is looked at."""
        return self._definitions.running.pipelines

    def _notify(self) -> None:
        """A version moved, another one serves, or the server stops: who waits looks again."""
        self._tokens.notify()
        self._sinks.wake()
        self._alerts.notify()
        self.feeds.notify()
        self.following.notify()
