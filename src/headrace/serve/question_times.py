"""Times in questions: ISO 8601, dates and datetimes, or relative to the newest event; spans of time; VERSION AS OF and
TIMESTAMP AS OF.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

from headrace.errors import DefinitionError, QuestionError
from headrace.format import EPOCH, iso
from headrace.language.calendar import Calendar, find_zone, read_calendar, zone_name
from headrace.language.durations import parse_duration
from headrace.name_encoding import decode_name, encode_name

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


def parse_instant(text: str, local: tzinfo = UTC) -> datetime | None:
    """A time in ISO 8601; without a zone it is local. None if it is not one."""
    try:
        time = datetime.fromisoformat(text.strip())
        return (time.replace(tzinfo=local) if time.tzinfo is None else time).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def parse_bound(name: str, value: Any, zone: str | None = None) -> Bound | None:
    """`start` or `end` as a bound; None and '' are no bound. A time without an offset is of the zone, or UTC."""
    if value is None or value == "":
        return None
    local = find_zone(zone) if zone else UTC
    if isinstance(value, datetime):
        time = value.replace(tzinfo=local) if value.tzinfo is None else value
    elif isinstance(value, date):
        time = datetime(value.year, value.month, value.day, tzinfo=local)
    elif isinstance(value, timedelta):
        return Bound(_whole_ms(name, value), relative=True)
    elif isinstance(value, str):
        return _parse_text(name, value.strip(), local)
    else:
        raise _refuse(name, value)
    return Bound(_whole_ms(name, time.astimezone(UTC) - EPOCH))


def parse_zone(name: Any) -> str | None:
    """The name of a zone; None and '' are none."""
    if name is None or name == "":
        return None
    if not isinstance(name, str):
        raise QuestionError("zone is a name", found=repr(name), expected="such as 'Europe/Berlin'")
    with _as_question("zone"):
        return zone_name(name)


def parse_calendar(window: Any, zone: str | None) -> Calendar | None:
    """The calendar windows that `window` means; None: it is a fixed duration, or no window."""
    if isinstance(window, timedelta) and zone and window % timedelta(days=1) == timedelta():
        window = f"{window.days} days"
    if not isinstance(window, str) or not window.strip():
        return None
    with _as_question("window"):
        return read_calendar(window, zone)


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


def _parse_text(name: str, text: str, local: tzinfo) -> Bound:
    if text.lower() in ("now", "newest"):
        return Bound(0, relative=True)
    back_ms = read_relative(name, text)
    if back_ms is not None:
        return Bound(-back_ms, relative=True)
    time = None if text.isdigit() and len(text) != len("20260301") else parse_instant(text, local)
    if time is None:
        raise _refuse(name, text)
    return Bound(_whole_ms(name, time - EPOCH))


def read_relative(name: str, text: str) -> int | None:
    """How far back a time such as '-1h' is, in ms; None if it is not relative."""
    relative = _RELATIVE.fullmatch(text)
    return None if relative is None else _duration(name, relative[1])


def _duration(name: str, text: str) -> int:
    with _as_question(name):
        return parse_duration(text)


@contextmanager
def _as_question(name: str) -> Iterator[None]:
    """A mistake in a duration or a zone is one of the question."""
    try:
        yield
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


MOST_COMMITS = (1 << 62) - 1
VERSION, TIMESTAMP = "version_as_of", "timestamp_as_of"


@dataclass(frozen=True)
class AsOf:
    """The state of a view with commits [0, commits), or with those made by a time. Exactly one of them is set."""

    commits: int | None = None  # of the one stream that the view reads
    time: datetime | None = None
    of_streams: tuple[tuple[str, int], ...] | None = None  # the commits of each stream

    @property
    def is_version(self) -> bool:
        """Whether it says how many commits, and not when."""
        return self.time is None

    def parameters(self) -> dict[str, Any]:
        """The parameters of a question for this state."""
        version = self.commits if self.of_streams is None else write_commits(dict(self.of_streams))
        return {VERSION: version, TIMESTAMP: iso(self.time) if self.time else None}


def write_commits(commits: Mapping[str, int]) -> str:
    """The commits of several streams as VERSION AS OF takes them."""
    return ",".join(f"{encode_name(stream)}={count}" for stream, count in commits.items())


def read_as_of(version: Any, timestamp: Any) -> AsOf | None:
    """From Python values or text. An empty value is an error, unlike that of other parameters, and not the present."""
    has_version, has_timestamp = version is not None, timestamp is not None
    if has_version and has_timestamp:
        raise QuestionError(
            "a query takes only one of them", found=f"{VERSION} and {TIMESTAMP}", fix="leave one of them out"
        )
    if isinstance(version, Mapping) or (isinstance(version, str) and "=" in version):
        return AsOf(of_streams=_read_streams(version))
    if has_version:
        return AsOf(commits=_read_commits(version))
    return AsOf(time=_read_time(timestamp)) if has_timestamp else None


def _read_streams(value: Mapping[str, Any] | str) -> tuple[tuple[str, int], ...]:
    """From a mapping, or `visits=12,calls=7`, in which a name that is not plain is as `encode_name` writes it."""
    pairs = list(value.items()) if isinstance(value, Mapping) else [_read_pair(pair) for pair in value.split(",")]
    names = [name for name, _ in pairs]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None or not names:
        raise QuestionError(
            f"{VERSION} takes each stream once",
            found=f"'{repeated}' twice" if repeated else "no stream",
            expected="such as visits=12,calls=7",
        )
    return tuple((str(name), _read_commits(count)) for name, count in pairs)


def _read_pair(pair: str) -> tuple[str, str]:
    name, _, count = pair.partition("=")
    return decode_name(name.strip()), count.strip()


def _read_commits(value: Any) -> int:
    try:
        number = -1 if isinstance(value, bool | float) else int(value)
    except (TypeError, ValueError):
        number = -1
    if not 0 <= number <= MOST_COMMITS:
        raise QuestionError(
            f"{VERSION} is not a number of commits",
            found=repr(value)[:60],
            expected="the number of commits to include, such as 12; of several streams, visits=12,calls=7",
        )
    return number


def _read_time(value: Any) -> datetime:
    if isinstance(value, str) and (back_ms := read_relative(TIMESTAMP, value.strip())) is not None:
        return datetime.now(UTC) - timedelta(milliseconds=back_ms)  # commits are made at times of the clock
    time = parse_instant(value) if isinstance(value, str) and not value.strip().isdigit() else value
    if isinstance(time, datetime):
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    if isinstance(time, date):
        return datetime(time.year, time.month, time.day, tzinfo=UTC)
    raise QuestionError(
        f"{TIMESTAMP} is not a time",
        found=repr(value)[:60],
        expected="ISO 8601, such as '2026-03-01T12:00:00Z', or a time before now, such as '-1h'",
    )
