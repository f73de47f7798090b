"""The requests of the verbs of a workspace: their parameters, and what HTTP says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.api.declaration import about
from headrace.deliver.delivery_status import DEFAULT_TIMEOUT
from headrace.errors import DefinitionError, RequestError
from headrace.language.durations import parse_duration

if TYPE_CHECKING:
    from headrace.deliver.change_question import ChangeQuestion
    from headrace.deliver.event_page import EventQuestion
    from headrace.ingest.formats.format_detection import FileLayout
    from headrace.serve.explanation import CellQuestion
    from headrace.serve.question import Question
    from headrace.serve.sql.sql_answer import SqlLimit
    from headrace.spark.jobs import Job
    from headrace.transport.sent_files import FilePiece

LETTERS, MOST_LETTERS = 20, 1000  # of a page of dead letters
LARGEST = (1 << 62) - 1  # position


@dataclass(frozen=True)
class Nothing:
    """No parameters."""


@dataclass(frozen=True)
class OfStream:
    """A stream by its name."""

    name: str


@dataclass(frozen=True)
class OfView:
    """A view by its name."""

    view: str


@dataclass(frozen=True)
class OfSink:
    """A sink by its name."""

    sink: str


@dataclass(frozen=True)
class OfSubscription:
    """A subscription by its name."""

    name: str


@dataclass(frozen=True)
class IngestRequest:
    """The body of a request, which may be a piece of a file."""

    stream: str
    body: bytes | memoryview
    _: KW_ONLY
    layout: FileLayout
    key: str | None
    keep_bad: bool
    file: FilePiece | None = None


@dataclass(frozen=True)
class SentRequest:
    """A file that may have been sent, and a hash of its first event."""

    stream: str
    name: str
    first: str


@dataclass(frozen=True)
class TokenRequest:
    """The token of an ingest reply, and how long to wait until every serving view has its events."""

    token: str
    timeout_s: float


@dataclass(frozen=True)
class AskRequest:
    """A question; the job reports the progress of one about an earlier state."""

    question: Question
    job: Job | None = None


@dataclass(frozen=True)
class ExplainRequest:
    """The cell whose events are to be found."""

    question: CellQuestion
    job: Job | None = None


@dataclass(frozen=True)
class SqlRequest:
    """A SELECT over the views."""

    query: str
    limit: SqlLimit = None
    job: Job | None = None


@dataclass(frozen=True)
class ChangesRequest:
    """The view whose changes are followed."""

    question: ChangeQuestion


@dataclass(frozen=True)
class EventsRequest:
    """The events of a stream to read; without any, how long to wait for some."""

    stream: str
    question: EventQuestion
    wait_s: float = 0.0


@dataclass(frozen=True)
class ApplyRequest:
    """The plan to apply."""

    expect: str | None = field(
        default=None, metadata=about("fingerprint of the plan to apply; 409 if the plan has changed")
    )


@dataclass(frozen=True)
class RollbackRequest:
    """The version to roll a view back to."""

    view: str
    to: int | None = field(default=None, metadata=about("version to roll back to; default: the previous one", kind=int))
    _: KW_ONLY
    dry_run: bool = field(default=False, metadata=about("only report what it would do", kind=bool))


@dataclass(frozen=True)
class RefreshRequest:
    """A refresh of a view."""

    view: str
    _: KW_ONLY
    full: bool = field(
        default=False,
        metadata=about("rebuild the view from the whole log; the current version serves until then", kind=bool),
    )
    tables: str | None = field(
        default=None,
        metadata=about(
            "`now`: join all events so far to tables as they are now; `recorded`: again as they were; "
            "`missing`: as they were, but keys that were missing as they are now"
        ),
    )


@dataclass(frozen=True)
class SkipRequest:
    """The place in Kafka where a stream continues."""

    stream: str
    to: str = field(
        metadata=about(
            "where to continue: earliest, latest, a time, or offsets of partitions such as 0:42,1:300",
            needed="earliest, latest, a time or offsets",
        )
    )
    _: KW_ONLY
    dry_run: bool = field(default=False, metadata=about("only list the offsets that would be left out", kind=bool))


def _read_for(text: Any) -> int:
    try:
        return parse_duration(text)
    except DefinitionError as error:
        raise RequestError(f"'for': {error.message}", found=error.found, expected=error.expected) from error


@dataclass(frozen=True)
class SilenceRequest:
    """How long no notices of an alert are sent, and of which incidents."""

    alert: str
    for_ms: int = field(
        metadata=about(
            "how long, such as `2h`",
            name="for",
            needed="how long the silence lasts, such as 2h",
            read=_read_for,
            write="{} ms".format,
        )
    )
    values: Mapping[str, object] = field(
        default_factory=dict,
        metadata=about('only incidents whose row has these values, such as `{"page": "/home"}`', kind=dict, write=dict),
    )
    reason: str = field(default="", metadata=about("the reason, shown with the silence"))


@dataclass(frozen=True)
class OfAlert:
    """An alert by its name."""

    alert: str


@dataclass(frozen=True)
class OfSilence:
    """A silence of an alert."""

    alert: str
    silence: str


@dataclass(frozen=True)
class SubscriptionRequest:
    """A named subscription and its terms."""

    name: str
    _: KW_ONLY
    stream: str | None = field(default=None, metadata=about("the stream whose events are delivered"))
    view: str | None = field(
        default=None, metadata=about("the view whose changes are delivered; give either a stream or a view")
    )
    guarantee: str | None = field(default=None, metadata=about("at-least-once (default) or at-most-once"))
    where: str | None = field(
        default=None, metadata=about("only events for which this condition is true, such as status >= 500")
    )
    key: Mapping[str, Any] | None = field(
        default=None, metadata=about('values of fields that events must have, such as `{"page": "/home"}`')
    )
    start: Any = field(
        default=None, metadata=about("where it begins: latest (default), earliest, a cursor or a time", name="from")
    )
    timeout: Any = field(
        default=None,
        metadata=about(f"after which a batch that is not acknowledged is delivered again; default {DEFAULT_TIMEOUT}"),
    )


@dataclass(frozen=True)
class LettersRequest:
    """A page of the dead letters of a stream."""

    stream: str
    limit: int = field(
        default=LETTERS,
        metadata=about(f"maximum number of dead letters, at most {MOST_LETTERS}", least=1, most=MOST_LETTERS),
    )
    cursor: int | None = field(default=None, metadata=about("next_cursor of the previous reply", least=0, most=LARGEST))
    reason: str | None = field(default=None, metadata=about("only reasons that contain this text (case-insensitive)"))


@dataclass(frozen=True)
class LetterReasonsRequest:
    """The dead letters of a stream."""

    stream: str


@dataclass(frozen=True)
class LetterRequest:
    """A dead letter of a stream."""

    stream: str
    position: int = field(metadata=about("of the dead letter, as a page shows it", least=0, most=LARGEST))


@dataclass(frozen=True)
class ReplayRequest:
    """A step of a replay of dead letters."""

    stream: str
    cursor: str | None = field(
        default=None, metadata=about("cursor of the previous reply; none starts with the oldest")
    )
    _: KW_ONLY
    dry_run: bool = field(default=False, metadata=about("only count how many can be parsed now"))
