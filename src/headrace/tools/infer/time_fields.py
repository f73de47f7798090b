"""Ways in which a field can be read as a time: by its own type, or by the expression of a computed field."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headrace.language.source_text import escape
from headrace.tools.infer.field_profile import OTHER_TIMES, Profile, is_identity, is_time, path_sql, words_of
from headrace.types import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type

MOSTLY = 0.99  # of the values must be readable as a time
_LOOSE = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}(?:[ T]\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d+)?)?)? ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?"
_PARTS = re.compile(rf"(\d{{1,2}})([./-])(\d{{1,2}})\2(\d{{4}})(?:,? ({_CLOCK}))?", re.ASCII)
_PADDED = re.compile(r"\d{2}([./-])\d{2}\1\d{4}( \d{2}:\d{2}(?::\d{2})?)?", re.ASCII)
_YEAR_FIRST = re.compile(rf"(\d{{4}})([./])(\d{{1,2}})\2(\d{{1,2}})(?:,? ({_CLOCK}))?", re.ASCII)
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_ZONE = r"(Z|UTC|GMT|[+-]\d{4})?"
_MONTH_NAME_FORM = rf"(?:[A-Z][a-z]{{2}}, )?(\d{{1,2}})[/ -]([A-Z][a-z]{{2}})[/ -](\d{{4}})[: ]({_CLOCK}) ?{_ZONE}"
_MONTH_NAME = re.compile(_MONTH_NAME_FORM, re.ASCII)
_MONTH_NAME_PARTS = re.compile(
    r"(?:[A-Z][a-z]{2}, )?\d{1,2}([/ -])[A-Z][a-z]{2}\1\d{4}([: ])\d{1,2}:\d{2}(?::\d{2})?( ?)(Z|UTC|GMT|[+-]\d{4}|)",
    re.ASCII,
)
_TWELVE = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4}),? \d{1,2}:\d{2}(?::\d{2})? (?:[AaPp][Mm])", re.ASCII)
_EPOCHS = (
    ("seconds", 1, "timestamp_seconds", ""),
    ("milliseconds", 1_000, "timestamp_millis", ""),
    ("microseconds", 1_000_000, "timestamp_micros", ""),
    ("nanoseconds", 1_000_000_000, "timestamp_micros", " DIV 1000"),
)
DAYS = frozenset(("day", "date", "datum"))  # numbers such as 20260301 do not count seconds
_FROM_S, _TO_S = 946_684_800, 4_102_444_800  # the years 2000 to 2099
_EXACT = {"event_time": 100, "eventtime": 100, "event_timestamp": 100, "at": 95, "timestamp": 90, "ts": 90, "time": 90,
          "datetime": 90, "created_at": 85, "occurred_at": 85}  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """A field as the event time; `expression` is None if the field itself is a TIMESTAMP."""

    field: str
    score: int
    expression: str | None
    comment: str  # how it is read


def find_readings(fields: list[tuple[Profile, Type]]) -> list[Reading]:
    """The fields that can be the event time, the likeliest first."""
    readings = [reading for profile, type_ in fields if (reading := _read(profile, type_))]
    return sorted(readings, key=lambda reading: -reading.score)


def time_example(fields: list[tuple[Profile, Type]]) -> str:
    """An example of an event time where no field can be read as one: of the first whole number that may count time."""
    for profile, type_ in fields:
        name = path_sql(profile.name)
        if type_ in (INT, BIGINT) and not is_identity(profile.name):
            epoch = _epoch(name, type_, profile.values)
            if epoch is not None:
                return epoch[0]
            if is_time(profile.name) and not DAYS & set(words_of(profile.name)):
                return f"timestamp_seconds({name}) (timestamp_millis, if it counts milliseconds)"
    return "to_timestamp(…, 'dd/MM/yyyy HH:mm')"


def _read(profile: Profile, type_: Type) -> Reading | None:
    if profile.nulls > (1 - MOSTLY) * profile.rows or (profile.distinct == 1 and profile.rows > 10):
        return None
    how = _how(profile, type_)
    if how is None:
        return None
    expression, bonus, comment = how
    return Reading(profile.name, _score(profile.name) + bonus, expression, comment)


def _score(name: str) -> int:
    words = words_of(name.rpartition(".")[2])
    plain = "_".join(words)
    score = _EXACT.get(plain, 70 if words and is_time(words[-1]) else 55 if is_time(name) else 40)
    return score - 40 * bool(OTHER_TIMES & set(words_of(name))) - 10 * name.count(".")


def _how(profile: Profile, type_: Type) -> tuple[str | None, int, str] | None:
    """The expression, how much to prefer it, and the comment on it."""
    name = path_sql(profile.name)
    if type_ == TIMESTAMP:
        return (name if "." in profile.name else None), 8, "times in ISO 8601"
    if type_ == DATE:
        return f"to_timestamp({name})", -20, "dates: the time of day is midnight"
    if type_ in (INT, BIGINT, DOUBLE):
        return _epoch(name, type_, profile.values) if is_time(profile.name) else None
    if type_ == STRING:
        return _text(name, [str(value) for value in profile.values], timely=is_time(profile.name))
    return None


def _epoch(name: str, type_: Type, values: list[Any]) -> tuple[str, int, str] | None:
    numbers = [float(value) for value in values]
    for unit, per_s, function, divide in _EPOCHS:
        if _mostly(_FROM_S * per_s <= number < _TO_S * per_s for number in numbers):
            if type_ == DOUBLE:
                micros = f"{name} * {1_000_000 // per_s}" if per_s < 1_000_000 else name
                return f"timestamp_micros(CAST({micros} AS BIGINT))", 6, f"{unit} since 1970"
            return f"{function}({name}{divide})", 6, f"{unit} since 1970"
    return None


def _text(name: str, values: list[str], *, timely: bool) -> tuple[str, int, str] | None:
    if _matches(_LOOSE, values):
        return f"to_timestamp({name})", 4, "times as texts"
    if _matches(_PARTS, values):
        return _day_month_year(name, values)
    if _matches(_YEAR_FIRST, values):
        parts = r"(\d+)[./](\d+)[./](\d+)(?:,? (.+))?"
        return _from_parts(name, parts, (1, 2, 3, 4)), 4, "times with the year first"
    if _matches(_MONTH_NAME, values):
        format_ = _month_name_format(values)
        expression = f"to_timestamp({name}, {escape(format_)})" if format_ else _from_month_name(name)
        return expression, 4, "times with the month's name"
    if _matches(_TWELVE, values):
        first = max(int(match[1]) for value in values if (match := _TWELVE.fullmatch(value)))
        day = "d/M" if first > 12 else "M/d"
        return f"to_timestamp({name}, '{day}/yyyy[,] h:mm[:ss] a')", 4, f"times of 12 hours, {day}"
    if timely and values and all(value.isdigit() for value in values):
        how = _epoch(f"CAST({name} AS BIGINT)", BIGINT, values)
        return how and (how[0], 2, how[2])
    return None


def _day_month_year(name: str, values: list[str]) -> tuple[str, int, str]:
    matches = [match for value in values if (match := _PARTS.fullmatch(value))]
    first = max(int(match[1]) for match in matches)
    second = max(int(match[3]) for match in matches)
    # If no day is past the 12th, only the separator distinguishes days from months.
    days_first = first > 12 or (second <= 12 and matches[0][2] != "/")
    comment = f"times with the {'day' if days_first else 'month'} first"
    if first <= 12 and second <= 12:
        comment += " (no day past the 12th was seen: check it)"
    format_ = _format(values, "dd", "MM") if days_first else _format(values, "MM", "dd")
    if format_:
        return f"to_timestamp({name}, '{format_}')", 4, comment
    order = (3, 2, 1, 4) if days_first else (3, 1, 2, 4)
    return _from_parts(name, r"(\d+)[./-](\d+)[./-](\d+)(?:,? (.+))?", order), 4, comment


def _month_name_format(values: list[str]) -> str | None:
    """The Java format that reads all of them; None if they differ in more than what [ ] can say."""
    forms = {
        (match[1], match[2], match[3], "Z" if match[4][:1] in ("+", "-") else "z" if match[4] else "")
        for value in values
        if (match := _MONTH_NAME_PARTS.fullmatch(value))
    }
    if len(forms) != 1:
        return None
    before, after, space, zone = forms.pop()
    return f"[E, ]d{before}MMM{before}yyyy{after}H:mm[:ss]{space}{zone}"


def _format(values: list[str], first: str, second: str) -> str | None:
    """The Java format that reads all of them, if they all have the same width."""
    match = _PADDED.fullmatch(values[0])
    if not match or not all(_PADDED.fullmatch(value) and len(value) == len(values[0]) for value in values):
        return None
    clock = {None: "", 6: " HH:mm", 9: " HH:mm:ss"}[len(match[2]) if match[2] else None]
    return f"{first}{match[1]}{second}{match[1]}yyyy{clock}"


def _from_parts(name: str, pattern: str, order: tuple[int, ...]) -> str:
    """The groups of a pattern as ISO 8601: year, month, day, clock."""
    year, month, day, clock = (f"regexp_extract({name}, r'^{pattern}$', {group})" for group in order)
    return f"to_timestamp(trim(concat({year}, '-', {month}, '-', {day}, ' ', {clock})))"


def _from_month_name(name: str) -> str:
    def part(group: int) -> str:
        return f"regexp_extract({name}, r'^{_MONTH_NAME_FORM}$', {group})"

    whens = " ".join(f"WHEN {escape(month)} THEN '{number}'" for number, month in enumerate(MONTHS, 1))
    zone = f"replace({part(5)}, 'GMT', 'Z')"
    return f"to_timestamp(concat({part(3)}, '-', CASE {part(2)} {whens} END, '-', {part(1)}, ' ', {part(4)}, {zone}))"


def _matches(pattern: re.Pattern[str], values: list[str]) -> bool:
    return _mostly(bool(pattern.fullmatch(value)) for value in values)


def _mostly(verdicts: Iterable[bool]) -> bool:
    values = list(verdicts)
    return bool(values) and sum(values) >= MOSTLY * len(values)
