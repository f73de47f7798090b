"""A workspace without a running server: reads from the store, writes to the journal; Spark only reads the lake.

Each part is loaded by the first verb that needs it, so that commands start quickly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.api.declaration import Handlers, P, R, Verb
from headrace.api.local_folder import DOWN, START_IT, WorkspaceFolder
from headrace.api.verbs import Backend, Verbs, answer_letters, needs_server
from headrace.errors import NotReadyError
from headrace.lazy import later
from headrace.server.composed_status import refuse_logical
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from headrace.api import local_events, local_planning, local_questions, local_status, local_writer
    from headrace.deliver.alerts import alert_condition, alert_state
    from headrace.deliver.change_question import ChangeQuestion
    from headrace.deliver.delivery_status import AlertStatus
    from headrace.ingest.receiver import TokenState
    from headrace.serve.change_batch import ViewChange
    from headrace.server import describe_stream
else:
    local_events, local_planning = later("headrace.api.local_events"), later("headrace.api.local_planning")
    local_questions, local_status = later("headrace.api.local_questions"), later("headrace.api.local_status")
    local_writer, describe_stream = later("headrace.api.local_writer"), later("headrace.server.describe_stream")
    alert_condition = later("headrace.deliver.alerts.alert_condition")
    alert_state = later("headrace.deliver.alerts.alert_state")


class LocalWorkspace(Backend):
    """The reading verbs of a server, and ingestion of events that it processes when it starts."""

    def __init__(self, workspace: Workspace) -> None:
        self._folder = WorkspaceFolder(workspace)
        self._verbs = Handlers()
        self._add_events(self._verbs)
        self._add_states(self._verbs)

    def __repr__(self) -> str:
        return f"the folder {self._folder.workspace.folder.resolve()}, without a server"

    def invoke(self, verb: Verb[P, R], /, *arguments: P.args, **options: P.kwargs) -> R:
        """Answer a verb from the folder; those that need a server are refused."""
        answer = self._verbs.find(verb)
        if answer is None:
            raise needs_server()
        return answer(*arguments, **options)

    def _add_events(self, verbs: Handlers) -> None:
        """Events, questions and definitions."""
        verbs.on(
            Verbs.ingest,
            lambda stream, body, *, layout, key, keep_bad, file=None: self._writer.intake(stream, self.on_wait).take(
                body, layout=layout, key=key, keep_bad=keep_bad, file=file
            ),
        )
        verbs.on(Verbs.sent, lambda stream, name, first: self._writer.intake(stream, self.on_wait).sent(name, first))
        verbs.on(Verbs.wait_token, self._refuse_token)
        verbs.on(Verbs.ask, lambda question, job=None: self._questions.answer(question, job))
        verbs.on(Verbs.explain, lambda question, job=None: self._questions.find_events(question, job))
        verbs.on(Verbs.sql, lambda query, limit=None, job=None: self._questions.select(query, limit, job))
        verbs.on(Verbs.changes, self._refuse_changes)
        verbs.on(Verbs.events, lambda stream, question, wait_s=0.0: self._events.read(stream, question, wait_s))
        answer_letters(verbs, lambda stream: self._events.letters(stream))
        verbs.on(Verbs.plan, lambda: self._planning.compare())
        verbs.on(Verbs.apply, lambda expect=None: self._planning.take_over(expect, self.hold))

    def _add_states(self, verbs: Handlers) -> None:
        """The state of the workspace, as its last server left it."""
        verbs.on(Verbs.stream, lambda name: describe_stream.describe_definition(self._writer.find_stream(name)))
        verbs.on(Verbs.streams, lambda: self._state.describe_streams())
        verbs.on(Verbs.views, lambda: self._state.describe_views())
        verbs.on(Verbs.logical_views, lambda: self._state.describe_logical_views())
        verbs.on(Verbs.tables, lambda: self._state.describe_tables())
        verbs.on(Verbs.versions, lambda view: self._state.list_versions(view))
        verbs.on(Verbs.audits, lambda view: self._state.list_audits(view))
        verbs.on(Verbs.sinks, lambda: self._state.describe_sinks())
        verbs.on(Verbs.status, lambda: self._state.describe_workspace())
        verbs.on(Verbs.graph, lambda: self._state.compose_graph())
        verbs.on(Verbs.alerts, self._describe_alerts)
        verbs.on(Verbs.silence, _refuse("alert '{}' cannot be silenced"))
        verbs.on(Verbs.end_silence, _refuse("alert '{}' cannot be changed"))
        verbs.on(Verbs.end_silences, _refuse("alert '{}' cannot be changed"))
        for verb in (Verbs.pause_sink, Verbs.resume_sink, Verbs.retry_sink):
            verbs.on(verb, _refuse("sink '{}' is not running"))
        verbs.on(Verbs.rollback, _refuse("view '{}' cannot be rolled back", self._folder.store_of))
        verbs.on(Verbs.refresh, _refuse("view '{}' cannot be refreshed", self._folder.store_of))
        verbs.on(Verbs.skip, _refuse("stream '{}' cannot skip offsets", self._folder.find_stream))

    @cached_property
    def _state(self) -> local_status.LocalStatus:
        return local_status.LocalStatus(self._folder)

    @cached_property
    def _questions(self) -> local_questions.LocalQuestions:
        return local_questions.LocalQuestions(self._folder)

    @cached_property
    def _planning(self) -> local_planning.LocalPlanning:
        return local_planning.LocalPlanning(self._folder)

    @cached_property
    def _events(self) -> local_events.LocalEvents:
        return local_events.LocalEvents(self._folder, lambda name: self._writer.find_stream(name))

    @cached_property
    def _writer(self) -> local_writer.LocalWriter:
        return local_writer.LocalWriter(self._folder, self._apply_creates)

    def close(self) -> None:
        """Release all resources, so that a server can start."""
        if "_questions" in vars(self):
            self._questions.close()
        self.release()
        self._folder.close()

    def hold(self) -> None:
        """Take the lease, after other processes that write without a server; `release` and `close` release it."""
        self._writer.hold(self.on_wait)

    def release(self) -> None:
        """Let other processes write; the next write takes the lease again."""
        if "_writer" in vars(self):
            self._writer.release()

    def _apply_creates(self) -> None:
        if self.plan().only_creates:
            self.apply()

    def _describe_alerts(self) -> list[AlertStatus]:
        now_us, alerts, folder = time.time_ns() // 1000, self._folder.catalog.alerts, self._folder.workspace.alerts
        states = {name: alert_state.read_state(alert_state.state_file(folder, name)) for name in alerts}
        return [alert_condition.describe(alert, states[name], now_us, DOWN, None) for name, alert in alerts.items()]

    def _refuse_changes(self, question: ChangeQuestion) -> Generator[ViewChange, None, None]:
        refuse_logical(self._folder.catalog.logical, question.view, "changes")
        if question.view not in self._folder.catalog.views:
            raise self._folder.unknown_view(question.view)
        raise NotReadyError(
            f"{DOWN}, so view '{question.view}' does not change",
            fix="`headrace up` starts it; `headrace ask` shows the current rows",
        )

    def _refuse_token(self, token: str, timeout_s: float) -> TokenState:
        raise NotReadyError(
            "the events are accepted, but no server is running, so views do not have them yet",
            fix="`headrace up` processes them; they need not be sent again",
        )


def _refuse(what: str, check: Callable[[str], object] = str) -> Callable[..., Any]:
    """Return a function that refuses what only a server does, of something that has to be there."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        name = next(iter((*arguments, *options.values())))
        check(name)
        raise NotReadyError(f"{what.format(name)}: {DOWN}", fix=START_IT)

    return refuse
