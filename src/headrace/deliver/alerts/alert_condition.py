"""The condition of an alert: compiled for the rows of its view, and described for people, as its incidents and notices
are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from headrace.define.model import Alert, Window
from headrace.deliver.alerts.advance import is_silenced
from headrace.deliver.alerts.alert_state import (
    FOREVER_US,
    AlertSilence,
    AlertState,
    Incident,
    IncidentEntry,
    Notice,
    Observation,
)
from headrace.deliver.delivery_status import AlertStatus, IncidentStatus, SilenceStatus
from headrace.engine.python_evaluation import compile_expression
from headrace.format import EPOCH, iso_us
from headrace.language.durations import format_duration
from headrace.serve.json_values import encoder
from headrace.serve.question import key_text
from headrace.types import Type

START, END, SETTLED = "window_start", "window_end", "settled"


class Condition:
    """Looks at rows with these columns: the keys, the bounds of windows, the outputs of the view, and settled."""

    def __init__(
        self, alert: Alert, columns: Sequence[tuple[str, Type]], keys: Sequence[str], window: Window | None
    ) -> None:
        self._names = [name for name, _ in columns]
        self._where = compile_expression(alert.where, tuple(columns)) if alert.where else None
        encoders = {name: encoder(of) for name, of in columns}
        self._keys = [(name, self._names.index(name), encoders[name]) for name in keys]
        self._outputs: list[tuple[str, Callable[[Sequence[Any]], Any], Callable[[Any], Any] | None]] = [
            (output.name, compile_expression(output.expression, tuple(columns)), encoder(output.expression.type))
            for output in alert.outputs
        ]
        self._columns = [(name, at, encoders[name]) for at, name in enumerate(self._names)]
        self._window = window
        self._time_us = 0

    def at(self, time_us: int) -> Condition:
        """Look from a time of the view: a row without a window speaks for the time from then on."""
        self._time_us = time_us
        return self

    def key(self, row: Sequence[Any]) -> dict[str, Any]:
        """The key of a row, as JSON values."""
        return {name: _encoded(row[at], encode) for name, at, encode in self._keys}

    def observe(self, row: Sequence[Any], version: int, commit: int) -> Observation:
        """What the alert sees of a row."""
        matches = self._where is not None and self._where(row) is True
        return Observation(self._shown(row) if matches else {}, matches, version, commit, *self._span(row))

    def observe_gone(self, row: Sequence[Any], version: int, commit: int) -> Observation:
        """What the alert sees of a row that is gone; it has only keys and times."""
        return Observation({}, False, version, commit, *self._span(row))

    def _span(self, row: Sequence[Any]) -> tuple[int, int]:
        """The event time that the window of a row adds to the window before it; without windows, from now on."""
        if self._window is None:
            return self._time_us, FOREVER_US
        start_us, end_us = (_us(row[self._names.index(name)]) for name in (START, END))
        if self._window.session or (self._window.calendar and not self._window.cumulative):
            return start_us, end_us
        step_start_us = end_us - self._window.slide_ms * 1000
        return max(start_us, step_start_us) if self._window.cumulative else step_start_us, end_us

    def _shown(self, row: Sequence[Any]) -> Mapping[str, Any]:
        """The row as notices show it: what SELECT names, and the bounds of its window."""
        columns = [column for column in self._columns if not self._outputs or column[0] in (START, END)]
        values = {name: _encoded(row[at], encode) for name, at, encode in columns}
        return values | {name: _encoded(evaluate(row), encode) for name, evaluate, encode in self._outputs}


def _encoded(value: Any, encode: Callable[[Any], Any] | None) -> Any:
    return value if value is None or encode is None else encode(value)


def _us(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


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


def describe_silence(silence: AlertSilence) -> SilenceStatus:
    """The status of a silence."""
    return SilenceStatus(silence.id, silence.values, iso_us(silence.until_us), silence.reason)


def condition_text(alert: Alert) -> str:
    """The condition in words."""
    if alert.absent_ms is not None:
        return f"no events for {format_duration(alert.absent_ms)}"
    held = f" for {format_duration(alert.for_ms)}" if alert.for_ms else ""
    return f"{alert.where}{held}{', when the window is settled' if alert.on_close else ''}"


def _incident(alert: Alert, entry: IncidentEntry, silenced: bool) -> IncidentStatus:
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
