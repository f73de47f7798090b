"""Wraps Markdown at 120 characters: `python -m tests.wrapping FILE…` rewrites the paragraphs that have a longer line.

Tables, code, headings and comments stay as they are.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

WIDTH = 120
_FENCE = re.compile(r"^\s*(```|~~~)")
_FIXED = re.compile(r"^\s*([|>]|<!--|#+ |!\[|$)")  # a table, a quotation, a comment, a heading, an image, a blank line
_ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)]) +")
_WHOLE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)|\[[^][`]+\](?=\()")  # code, the text of a link
_LINK = re.compile(r"\S{60}")
_LONG_SPAN = 100  # longer code in a sentence may be broken
_MARK = re.compile(r" (?=(?:[-+*]|#+|\d+[.)]|=+|-+)(?: |$)|[|>])")  # a line must not begin with what follows
_SPACE = "\0"


def long_lines(text: str) -> list[int]:
    """The numbers of lines of prose that are too long, except rows of tables and lines with a long link."""
    wrong, fenced = [], False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= bool(_FENCE.match(line))
        code = fenced or line.startswith("    ")
        if len(line) > WIDTH and not code and not line.lstrip().startswith("|") and not _LINK.search(line):
            wrong.append(number)
    return wrong


def wrap(text: str) -> str:
    """The text with each paragraph and list item that has a longer line filled again."""
    return "".join("\n".join(part) + "\n" for part in _parts(text.splitlines()))


def fill(text: str, first: str = "", rest: str = "") -> list[str]:
    """The lines of a paragraph; `first` and `rest` are what the first line and the others begin with."""
    glued = _WHOLE.sub(lambda span: span[0].replace(" ", _SPACE) if len(span[0]) <= _LONG_SPAN else span[0], text)
    lines = [first]
    for word in _MARK.sub(_SPACE, glued).split():
        begins = lines[-1] in (first, rest)
        if begins or len(lines[-1]) + 1 + len(word) <= WIDTH:
            lines[-1] += word if begins else f" {word}"
        else:
            lines.append(rest + word)
    return [line.replace(_SPACE, " ") for line in lines]


def _parts(lines: list[str]) -> Iterator[list[str]]:
    """Paragraphs and list items, filled; each line that stays as it is alone."""
    part: list[str] = []
    fenced = False
    for line in lines:
        fence = bool(_FENCE.match(line))
        fixed = fenced or fence or bool(_FIXED.match(line)) or (not part and line.startswith("    "))
        fenced ^= fence
        if part and (fixed or _ITEM.match(line)):
            yield _filled(part)
            part = []
        if fixed:
            yield [line]
        else:
            part.append(line)
    if part:
        yield _filled(part)


def _filled(part: list[str]) -> list[str]:
    if not long_lines("\n".join(part)):
        return part
    item = _ITEM.match(part[0])
    indent = len(item[0]) if item else len(part[0]) - len(part[0].lstrip())
    first = item[0] if item else " " * indent
    return fill(" ".join([part[0][indent:], *(line.strip() for line in part[1:])]), first, " " * indent)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(wrap(path.read_text()))
