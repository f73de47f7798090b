"""What the sampled events hold under one name, and the type that takes all of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.infer.names import is_identity
from headrace.parse.times import DATE_FORM, TIMESTAMP_FORM
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type

BELOW_INT = 1_000_000  # a number this large today may pass 2^31 tomorrow
INT64 = 1 << 63
MOST_DISTINCT = 10_000
BOOLEAN_TEXT = re.compile(r"true|false", re.IGNORECASE)
INTEGER_TEXT = re.compile(r"-?(?:0|[1-9]\d{0,18})", re.ASCII)
NUMBER_TEXT = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d{1,3})?", re.ASCII)


@dataclass(frozen=True)
class Seen:
    """The values under one name."""

    name: str
    values: list[Any]  # those that are not null, in the order of the events
    rows: int  # of all events
    kinds: Mapping[str, int]
    distinct: int
    texts: bool  # of a form that knows only text, as CSV does

    @property
    def nulls(self) -> int:
        """Events that lack it, or have null."""
        return self.rows - len(self.values)

    @property
    def kind(self) -> str:
        """What most of the values are."""
        return max(self.kinds, key=lambda kind: self.kinds[kind]) if self.kinds else "null"


def look(name: str, values: Iterable[Any], rows: int, *, texts: bool) -> Seen:
    """What the values of one name are; None among them is a null."""
    held = [value for value in values if value is not None]
    kinds = Counter(text_kind(value) if texts else json_kind(value) for value in held)
    distinct: set[str] = set()
    for value in held:
        distinct.add(value if isinstance(value, str) else repr(value))
        if len(distinct) >= MOST_DISTINCT:
            break
    return Seen(name, held, rows, kinds, len(distinct), texts)


def json_kind(value: Any) -> str:
    """What a JSON value is."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer" if -INT64 <= value < INT64 else "number"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def text_kind(text: str) -> str:
    """What a text can be read as. 007 is a text: its zeros mean something."""
    if INTEGER_TEXT.fullmatch(text):
        return "integer" if -INT64 <= int(text) < INT64 else "string"
    if NUMBER_TEXT.fullmatch(text):
        return "number"
    return "boolean" if BOOLEAN_TEXT.fullmatch(text) else "string"


def guess_type(seen: Seen) -> Type | None:
    """The narrowest type that takes every value; None if there is none. DECIMAL is never guessed."""
    kinds = set(seen.kinds)
    if kinds <= {"integer"} and kinds:
        largest = max(abs(int(value)) for value in seen.values)
        return INT if largest < BELOW_INT and not is_identity(seen.name) else BIGINT
    if kinds and kinds <= {"integer", "number"}:
        return DOUBLE
    if kinds == {"boolean"}:
        return BOOLEAN
    if kinds == {"string"} or seen.texts:
        return _of_texts(seen.values)
    return None


def _of_texts(values: list[str]) -> Type:
    if values and all(DATE_FORM.fullmatch(value) for value in values):
        return DATE
    if values and all(TIMESTAMP_FORM.fullmatch(value) for value in values):
        return TIMESTAMP
    return STRING
