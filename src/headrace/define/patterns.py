"""Constant patterns of texts and times, found wrong here because in Spark a wrong one would stall a view."""

from __future__ import annotations

import re

_FORMAT_LETTERS = "yMdHhmsSaEDXxVOz"
# What Python reads and Java does not: named groups the Python way, conditions, a bare brace, a bracket in a class.
_NOT_JAVA = re.compile(r"\(\?P|\(\?\(|(?<!\\)\{(?!\d+(,\d*)?\})|\[[^\]]*(?<!\\)\[")
# What Java reads and RE2 does not: look around, back references, atomic groups, possessive quantifiers.
_NOT_RE2 = re.compile(r"\(\?<?[=!]|\(\?>|\\[1-9]|[*+?}]\+")


def groups(pattern: str) -> int | None:
    """How many groups a regular expression has; None if it is not valid."""
    try:
        compiled = re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", re.sub(r"\\[pP]\{\w+\}", r"\\w", pattern)))
    except (re.error, RecursionError, OverflowError):
        return None
    return None if _NOT_JAVA.search(re.sub(r"\\[pP]\{\w+\}", "", pattern)) else compiled.groups


def matches_nothing(pattern: str) -> bool:
    """Whether a valid pattern also matches the empty text."""
    return re.match(re.sub(r"\(\?<(?![=!])", "(?P<", re.sub(r"\\[pP]\{\w+\}", r"\\w", pattern)), "") is not None


def refuse_replacement(pattern: str, replacement: str) -> str | None:
    """Why a replacement does not fit a pattern, or None: $1 names a group, a backslash escapes."""
    rest = re.sub(r"\\.", "", replacement, flags=re.DOTALL)
    if rest.endswith("\\"):
        return r"a \ escapes the character after it"
    for dollar in re.finditer(r"\$(\d?)", rest):
        if not dollar[1] or int(dollar[1]) > (groups(pattern) or 0):
            return r"a $ names a group of the pattern, as in $1; write \$ for the character"
    return None


def fits_re2(pattern: str) -> bool:
    """Whether DuckDB reads the pattern too."""
    return _NOT_RE2.search(pattern) is None


def is_format(pattern: str) -> bool:
    """Whether a text is a format of times that Spark reads."""
    letters = re.sub(r"'[^']*'", "", pattern)
    known = all(c in _FORMAT_LETTERS or not (c.isalpha() or c in "{}#[]") for c in letters)
    longest = max((len(run.group()) for run in re.finditer(r"([A-Za-z])\1*", letters)), default=0)
    return bool(letters) and pattern.count("'") % 2 == 0 and known and longest <= 9
