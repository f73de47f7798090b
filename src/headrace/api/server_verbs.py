"""The verbs of a running server: each is answered by a part of its runtime."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from headrace.api.declaration import Handlers, P, R, Verb
from headrace.api.verbs import Verbs, answer_letters
from headrace.define.definitions import graph_of
from headrace.define.kafka_source import parse_place
from headrace.deliver.change_question import ChangeQuestion
from headrace.deliver.delivery_status import SilenceStatus, SubscriptionStatus
from headrace.deliver.live_feed import LiveFeed, subscribe
from headrace.deliver.stream_logs import read_events
from headrace.serve.change_batch import ViewChange
from headrace.server.composed_status import describe_graph, describe_logical
from headrace.server.runtime import Runtime
from headrace.server.sink_status import describe_sink, sink_warnings
from headrace.server.status import GraphStatus, LogicalStatus, SinkStatus, WorkspaceStatus


class ServerVerbs(Verbs):
    """The verbs of a runtime. All of them may be called from any thread."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._parts = Handlers()
        self._add_events(self._parts)
        self._add_states(self._parts)

    def invoke(self, verb: Verb[P, R], /, *arguments: P.args, **options: P.kwargs) -> R:
        """Answer a verb by the part of the runtime that it is for."""
        function = self._parts.find(verb)
        assert function is not None, verb.name
        return function(*arguments, **options)

    def _add_events(self, verbs: Handlers) -> None:
        """Events, questions and changes."""
        runtime, lookup = self.runtime, self.runtime.lookup
        verbs.on(
            Verbs.ingest,
            lambda stream, body, *, layout, key, keep_bad, file=None: lookup.intake(stream).take(
                body, layout=layout, key=key, keep_bad=keep_bad, file=file
            ),
        )
        verbs.on(Verbs.sent, lambda stream, name, first: lookup.intake(stream).sent(name, first))
        verbs.on(Verbs.wait_token, runtime.tokens.wait)
        verbs.on(
            Verbs.events,
            lambda stream, question, wait_s=0.0: read_events(runtime.logs.log(stream), question, wait_s),
        )
        verbs.on(Verbs.ask, runtime.answering.answer)
        verbs.on(Verbs.explain, runtime.answering.find_events)
        verbs.on(Verbs.sql, runtime.answering.select)
        verbs.on(Verbs.changes, self._subscribe)
        answer_letters(verbs, runtime.logs.letters)
        verbs.on(Verbs.subscriptions, runtime.logs.subscriptions.statuses)
        verbs.on(Verbs.create_subscription, self._create_subscription)
        verbs.on(Verbs.drop_subscription, runtime.logs.subscriptions.drop)

    def _add_states(self, verbs: Handlers) -> None:
        """Definitions, versions, and the state of everything."""
        runtime, lookup, monitor = self.runtime, self.runtime.lookup, self.runtime.monitor
        versions, sinks, alerts = runtime.definitions.versions, runtime.sinks, runtime.alerts
        verbs.on(Verbs.plan, runtime.definitions.compare)
        verbs.on(Verbs.apply, runtime.definitions.take_over)
        verbs.on(Verbs.rollback, runtime.definitions.roll_back)
        verbs.on(Verbs.versions, versions.describe)
        verbs.on(Verbs.audits, versions.describe_audits)
        verbs.on(Verbs.refresh, versions.start_refresh)
        verbs.on(Verbs.sinks, self._describe_sinks)
        verbs.on(Verbs.pause_sink, lambda sink: describe_sink(sinks.pause(sink, True)))
        verbs.on(Verbs.resume_sink, lambda sink: describe_sink(sinks.pause(sink, False)))
        verbs.on(Verbs.retry_sink, lambda sink: describe_sink(sinks.retry(sink)))
        verbs.on(Verbs.alerts, alerts.status)
        verbs.on(Verbs.silence, self._silence)
        verbs.on(Verbs.end_silences, lambda alert: alerts.end_silence(alert))
        verbs.on(Verbs.end_silence, lambda alert, silence: alerts.end_silence(alert, silence))
        verbs.on(
            Verbs.skip,
            lambda stream, to, *, dry_run=False: lookup.pipeline(stream).skip_to(parse_place(to), dry_run=dry_run),
        )
        verbs.on(Verbs.stream, lookup.definition)
        verbs.on(Verbs.streams, monitor.describe_streams)
        verbs.on(Verbs.views, monitor.describe_views)
        verbs.on(Verbs.logical_views, self._describe_logical)
        verbs.on(Verbs.tables, monitor.describe_tables)
        verbs.on(Verbs.graph, self._describe_graph)
        verbs.on(Verbs.status, self._describe)

    def feed(self, view: str, *, settled_only: bool = False) -> LiveFeed:
        """Return the changes of a view, shared by all of its readers."""
        self.runtime.lookup.refuse_logical(view, "changes")
        return self.runtime.feeds.feed(view, settled_only=settled_only)

    def _subscribe(self, question: ChangeQuestion) -> Generator[ViewChange, None, None]:
        """Follow the changes of a view until the server stops."""
        self.runtime.lookup.refuse_logical(question.view, "changes")
        return subscribe(self.runtime.feeds, question, self.runtime.stopped)

    def _create_subscription(self, name: str, **terms: Any) -> SubscriptionStatus:
        self.runtime.lookup.refuse_logical(terms.get("view") or "", "changes")
        return self.runtime.logs.subscriptions.create(name, **terms)

    def _silence(
        self, alert: str, for_ms: int, values: Mapping[str, object] = MappingProxyType({}), reason: str = ""
    ) -> SilenceStatus:
        return self.runtime.alerts.silence(alert, values, for_ms, reason)

    def _describe_sinks(self) -> list[SinkStatus]:
        return [describe_sink(state) for state in self.runtime.sinks.states()]

    def _describe_logical(self) -> list[LogicalStatus]:
        logical = self.runtime.lookup.logical
        return describe_logical(logical, self.views()) if logical else []

    def _describe_graph(self) -> GraphStatus:
        return describe_graph(graph_of(self.runtime.lookup.catalog), self.status(), self.tables())

    def _describe(self) -> WorkspaceStatus:
        """Return the state of all parts."""
        runtime = self.runtime
        status, sinks = runtime.monitor.describe_workspace(), tuple(self._describe_sinks())
        subscriptions = runtime.logs.subscriptions
        return replace(
            status,
            warnings=(*status.warnings, *sink_warnings(sinks), *subscriptions.problems().values()),
            sinks=sinks,
            subscriptions=tuple(subscriptions.statuses()),
            logical=tuple(describe_logical(runtime.lookup.logical, status.views)),
            alerts=tuple(runtime.alerts.status()),
        )
