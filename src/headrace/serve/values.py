"""Values between their three forms: Python, text of a URL or command line, and JSON.

JSON loses digits and has no times, so: DECIMAL is a string, and so is an integer beyond 64 bits;
TIMESTAMP is ISO 8601 in UTC with Z; DATE is ISO 8601; NaN, Infinity and -Infinity are those words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from headrace.errors import QuestionError
from headrace.format import iso
from headrace.serve.times import parse_instant
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
