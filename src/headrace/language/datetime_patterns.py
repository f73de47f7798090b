"""Patterns of times, as Java and Spark write them ('dd/MMM/yyyy:HH:mm:ss Z'), as the elements that a reader meets.

The elements say what Java's parser does, in the strict way that Spark uses: each takes what it can from where the one
before it stopped, and never gives anything back. `engine/time_functions.py` reads texts by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

NORMAL, NOT_NEGATIVE, EXCEEDS_PAD = "normal", "not negative", "exceeds pad"  # Java's signs of numbers
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MOST_DIGITS = 19
_PART = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|[^']+", re.DOTALL)
_RUN = re.compile(r"([A-Za-z])\1*|.", re.DOTALL)


@dataclass(frozen=True)
class PatternNumber:
    """Digits of a field. `after` are digits that belong to the numbers right after it."""

    field: str
    least: int
    most: int
    sign: str
    after: int = 0
    base: int = 0

    @property
    def is_fixed(self) -> bool:
        """Return True if it takes part in the run of digits of a number before it."""
        return self.least == self.most and self.sign == NOT_NEGATIVE


@dataclass(frozen=True)
class Fraction:
    """Digits of a second."""

    least: int
    most: int


@dataclass(frozen=True)
class PatternName:
    """One of these names, in letters of any case: the n-th, from `first`, is the value of the field."""

    field: str
    names: tuple[str, ...]
    first: int


@dataclass(frozen=True)
class PatternText:
    """This text, in letters of any case."""

    text: str


@dataclass(frozen=True)
class Offset:
    """Hours and minutes east of UTC, or the text for none."""

    zero: str
    colon: bool
    minutes: bool  # required
    seconds: bool  # allowed


@dataclass(frozen=True)
class Zone:
    """The name of a time zone; with `short`, also an abbreviation such as PST."""

    short: bool


@dataclass(frozen=True)
class Optional:
    """A part in [ ], which is read if all of it is there."""

    elements: tuple[Element, ...]


Element = PatternNumber | Fraction | PatternName | PatternText | Offset | Zone | Optional

_SHORT_MONTHS, _SHORT_DAYS = (tuple(name[:3] for name in names) for names in (MONTHS, DAYS))
_FIELDS = {"M": "month", "L": "month", "d": "day", "H": "hour", "k": "hour of 24", "K": "hour of 12",
           "h": "hour of clock", "m": "minute", "s": "second"}  # fmt: skip
_ZEROS = {1: "+00", 2: "+0000", 3: "+00:00", 4: "+0000", 5: "+00:00"}
_OFFSETS = {
    **{"X" * n: Offset("Z", colon=n in (3, 5), minutes=n > 1, seconds=n > 3) for n in _ZEROS},
    **{"x" * n: Offset(zero, colon=n in (3, 5), minutes=n > 1, seconds=n > 3) for n, zero in _ZEROS.items()},
    **{"Z" * n: Offset("+0000", colon=False, minutes=True, seconds=False) for n in range(1, 4)},
    "ZZZZZ": Offset("Z", colon=True, minutes=True, seconds=True),
}
_WRITTEN_ONLY = {"F": "the week of the month", "q": "the quarter", "Q": "the quarter"}
_WEEKS = "Y, W, w, u, e and c are parts of week dates, which Spark does not have; use y, M and d, or D"


@lru_cache(maxsize=1024)
def read_pattern(pattern: str) -> tuple[Element, ...]:
    """The elements of a pattern. Raises ValueError with the reason why no time can be read by it."""
    if not pattern.strip():
        raise ValueError("the format is empty")
    builder = _Builder()
    for is_quoted, text in _parts(pattern):
        if is_quoted:
            builder.add(PatternText(text))
        else:
            for run in _RUN.finditer(text):
                builder.add_run(run[0])
    return builder.finish()


def refuse_time_pattern(pattern: str) -> str | None:
    """Why no time can be read by a pattern; None if one can."""
    try:
        fields = set(_fields(read_pattern(pattern)))
    except ValueError as error:
        return str(error)
    if {"month", "day of year"} <= fields and "day" not in fields:
        return "D is the day of the year, which has no month; d is the day of the month"
    return None


def as_meant(pattern: str) -> str | None:
    """The pattern that was meant by one such as YYYY-MM-DD, as other systems write it; None if that is not known."""
    if "'" in pattern:
        return None
    meant = pattern.replace("Y", "y")
    meant = meant.replace("D", "d") if "M" in meant else meant
    return meant if meant != pattern and refuse_time_pattern(meant) is None else None


def is_ours(pattern: str) -> bool:
    """Return True if a valid pattern has letters that Spark does not read, or reads differently: E and z."""
    elements = read_pattern(pattern)
    return "weekday" in _fields(elements) or any(isinstance(e, Zone) and e.short for e in _flat(elements))


def has_year(pattern: str) -> bool:
    """Return True if a valid pattern reads a year; without one, all times are of 1970."""
    return "year" in _fields(read_pattern(pattern))


def _fields(elements: tuple[Element, ...]) -> Iterator[str]:
    for element in elements:
        if isinstance(element, Optional):
            yield from _fields(element.elements)
        elif isinstance(element, PatternNumber | PatternName):
            yield element.field


def _parts(pattern: str) -> Iterator[tuple[bool, str]]:
    """Quoted and other parts; two quotes are one quote, in quotes and outside of them."""
    if pattern.count("'") % 2:
        raise ValueError("a ' in it is not closed")
    for part in _PART.finditer(pattern):
        quoted = part["quoted"]
        yield quoted is not None, part[0] if quoted is None else quoted.replace("''", "'") or "'"


class _Builder:
    """Adds element after element, as Java's builder does."""

    def __init__(self) -> None:
        self._levels: list[list[Element]] = [[]]
        self._number: int | None = None  # the place of the number that the next ones may belong to

    def add_run(self, text: str) -> None:
        """Add a run of one letter, or another character."""
        letter = text[0]
        if letter == "[":
            self._levels.append([])
            self._number = None
        elif letter == "]":
            if len(self._levels) == 1:
                raise ValueError("a ] in it has no [")
            self._close()
        elif letter in "{}#":
            raise ValueError(f"{letter} has no meaning in it; write '{letter}' in quotes for the character")
        elif letter.isascii() and letter.isalpha():
            self.add(self._element(text))
        else:
            self.add(PatternText(text))

    def add(self, element: Element) -> None:
        """Add an element; numbers next to each other share a run of digits."""
        own = self._levels[-1]
        if not isinstance(element, PatternNumber) and not (isinstance(element, Fraction) and element.most == 1):
            if isinstance(element, PatternText) and own and isinstance(own[-1], PatternText):
                own[-1] = PatternText(own[-1].text + element.text)
            else:
                own.append(element)
            self._number = None
        elif self._number is None:
            own.append(element)
            self._number = len(own) - 1 if isinstance(element, PatternNumber) else None
        elif isinstance(element, Fraction) or element.is_fixed:
            head = own[self._number]
            assert isinstance(head, PatternNumber), "only numbers begin a run"
            own[self._number] = replace(head, after=head.after + element.most)
            own.append(element)
        else:
            raise ValueError(
                "two numbers of any width are next to each other; write two letters for the second, as in MM"
            )

    def finish(self) -> tuple[Element, ...]:
        """All elements; a part in [ that is not closed ends here."""
        while len(self._levels) > 1:
            self._close()
        if sum(isinstance(element, Zone | Offset) for element in _flat(self._levels[0])) > 1:
            raise ValueError("it has two time zones; put one of them in quotes, or leave it out")
        return tuple(self._levels[0])

    def _close(self) -> None:
        inner = self._levels.pop()
        if inner:
            self._levels[-1].append(Optional(tuple(inner)))
        self._number = None

    def _element(self, run: str) -> Element:
        letter, count = run[0], len(run)
        match letter, count:
            case "y", 2:
                return PatternNumber("year", 2, 2, NOT_NEGATIVE, base=2000)
            case "y", _ if count <= 6:
                return PatternNumber("year", count, MOST_DIGITS, NORMAL if count < 4 else EXCEEDS_PAD)
            case "M" | "L", 3:
                return PatternName("month", _SHORT_MONTHS, 1)
            case "M" | "L", 4:
                return PatternName("month", MONTHS, 1)
            case "D", 1 | 2 | 3:
                return PatternNumber(
                    "day of year", count, 3 if count > 1 else MOST_DIGITS, NOT_NEGATIVE if count > 1 else NORMAL
                )
            case "S", _ if count <= 9:
                return Fraction(1, count)
            case "E", 1 | 2 | 3:
                return PatternName("weekday", _SHORT_DAYS, 1)
            case "E", 4:
                return PatternName("weekday", DAYS, 1)
            case "a", 1:
                return PatternName("half", ("AM", "PM"), 0)
            case "V", 2:
                return Zone(short=False)
            case "z", 1 | 2 | 3:
                return Zone(short=True)
        if letter in _FIELDS and count == 1:
            return PatternNumber(_FIELDS[letter], 1, MOST_DIGITS, NORMAL)
        if letter in _FIELDS and count == 2:
            return PatternNumber(_FIELDS[letter], 2, 2, NOT_NEGATIVE)
        if run in _OFFSETS:
            return _OFFSETS[run]
        raise ValueError(_why_not(run))


def _flat(elements: Iterable[Element]) -> Iterator[Element]:
    for element in elements:
        if isinstance(element, Optional):
            yield from _flat(element.elements)
        else:
            yield element


def _why_not(run: str) -> str:
    letter = run[0]
    if letter in _WRITTEN_ONLY:
        return f"{letter}, {_WRITTEN_ONLY[letter]}, cannot be read, only written by date_format"
    if letter in "YWwuec":
        return _WEEKS
    known = "y M L d D E H h K k m s S a X x Z VV z"
    return f"the letters {run} cannot be read; there are {known}, and text in quotes, as in 'T'"
