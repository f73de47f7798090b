"""Spans of time: '1 minute', '90m', "INTERVAL '5' MINUTES" to milliseconds and back."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from headrace.errors import DefinitionError

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS, WEEK_MS = 1_000, 60_000, 3_600_000, 86_400_000, 604_800_000
LONGEST_MS = 100 * 365 * DAY_MS

UNITS = {
    "ms": 1, "msec": 1, "millisecond": 1,
    "s": SECOND_MS, "sec": SECOND_MS, "second": SECOND_MS,
    "m": MINUTE_MS, "min": MINUTE_MS, "minute": MINUTE_MS,
    "h": HOUR_MS, "hr": HOUR_MS, "hour": HOUR_MS,
    "d": DAY_MS, "day": DAY_MS,
    "w": WEEK_MS, "week": WEEK_MS,
}  # fmt: skip
_NAMES = (("day", DAY_MS), ("hour", HOUR_MS), ("minute", MINUTE_MS), ("second", SECOND_MS), ("millisecond", 1))
_CALENDAR = re.compile(r"(month|quarter|year)s?$", re.IGNORECASE)
_PART = re.compile(r"\s*'?\s*(\d+(?:\.\d+)?)\s*'?\s*([A-Za-zµ]+)\s*'?\s*")
_EXAMPLE = "a number and a unit, such as '1 minute', '90m', '250ms' or '1 day'"


def unit_ms(name: str) -> int | None:
    """Milliseconds in a unit, singular or plural, long or short; None if it is not one."""
    lower = name.lower()
    return UNITS.get(lower) or (UNITS.get(lower[:-1]) if len(lower) > 3 and lower.endswith("s") else None)


def parse_duration(text: str) -> int:
    """Milliseconds of a span of time, never negative."""
    body = re.sub(r"^\s*INTERVAL\b", "", text, flags=re.IGNORECASE)
    total, offset = Decimal(0), 0
    while offset < len(body):
        part = _PART.match(body, offset)
        if part is None:
            raise _refuse(text)
        total += _count_ms(text, part[1], part[2])
        offset = part.end()
    if not body.strip():
        raise _refuse(text)
    if total != int(total):
        raise DefinitionError(
            f"the duration {text!r} is not a whole number of milliseconds", fix="round it to milliseconds"
        )
    if total > LONGEST_MS:
        raise DefinitionError(f"the duration {text!r} is longer than 100 years", fix="write a shorter one")
    return int(total)


def is_calendar(text: str) -> bool:
    """Return True if a span is of months, quarters or years, which have no fixed length."""
    return any(_CALENDAR.match(word) for word in re.findall(r"[A-Za-z]+", text))


def format_duration(ms: int) -> str:
    """A span of time as text: '1 minute', '90 minutes', '1 day'. `parse_duration` reads it back."""
    if ms == 0:
        return "0 seconds"
    name, size = next((name, size) for name, size in _NAMES if ms % size == 0)
    return f"{ms // size} {name}" + ("" if ms == size else "s")


def _count_ms(text: str, count: str, unit: str) -> Decimal:
    size = unit_ms(unit)
    if size is None:
        if _CALENDAR.match(unit):
            raise DefinitionError(
                f"the duration {text!r} has no fixed length: a {_single(unit)} has no fixed number of days",
                fix=f"write days, such as '30 days'; only the size of a window may be a calendar {_single(unit)}",
            )
        raise DefinitionError(f"the duration {text!r} has an unknown unit", found=f"'{unit}'", expected=_EXAMPLE)
    try:
        return Decimal(count) * size
    except InvalidOperation:  # pragma: no cover - the pattern admits only digits
        raise _refuse(text) from None


def _single(unit: str) -> str:
    return unit.lower().removesuffix("s")


def _refuse(text: str) -> DefinitionError:
    return DefinitionError(f"{text!r} is not a duration", expected=_EXAMPLE)
