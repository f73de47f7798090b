"""The second parser: one event at a time, with the field and the reason for what it refuses.

It accepts all that the fast one does, with the same values, so an event's verdict never depends on
its neighbours. It runs only where the fast parser has refused a piece.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from headrace.define.model import Stream
from headrace.types import Type

_TIMESTAMP = re.compile(
    r"\d{4}-\d\d-\d\d(?:[ T]\d\d(?::\d\d(?::\d\d(?:\.\d{1,6})?)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_SHOWN = 40


class Refused(ValueError):
    """Why an event cannot be read."""


class _Number(str):
    """A JSON number, kept as it was written."""

    __slots__ = ()


class _Object(dict[str, Any]):
    """A JSON object that remembers names that came twice."""

    twice: frozenset[str] = frozenset()


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    made = _Object(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        made.twice = frozenset(name for name in made if names.count(name) > 1)
    return made


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_float=_Number, parse_int=_Number, parse_constant=_Number)


def event_reader(stream: Stream) -> Callable[[bytes], list[Any]]:
    """A function that reads one event into the values of the stream's declared fields, or raises Refused."""
    declared = [(field.name, field.type, _READERS[field.type.name]) for field in stream.fields if not field.computed]

    def read(frame: bytes) -> list[Any]:
        event = _decode(frame)
        values: list[Any] = []
        for name, of, reader in declared:
            if name in event.twice:
                raise Refused(f"field '{name}' is there twice")
            value = event.get(name)
            values.append(None if value is None else reader(name, of, value))
        return values

    return read


def _decode(frame: bytes) -> _Object:
    try:
        text = frame.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"not UTF-8 at byte {error.start}") from None
    try:
        event = _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise Refused(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise Refused("not JSON that can be read: nested too deeply") from None
    if not isinstance(event, _Object):
        raise Refused(f"expected a JSON object, found {_kind(event)}")
    return event


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return f"the boolean {str(value).lower()}"
        case _Number():
            return f"the number {_short(value)}"
        case str():
            return f"the string {json.dumps(_short(value), ensure_ascii=False)}"
        case list():
            return "an array"
        case _:
            return "an object"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _wrong(name: str, of: Type, value: Any, hint: str = "") -> Refused:
    return Refused(f"field '{name}' takes {of}{hint}, found {_kind(value)}")


def _string(name: str, of: Type, value: Any) -> str:
    if isinstance(value, _Number) or not isinstance(value, str):
        raise _wrong(name, of, value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refused(f"field '{name}' holds half of a surrogate pair") from None
    return value


def _boolean(name: str, of: Type, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(name, of, value, " (true or false)")
    return value


def _integer(name: str, of: Type, value: Any) -> int:
    if not isinstance(value, _Number) or not value.lstrip("-").isdigit() or len(value) > _SHOWN:
        raise _wrong(name, of, value, " (a whole number)")
    number, bits = int(value), 31 if of.name == "INT" else 63
    if not -(1 << bits) <= number < 1 << bits:
        raise _wrong(name, of, value, f" ({-(1 << bits)} to {(1 << bits) - 1})")
    return number


def _double(name: str, of: Type, value: Any) -> float:
    if not isinstance(value, _Number):
        raise _wrong(name, of, value)
    number = float(value.replace("Inf", "inf") if "Inf" in value else value)
    if not math.isfinite(number):
        raise _wrong(name, of, value, " (finite)")
    return number


def _decimal(name: str, of: Type, value: Any) -> Decimal:
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        raise _wrong(name, of, value)
    try:
        number = Decimal(value)
        fitted = number.quantize(Decimal(1).scaleb(-of.scale)) if abs(number.adjusted()) < 100 else None
    except InvalidOperation:
        fitted = None
    if fitted is None or fitted != number or len(fitted.as_tuple().digits) > of.precision:
        raise _wrong(name, of, value)
    return fitted


def _date(name: str, of: Type, value: Any) -> date:
    if isinstance(value, str) and not isinstance(value, _Number) and _DATE.fullmatch(value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise _wrong(name, of, value, ' (as "2024-05-17")')


def _timestamp(name: str, of: Type, value: Any) -> datetime:
    if isinstance(value, _Number):
        raise _wrong(name, of, value, " in ISO 8601; an epoch number needs a computed field")
    if isinstance(value, str) and _TIMESTAMP.fullmatch(value):
        try:
            read = datetime.fromisoformat(value)
            return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise _wrong(name, of, value, ' in ISO 8601 (as "2024-05-17T10:05:03Z")')


_READERS: dict[str, Callable[[str, Type, Any], Any]] = {
    "STRING": _string,
    "BOOLEAN": _boolean,
    "INT": _integer,
    "BIGINT": _integer,
    "DOUBLE": _double,
    "DECIMAL": _decimal,
    "DATE": _date,
    "TIMESTAMP": _timestamp,
}
