"""HTML built of parts: every str that is not Html is escaped, so callers cannot forget it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from html import escape

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
    """The same as an element that isolates its text direction."""
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
