"""Rows of a sink as JSON, as in HTTP answers: DECIMAL as text, times in ISO 8601, NaN and Infinity as words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from headrace.serve.values import encoder
from headrace.types import Type

_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")

Columns = Sequence[tuple[str, Type]]


class RowEncoder:
    """Turns a row into an object with values that JSON has."""

    def __init__(self, columns: Columns) -> None:
        self._names = [name for name, _ in columns]
        self._convert = [(name, convert) for name, of in columns if (convert := converter(of)) is not None]

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        values = {name: row[name] for name in self._names}
        for name, convert in self._convert:
            value = values[name]
            if value is not None:
                values[name] = convert(value)
        return values


class KeyEncoder:
    """The key of a row as JSON: the same bytes for the same key, whatever version of the view it comes from."""

    def __init__(self, columns: Columns, keys: Sequence[str]) -> None:
        types = dict(columns)
        self._encode = RowEncoder([(name, types[name]) for name in keys])

    def __call__(self, row: Mapping[str, Any]) -> bytes:
        return orjson.dumps(self._encode(row))


def json_text(of: Type, nul: str) -> Callable[[Any], str]:
    """What writes a value as JSON, with another text in place of each NUL character."""
    convert = converter(of)

    def write(value: Any) -> str:
        text = orjson.dumps(value if convert is None else convert(value)).decode()
        return _NUL.sub(rf"\g<1>{nul}", text) if "\\u0000" in text else text

    return write


def converter(of: Type) -> Callable[[Any], Any] | None:
    """What turns a value other than None into one that JSON has; None if it is one."""
    return _decimal if of.name == "DECIMAL" else encoder(of)


def _decimal(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"{value:f}"  # a large sum of integers is an int
