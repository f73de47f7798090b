"""An alert as `headrace alerts`, HTTP and the page show it: values that clients read, without what makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.format import Shown


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
