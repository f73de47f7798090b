"""Profiles of fields: the sampled values of one field, and the type that accepts all of them."""

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
class Profile:
    """The sampled values of one field."""

    name: str
    values: list[Any]  # those that are not null, in the order of the events
    rows: int  # of all events
    kinds: Mapping[str, int]
    distinct: int
    texts: bool  # from a format that has only text, such as CSV

    @property
    def nulls(self) -> int:
        """The number of events without the field, or with null in it."""
        return self.rows - len(self.values)

    @property
    def kind(self) -> str:
        """The JSON type of most of the values."""
        return max(self.kinds, key=lambda kind: self.kinds[kind]) if self.kinds else "null"


def profile_values(name: str, values: Iterable[Any], rows: int, *, texts: bool) -> Profile:
    """The profile of the values of one field; None is null."""
    non_null = [value for value in values if value is not None]
    kinds = Counter(text_kind(value) if texts else json_kind(value) for value in non_null)
    distinct: set[str] = set()
    for value in non_null:
        distinct.add(value if isinstance(value, str) else repr(value))
        if len(distinct) >= MOST_DISTINCT:
            break
    return Profile(name, non_null, rows, kinds, len(distinct), texts)


def json_kind(value: Any) -> str:
    """The JSON type of a value."""
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
    """The JSON type that a text can be read as. 007 stays a text: its zeros are significant."""
    if INTEGER_TEXT.fullmatch(text):
        return "integer" if -INT64 <= int(text) < INT64 else "string"
    if NUMBER_TEXT.fullmatch(text):
        return "number"
    return "boolean" if BOOLEAN_TEXT.fullmatch(text) else "string"


def guess_type(profile: Profile) -> Type | None:
    """The narrowest type that accepts every value; None if there is none. DECIMAL is never guessed."""
    kinds = set(profile.kinds)
    if kinds <= {"integer"} and kinds:
        largest = max(abs(int(value)) for value in profile.values)
        return INT if largest < BELOW_INT and not is_identity(profile.name) else BIGINT
    if kinds and kinds <= {"integer", "number"}:
        return DOUBLE
    if kinds == {"boolean"}:
        return BOOLEAN
    if kinds == {"string"} or profile.texts:
        return _of_texts(profile.values)
    return None


def _of_texts(values: list[str]) -> Type:
    if values and all(DATE_FORM.fullmatch(value) for value in values):
        return DATE
    if values and all(TIMESTAMP_FORM.fullmatch(value) for value in values):
        return TIMESTAMP
    return STRING
