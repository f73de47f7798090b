"""Names of streams, views, fields and columns: how they are declared, and those that can be used."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace.errors import DefinitionError
from headrace.language.source_text import WORD, Token, located
from headrace.language.token_cursor import TokenCursor
from headrace.name_encoding import encode_name

LONGEST_NAME = 63
LONGEST_FILE = 200  # characters of a name that is encoded for a folder or file, which may get a suffix
DECLARED = ("stream", "table", "view", "sink", "alert")  # what a statement declares
WINDOW_COLUMNS = frozenset(("window", "window_start", "window_end"))
RESERVED_COLUMNS = WINDOW_COLUMNS | {"settled"}  # other names of ours begin with _, which no name of a user does
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# Characters that no quotes help with: control characters, and halves of surrogate pairs, which are no text.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def check_name(name: str, what: str) -> None:
    """Refuse a name that a stream, view, field, key or column cannot have."""
    if unusable := _unusable(name):
        raise DefinitionError(f"{name!r} cannot name a {what}: {unusable}", fix="choose another name")
    if len(name) > LONGEST_NAME:
        raise DefinitionError(
            f"the name of the {what} '{name[:20]}…' has {len(name)} characters", expected="at most 63"
        )
    if what in DECLARED and not _NAME.fullmatch(name):
        _check_path(name, what)
    by_kind = {"key": RESERVED_COLUMNS, "column": RESERVED_COLUMNS, "field": WINDOW_COLUMNS}
    if name.lower() in by_kind.get(what, frozenset()):
        raise DefinitionError(
            f"'{name}' cannot name a {what}: every answer has a column of that name", fix="choose another, with AS"
        )


def _check_path(name: str, what: str) -> None:
    """Refuse a name that cannot be a part of a URL or, encoded, the name of a folder."""
    if name in (".", ".."):
        raise DefinitionError(f"'{name}' cannot name a {what}: URLs cannot have it", fix="choose another name")
    length = len(encode_name(name))
    if length > LONGEST_FILE:
        raise DefinitionError(
            f"the name of the {what} '{name[:20]}…' is too long for the name of a folder",
            found=f"{length} characters, since others than letters, digits and _ of ASCII are encoded there",
            expected=f"at most {LONGEST_FILE}",
        )


def is_plain(name: str) -> bool:
    """Return True if a name needs no quotes, and a field may have it."""
    return bool(_NAME.fullmatch(name)) and len(name) <= LONGEST_NAME and name.lower() not in WINDOW_COLUMNS


def _unusable(name: str) -> str | None:
    """Return why a quoted name of a field, key or column cannot be used; None if it can."""
    if not name.strip():
        return "it is empty"
    if name != name.strip():
        return "a space at its beginning or end would be lost"
    if name.startswith("_"):
        return "names that begin with _ are reserved"
    return "it has control characters" if _UNPRINTABLE.search(name) else None


def check_distinct(names: Iterable[str], what: str) -> None:
    """Refuse a name that occurs twice, ignoring case."""
    spellings: dict[str, str] = {}
    for name in names:
        if name.lower() in spellings:
            first = spellings[name.lower()]
            twice = f"'{name}'" if name == first else f"'{first}' and '{name}'"
            raise DefinitionError(f"{what} {twice} is declared twice", fix="rename one")
        spellings[name.lower()] = name


def in_double_quotes(name: str) -> str:
    """Return a name as DuckDB's SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def read_declared_name(cursor: TokenCursor, what: str) -> Token:
    """Read the name of the stream or view that the statement declares."""
    cursor.accept("IF", "NOT", "EXISTS")  # a definition says what there is
    token = cursor.expect_name(f"the {what}")
    cursor.declaring = token.text
    if cursor.sees_symbol("-", ".") and cursor.ahead(1).kind == WORD:
        cursor.index += 2
        name = cursor.source.text[token.start : cursor.last_end]
        plain = name.replace("-", "_") if "-" in name else name.rpartition(".")[2]
        raise cursor.error(token.start, f"'{name}' cannot name a {what}", write=plain, end=cursor.last_end)
    with cursor.mistakes.collect(), located(cursor.source, token.start):
        check_name(token.text, what)
    return token
