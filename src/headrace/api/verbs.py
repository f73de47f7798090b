"""The verbs of a workspace, each declared once: its request, its reply, and its path in HTTP.

From this table come the methods of every workspace, the remote client, the routes of HTTP, OpenAPI and docs/http.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.api.declaration import Handlers, P, R, Verb, VerbReply, many, one
from headrace.api.verb_requests import (
    LETTERS,
    ApplyRequest,
    AskRequest,
    ChangesRequest,
    EventsRequest,
    ExplainRequest,
    IngestRequest,
    LetterReasonsRequest,
    LetterRequest,
    LettersRequest,
    Nothing,
    OfAlert,
    OfSilence,
    OfSink,
    OfStream,
    OfSubscription,
    OfView,
    RefreshRequest,
    ReplayRequest,
    RollbackRequest,
    SentRequest,
    SilenceRequest,
    SkipRequest,
    SqlRequest,
    SubscriptionRequest,
    TokenRequest,
)
from headrace.deliver.delivery_status import AlertStatus, SilenceStatus, SubscriptionStatus
from headrace.errors import HeadraceError, NotReadyError
from headrace.ingest.receiver import IngestReply, SentStatus, TokenState
from headrace.lazy import later
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

if TYPE_CHECKING:
    from concurrent.futures import Future

    from headrace.deliver import event_page
    from headrace.deliver.failed_events import FailedCalls
    from headrace.lake import dead_letters as letters
    from headrace.lake.dead_letter_pages import DeadLetters
    from headrace.plan import planned_change as plans
    from headrace.serve import answer, explanation
    from headrace.serve.change_batch import ViewChange
    from headrace.serve.sql import sql_answer
else:  # what few verbs reply
    answer, explanation = later("headrace.serve.answer"), later("headrace.serve.explanation")
    event_page, letters = later("headrace.deliver.event_page"), later("headrace.lake.dead_letters")
    plans, sql_answer = later("headrace.plan.planned_change"), later("headrace.serve.sql.sql_answer")

REPLAY_S = 600.0  # for one step of a replay


def _as_dict(value: Any, request: Mapping[str, Any]) -> Any:
    return value.as_dict()


def _not_json(*values: Any) -> Any:
    raise NotImplementedError("this reply is read and shown in its own way")


# Replies that are no values of `one` or `many`.
RECEIVED: VerbReply[Future[IngestReply]] = VerbReply("Future[IngestReply]", _not_json, _not_json)
TOKEN = VerbReply[TokenState](
    "TokenState", _as_dict, lambda content: TokenState(content["complete"], content["stalled"])
)
PAGE: VerbReply[event_page.EventPage] = VerbReply("EventPage", _not_json, _not_json)
ANSWER: VerbReply[answer.Answer] = VerbReply("Answer", _as_dict, lambda content: answer.Answer.from_dict(content))
EXPLANATION: VerbReply[explanation.Explanation] = VerbReply(
    "Explanation", _as_dict, lambda content: explanation.Explanation.from_dict(content)
)
ROWS: VerbReply[sql_answer.SqlAnswer] = VerbReply("SqlAnswer", _as_dict, _not_json)
CHANGES: VerbReply[Generator[ViewChange, None, None]] = VerbReply(
    "Generator[ViewChange, None, None]", _not_json, _not_json
)
PLAN: VerbReply[plans.Plan] = VerbReply(
    "Plan",
    _as_dict,
    lambda content: plans.Plan(tuple(map(plans.PlannedChange.from_dict, content["changes"])), content["fingerprint"]),
)
STEP: VerbReply[plans.RollbackStep] = VerbReply(
    "RollbackStep", _as_dict, lambda content: plans.RollbackStep.from_dict(content)
)
ENDED = VerbReply[int]("int", lambda count, request: {"ended": count}, lambda content: int(content["ended"]))
DROPPED = VerbReply[None]("None", lambda value, request: {"dropped": request["name"]}, lambda content: None)
LETTER_PAGE: VerbReply[letters.DeadLetterPage] = VerbReply(
    "DeadLetterPage", lambda page, request: page, lambda content: letters.DeadLetterPage.from_dict(content)
)
LETTER_REASONS: VerbReply[list[letters.DeadLetterReason]] = VerbReply(
    "list[DeadLetterReason]",
    lambda reasons, request: {"reasons": reasons},
    lambda content: list(map(letters.DeadLetterReason.from_dict, content["reasons"])),
)
LETTER: VerbReply[letters.DeadLetter] = VerbReply(
    "DeadLetter", lambda letter, request: letter, lambda content: letters.DeadLetter.from_dict(content)
)
REPLAYED: VerbReply[letters.ReplayStep] = VerbReply(
    "ReplayStep", lambda step, request: step, lambda content: letters.ReplayStep.from_dict(content)
)


class Verbs:
    """The methods of a workspace: of its server, of a URL, and of its folder."""

    def invoke(self, verb: Verb[P, R], /, *arguments: P.args, **options: P.kwargs) -> R:
        """Answer a verb: all methods below come here."""
        raise NotImplementedError

    ingest = Verb(IngestRequest, RECEIVED, "POST /v1/streams/{stream}/events", repeat="until replied")
    sent = Verb(SentRequest, one(SentStatus), "GET /v1/streams/{stream}/files", repeat="until replied")
    wait_token = Verb(TokenRequest, TOKEN, "GET /v1/tokens/{token}")
    events = Verb(EventsRequest, PAGE, "GET /v1/streams/{stream}/tail", repeat="until replied")
    ask = Verb(AskRequest, ANSWER, "POST /v1/views/{view}/lookup")
    explain = Verb(ExplainRequest, EXPLANATION, "GET /v1/views/{view}/explain")
    sql = Verb(SqlRequest, ROWS, "POST /v1/sql")
    changes = Verb(ChangesRequest, CHANGES, "GET /v1/views/{view}/changes")

    dead_letters = Verb(
        LettersRequest,
        LETTER_PAGE,
        "GET /v1/streams/{stream}/dead-letters",
        """Dead letters of a stream, newest first: position, arrival, reason and first bytes.

        Of a derived stream or a view: the rows that it leaves out.
        """,
        title="page",
    )
    dead_letter_reasons = Verb(
        LetterReasonsRequest,
        LETTER_REASONS,
        "GET /v1/streams/{stream}/dead-letters/reasons",
        "Number of dead letters per reason (without values), with the newest of each.",
        title="reasons",
    )
    replay = Verb(
        ReplayRequest,
        REPLAYED,
        "POST /v1/streams/{stream}/dead-letters/replay",
        """Parse a batch of dead letters again. Those that can now be parsed become events, exactly once.

        Repeat with the `cursor` of the reply until it is null. For a derived stream or a view, it rebuilds the views
        with the keys that were missing and are in the tables now; `views` has their new versions.
        """,
        in_query=True,
        repeat="until ready",
        timeout_s=REPLAY_S,
    )
    dead_letter = Verb(
        LetterRequest,
        LETTER,
        "GET /v1/streams/{stream}/dead-letters/{position}",
        "One complete dead letter. Bytes that are not UTF-8 are escaped; `base64` then has the exact bytes.",
        title="show",
    )

    subscriptions = Verb(Nothing, many("subscriptions", SubscriptionStatus), "GET /v1/subscriptions")
    create_subscription = Verb(SubscriptionRequest, one(SubscriptionStatus), "POST /v1/subscriptions/{name}")
    drop_subscription = Verb(
        OfSubscription,
        DROPPED,
        "DELETE /v1/subscriptions/{name}",
        "Drop a named subscription. Events that it has not delivered stay in the log.",
        title="drop",
    )

    versions = Verb(
        OfView,
        many("versions", VersionStatus, "view"),
        "GET /v1/views/{view}/versions",
        """The versions of a view, newest first: state, lane, horizon, commits, rows, events, and what it replaced.

        `changes` lists the differences from the replaced version; `changed_from` is null if that is no longer stored.
        `lane` is `fused` or `spark`, with the `lane_reason`, or null if nothing updates the version.
        """,
    )
    audits = Verb(
        OfView,
        many("audits", AuditStatus, "view"),
        "GET /v1/views/{view}/audits",
        "Comparisons of the batch layer with the speed layer, newest first: commits, rows, drift.",
    )
    rollback = Verb(
        RollbackRequest,
        STEP,
        "POST /v1/views/{view}/rollback",
        """Roll a view back to an earlier version.

        If its rows are still stored, it catches up and then serves; else the view is edited back to its definition.
        The reply gives `how` and the number of events to read. The current version serves until then.
        """,
    )
    refresh = Verb(
        RefreshRequest,
        one(RefreshStatus),
        "POST /v1/views/{view}/refresh",
        """Start a refresh: the batch layer reads the commits of the speed layer again, compares, and replaces them.

        The reply comes at once with version, horizon and the commit up to which rows are replaced. The audits of the
        view show the result. A view over a table, which `over` names, is computed again from all rows of the table
        and compared; with `full` it is rebuilt from them.
        """,
        repeat="until ready",
    )

    sinks = Verb(
        Nothing,
        many("sinks", SinkStatus),
        "GET /v1/sinks",
        """All sinks: source, connector, options without secrets, state, rows, errors, lag.

        `state` is `running`, `waiting` while a view is built, `stalled` with a `reason`, or `paused`. `lag_s` is for
        how long the destination has not had all changes.
        """,
    )
    pause_sink = Verb(
        OfSink,
        one(SinkStatus),
        "POST /v1/sinks/{sink}/pause",
        "Stop sending after the batch under way, until `resume`, also over restarts.",
        title="pause",
    )
    resume_sink = Verb(OfSink, one(SinkStatus), "POST /v1/sinks/{sink}/resume", "Resume a paused sink.", title="resume")
    retry_sink = Verb(
        OfSink, one(SinkStatus), "POST /v1/sinks/{sink}/retry", "Retry a stalled sink immediately.", title="retry"
    )

    alerts = Verb(
        Nothing,
        many("alerts", AlertStatus),
        "GET /v1/alerts",
        "All alerts: condition, state, open incidents with the row that fired, resolved incidents, silences.",
    )
    silence = Verb(
        SilenceRequest,
        one(SilenceStatus),
        "POST /v1/alerts/{alert}/silences",
        "Send no notifications for some time, about all incidents of an alert or those whose row has some values.",
    )
    end_silences = Verb(
        OfAlert, ENDED, "DELETE /v1/alerts/{alert}/silences", "End all silences of an alert.", title="end_all"
    )
    end_silence = Verb(OfSilence, ENDED, "DELETE /v1/alerts/{alert}/silences/{silence}", "End a silence.", title="end")

    skip = Verb(
        SkipRequest,
        one(SkipStatus),
        "POST /v1/streams/{stream}/skip",
        """Skip events of a Kafka stream, to continue after events were lost in Kafka.

        The reply lists the offsets by topic and partition, and the commit of the log that records them.
        """,
    )
    stream = Verb(OfStream, one(StreamDefinition), "GET /v1/streams")
    streams = Verb(
        Nothing,
        many("streams", StreamStatus),
        "GET /v1/streams",
        "All streams: fields, rates, dead letters, backlog.",
    )
    views = Verb(Nothing, many("views", ViewStatus), "GET /v1/views")
    logical_views = Verb(
        Nothing,
        many("logical", LogicalStatus),
        "GET /v1/views",
        "All logical views: SQL, columns, what they read, freshness.",
    )
    tables = Verb(
        Nothing,
        many("tables", TableStatus),
        "GET /v1/tables",
        "All tables: primary key, columns, rows, version (commits of its log), freshness.",
    )
    graph = Verb(
        Nothing,
        one(GraphStatus),
        "GET /v1/graph",
        """The dependencies: all streams, tables, views, sinks and alerts, each after those that it reads.

        Each has `kind`, `reads` (names), `detail`, `events_per_second`, `rows`, `freshness_ms`, `freshness_reason` and
        `problem`.
        """,
    )
    status = Verb(Nothing, one(WorkspaceStatus), "GET /v1/status", "State of the server, streams and views.")
    plan = Verb(
        Nothing,
        PLAN,
        "POST /v1/plan",
        "What `apply` would change. Executes the Python definition files.",
    )
    apply = Verb(ApplyRequest, PLAN, "POST /v1/apply", "Apply the definitions folder.")


def answer_letters(handlers: Handlers, find: Callable[[str], DeadLetters | FailedCalls]) -> None:
    """Answer the verbs about dead letters by those that are found for a stream or a view."""
    handlers.on(
        Verbs.dead_letters,
        lambda stream, limit=LETTERS, cursor=None, reason=None: find(stream).page(limit, cursor, reason),
    )
    handlers.on(Verbs.dead_letter_reasons, lambda stream: find(stream).reasons())
    handlers.on(Verbs.dead_letter, lambda stream, position: find(stream).show(position))
    handlers.on(
        Verbs.replay, lambda stream, cursor=None, *, dry_run=False: find(stream).replay(cursor, dry_run=dry_run)
    )


class Backend(Verbs):
    """A workspace as a connection uses it: its verbs, and what only a client needs. Here: of one without a server."""

    on_wait: Callable[[HeadraceError, float], None] | None = None  # called before each pause

    @property
    def url(self) -> str | None:
        """URL of the server, if there is one."""
        return None

    def batches(self, subscription: str, limit: int, credit: int) -> Generator[Mapping[str, Any], None, None]:
        """Return the batches of a subscription for a new member, as JSON; closing them ends the membership."""
        raise needs_server()

    def acknowledge(self, subscription: str, leases: Sequence[str], events: Sequence[str] | None = None) -> None:
        """Say that batches, or some events of one, were processed."""
        raise needs_server()

    def give_back(self, subscription: str, leases: Sequence[str]) -> None:
        """Say that batches will not be processed."""
        raise needs_server()

    def hold(self) -> None:
        """Become the writer of the workspace, if there is no server."""

    def release(self) -> None:
        """Let other processes write to the workspace."""

    def give_up(self) -> None:
        """Stop retrying."""

    def sent_on_disk(self, stream: str, name: str) -> dict[str, int] | None:
        """Return the stored events of a file by mark, if a server on this machine was lost."""
        return None

    def close(self) -> None:
        """Release all resources."""


def needs_server() -> NotReadyError:
    """The error for subscriptions without a server."""
    return NotReadyError("no server is running, and subscriptions need one", fix="`headrace up` starts one")
