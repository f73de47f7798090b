"""Checks constant patterns of texts and times: at run time, an invalid one would stall a view.

Patterns of texts are RE2 patterns, in views too: RE2 runs in time linear in the text and never recurses, while Java's
regular expressions would overflow the stack on a long text (docs/decisions/0023).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from headrace.duckdb_connections import open_duckdb
from headrace.lazy import duckdb

_TRY = "SELECT regexp_matches('', ?)"
# How often each letter may be repeated in a format of times.
_FORMAT_LETTERS = {
    "y": range(1, 7), **dict.fromkeys("MLE", range(1, 5)), "S": range(1, 10), "D": range(1, 4), "z": range(1, 5),
    **dict.fromkeys("dHhKkms", (1, 2)), **dict.fromkeys("XxZ", range(1, 6)), "a": (1,), "V": (2,), "O": (1, 4),
}  # fmt: skip
_TOKEN = re.compile(
    r"""
    (?P<quoted> \\Q .*? (?: \\E | \Z ))
  | (?P<escape> \\ (?: [pPx] \{ [^}]* \} | . )?)
  | (?P<set> \[ \^? \]? (?: \[: \^? \w+ :\] | \\. | [^\]\\] )* \])
  | (?P<group> \( (?: \? (?: P?< (?![=!]) [^>]* > | <[=!] | [A-Za-z-]+ (?= [:)] ) | . ) )?)
  | (?P<repeat> [*+?] \?? | \{ \d+ (?: , \d* )? \} \??)
  | (?P<other> .)
    """,
    re.VERBOSE | re.DOTALL,
)
_CAPTURES = re.compile(r"\((?!\?)|\(\?P?<(?![=!])")
_LOOK = "match the text around it too, and extract the part with a group, as in regexp_extract(x, 'id=(\\d+)')"
_GROUPS = {
    **dict.fromkeys(("(?=", "(?!", "(?<=", "(?<!"), ("look-around", _LOOK)),
    "(?>": ("an atomic group", "write (?: instead"),
    "(?(": ("a condition", "write the alternatives with |"),
    "(?#": ("a comment", "leave it out"),
}
_ESCAPES = {
    **dict.fromkeys("123456789kg", ("a reference back to a group", "write out what the group matches")),
    "h": ("\\h", "write [ \\t]"),
    "H": ("\\H", "write [^ \\t]"),
    "v": ("\\v, which engines understand differently", "write [\\n\\r] or \\x0B"),
    "V": ("\\V", "write [^\\n\\r]"),
    "R": ("\\R", "write \\r?\\n"),
    "Z": ("\\Z", "write $, which is the end of the text"),
    "N": ("\\N", "write [^\\n]"),
    "X": ("\\X", "write . for a character"),
    "C": ("\\C, a single byte", "write . for a character"),
    "e": ("\\e", "write \\x1B"),
    "u": ("\\u", "write \\x{…}, as in \\x{20AC}"),
    "c": ("\\c", "write \\x and two digits, as in \\x09"),
    "0": ("\\0", "write \\x and two digits, as in \\x00"),
}
_FLAGS = re.compile(r"\(\?([A-Za-z-]+)$")
_ASCII = ["alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit"]


def refuse_pattern(pattern: str) -> tuple[str, str | None] | None:
    """Why a regular expression cannot be used, and what to write instead; or None."""
    repeats = False
    for kind, token in _tokens(pattern):
        if kind == "repeat" and token == "+" and repeats:
            return "possessive quantifiers are not available", "leave out the second +, as in a+ instead of a++"
        repeats = kind == "repeat"
        unknown = _unknown(kind, token)
        if unknown:
            return f"{unknown[0]} is not available", unknown[1]
    reason = _refused_by_re2(pattern)
    return (reason, None) if reason else None


def groups(pattern: str) -> int:
    """Return how many groups a valid regular expression has."""
    return sum(kind == "group" and _CAPTURES.match(token) is not None for kind, token in _tokens(pattern))


def matches_nothing(pattern: str) -> bool:
    """Return True if a valid pattern also matches the empty text."""
    return bool(_re2().execute(_TRY, [re2_pattern(pattern)]).fetchone()[0])


def refuse_replacement(pattern: str, replacement: str) -> str | None:
    """Why a replacement does not fit a pattern, or None: $1 names a group, a backslash escapes."""
    rest = re.sub(r"\\.", "", replacement, flags=re.DOTALL)
    if rest.endswith("\\"):
        return r"a \ escapes the character after it"
    for dollar in re.finditer(r"\$(\d?)", rest):
        if not dollar[1] or int(dollar[1]) > groups(pattern):
            return r"a $ names a group of the pattern, as in $1; write \$ for the character"
    return None


def re2_pattern(pattern: str, only: int | None = None) -> str:
    """A valid pattern as DuckDB's RE2 reads it; with `only`, that group is its one group."""
    number, parts = 0, []
    for kind, token in _tokens(pattern):
        if kind == "group" and _CAPTURES.match(token):
            number += 1
            token = "(" if only in (None, number) else "(?:"
        parts.append(token)
    return "".join(parts)


def re2_replacement(replacement: str) -> str:
    r"""A replacement as RE2 writes it: \1 instead of $1."""
    parts = re.finditer(r"\\(.)|\$(\d)|(.)", replacement, re.DOTALL)
    return "".join(f"\\{part[2]}" if part[2] else (part[1] or part[3]).replace("\\", "\\\\") for part in parts)


def is_format(pattern: str) -> bool:
    """Return True if Spark can write times in this format."""
    letters = re.sub(r"'[^']*'", "", pattern)
    if not letters or "'" in letters or re.search(r"[{}#\[\]]", letters):
        return False
    runs = re.finditer(r"(\w)\1*", letters)
    return all(not run[1].isalpha() or len(run[0]) in _FORMAT_LETTERS.get(run[1], ()) for run in runs)


def _tokens(pattern: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(pattern):
        assert match.lastgroup is not None, "each alternative is named"
        yield match.lastgroup, match.group()


def _unknown(kind: str, token: str) -> tuple[str, str] | None:
    """Syntax of other engines that RE2 lacks or reads differently: its name, and what to write instead."""
    match kind:
        case "group":
            return _GROUPS.get(token) or _unknown_flag(token)
        case "escape" if token[1:2] in ("p", "P"):
            return _unknown_property(token)
        case "escape":
            return _ESCAPES.get(token[1:2])
        case "set":
            inner = re.sub(r"\\.|\[:\^?\w+:\]", "", token[1:-1], flags=re.DOTALL)
            if "[" in inner:
                return "a bare [ inside [ ]", "write \\[ for the character, or all of the characters in one [ ]"
            if "&&" in inner:
                return "&& inside [ ]", "write \\& for the character, or only the characters that are meant"
            escapes = (escape for escape in re.findall(r"\\(.)", token, re.DOTALL) if escape not in "kg123456789")
            return next((_ESCAPES[escape] for escape in escapes if escape in _ESCAPES), None)
        case "other" if token == "{":
            return "a bare {", "write \\{ for the character, or a quantifier such as {2,5}"
    return None


def _unknown_flag(token: str) -> tuple[str, str] | None:
    flags = _FLAGS.match(token)
    unknown = next((flag for flag in flags[1] if flag not in "ims-"), None) if flags else None
    return (f"the flag {unknown}", "use i, m or s") if unknown else None


def _unknown_property(token: str) -> tuple[str, str] | None:
    name = token[2:].strip("{}")
    negation = "^" if token[1] == "P" else ""
    if name.lower() in _ASCII:
        return token, f"write [[:{negation}{name.lower()}:]]"
    if name.startswith(("Is", "In", "java")) or "=" in name:
        return token, "write a category such as \\p{L} or \\p{Lu}, or a script such as \\p{Greek}"
    return None


@lru_cache(maxsize=4096)
def _refused_by_re2(pattern: str) -> str | None:
    try:
        _re2().execute(_TRY, [re2_pattern(pattern)]).fetchall()
    except duckdb.Error as error:
        reason = str(error).partition("Error: ")[2] or str(error)
        return f"it is not valid ({reason.splitlines()[0]})"
    return None


def _re2() -> Any:
    return _database().cursor()  # threads do not share one


@lru_cache(maxsize=1)
def _database() -> Any:
    return open_duckdb()
