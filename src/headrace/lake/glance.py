"""A quick look at one event, which saves the second parser from spelling out what is plainly good."""

from __future__ import annotations

from collections.abc import Callable
from datetime import MAXYEAR, MINYEAR
from typing import Any

import orjson

from headrace.lake.depth import DEEPEST
from headrace.lake.times import read_date, read_timestamp
from headrace.types import Type

_OBJECT = ord("{")
Look = Callable[[Any], bool]


def glance(frame: bytes) -> dict[str, Any] | None:
    """The event, if it is one that can be read in only one way; None if it takes a closer look.

    Integers beyond 64 bits and all fractions are floats here: their digits are lost.
    """
    if frame[0] != _OBJECT:
        return None
    try:
        event: dict[str, Any] = orjson.loads(frame)
    except ValueError:
        return None
    # orjson keeps the last of several equal names: then there are more quotes than its values account for.
    if frame.count(b"{") + frame.count(b"[") > DEEPEST or _quotes(frame) != 2 * _texts(event):
        return None
    return event


def _quotes(frame: bytes) -> int:
    """How many quotes begin or end a text."""
    quotes = frame.count(b'"')
    return quotes if b"\\" not in frame else quotes - frame.replace(b"\\\\", b"").count(b'\\"')


def _texts(value: Any) -> int:
    """How many texts, names included, a JSON value holds."""
    if type(value) is dict:
        count = len(value)
        for item in value.values():
            kind = type(item)
            if kind is str:
                count += 1
            elif kind is dict or kind is list:
                count += _texts(item)
        return count
    return sum(1 if type(item) is str else _texts(item) if type(item) in (dict, list) else 0 for item in value)


def look(of: Type) -> Look:
    """A function that tells whether a value of such an event, other than null, is certainly good for the type."""
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
            return lambda value: type(value) is float or type(value) is int
        case "DECIMAL":
            # A fraction has lost its digits here.
            limit = 10 ** (of.precision - of.scale)
            return lambda value: type(value) is int and -limit < value < limit
        case "DATE":
            return lambda value: type(value) is str and read_date(value) is not None
        case "TIMESTAMP":
            return _is_time
        case "ARRAY":
            inner = look(of.inner)
            return lambda value: type(value) is list and all(item is None or inner(item) for item in value)
        case "MAP":
            inner = look(of.inner)
            return lambda value: type(value) is dict and all(item is None or inner(item) for item in value.values())
        case _:
            return _look_at_parts(of)


def _look_at_parts(of: Type) -> Look:
    parts = [(name, look(part)) for name, part in of.parts]

    def look_at(value: Any) -> bool:
        if type(value) is not dict:
            return False
        return all(value.get(name) is None or inner(value[name]) for name, inner in parts)

    return look_at


def _is_time(value: Any) -> bool:
    read = read_timestamp(value) if type(value) is str else None
    return read is not None and MINYEAR < read.year < MAXYEAR
