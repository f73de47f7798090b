"""Values between their three forms: Python, text of a URL or command line, and JSON; rows of sinks as JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import orjson

from headrace.errors import QuestionError
from headrace.format import iso
from headrace.serve.question_times import parse_instant
from headrace.types import Type

if TYPE_CHECKING:
    from headrace.aggregate import Value


BITS = {"INT": 31, "BIGINT": 63}
EXPECTED = {
    "STRING": "text",
    "BOOLEAN": "true or false",
    "INT": "a whole number of 32 bits",
    "BIGINT": "a whole number of 64 bits",
    "DOUBLE": "a number",
    "DATE": "a date such as 2026-03-01",
    "TIMESTAMP": "a time such as 2026-03-01T12:00:00Z",
}


def key_value(key: str, of: Type, value: Any) -> Value:
    """A key filter's value, typed as the key is; text is read as that type."""
    if value is None:
        return None
    typed = _READERS[of.name](value, of)
    if typed is None:
        expected = EXPECTED.get(of.name, f"a number that fits {of}")
        fix = "write \\N to ask for NULL (None in Python)"
        raise QuestionError(f"key '{key}' is of type {of}", found=repr(value), expected=expected, fix=fix)
    return typed


def encoder(of: Type) -> Callable[[Value], Any] | None:
    """The function that converts a value other than None to JSON; None if no conversion is needed."""
    return _nested(of, encoder) if of.is_nested else _ENCODERS.get(of.name)


def decoder(of: Type) -> Callable[[Any], Value] | None:
    """The inverse of `encoder`."""
    return _nested(of, decoder) if of.is_nested else _DECODERS.get(of.name)


def _nested(of: Type, inner: Callable[[Type], Callable[[Any], Any] | None]) -> Callable[[Any], Any] | None:
    """The conversion of an ARRAY, a STRUCT or a MAP, from that of what is in it; None if that needs none."""
    parts = {name: inner(part) for name, part in of.parts}
    if not any(parts.values()):
        return None

    def convert(name: str, value: Any) -> Any:
        function = parts[name]
        return value if value is None or function is None else function(value)

    if of.name == "ARRAY":
        return lambda items: [convert("element", item) for item in items]
    if of.name == "MAP":
        return lambda items: {key: convert("value", item) for key, item in items.items()}
    return lambda fields: {name: convert(name, value) for name, value in fields.items()}


def _read_string(value: Any, of: Type) -> str | None:
    return value if isinstance(value, str) else None


def _read_boolean(value: Any, of: Type) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def _read_integer(value: Any, of: Type) -> int | None:
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    bound = 1 << BITS[of.name]
    return value if -bound <= value < bound else None


def _read_double(value: Any, of: Type) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    try:
        return float(value) + 0.0  # -0.0 and 0.0 are one key
    except (ValueError, OverflowError):
        return None


def _read_decimal(value: Any, of: Type) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    try:
        number = Decimal(str(value))
        unscaled = number.scaleb(of.scale)
    except InvalidOperation:
        return None
    if not number.is_finite() or unscaled != unscaled.to_integral_value() or abs(unscaled) >= 10**of.precision:
        return None
    return number


def _read_date(value: Any, of: Type) -> date | None:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value.strip())
        except ValueError:
            return None
    return value if isinstance(value, date) and not isinstance(value, datetime) else None


def _read_timestamp(value: Any, of: Type) -> datetime | None:
    if isinstance(value, str):
        return parse_instant(value)
    if not isinstance(value, datetime):
        return None
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:  # in UTC it lies outside of the years 1 to 9999
        return None


def _encode_double(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decode_timestamp(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


_READERS: dict[str, Callable[[Any, Type], Value]] = {
    "STRING": _read_string,
    "BOOLEAN": _read_boolean,
    "INT": _read_integer,
    "BIGINT": _read_integer,
    "DOUBLE": _read_double,
    "DECIMAL": _read_decimal,
    "DATE": _read_date,
    "TIMESTAMP": _read_timestamp,
}
_ENCODERS: dict[str, Callable[[Value], Any]] = {
    "DOUBLE": _encode_double,
    "DECIMAL": "{:f}".format,  # str() would write 0E-10
    "DATE": date.isoformat,
    "TIMESTAMP": iso,
}
_DECODERS: dict[str, Callable[[Any], Value]] = {
    "DOUBLE": float,
    "DECIMAL": Decimal,
    "DATE": date.fromisoformat,
    "TIMESTAMP": _decode_timestamp,
}


_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")

Columns = Sequence[tuple[str, Type]]


def json_rows(columns: Columns, rows: Iterable[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Rows as objects with values that JSON has, as in answers; a row may have only the first of the columns."""
    names, converts = [name for name, _ in columns], [encoder(of) for _, of in columns]
    for row in rows:
        yield {
            name: value if value is None or convert is None else convert(value)
            for name, convert, value in zip(names, converts, row, strict=False)
        }


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
