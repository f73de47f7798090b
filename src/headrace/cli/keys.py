"""The keys of `headrace ask --keys-from`, from a file or standard input."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from headrace.client.connect import Connection
from headrace.errors import QuestionError, UsageError
from headrace.serve.question import Question, read_key

STANDARD_INPUT = "-"


def look_up(connection: Connection, view: str, file: str, options: Mapping[str, Any]) -> Question:
    """The lookup of the keys in a file."""
    keys: list[Mapping[str, Any]] = []
    name: str | None = None
    for number, line in enumerate(_read(file).splitlines(), 1):
        if line.lstrip().startswith(b"{"):
            keys.append(_read_object(line, file, number))
        elif line.strip():
            name = name or _only_key(connection, view)
            keys.append({name: read_key(line.decode(errors="replace"))})
    if not keys:
        raise QuestionError(f"'{file}' has no keys", expected='a line for each, such as {"page": "/home"}')
    return Question.lookup_of(view, keys, **{name: value for name, value in options.items() if value is not None})


def refuse_beside_keys(options: Mapping[str, Any]) -> None:
    """Refuse options that say which rows of all keys are wanted."""
    for name, value in options.items():
        if value:
            raise QuestionError(
                f"--keys-from gives every row of its keys, so it takes no {name}", fix="leave one of them out"
            )


def _read(file: str) -> bytes:
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UsageError(
            f"'{file}' cannot be read: {error.strerror}", expected="a file of keys, or - for input"
        ) from error


def _read_object(line: bytes, file: str, number: int) -> Mapping[str, Any]:
    try:
        content: Mapping[str, Any] = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise QuestionError(
            f"'{file}' line {number} is not JSON: {error}", expected='an object, such as {"page": "/home"}'
        ) from error
    return content


def _only_key(connection: Connection, view: str) -> str:
    """The name of the view's key, if it has one; a view that does not exist is told when it is asked."""
    views = {status.name: status.keys for status in connection.verbs.views()}
    views |= {each.name: tuple(column.name for column in each.columns) for each in connection.verbs.logical_views()}
    keys = views.get(view, ("key",))
    if len(keys) != 1:
        raise QuestionError(
            f"view '{view}' has {len(keys)} keys, so a value alone names none of its rows",
            expected='a JSON object per line, such as {"' + '": …, "'.join(keys) + '": …}',
        )
    return keys[0]
