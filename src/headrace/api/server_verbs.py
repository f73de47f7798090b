"""The verbs of a running server: each is answered by a part of its runtime."""

from __future__ import annotations

from headrace.api.declaration import Handlers, P, R, Verb
from headrace.api.verbs import Verbs, answer_letters
from headrace.server.runtime import Runtime


class ServerVerbs(Verbs):
    """The verbs of a runtime. All of them may be called from any thread."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._parts = parts = Handlers()
        parts.on(Verbs.ingest, runtime.ingest)
        parts.on(Verbs.sent, runtime.sent)
        parts.on(Verbs.wait_token, runtime.wait_token)
        parts.on(Verbs.events, runtime.events)
        parts.on(Verbs.ask, runtime.ask)
        parts.on(Verbs.explain, runtime.explain)
        parts.on(Verbs.sql, runtime.sql)
        parts.on(Verbs.changes, runtime.changes)
        answer_letters(parts, runtime.dead_letters)
        parts.on(Verbs.subscriptions, runtime.subscriptions)
        parts.on(Verbs.create_subscription, runtime.create_subscription)
        parts.on(Verbs.drop_subscription, runtime.drop_subscription)
        parts.on(Verbs.versions, runtime.versions)
        parts.on(Verbs.audits, runtime.audits)
        parts.on(Verbs.rollback, runtime.rollback)
        parts.on(Verbs.refresh, runtime.refresh)
        parts.on(Verbs.sinks, runtime.sinks)
        parts.on(Verbs.pause_sink, lambda sink: runtime.change_sink(sink, "pause"))
        parts.on(Verbs.resume_sink, lambda sink: runtime.change_sink(sink, "resume"))
        parts.on(Verbs.retry_sink, lambda sink: runtime.change_sink(sink, "retry"))
        parts.on(Verbs.alerts, runtime.alerts)
        parts.on(Verbs.silence, runtime.silence)
        parts.on(Verbs.end_silences, runtime.end_silence)
        parts.on(Verbs.end_silence, lambda alert, silence: runtime.end_silence(alert, silence))
        parts.on(Verbs.skip, runtime.skip)
        parts.on(Verbs.stream, runtime.stream)
        parts.on(Verbs.streams, runtime.streams)
        parts.on(Verbs.views, runtime.views)
        parts.on(Verbs.logical_views, runtime.logical_views)
        parts.on(Verbs.tables, runtime.tables)
        parts.on(Verbs.graph, runtime.graph)
        parts.on(Verbs.status, runtime.status)
        parts.on(Verbs.plan, runtime.plan)
        parts.on(Verbs.apply, runtime.apply)

    def invoke(self, verb: Verb[P, R], /, *arguments: P.args, **options: P.kwargs) -> R:
        """Answer a verb by the part of the runtime that it is for."""
        function = self._parts.find(verb)
        assert function is not None, verb.name
        return function(*arguments, **options)
