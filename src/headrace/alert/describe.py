"""Describes an alert and its incidents for people, and a notice for its targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from headrace.alert.condition import START
from headrace.alert.course import is_silenced
from headrace.alert.incident import Incident
from headrace.alert.state import AlertState, Entry, Notice, Silence
from headrace.alert.status import AlertStatus, IncidentStatus, SilenceStatus
from headrace.language.durations import format_duration
from headrace.define.model import Alert
from headrace.format import iso_us
from headrace.serve.question import key_text


def describe(
    alert: Alert,
    state: AlertState,
    now_us: int,
    error: str | None,
    delivery_error: str | None,
    behind_commits: int | None = None,
) -> AlertStatus:
    """The status of an alert."""
    entries = sorted(state.open, key=lambda entry: (entry.incident.state, -entry.incident.since_us))
    firing = sum(entry.incident.state == "firing" for entry in entries)
    return AlertStatus(
        alert.name,
        alert.source,
        condition_text(alert),
        "firing" if firing else "pending" if entries else "ok",
        firing,
        len(entries) - firing,
        len(state.notices),
        tuple(_incident(alert, entry, is_silenced(state, entry, now_us)) for entry in entries),
        tuple(_incident(alert, entry, silenced=False) for entry in state.resolved),
        tuple(describe_silence(each) for each in state.silences if each.until_us > now_us),
        alert.get("severity"),
        error,
        delivery_error,
        behind_commits,
    )


def describe_silence(silence: Silence) -> SilenceStatus:
    """The status of a silence."""
    return SilenceStatus(silence.id, silence.values, iso_us(silence.until_us), silence.reason)


def condition_text(alert: Alert) -> str:
    """The condition in words."""
    if alert.absent_ms is not None:
        return f"no events for {format_duration(alert.absent_ms)}"
    held = f" for {format_duration(alert.for_ms)}" if alert.for_ms else ""
    return f"{alert.where}{held}{', when the window is settled' if alert.on_close else ''}"


def _incident(alert: Alert, entry: Entry, silenced: bool) -> IncidentStatus:
    incident = entry.incident
    return IncidentStatus(
        incident.state,
        entry.key,
        incident.row,
        iso_us(incident.since_us),
        iso_us(incident.fired_at_us),
        iso_us(incident.resolved_at_us),
        incident.reason,
        silenced,
        incident.version,
        incident.commit,
        explain_path(alert, entry.key, incident),
    )


def explain_path(alert: Alert, key: Mapping[str, Any], incident: Incident) -> str | None:
    """The page of the events behind the row of an incident; None for the absence of events."""
    if alert.absent_ms is not None:
        return None
    values = [(f"key.{name}", key_text(value)) for name, value in key.items()]
    start = incident.row.get(START)
    return f"/views/{quote(alert.source, safe='')}/explain?{urlencode([*values, *([('at', start)] if start else [])])}"


def notice_row(alert: Alert, notice: Notice, url: str) -> dict[str, Any]:
    """A notice as its targets get it: JSON values."""
    incident = notice.incident
    path = explain_path(alert, notice.key, incident)
    values = {**incident.row, **notice.key}
    return {
        "id": notice.id,
        "alert": alert.name,
        "state": notice.state,
        "severity": alert.get("severity"),
        "summary": _summary(alert, values),
        "source": alert.source,
        "condition": condition_text(alert),
        "key": notice.key,
        "row": incident.row,
        "since": iso_us(incident.since_us),
        "fired_at": iso_us(incident.fired_at_us),
        "resolved_at": iso_us(incident.resolved_at_us),
        "reason": incident.reason,
        "version": incident.version,
        "commit": incident.commit,
        "explain": f"{url}{path}" if path else None,
    }


def _summary(alert: Alert, values: Mapping[str, Any]) -> str | None:
    """The summary of the definition, with the values of the row in place of {name}."""
    text = alert.get("summary")
    for name, value in values.items():
        text = text and text.replace(f"{{{name}}}", str(value))
    return text
