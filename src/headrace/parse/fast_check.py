"""A fast check of one event, so that the second parser handles only those that are not clearly valid."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from headrace.parse.block_checks import is_small
from headrace.parse.iso_times import is_plain_timestamp, read_date
from headrace.types import Type

_OBJECT = ord("{")
Look = Callable[[Any], bool]


class JsonNumber(str):
    """A JSON number, with its text as it was written."""

    __slots__ = ()


def read_fast(frame: bytes) -> dict[str, Any] | None:
    """The event, if it is certainly JSON; None if it needs the second parser.

    Of equal names the last one wins. Integers above 64 bits and all fractions are floats, without their exact digits.
    """
    if not frame or frame[0] != _OBJECT or not is_small(frame):
        return None
    try:
        event: dict[str, Any] = orjson.loads(frame)
    except ValueError:
        return None
    return event


def names_twice(frame: bytes, event: dict[str, Any]) -> bool:
    """Return whether a name occurs twice in an object of an event: then its text has more quotes than the value."""
    return _quotes(frame) != _quotes(orjson.dumps(event))


def _quotes(frame: bytes) -> int:
    """The number of quotes that begin or end a string."""
    quotes = frame.count(b'"')
    return quotes if b"\\" not in frame else quotes - frame.replace(b"\\\\", b"").count(b'\\"')


def look(of: Type) -> Look:
    """A function that returns whether a value of such an event, other than null, certainly fits the type.

    The fractions of the event may also be Numbers, which have all their digits.
    """
    match of.name:
        case "STRING":
            return lambda value: type(value) is str
        case "BOOLEAN":
            return lambda value: value is True or value is False
        case "INT":
            return lambda value: type(value) is int and -(1 << 31) <= value < 1 << 31
        case "BIGINT":
            return lambda value: type(value) is int and -(1 << 63) <= value < 1 << 63
        case "DOUBLE":
            return lambda value: type(value) is float or type(value) is int or type(value) is JsonNumber
        case "DECIMAL":
            return _look_at_digits(of)
        case "DATE":
            return lambda value: type(value) is str and read_date(value) is not None
        case "TIMESTAMP":
            return lambda value: type(value) is str and is_plain_timestamp(value)
        case "ARRAY":
            inner = look(of.inner)
            return lambda value: type(value) is list and _are_good(value, inner)
        case "MAP":
            inner = look(of.inner)
            return lambda value: type(value) is dict and _are_good(value.values(), inner)
        case _:
            return _look_at_parts(of)


def _look_at_parts(of: Type) -> Look:
    parts = [(name, look(part)) for name, part in of.parts]

    def look_at(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for name, inner in parts:
            item = value.get(name)
            if item is not None and not inner(item):
                return False
        return True

    return look_at


def _are_good(items: Iterable[Any], inner: Look) -> bool:
    for item in items:  # noqa: SIM110  all() of a generator is much slower
        if item is not None and not inner(item):
            return False
    return True


def _look_at_digits(of: Type) -> Look:
    whole = of.precision - of.scale
    limit = 10**whole
    before = rf"-?\d{{1,{whole}}}" if whole else "-?0"
    fits = re.compile(rf"{before}\.\d{{1,{of.scale}}}" if of.scale else before).fullmatch

    def look_at(value: Any) -> bool:
        if type(value) is int:
            return bool(-limit < value < limit)
        return type(value) is JsonNumber and fits(value) is not None

    return look_at
