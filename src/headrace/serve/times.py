"""Times in questions: ISO 8601, dates and datetimes, or relative to the newest event; spans of time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from headrace.define.durations import parse_duration
from headrace.errors import DefinitionError, QuestionError
from headrace.format import EPOCH, iso

MS = timedelta(milliseconds=1)
LAST_MS = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MS  # the last time that Python can represent
TIMES = "ISO 8601, such as '2026-03-01T12:00:00Z' (no zone is UTC), or a time before the newest event, such as '-1h'"
_RELATIVE = re.compile(r"-\s*(.+)")


@dataclass(frozen=True)
class Bound:
    """A bound of a question: ms since the epoch, or, if relative, from the end of the newest pane."""

    ms: int
    relative: bool = False

    def __str__(self) -> str:
        return f"{self.ms} ms" if self.relative else iso_ms(self.ms)


def iso_ms(ms: int) -> str:
    """Ms since the epoch in ISO 8601; a number outside of the calendar is shown as it is."""
    try:
        return iso(EPOCH + ms * MS)
    except OverflowError:
        return f"{ms} ms"


def parse_instant(text: str) -> datetime | None:
    """A time in ISO 8601; without a zone it is UTC. None if it is not one."""
    try:
        time = datetime.fromisoformat(text.strip())
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def parse_bound(name: str, value: Any) -> Bound | None:
    """`start` or `end` as a bound; None and '' are no bound."""
    if value is None or value == "":
        return None
    if isinstance(value, datetime):
        time = value.replace(tzinfo=UTC) if value.tzinfo is None else value
    elif isinstance(value, date):
        time = datetime(value.year, value.month, value.day, tzinfo=UTC)
    elif isinstance(value, timedelta):
        return Bound(_whole_ms(name, value), relative=True)
    elif isinstance(value, str):
        return _parse_text(name, value.strip())
    else:
        raise _refuse(name, value)
    return Bound(_whole_ms(name, time - EPOCH))


def parse_span(name: str, value: Any) -> int | None:
    """`window` or `every` in ms; None and '' are no span."""
    if value is None or value == "":
        return None
    if isinstance(value, timedelta):
        span = _whole_ms(name, value)
    elif isinstance(value, str):
        span = _duration(name, value)
    else:
        raise QuestionError(
            f"{name} is a duration", found=repr(value), expected="text such as '5 minutes', or a timedelta"
        )
    if span <= 0:
        raise QuestionError(f"{name} must be greater than 0", found=repr(value), expected="such as '5 minutes'")
    return span


def _parse_text(name: str, text: str) -> Bound:
    if text.lower() in ("now", "newest"):
        return Bound(0, relative=True)
    if relative := _RELATIVE.fullmatch(text):
        return Bound(-_duration(name, relative[1]), relative=True)
    time = None if text.isdigit() and len(text) != len("20260301") else parse_instant(text)
    if time is None:
        raise _refuse(name, text)
    return Bound(_whole_ms(name, time - EPOCH))


def _duration(name: str, text: str) -> int:
    try:
        return parse_duration(text)
    except DefinitionError as error:
        raise QuestionError(
            f"{name}: {error.message}", found=error.found, expected=error.expected, fix=error.fix
        ) from error


def _whole_ms(name: str, since: timedelta) -> int:
    if since % MS:
        raise QuestionError(f"{name} is not a whole millisecond", found=f"{since % MS} beyond it", fix="round it")
    return since // MS


def _refuse(name: str, value: Any) -> QuestionError:
    fix = None
    if str(value).isdigit():  # since the epoch, in s or ms: that is a guess, so it is only suggested
        as_ms = int(value) if int(value) > 10**11 else int(value) * 1000
        fix = f"if it counts from 1970, write '{iso_ms(as_ms)}'"
    return QuestionError(f"{name} is not a time", found=repr(value), expected=TIMES, fix=fix)
