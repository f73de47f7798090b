"""Subscriptions and alerts as clients read them: what one is created with, and its status. Needs neither Arrow nor
DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.errors import QuestionError
from headrace.format import Shown
from headrace.serve.question_times import parse_span

AT_MOST_ONCE, AT_LEAST_ONCE = "at-most-once", "at-least-once"
GUARANTEES = (AT_LEAST_ONCE, AT_MOST_ONCE)
DEFAULT_TIMEOUT = "30s"
LEAST_TIMEOUT_MS, MOST_TIMEOUT_MS = 1_000, 12 * 3_600_000
DEFAULT_BATCH, MOST_BATCH = 100, 10_000
DEFAULT_CREDIT = 1_000  # events that a member may hold
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class Terms(Shown):
    """What a subscription was created with. One of `stream` and `view` is given."""

    name: str
    stream: str | None
    view: str | None
    guarantee: str
    where: str | None
    key: Mapping[str, Any]
    timeout_ms: int  # after which a batch that is not acknowledged is delivered again
    created: str

    @property
    def of(self) -> str:
        """What it is over, in words."""
        return f"stream '{self.stream}'" if self.stream else f"view '{self.view}'"


@dataclass(frozen=True)
class SubscriptionStatus(Terms):
    """A subscription and how far it is; numbers are of events, or of changes of a view."""

    cursor: str | None  # behind the last event that was delivered
    lag: int | None  # events that were not delivered yet, before `where`, and those in flight
    in_flight: int  # delivered and not acknowledged
    members: int  # that are connected, or asked within a minute
    delivered: int  # for the first time
    redelivered: int
    acknowledged: int
    error: str | None


def check_name(name: str) -> str:
    """The name of a subscription, if it is one: it is part of URLs and of a file name."""
    if not _NAME.fullmatch(name):
        raise QuestionError(
            "the name of a subscription is not valid",
            found=repr(name)[:120],
            expected="at most 100 letters, digits, '_', '-' and '.', such as billing-eu",
        )
    return name


def check_guarantee(guarantee: str | None) -> str:
    """The guarantee; at least once is the default."""
    if guarantee is None or guarantee == "":
        return AT_LEAST_ONCE
    if guarantee not in GUARANTEES:
        raise QuestionError("the guarantee is not known", found=repr(guarantee)[:80], expected=" or ".join(GUARANTEES))
    return guarantee


def check_timeout(timeout: Any) -> int:
    """The time-out of a batch in ms."""
    timeout_ms = parse_span("timeout", DEFAULT_TIMEOUT if timeout is None else timeout) or 0
    if not LEAST_TIMEOUT_MS <= timeout_ms <= MOST_TIMEOUT_MS:
        raise QuestionError("timeout is out of range", found=f"{timeout_ms:,} ms", expected="1 second to 12 hours")
    return timeout_ms


@dataclass(frozen=True)
class IncidentStatus(Shown):
    """An incident of one key."""

    state: str
    key: Mapping[str, Any]
    row: Mapping[str, Any]  # the last row that met the condition
    since: str | None  # event time
    fired_at: str | None
    resolved_at: str | None
    reason: str | None
    silenced: bool
    version: int
    commit: int
    explain: str | None  # the path of the page that shows the events behind the row


@dataclass(frozen=True)
class SilenceStatus(Shown):
    """A time without notices."""

    id: str
    values: Mapping[str, Any]
    until: str | None
    reason: str


@dataclass(frozen=True)
class AlertStatus(Shown):
    """An alert and its incidents."""

    holds: ClassVar[Mapping[str, type[Shown]]] = {
        "incidents": IncidentStatus,
        "resolved": IncidentStatus,
        "silences": SilenceStatus,
    }

    name: str
    source: str
    condition: str
    state: str  # ok, pending, firing
    firing: int
    pending: int
    undelivered: int
    incidents: tuple[IncidentStatus, ...] = ()
    resolved: tuple[IncidentStatus, ...] = ()  # newest first
    silences: tuple[SilenceStatus, ...] = ()
    severity: str | None = None
    error: str | None = None  # why it cannot be evaluated
    delivery_error: str | None = None
    behind_commits: int | None = None  # that its view has and it has not looked at; None: not known, or of a stream
