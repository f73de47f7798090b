"""Rules of alerts, the same for definitions in SQL and in Python. Errors here have no place yet."""

from __future__ import annotations

from headrace.define.durations import SECOND_MS, format_duration
from headrace.define.model import Alert, Options, Output, Stream, View
from headrace.errors import DefinitionError
from headrace.types import Expression


def make_alert(
    name: str, view: Stream | View, outputs: tuple[Output, ...], where: Expression, for_ms: int, options: Options
) -> Alert:
    """An alert on rows of a view."""
    if isinstance(view, Stream):
        raise DefinitionError(
            f"alert '{name}' reads the stream '{view.name}'",
            expected="a materialized view",
            fix="make a view that counts the events, or write ON STREAM … WHEN ABSENT FOR INTERVAL …",
        )
    return Alert(name, view.name, outputs, where, for_ms, None, options)


def make_absence(name: str, source: Stream | View, absent_ms: int, options: Options) -> Alert:
    """An alert for the absence of events of a stream, or of changes of a view."""
    if absent_ms < SECOND_MS:
        raise DefinitionError(
            f"alert '{name}': the time without events is too short",
            found=format_duration(absent_ms),
            expected="at least 1 second",
        )
    return Alert(name, source.name, absent_ms=absent_ms, options=options)
