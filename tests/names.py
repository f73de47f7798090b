"""Names that users may choose and that SQL of ours could meet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import headrace

# Aliases, tables and parameters of lambdas, as SQL writes them.
_NAMED = re.compile(
    r"\b(?:AS|FROM|JOIN|INTO|UPDATE|TABLE|WITH|USING|lambda)\s+\(?([A-Za-z]\w*)"
    r"|\b([A-Za-z]\w*)\s*(?:->|:=|\bAS \()"
    r"|(?<![\w.])([A-Za-z]\w*)\.(?=[\w*\"`]|$)"
)
SQL_IN = ("aggregate", "follow", "lake", "maintain", "parse", "serve", "sql", "store")
_TAKEN = {"window", "window_start", "window_end", "settled", "key_id", "pane", "events", "corrections"}  # of answers
SPECIAL = (
    "rowid", "a", "b", "s", "t", "x", "y", "n", "i", "value", "key", "position", "oid", "ctid", "filename", "struct",
    'a"b', "a`b", "a'b", "a.b", "a b", "{a}", "{0}", "$1", "?", "*", "a;--", "%s", "\\", "é", "日本", "0", "1",
)  # fmt: skip
RESERVED = (
    "select",
    "from",
    "where",
    "group",
    "order",
    "union",
    "end",
    "case",
    "null",
    "true",
    "lambda",
    "table",
    "qualify",
)


def _formatted(path: Path) -> Iterator[str]:
    """The parts of formatted texts in a module: SQL is among them, and no docstring."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield from (part.value for part in node.values if isinstance(part, ast.Constant))


@cache
def candidates() -> tuple[str, ...]:
    """Identifiers in our SQL, reserved words, characters that SQL gives a meaning; no two differ in case only."""
    names: dict[str, str] = {}
    for folder in SQL_IN:
        for path in sorted((Path(headrace.__file__).parent / folder).rglob("*.py")):
            for text in _formatted(path):
                for found in _NAMED.findall(text):
                    name = next(filter(None, found))
                    names.setdefault(name.lower(), name)
    for name in (*SPECIAL, *RESERVED):
        names.setdefault(name.lower(), name)
    return tuple(name for lower, name in names.items() if name and lower not in _TAKEN and len(name) <= 63)
