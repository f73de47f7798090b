"""HTML built of parts, with values of answers: every str that is not Html is escaped, so callers cannot forget it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from html import escape
from typing import Any

from headrace.format import digits, iso, nested, number

MOST_CHARACTERS = 120  # of one value in a table
LONG_CHARACTERS = 24  # a longer value may be broken anywhere, so that its column can be narrow
EMPTY = {"meta", "link", "input", "br", "hr", "wbr"}


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Part = str | None | Iterable["Part"]  # a str that is not Html is escaped


def join(*parts: Part) -> Html:
    """The parts one after another."""
    return Html("".join(map(_render, parts)))


def tag(name: str, /, *parts: Part, **attributes: str | int | float | bool | None) -> Html:
    """An element. `class_` is class, `aria_label` is aria-label; False and None leave an attribute out."""
    markup = "".join(
        [_attribute(key, value) for key, value in attributes.items() if value is not None and value is not False]
    )
    if name in EMPTY:
        return Html(f"<{name}{markup}>")
    return Html(f"<{name}{markup}>{''.join(map(_render, parts))}</{name}>")


def plain(text: str, most: int = MOST_CHARACTERS) -> str:
    """Text of an event, cut, with invisible characters and bidi controls written as escapes."""
    if len(text) <= most and text.isprintable():
        return text
    cut = text[:most]
    escaped = "".join(_escape_character(character) for character in cut)
    return escaped if len(text) <= most else f"{escaped}… ({len(text):,} characters)"


def data(text: str, most: int = MOST_CHARACTERS) -> Html:
    """An element that isolates its text direction."""
    return tag("bdi", plain(text, most), class_="long" if len(text) > LONG_CHARACTERS else None)


def plain_lines(text: str, most: int) -> list[str]:
    """The lines of a text of several, cut; tabs are spaces, other invisible characters remain for `data` to escape."""
    lines = text[:most].expandtabs(4).splitlines()
    return lines if len(text) <= most else [*lines, f"… ({len(text):,} characters)"]


def breakable(name: str) -> Html:
    """A name that may be wrapped after each `_`."""
    first, *others = re.split("(?<=_)(?=[^_])", name)
    return join(first, [[tag("wbr"), part] for part in others])


def _escape_character(character: str) -> str:
    """Controls, bidi marks and line separators by their code points; all else as it is."""
    if character.isprintable() or character == " ":
        return character
    if unicodedata.category(character) == "Zs":  # spaces of other widths
        return character
    return f"\\u{ord(character):04x}"


def _attribute(key: str, value: str | int | float | bool) -> str:
    return f" {_name(key)}" if value is True else f' {_name(key)}="{escape(str(value))}"'


@cache
def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _render(part: Part) -> str:
    kind = type(part)
    if kind is Html:
        return part  # type: ignore[return-value]  # Html is text
    if part is None:
        return ""
    return escape(part) if isinstance(part, str) else "".join(map(_render, part))


DAY_S = 86_400


def value(of: Any, error: str | None = None) -> Html:
    """One value of a row, or why there is none."""
    if error:
        return tag("span", "error", class_="warn", title=error)
    if of is None:
        return tag("span", "NULL", class_="quiet")
    if of == "":
        return tag("span", '""', class_="quiet", title="empty text")
    if isinstance(of, bool):
        return data(str(of).lower())
    if isinstance(of, int | float | Decimal):
        return Html(number(of))  # digits and signs: nothing to escape
    if isinstance(of, datetime):
        return moment(of)
    if isinstance(of, list | dict):
        return data(nested(of, _item))
    return data(of.isoformat() if isinstance(of, date) else str(of))


def _item(of: Any) -> str:
    """One value in an array or struct."""
    if of is None:
        return "NULL"
    if isinstance(of, bool):
        return str(of).lower()
    if isinstance(of, int | float | Decimal):
        return digits(of)
    if isinstance(of, datetime):
        return _date_time(of)
    return of.isoformat() if isinstance(of, date) else str(of)


def key_value(of: Any) -> Html:
    """One key of a row: a year is 2026, not 2,026."""
    is_number = isinstance(of, int | float | Decimal) and not isinstance(of, bool)
    return Html(digits(of)) if is_number else value(of)


def short(of: float) -> str:
    """A number for an axis."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if size <= abs(of) < size * 1000:
            return f"{of / size:.3g} {unit}"
    return f"{of:.3g}"


def moment(of: datetime) -> Html:
    """A time, to the second unless it has a fraction. The zone is in the title of its column."""
    return tag("time", _date_time(of), datetime=iso(of))


def brief_moment(of: datetime) -> Html:
    """A time to the millisecond, for columns of many; the rest of it is in its title."""
    return tag("time", _date_time(of, "milliseconds"), datetime=iso(of), title=iso(of))


def moment_text(text: str | None, zone: str = " UTC") -> Html:
    """A time in ISO 8601, with its zone."""
    if text is None:
        return tag("span", "none yet", class_="quiet")
    return tag("time", f"{text.replace('T', ' ')[:19]}{zone}", datetime=text)


def window(start: datetime, end: datetime, *, dated: bool) -> Html:
    """A window; its date can be left out where the row above has it."""
    if dated or end - start >= timedelta(days=1):
        return tag("span", moment(start), " – ", _end(start, end))
    begin = tag("time", _time(start), datetime=iso(start), title=_date_time(start))
    return tag("span", begin, " – ", _end(start, end))


def window_text(start: datetime, end: datetime) -> str:
    """A window as text."""
    return f"{_date_time(start)} – {_end(start, end)}"


def clock(of: datetime, span_s: float) -> str:
    """A time for an axis of this length."""
    if span_s >= 2 * DAY_S:
        return _year(of, f"{of:%m-%d}")
    return f"{of:%H:%M:%S}" if span_s < 120 else f"{of:%H:%M}"


def _end(start: datetime, end: datetime) -> str:
    return _time(end) if end - start < timedelta(days=1) else _date_time(end)


def _date_time(of: datetime, digits: str = "microseconds") -> str:
    day = _year(of, f"{of:%m-%d}")
    return f"{day} {_time(of, digits)}"


def _year(of: datetime, rest: str) -> str:
    return f"{of.year:04d}-{rest}"  # strftime's %Y drops the zeros of early years


def _time(of: datetime, digits: str = "microseconds") -> str:
    if of.microsecond:
        return of.time().isoformat(digits)
    return f"{of:%H:%M:%S}" if of.second else f"{of:%H:%M}"
