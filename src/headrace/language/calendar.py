"""Calendar days, weeks and months in a time zone: where each begins, by the rules of Python's zoneinfo.

A day begins at the first instant of its date: 01:00 where a clock skips midnight, and the first midnight of two.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from headrace.errors import DefinitionError, did_you_mean
from headrace.language.durations import DAY_MS, HOUR_MS

Unit = Literal["day", "week", "month"]
UTC_NAME = "UTC"
MONTHS = {"month": 1, "quarter": 3, "year": 12}
YEAR_PARTS = (1, 2, 3, 4, 6, 12)  # months; other numbers would begin in another month each year
_DAYS = {"day": 1, "week": 7, "month": 30}  # in words about sizes: a month has no fixed length
_MONDAY = date(1970, 1, 5).toordinal()
_FIRST_DAY = date(1970, 1, 1).toordinal()
_FIRST_YEAR, _LAST_YEAR = 200, 9899  # a window is at most 100 years long, and dates end in 9999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_SPAN = re.compile(r"\s*(?:(\d+)\s*)?(day|d|week|w|month|mon|quarter|year|yr|y)s?\s*", re.IGNORECASE)
_SHORT = {"d": "day", "w": "week", "mon": "month", "yr": "year", "y": "year"}
_SAMPLED = timedelta(days=5)  # no zone has had an offset for less than this since 1970
_RULES_FROM, _RULES_TO = 1970, 2038  # rules of zones repeat after these years


@dataclass(frozen=True)
class Calendar:
    """Windows of some days, weeks (from Monday) or months of the calendar in a time zone."""

    unit: Unit
    count: int = 1
    zone: str = UTC_NAME

    def __str__(self) -> str:
        """The size in words, as a question writes it."""
        if self.unit == "month":
            name = next(name for name in ("year", "quarter", "month") if self.count % MONTHS[name] == 0)
            count = self.count // MONTHS[name]
        else:
            name, count = self.unit, self.count
        return f"{count} {name}" + ("" if count == 1 else "s")

    @property
    def nominal_ms(self) -> int:
        """About how long a window is."""
        return self.count * _DAYS[self.unit] * DAY_MS

    @property
    def tile_ms(self) -> int:
        """The largest pane that tiles every such window: a day in UTC, mostly an hour in other zones."""
        return DAY_MS if self.zone == UTC_NAME else zone_tile_ms(self.zone)

    def start_of(self, ms: int) -> int:
        """The start of the window that holds an instant."""
        start = None
        for edge in self._edges_before(ms):
            if start is not None and edge > ms:
                break
            start = edge
        assert start is not None, "there is a window before every instant"
        return start

    def end_of(self, start_ms: int) -> int:
        """The end of the window that begins at an instant."""
        return next((edge for edge in self._edges_before(start_ms) if edge > start_ms), start_ms + self.nominal_ms)

    def windows(self, days_ms: Iterable[int]) -> list[tuple[int, int]]:
        """The bounds of all windows that share time with these UTC days (their starts, ascending)."""
        windows: list[tuple[int, int]] = []
        for first, end in _runs(days_ms):
            if windows:
                first = max(first, windows[-1][1])
            if first < end:
                windows += pairwise(self._edges(first, end))
        return windows

    def _edges(self, first_ms: int, end_ms: int) -> list[int]:
        """The bounds of all windows that share time with [first, end), ascending: one more than there are windows."""
        edges = [self.start_of(first_ms)]
        for edge in self._edges_before(edges[0]):
            if edge > edges[-1]:  # a zone that skips a whole date has no window for it
                edges.append(edge)
            if edges[-1] >= end_ms and len(edges) > 1:
                break
        return edges

    def _edges_before(self, ms: int) -> Iterator[int]:
        """The starts of windows, from one at or before an instant on.

        From the date before that of the instant: the clock may have been put back over midnight.
        """
        zone = find_zone(self.zone)
        day = self._first_date(_local_date(ms, zone) - timedelta(days=1))
        while day.year < _LAST_YEAR:
            yield _start_ms(day, zone)
            day = self._next_date(day)

    def _first_date(self, day: date) -> date:
        if self.unit == "month":
            months = day.year * 12 + day.month - 1
            return _month(months - months % self.count)
        origin, days = (_MONDAY, 7 * self.count) if self.unit == "week" else (_FIRST_DAY, self.count)
        return day - timedelta(days=(day.toordinal() - origin) % days)

    def _next_date(self, first: date) -> date:
        if self.unit == "month":
            return _month(first.year * 12 + first.month - 1 + self.count)
        return first + timedelta(days=self.count * (7 if self.unit == "week" else 1))


def read_calendar(text: str, zone: str | None = None) -> Calendar | None:
    """The calendar windows that a size means; None: it is a fixed duration.

    Months, quarters and years always are; a day or week is if a zone is given, or as a bare word.
    """
    match = _SPAN.fullmatch(re.sub(r"^\s*INTERVAL\b", "", text, flags=re.IGNORECASE).replace("'", ""))
    if match is None:
        return None
    count, word = int(match[1] or 1), match[2].lower()
    name = _SHORT.get(word, word)
    if name in MONTHS:
        return make_calendar("month", count * MONTHS[name], zone, text)
    if zone is None and match[1] is not None:
        return None
    return make_calendar("week" if name == "week" else "day", count, zone, text)


def make_calendar(unit: Unit, count: int, zone: str | None, text: str) -> Calendar:
    """Calendar windows; raises DefinitionError for a size or a zone that has none."""
    if unit == "month" and count not in YEAR_PARTS:
        raise DefinitionError(
            f"a window of {text!r} begins in another month each year",
            expected="1, 2, 3, 4, 6 or 12 months, a quarter or a year",
            fix="write '1 month' and merge several of them",
        )
    if not 1 <= count <= 36_500:
        raise DefinitionError(f"a window of {text!r} has no usable length", expected="at least 1, at most 100 years")
    return Calendar(unit, count, zone_name(zone or UTC_NAME))


def zone_name(name: str) -> str:
    """The name of a zone as its rules are filed; raises DefinitionError for one that is not known."""
    if name.strip().upper() in ("UTC", "Z", "GMT", "ETC/UTC"):
        return UTC_NAME
    find_zone(name.strip())
    return name.strip()


@lru_cache(256)
def find_zone(name: str) -> tzinfo:
    """The rules of a zone."""
    from zoneinfo import ZoneInfo, available_timezones  # reads files: not for definitions without a zone

    if name == UTC_NAME:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # KeyError: no such zone; the others: no name of a file
        pass
    names = available_timezones()
    same = next((each for each in names if each.lower() == name.lower()), None)
    raise DefinitionError(
        f"the time zone '{name}' is not known",
        expected="a name such as 'Europe/Berlin', 'America/New_York' or 'UTC'",
        fix=f"write '{same}'" if same else did_you_mean(name, names),
    )


@lru_cache(256)
def zone_tile_ms(name: str) -> int:
    """The largest pane, at most an hour, that tiles each day of a zone since 1970."""
    zone, tile = find_zone(name), HOUR_MS
    day = date(_RULES_FROM, 1, 1)
    while day.year < _RULES_TO:
        tile = math.gcd(tile, _start_ms(day, zone))
        day += _SAMPLED
    return tile


def _runs(days_ms: Iterable[int]) -> list[tuple[int, int]]:
    """Days that follow each other, joined: the start and the end of each run."""
    runs: list[tuple[int, int]] = []
    for day in days_ms:
        if runs and runs[-1][1] == day:
            runs[-1] = runs[-1][0], day + DAY_MS
        else:
            runs.append((day, day + DAY_MS))
    return runs


def _local_date(ms: int, zone: tzinfo) -> date:
    first, last = (datetime(year, 1, 1, tzinfo=UTC) for year in (_FIRST_YEAR, _LAST_YEAR - 1))
    days = min(max(ms // DAY_MS, (first - _EPOCH).days), (last - _EPOCH).days)
    return (_EPOCH + timedelta(days=days, milliseconds=ms % DAY_MS)).astimezone(zone).date()


def _start_ms(day: date, zone: tzinfo) -> int:
    """The first instant of a date."""
    midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - as the clock of the zone shows it
    instant = midnight.replace(tzinfo=zone).astimezone(UTC)  # fold 0: the first midnight of two
    local = instant.astimezone(zone).replace(tzinfo=None)
    if local != midnight:  # the clock skips midnight: the date begins with the time that it is put to
        instant = _change_after(instant - timedelta(days=1), midnight, zone)
    return (instant - _EPOCH) // timedelta(milliseconds=1)


def _change_after(before: datetime, midnight: datetime, zone: tzinfo) -> datetime:
    """The instant at which the clock of a zone passes a time that it does not show."""
    after = before + timedelta(days=2)
    while after - before > _SECOND:
        middle = before + ((after - before) // 2 // _SECOND or 1) * _SECOND
        if middle.astimezone(zone).replace(tzinfo=None) < midnight:
            before = middle
        else:
            after = middle
    return after


def _month(months: int) -> date:
    return date(months // 12, months % 12 + 1, 1)
