"""Reads texts as times by a pattern, many at once: the result is the one that Spark's to_timestamp has for each.

A row of arrays for each text: where in it the reader is, and whether all went well so far.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.duckdb_connections import add_function
from headrace.engine.duckdb_values import READ_TIME
from headrace.engine.zones import find_zones, times_in_zone, to_utc
from headrace.language.datetime_patterns import (
    EXCEEDS_PAD,
    NORMAL,
    Element,
    Fraction,
    Offset,
    Optional,
    PatternName,
    PatternNumber,
    PatternText,
    Zone,
    read_pattern,
)
from headrace.language.functions import TO_LOCAL, TO_UTC

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_PADDING = 64  # bytes after the last text, besides the pattern's: so what is looked at is always there
_PLUS, _MINUS, _COLON, _ZERO, _NINE = b"+-:09"
_UPPER = np.arange(256, dtype=np.uint8)
_UPPER[97:123] -= 32
_PAIRS = np.full(1 << 16, -1, dtype=np.int8)
_PAIRS[[(48 + number // 10) << 8 | (48 + number % 10) for number in range(100)]] = np.arange(100)
# Letters beyond ASCII that Java takes for one of them, whatever their case.
_ALIKE = {"\u0131": "i", "\u0130": "i", "\u017f": "s", "\u212a": "k"}
_DAY_US = 86_400_000_000
_YEARS = (0, 10_000)  # with an offset, the time can still be in the years 1 to 9999
_OFFSET_MOST_S = 18 * 3600
_RANGES = {
    "hour": (0, 23), "hour of 24": (1, 24), "hour of 12": (0, 11), "hour of clock": (1, 12), "minute": (0, 59),
    "second": (0, 59), "half": (0, 1),
}  # fmt: skip


def register(connection: Any) -> None:
    """Give a DuckDB connection the functions for texts of times and for zones."""
    add_function(connection, READ_TIME, _run, ["VARCHAR", "VARCHAR"], "BIGINT", of_null=True)
    for name, convert in ((TO_LOCAL, _run_to_local), (TO_UTC, _run_to_utc)):
        add_function(connection, name, convert, ["BIGINT", "VARCHAR"], "BIGINT", of_null=True)


def _run(texts, patterns):  # type: ignore[no-untyped-def]  # DuckDB would read the annotations
    return read_times(texts.combine_chunks(), patterns[0].as_py()) if len(texts) else pa.array([], pa.int64())


def _run_to_local(times, zones):  # type: ignore[no-untyped-def]  # as above
    return times_in_zone(times.combine_chunks(), zones[0].as_py(), to_local=True) if len(times) else times


def _run_to_utc(times, zones):  # type: ignore[no-untyped-def]  # as above
    return times_in_zone(times.combine_chunks(), zones[0].as_py(), to_local=False) if len(times) else times


def read_times(texts: pa.Array, pattern: str) -> pa.Array:
    """Microseconds since 1970 for each text; NULL where the text is not such a time."""
    distinct = texts.dictionary_encode()
    reader = _Reader(distinct.dictionary.cast(pa.string()), _PADDING + len(pattern.encode()))
    reader.read_all(read_pattern(pattern))
    times, are_good = reader.times()
    return pa.array(times, mask=~are_good).take(distinct.indices)


class _Reader:
    def __init__(self, texts: pa.Array, padding: int) -> None:
        if pc.any(pc.not_equal(pc.binary_length(texts), pc.utf8_length(texts))).as_py():
            for letter, ascii_letter in _ALIKE.items():
                texts = pc.replace_substring(texts, letter, ascii_letter)
        offsets, content = texts.buffers()[1:]
        bounds = np.frombuffer(memoryview(offsets), dtype=np.int32)[
            texts.offset : texts.offset + len(texts) + 1
        ].astype(np.int64)
        data = (
            np.frombuffer(memoryview(content), dtype=np.uint8)[: bounds[-1]] if content else np.zeros(0, dtype=np.uint8)
        )
        self.data = np.concatenate([data, np.zeros(padding, dtype=np.uint8)])
        self.at, self.end = bounds[:-1].copy(), bounds[1:]
        self.good = np.ones(len(texts), dtype=bool)
        self.failed = np.zeros(len(texts), dtype=bool)  # for good: no [ ] helps
        self.fields: dict[str, tuple[Numbers, Mask]] = {}
        self.zones: npt.NDArray[np.object_] | None = None
        self._pairs = _PAIRS[self.data[:-1].astype(np.uint16) << 8 | self.data[1:]]  # numbers of two digits, or -1

    @cached_property
    def _digits_end(self) -> Numbers:
        """Where the digits from each place on end."""
        is_digit = (self.data >= _ZERO) & (self.data <= _NINE)
        places = np.where(is_digit, len(self.data), np.arange(len(self.data)))
        return np.minimum.accumulate(places[::-1])[::-1]

    def read_all(self, elements: tuple[Element, ...]) -> None:
        for element in elements:
            self._read(element)

    def _read(self, element: Element) -> None:
        match element:
            case PatternNumber():
                self._number(element)
            case Fraction():
                width = self._run_of_digits(element.most)
                self._fail(width < element.least)
                scale = 10 ** (9 - np.minimum(width, 9))
                self._set("nano", self._value(width) * scale, width)
            case PatternText():
                self._fail(~self._sees(_upper(element.text)))
                self._move(len(element.text.encode()))
            case PatternName():
                self._name(element)
            case Offset():
                self._offset(element)
            case Zone():
                self._zone(element)
            case Optional():
                self._optional(element)

    def _fail(self, where: Mask) -> None:
        self.good &= ~where

    def _byte(self, at: Numbers) -> npt.NDArray[np.uint8]:
        """The byte there; 0 after the end of the text."""
        return np.where(at < self.end, self.data[at], 0).astype(np.uint8)

    def _move(self, width: Numbers | int) -> None:
        """Go on, in the texts that are good so far; the reader is never behind the end of a text."""
        self.at = np.where(self.good, self.at + width, self.at)

    def _run_of_digits(self, most: int, at: Numbers | None = None) -> Numbers:
        at = self.at if at is None else at
        return np.clip(np.minimum(self._digits_end[at], self.end) - at, 0, most)

    def _value(self, width: Numbers, at: Numbers | None = None) -> Numbers:
        at = self.at if at is None else at
        value = np.zeros(len(at), dtype=np.int64)
        for place in range(int(width.max(initial=0))):
            digit = self.data[at + place].astype(np.int64) - _ZERO
            value = np.where(place < width, value * 10 + digit, value)
        return value

    def _plain_number(self, number: PatternNumber) -> bool:
        """Read two or four digits, the most frequent numbers; returns whether that is all that there is."""
        if number.least not in (2, 4) or number.after or not self.good.all():
            return False
        value, more = self._pairs[self.at].astype(np.int64), self.at + number.least
        are_plain = (value >= 0) & (more <= self.end)
        if number.least == 4:
            low = self._pairs[self.at + 2]
            value, are_plain = value * 100 + low, are_plain & (low >= 0)
        if number.most > number.least:
            after = self._byte(more)
            are_plain &= (after < _ZERO) | (after > _NINE)
        if not are_plain.all():
            return False
        self._set(number.field, value + number.base, number.least)
        return True

    def _number(self, number: PatternNumber) -> None:
        if self._plain_number(number):
            return
        first = self._byte(self.at)
        minus = first == _MINUS if number.sign in (NORMAL, EXCEEDS_PAD) else np.zeros(len(first), dtype=bool)
        plus = first == _PLUS if number.sign == EXCEEDS_PAD else np.zeros(len(first), dtype=bool)
        start = self.at + (minus | plus)
        width = self._run_of_digits(number.most + number.after, start)
        self._fail(width < number.least)
        if number.after:
            width = np.maximum(number.least, width - number.after)
        # More than 18 digits are out of every range, unless they begin with zeros.
        self._fail((width >= 19) & (self._byte(start) != _ZERO))
        value = self._value(np.where(self.good, width, 0), start)
        self._fail(minus & (value == 0))
        if number.sign == EXCEEDS_PAD:
            self._fail(np.where(plus, width <= number.least, ~minus & (width > number.least)))
        self.at = np.where(self.good, start, self.at)
        self._set(number.field, np.where(minus, -value, value) + number.base, width)

    def _set(self, field: str, value: Numbers, width: Numbers | int) -> None:
        """The field has this value, and the reader is behind it; another value for it is a failure."""
        known = self.fields.get(field)
        if known is not None:
            self._fail(known[1] & (known[0] != value))
            value, is_set = np.where(known[1], known[0], value), known[1] | self.good
        else:
            is_set = self.good.copy()
        self.fields[field] = (value, is_set)
        self._move(width)

    def _sees(self, upper: bytes, rows: Numbers | None = None) -> Mask:
        """Whether this text is there, in letters of any case; of these rows, if given."""
        at, end = (self.at, self.end) if rows is None else (self.at[rows], self.end[rows])
        sees = at + len(upper) <= end
        for place, byte in enumerate(upper):
            sees &= _UPPER[self.data[at + place]] == byte
        return sees

    def _name(self, name: PatternName) -> None:
        value, width = np.zeros(len(self.at), dtype=np.int64), np.zeros(len(self.at), dtype=np.int64)
        begins = [_UPPER[self.data[self.at + place]] for place in (0, 1)]
        for index, text in enumerate(name.names):
            upper = _upper(text)
            rows = np.flatnonzero((begins[0] == upper[0]) & (begins[1] == upper[1]))
            if len(rows):
                rows = rows[self._sees(upper, rows)]
                value[rows], width[rows] = name.first + index, len(text)
        self._fail(width == 0)
        self._set(name.field, value, width)

    def _two_digits(self, at: Numbers) -> tuple[Numbers, Mask]:
        """The number of two digits there, and whether it is one up to 59."""
        width = self._run_of_digits(2, at)
        value = self._value(width, at)
        return value, (width == 2) & (value <= 59)

    def _offset(self, offset: Offset) -> None:
        is_zero = self._sees(_upper(offset.zero))
        if (is_zero | ~self.good).all():
            self._set("offset", np.zeros(len(self.at), dtype=np.int64), len(offset.zero))
            return
        sign = self._byte(self.at)
        at = self.at + 1
        hours, good = self._two_digits(at)
        good &= (sign == _PLUS) | (sign == _MINUS)
        at = at + 2
        seconds = hours * 3600
        for unit, required, allowed in ((60, offset.minutes, True), (1, False, offset.seconds)):
            if not allowed:
                break
            value, has_it = self._two_digits(at + offset.colon)
            has_it &= (self._byte(at) == _COLON) | (not offset.colon)
            if required:
                good &= has_it
            elif unit == 1:
                has_it &= good
            seconds = np.where(has_it, seconds + value * unit, seconds)
            at = np.where(has_it, at + 2 + offset.colon, at)
        self._fail(~is_zero & ~good)
        self.failed |= self.good & ~is_zero & (hours > 23)
        seconds = np.where(is_zero, 0, np.where(sign == _MINUS, -seconds, seconds))
        self._set("offset", seconds, np.where(is_zero, len(offset.zero), at - self.at))

    def _zone(self, zone: Zone) -> None:
        zones, width = find_zones(self.data, self.at, self.end, short=zone.short)
        self._fail(width == 0)
        old = self.zones if self.zones is not None else np.full(len(self.at), None, dtype=object)
        self.zones = np.where(self.good, zones, old)
        self._move(width)

    def _optional(self, optional: Optional) -> None:
        at, good, fields, zones = self.at, self.good.copy(), dict(self.fields), self.zones
        self.read_all(optional.elements)
        skipped = good & ~self.good
        for name, (value, is_set) in self.fields.items():
            before, was_set = fields.get(name, (value, np.zeros(len(at), dtype=bool)))
            self.fields[name] = (np.where(skipped, before, value), np.where(skipped, was_set, is_set))
        if self.zones is not None:
            none = np.full(len(at), None, dtype=object) if zones is None else zones
            self.zones = np.where(skipped, none, self.zones)
        self.at, self.good = np.where(skipped, at, self.at), good

    # From fields to times

    def times(self) -> tuple[Numbers, Mask]:
        """Microseconds since 1970, and which of them are good."""
        self._fail(self.at != self.end)
        local = self._days() * _DAY_US + self._clock_us()
        seconds, _ = self._field("offset", 0)
        self._fail(np.abs(seconds) > _OFFSET_MOST_S)
        times = local - seconds * 1_000_000
        good = self.good & ~self.failed
        if self.zones is not None:
            times, good = to_utc(times, self.zones, good)
        return times, good

    def _field(self, name: str, default: int) -> tuple[Numbers, Mask]:
        if name not in self.fields:
            rows = len(self.at)
            return np.full(rows, default, dtype=np.int64), np.zeros(rows, dtype=bool)
        value, is_set = self.fields[name]
        return np.where(is_set, value, default), is_set

    def _days(self) -> Numbers:
        (year, has_year), (month, has_month), (day, has_day), (of_year, has_of_year) = (
            self._field(name, default)
            for name, default in (("year", 1970), ("month", 1), ("day", 1), ("day of year", 1))
        )
        self._fail((year < _YEARS[0]) | (year > _YEARS[1]))
        self._fail((month < 1) | (month > 12) | (day < 1) | (day > 31))
        year, month = np.where(self.good, year, 1970), np.where(self.good, month, 1)
        all_of_date = has_year & has_month & has_day
        by_day = has_of_year & ~all_of_date
        months = (year - 1970) * 12 + month - 1
        start = _first_day(months)
        self._fail(~by_day & (day > _first_day(months + 1) - start))
        new_year = _first_day((year - 1970) * 12)
        self._fail(by_day & ((of_year < 1) | (of_year > _first_day((year - 1969) * 12) - new_year)))
        days = np.where(by_day, new_year + np.where(self.good, of_year, 1) - 1, start + day - 1)
        weekday, has_weekday = self._field("weekday", 1)
        self._fail(has_weekday & ((days + 3) % 7 + 1 != weekday))  # 1970 began on a Thursday
        # What was read twice has to agree.
        self._fail(all_of_date & has_of_year & (of_year != days - new_year + 1))
        inside = np.searchsorted(_MONTH_STARTS, days, side="right") - 1 + _FIRST_MONTH
        self._fail(by_day & has_month & (inside % 12 + 1 != month))
        self._fail(by_day & has_day & (days - _first_day(inside) + 1 != day))
        return np.where(self.good, days, 0)

    def _clock_us(self) -> Numbers:
        for name, (low, high) in _RANGES.items():
            value, is_set = self._field(name, low)
            self._fail(is_set & ((value < low) | (value > high)))
        hour, has_hour = self._field("hour", 0)
        of_24, has_of_24 = self._field("hour of 24", 24)
        hour, has_hour = self._merge(hour, has_hour, of_24 % 24, has_of_24)
        of_12, has_of_12 = self._field("hour of 12", 0)
        clock, has_clock = self._field("hour of clock", 12)
        of_12, has_of_12 = self._merge(of_12, has_of_12, clock % 12, has_clock)
        half, has_half = self._field("half", 0)
        hour, has_hour = self._merge(hour, has_hour, half * 12 + of_12, has_half & has_of_12)
        (minute, has_minute), (second, has_second), (nano, has_nano) = (
            self._field(name, 0) for name in ("minute", "second", "nano")
        )
        gap = (~has_minute & (has_second | has_nano)) | (has_minute & ~has_second & has_nano)
        whole = has_hour & ~gap
        self._fail(whole & has_half & (hour // 12 != half))
        self._fail(whole & has_of_12 & (hour % 12 != of_12))
        hour = np.where(has_hour, hour, np.where(has_of_12, of_12, half * 12))
        return np.where(self.good, ((hour * 60 + minute) * 60 + second) * 1_000_000 + nano // 1000, 0)

    def _merge(self, value: Numbers, is_set: Mask, other: Numbers, is_other_set: Mask) -> tuple[Numbers, Mask]:
        """One field by two letters; they have to agree."""
        self._fail(is_set & is_other_set & (value != other))
        return np.where(is_set, value, other), is_set | is_other_set


def _upper(text: str) -> bytes:
    """A text as it is compared: small ASCII letters as capitals, those beyond ASCII as they are."""
    for letter, ascii_letter in _ALIKE.items():
        text = text.replace(letter, ascii_letter)
    return bytes(_UPPER[np.frombuffer(text.encode(), dtype=np.uint8)])


def _first_day(months: Numbers) -> Numbers:
    """The day since 1970 on which a month since 1970 begins."""
    days: Numbers = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return days


_FIRST_MONTH = -1970 * 12
_MONTH_STARTS = _first_day(np.arange(_FIRST_MONTH, (10_002 - 1970) * 12, dtype=np.int64))
