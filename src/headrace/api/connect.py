"""`connect`: a workspace in Python, through its server if one is running, else directly from its folder."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from headrace.api.declaration import P, R, Verb
from headrace.api.paging import read_whole
from headrace.api.verb_requests import LETTERS
from headrace.api.verbs import Backend, Verbs, needs_server
from headrace.deliver.delivery_status import DEFAULT_BATCH, DEFAULT_CREDIT, SubscriptionStatus
from headrace.errors import HeadraceError, InUseError
from headrace.ingest.formats.format_detection import ANY, FileLayout
from headrace.lazy import later
from headrace.serve.question import Keys, Question
from headrace.server.status import StreamStatus, ViewStatus
from headrace.workspace.lease_holder import live_holder
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from headrace.api import consumer, event_sender, local, objects, remote
    from headrace.deliver import change_question, event_page
    from headrace.ingest import sending as file_sending
    from headrace.ingest.generator import Generated
    from headrace.ingest.receiver import IngestReply, TokenState
    from headrace.lake.dead_letters import DeadLetter, DeadLetterPage, DeadLetterReason, ReplayStep
    from headrace.serve import explanation
    from headrace.serve.answer import Answer
    from headrace.serve.change_batch import ViewChange
    from headrace.serve.sql.sql_answer import SqlAnswer, SqlLimit
    from headrace.spark.jobs import Job
else:  # what some commands do without
    consumer, event_sender = later("headrace.api.consumer"), later("headrace.api.event_sender")
    local, remote = later("headrace.api.local"), later("headrace.api.remote")
    objects, file_sending = later("headrace.api.objects"), later("headrace.ingest.sending")
    change_question, event_page = later("headrace.deliver.change_question"), later("headrace.deliver.event_page")
    explanation = later("headrace.serve.explanation")

Table: TypeAlias = Any  # a pandas DataFrame, an Arrow table, or another object that exports Arrow streams
Events: TypeAlias = Mapping[str, Any] | Iterable[Mapping[str, Any]] | Table | bytes | Path
SERVER_WITHIN_S = 3.0  # how long to wait for a server after a write without one
PAUSE_S = 0.1


class Connection:
    """A connection to a workspace. Close it, or use it in a `with` block."""

    def __init__(self, backend: Backend, reconnect: Callable[[], Backend | None] | None = None) -> None:
        self._backend = backend
        self._reconnect = reconnect  # to a server that was started later, for a folder without one

    def __repr__(self) -> str:
        return f"connection to {self._backend!r}"

    @property
    def url(self) -> str | None:
        """URL of the server in use; None without a server."""
        return self._backend.url

    @property
    def verbs(self) -> Verbs:
        """All verbs of the workspace, as values, such as `verbs.alerts()[0].firing`."""
        return self._backend

    def invoke(self, verb: Verb[P, R], /, *arguments: P.args, **options: P.kwargs) -> R:
        """Answer a verb of `Verbs`."""
        return self._backend.invoke(verb, *arguments, **options)

    def on_wait(self, callback: Callable[[HeadraceError, float], None]) -> None:
        """Set a function to call on each wait: for a server that is starting or busy, or for another process."""
        self._backend.on_wait = callback

    def ask(
        self,
        view: str,
        key: Keys | None = None,
        by: str | Iterable[str] | None = None,
        start: Any = None,
        end: Any = None,
        window: Any = None,
        every: Any = None,
        limit: int | None = None,
        cursor: str | None = None,
        version_as_of: int | str | Mapping[str, int] | None = None,
        timestamp_as_of: Any = None,
        order: str | None = None,
        settled_only: bool = False,
        corrections: bool = False,
        having: str | None = None,
        order_by: str | None = None,
        zone: str | None = None,
        cumulate: Any = None,
    ) -> Answer:
        """Query a view; docs/python.md describes the parameters.

        Returns all rows unless a limit is given; `next_cursor` then continues after the last row.
        """
        question = Question.of(
            view,
            key,
            by=by,
            start=start,
            end=end,
            window=window,
            every=every,
            limit=limit,
            cursor=cursor,
            version_as_of=version_as_of,
            timestamp_as_of=timestamp_as_of,
            order=order,
            settled_only=settled_only,
            corrections=corrections,
            having=having,
            order_by=order_by,
            zone=zone,
            cumulate=cumulate,
        )
        return self.whole(question) if limit is None else self.answer(question)

    def changes(self, question: change_question.ChangeQuestion) -> Generator[ViewChange, None, None]:
        """The changes of a view, as `subscribe` gives them, for a ChangeQuestion."""
        if self.url is None:  # a server may have been started meanwhile
            self._change_to_server()
        return self._backend.changes(question)

    def lookup(self, view: str, keys: Sequence[Mapping[str, Any]], **options: Any) -> Answer:
        """The rows of many keys, in the order of the keys; `missing` of the answer lists the keys without rows.

        `options` are `start`, `end`, `window`, `every`, `cumulate`, `zone`, `order`, `settled_only`, `corrections`,
        `version_as_of` and `timestamp_as_of`, as in `ask`.
        """
        return self.answer(Question.lookup_of(view, keys, **options))

    def answer(self, question: Question, job: Job | None = None) -> Answer:
        """One page of the answer to a question; the job reports progress of a question about an earlier state."""
        return self._backend.ask(question, job)

    def whole(self, question: Question, job: Job | None = None) -> Answer:
        """All rows from the question's cursor on, read page by page; see `headrace.api.paging`.

        The question's limit is that of the first page; None is as many as the view declares.
        """
        return read_whole(lambda page: self._backend.ask(page, job), question)

    def explain(
        self,
        view: str,
        key: Mapping[str, Any] | None = None,
        at: Any = None,
        window: Any = None,
        every: Any = None,
        limit: int | None = None,
        cursor: int | None = None,
        zone: str | None = None,
    ) -> explanation.Explanation:
        """The events behind one cell of a view; `CellQuestion` describes the parameters."""
        return self.explained(explanation.CellQuestion.of(view, key, at, window, every, limit, cursor, zone))

    def explained(self, question: explanation.CellQuestion, job: Job | None = None) -> explanation.Explanation:
        """The same for a CellQuestion; the job reports progress when no server is running."""
        return self._backend.explain(question, job)

    def sql(self, query: str, *, limit: int | None = None, job: Job | None = None) -> SqlAnswer:
        """Run a SELECT over the views; each view is a table. Returns all rows unless a limit is given."""
        return self.select(query, "all" if limit is None else limit, job)

    def select(self, query: str, limit: SqlLimit, job: Job | None = None) -> SqlAnswer:
        """The same with a limit as in HTTP: a number, 'all', or None for 1,000 rows."""
        return self._backend.sql(query, limit, job)

    def send(self, stream: str, events: Events, *, key: str | None = None, again: bool = False) -> IngestReply:
        """Send one event, several events, a table, bytes in any format, or a file or folder.

        An event is a mapping. A table is a pandas DataFrame, an Arrow table, or another object that exports Arrow
        streams. A file or folder is a `Path`. Events of a file that cannot be parsed become dead letters; others are
        refused, and the reply says why. If a file was sent before, only new events are sent, unless `again` is true.
        """
        if isinstance(events, Path):
            return self.send_files(stream, [events], again=again)
        return self._sender().send_events(stream, events, key)

    def send_files(
        self,
        stream: str,
        paths: Iterable[Path],
        progress: file_sending.SendProgress | None = None,
        layout: FileLayout = ANY,
        *,
        again: bool = False,
    ) -> file_sending.SendReply:
        """Send files and folders; of each file, only what was not sent before. The token covers all of them."""
        return self._sender(progress).files(stream, paths, progress, layout, again=again)

    def generate(
        self,
        stream: str,
        events: int,
        *,
        seed: int = 0,
        rate: float = 1000,
        fields: Mapping[str, str] | None = None,
        start: str | None = None,
        again: bool = False,
    ) -> file_sending.SendReply:
        """Send generated events. The same seed gives the same events; events that were sent before are not sent again.

        `fields` has rules such as `{"page": "zipf(50)"}`; `rate` is the number of events per second of event time,
        from `start` on, which is a time or `"now"`.
        """
        sender, endless = self._sender(), threading.Event()
        generated = sender.generated(stream, events, seed, rate, fields or {}, start, endless, at_once=True)
        return file_sending.send_all(sender.sending(stream, None, again=again, endless=False), [generated])

    def sending(
        self,
        stream: str,
        progress: file_sending.SendProgress | None = None,
        *,
        again: bool = False,
        endless: bool = False,
    ) -> file_sending.Sending:
        """Send several files step by step; events that cannot be parsed become dead letters.

        With `endless`, it waits for an unavailable server without a time limit, and recognizes renamed files.
        """
        return self._sender(progress).sending(stream, progress, again=again, endless=endless)

    def generated(self, stream: str, **options: Any) -> Generated:
        """Generated events for a stream, to be sent by `sending`; the options are those of `Sender.generated`."""
        return self._sender().generated(stream, **options)

    def _sender(self, progress: file_sending.SendProgress | None = None) -> event_sender.EventSender:
        if progress:
            self._backend.on_wait = progress.waits
        self._take_turn()
        return event_sender.EventSender(self._backend)

    def _take_turn(self) -> None:
        """Become the writer; if a server has taken the workspace meanwhile, write through it."""
        try:
            self._backend.hold()
        except InUseError:
            if not self._change_to_server():
                raise

    def _need_server(self) -> None:
        """Use the server that runs now. The folder is not opened: that could keep a server from starting."""
        if self.url is None and not self._change_to_server():
            raise needs_server()

    def _change_to_server(self) -> bool:
        """Use the server that runs now, if one does."""
        server = self._reconnect() if self._reconnect else None
        if server is None:
            return False
        server.on_wait = self._backend.on_wait
        self._backend.close()
        self._backend = server
        return True

    def wait(self, token: str, timeout: float = 60.0) -> TokenState:
        """Wait up to `timeout` seconds until every serving view has the events of a token."""
        if self.url is None:  # a server may be waiting for this process, and starts a moment after it has written
            self._backend.release()
            deadline = time.monotonic() + min(timeout, SERVER_WITHIN_S)
            while not self._change_to_server() and time.monotonic() < deadline:
                time.sleep(PAUSE_S)
        return self._backend.wait_token(token, timeout)

    plan, apply = Verbs.plan, Verbs.apply
    versions, rollback, refresh, audits = Verbs.versions, Verbs.rollback, Verbs.refresh, Verbs.audits
    skip = Verbs.skip

    def dead_letters(self, stream: str) -> StreamDeadLetters:
        """The dead letters of a stream: `page()`, `reasons()`, `show(position)`, `replay()`."""
        return StreamDeadLetters(self._backend, stream)

    def tail(
        self,
        stream: str,
        start: Any = None,
        *,
        last: int | None = None,
        where: str | None = None,
        key: Mapping[str, Any] | None = None,
        follow: bool = True,
    ) -> Iterator[event_page.StreamEvent]:
        """The events of a stream, in the order of the log, as they arrive.

        `start` is `"latest"` (default), `"earliest"`, the `cursor` of an event, or a time; `last` begins with this
        number of the last events instead. With `follow=False` it ends after the last existing event.
        """
        question = event_page.EventQuestion(start=start, last=last, where=where, key=key)
        return consumer.tail_events(self._backend, stream, question, follow=follow)

    def subscribe(
        self,
        what: str,
        *,
        where: str | None = None,
        key: Mapping[str, Any] | None = None,
        name: str | None = None,
        guarantee: str | None = None,
        start: Any = None,
        timeout: Any = None,
        limit: int = DEFAULT_BATCH,
        credit: int = DEFAULT_CREDIT,
        snapshot: bool = True,
        settled_only: bool = False,
        cursor: str | None = None,
    ) -> Iterable[Any]:
        """The changes of a view or the events of a stream, as they happen; it never ends.

        For a view, it returns all rows first (unless `snapshot` is false), then each row that changes. A `ViewChange`
        has `op` (upsert, delete or restart), `row`, `version`, `commit` and, on the last change of a batch, a `cursor`
        to continue after it. `where` is a condition on the columns, `key` selects by keys; `settled_only` selects rows
        of settled windows. For a stream, it is the same as `tail`.

        With a name, it is a member of a named subscription, whose position is stored on the server. The members of a
        subscription share its events; each subscription receives all events. A subscription that does not exist is
        created: `guarantee` is `"at-least-once"` (default) or `"at-most-once"`, `start` as in `tail`, `timeout` the
        time after which events without `ack()` are delivered again (default 30 s). `limit` is the maximum number of
        events in a batch, `credit` the maximum number of unacknowledged events of this member.
        """
        if name is None:
            if consumer.kind_of(self._backend, what) == "view":
                return self.changes(change_question.ChangeQuestion.of(what, key, where, snapshot, settled_only, cursor))
            return self.tail(what, cursor or start, where=where, key=key)
        self._need_server()
        kind = consumer.kind_of(self._backend, what)
        self._backend.create_subscription(
            name, **{kind: what}, guarantee=guarantee, where=where, key=key, start=start, timeout=timeout
        )
        return consumer.Subscription(self._backend, name, limit=limit, credit=max(credit, limit))

    def subscriptions(self) -> list[SubscriptionStatus]:
        """The named subscriptions: terms, lag, events in flight, members."""
        self._need_server()
        return self._backend.subscriptions()

    def drop_subscription(self, name: str) -> None:
        """Drop a named subscription."""
        self._need_server()
        self._backend.drop_subscription(name)

    def streams(self) -> list[StreamStatus]:
        """All streams and their metrics; notebooks show them as a table."""
        return objects.Listing(self._backend.streams(), objects.streams_html)

    def views(self) -> list[ViewStatus]:
        """All views with their versions and freshness; notebooks show them as a table."""
        return objects.Listing(self._backend.views(), objects.views_html)

    logical_views, tables, graph = Verbs.logical_views, Verbs.tables, Verbs.graph
    sinks, status = Verbs.sinks, Verbs.status

    def table(self, name: str) -> objects.ConnectedTable:
        """A table as an object: `upsert`, `delete`, `replace`, `ask`, `lookup`, `df`, `arrow`."""
        return objects.ConnectedTable(self, name)

    def view(self, name: str) -> objects.ConnectedView:
        """A view as an object: `ask`, `lookup`, `df`, `arrow`; notebooks show its state and newest rows."""
        return objects.ConnectedView(self, name)

    def stream(self, name: str) -> objects.ConnectedStream:
        """A stream as an object: `send`, `status`; notebooks show its fields and the lateness of its events."""
        return objects.ConnectedStream(self, name)

    def close(self) -> None:
        """Close the connection."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class StreamDeadLetters:
    """The dead letters of a stream, or the rows that a derived stream or a view leaves out."""

    def __init__(self, verbs: Verbs, stream: str) -> None:
        self._verbs = verbs
        self._stream = stream

    def page(self, limit: int = LETTERS, cursor: int | None = None, reason: str | None = None) -> DeadLetterPage:
        """A page of dead letters, newest first; `reason` filters by text."""
        return self._verbs.dead_letters(self._stream, limit, cursor, reason)

    def reasons(self) -> list[DeadLetterReason]:
        """Number of dead letters per reason."""
        return self._verbs.dead_letter_reasons(self._stream)

    def show(self, position: int) -> DeadLetter:
        """The complete dead letter at a position."""
        return self._verbs.dead_letter(self._stream, position)

    def replay(self, cursor: str | None = None, *, dry_run: bool = False) -> ReplayStep:
        """Parse a batch of them again; the `cursor` of the reply continues."""
        return self._verbs.replay(self._stream, cursor, dry_run=dry_run)


def connect(target: str | Path | None = None, *, token: str | None = None) -> Connection:
    """Connect to a workspace folder (default: the current one) or a server URL; token defaults to HEADRACE_TOKEN."""
    text = str(target or ".")
    if text.startswith(("http://", "https://")):
        return Connection(remote.RemoteWorkspace(text, token or os.environ.get("HEADRACE_TOKEN")))
    workspace = Workspace.open(text)

    def server() -> remote.RemoteWorkspace | None:
        holder = live_holder(workspace.lease_file)
        url = holder and holder.url
        token_of = token or workspace.settings.token
        return remote.RemoteWorkspace(url, token_of, workspace=workspace) if url else None

    return Connection(server() or local.LocalWorkspace(workspace), server)
