"""The second parser: one event at a time, with the field and the reason for what it refuses.

It accepts all that the fast one does, with the same values, so an event's verdict never depends on
its neighbours. It runs only on pieces for which the fast parser returned no result.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from headrace.define.model import Field
from headrace.language.paths import Steps
from headrace.parse.block_checks import is_small, over_limit
from headrace.parse.fast_check import JsonNumber, look, names_twice, read_fast
from headrace.parse.iso_times import read_date, read_timestamp
from headrace.types import Type

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_CONSTANT = re.compile(r"-?Inf(?!inity)|-NaN")
# Also a string without an end: otherwise each quote in it would be tried as the start of another one.
_CONSTANT_OR_TEXT = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|' + _CONSTANT.pattern, re.DOTALL)
_CONSTANTS = {"Inf": "Infinity", "-Inf": "-Infinity", "-NaN": "NaN"}
_BYTE_ORDER_MARK = "\ufeff"
_MOST_CHARACTERS = 40
_EXACT = Context(prec=80)  # Python's own has 28 digits, a DECIMAL up to 38


class Refused(ValueError):
    """The reason why an event cannot be read."""


class _Object(dict[str, Any]):
    """A JSON object, and the names that it has twice."""

    twice: frozenset[str] = frozenset()


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    event = _Object(pairs)
    if len(event) != len(pairs):
        names: set[str] = set()
        twice: set[str] = set()
        for name, _ in pairs:
            (twice if name in names else names).add(name)
        event.twice = frozenset(twice)
    return event


_Scan = Callable[[str, int], tuple[Any, int]]


def _scanner(**hooks: Any) -> _Scan:
    # Frames are trimmed already: the scanner alone is much faster than a decoder.
    decoder: Any = json.JSONDecoder(**hooks)
    scan: _Scan = decoder.scan_once
    return scan


_scan = _scanner(object_pairs_hook=_object, parse_float=JsonNumber, parse_int=JsonNumber, parse_constant=JsonNumber)
_scan_plain = _scanner(parse_float=JsonNumber, parse_constant=JsonNumber)  # for events without duplicate names
_scan_only = _scanner(parse_float=len, parse_int=len, parse_constant=len)  # whether it is JSON; len is cheapest
_quoted = json.JSONEncoder(ensure_ascii=False).encode


class SecondParser:
    """Reads one event at a time."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = [(field.steps, field.label, field.type, _READERS[field.type.name]) for field in fields]
        self._looks = [(steps, label, of, look(of), reader) for steps, label, of, reader in self._fields]

    def refusal(self, frame: bytes) -> str | None:
        """The reason why the event is refused; None if it is good."""
        try:
            event = read_fast(frame)
            if event is None:
                self.read(frame, in_doubt=True)
            elif names_twice(frame, event):
                self.read(frame)
            else:
                self._look_closer(frame, event)
        except Refused as error:
            return str(error).encode("utf-8", "replace").decode()
        return None

    def _look_closer(self, frame: bytes, event: dict[str, Any]) -> None:
        has_numbers = False
        for steps, label, of, is_good, reader in self._looks:
            value = _walk(event, steps)
            if value is None or is_good(value):
                continue
            if not has_numbers and (type(value) is float or of.is_nested):
                try:
                    event, has_numbers = _scan_plain(frame.decode(), 0)[0], True
                except ValueError:  # Python limits the digits of an int
                    self.read(frame)
                    return
                value = _walk(event, steps)
                if is_good(value):
                    continue
            reader(label, of, value)

    def read(self, frame: bytes, *, in_doubt: bool = False) -> list[Any]:
        """The values of all fields; raises Refused. `in_doubt` makes this faster for what is not JSON."""
        event = _decode(frame, in_doubt=in_doubt)
        values = [(_walk(event, steps, label), label, of, reader) for steps, label, of, reader in self._fields]
        return [None if value is None else reader(label, of, value) for value, label, of, reader in values]


def _walk(event: Any, steps: Steps, label: str = "") -> Any:
    """The value at a path of the event; None if there is nothing, also where a step meets no object or array."""
    value = event
    for step in steps:
        if isinstance(step, str):
            if not isinstance(value, dict):
                return None
            _check_once(value, step, label)
            value = value.get(step)
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else None
    return value


def _decode(frame: bytes, *, in_doubt: bool) -> _Object:
    try:
        text = frame.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"not UTF-8 at byte {error.start}") from None
    if not is_small(frame) and (limit := over_limit(frame)):
        raise Refused(limit)
    text = text.removeprefix(_BYTE_ORDER_MARK)
    if in_doubt:
        _loads(text, _scan_only)
    event = _loads(text, _scan)
    if not isinstance(event, _Object):
        raise Refused(f"expected a JSON object, found {_kind(event)}{_of_cells(event)}")
    return event


def _of_cells(event: Any) -> str:
    """A hint for CSV, where the array is unexpected."""
    if not isinstance(event, list) or not event or not all(type(cell) is str for cell in event):
        return ""
    values = "1 value" if len(event) == 1 else f"{len(event):,} values"
    return f" of {values} (a CSV row whose number of cells differs from the header)"


def _loads(text: str, scan: _Scan) -> Any:
    try:
        event, end = scan(text, 0)
        if end == len(text):
            return event
        message, at = "extra characters after it", end
    except StopIteration as stop:
        message, at = "expecting value", stop.value
    except json.JSONDecodeError as error:
        message, at = error.msg, error.pos
    if not _CONSTANT.match(text, at):
        problem = message[0].lower() + message[1:].removesuffix(" at")
        raise Refused(f"not JSON: {problem} at character {at + 1}")
    # The fast parser skips Inf and -NaN like Infinity and NaN, in undeclared fields.
    return _loads(_CONSTANT_OR_TEXT.sub(lambda match: _CONSTANTS.get(match[0], match[0]), text), scan)


def _check_once(event: dict[str, Any], name: str, path: str) -> None:
    if type(event) is _Object and name in event.twice:
        raise Refused(f"field '{path}' appears twice")


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return f"the boolean {str(value).lower()}"
        case JsonNumber() | int():
            return f"the number {_short(str(value))}"
        case str():
            return f"the string {_quoted(_short(value))}"
        case list():
            return "an array"
        case _:
            return "an object"


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…"


def _wrong(name: str, of: Type, value: Any, hint: str = "") -> Refused:
    return Refused(f"field '{name}' takes {of}{hint}, found {_kind(value)}")


def _string(name: str, of: Type, value: Any) -> str:
    if isinstance(value, JsonNumber) or not isinstance(value, str):
        raise _wrong(name, of, value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refused(f"field '{name}' contains half of a surrogate pair") from None
    return value


def _boolean(name: str, of: Type, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(name, of, value, " (true or false)")
    return value


def _integer(name: str, of: Type, value: Any) -> int:
    if type(value) is int:
        number = value
    elif not isinstance(value, JsonNumber) or not value.lstrip("-").isdigit() or len(value) > _MOST_CHARACTERS:
        raise _wrong(name, of, value, " (a whole number)")
    else:
        number = int(value)
    bits = 31 if of.name == "INT" else 63
    if not -(1 << bits) <= number < 1 << bits:
        raise _wrong(name, of, value, f" ({-(1 << bits)} to {(1 << bits) - 1})")
    return number


def _double(name: str, of: Type, value: Any) -> float:
    if type(value) is int:
        return float(value)
    if not isinstance(value, JsonNumber):
        raise _wrong(name, of, value)
    number = float(value.replace("Inf", "inf") if "Inf" in value else value)
    if not math.isfinite(number):
        raise _wrong(name, of, value, " (finite)")
    return number


def _decimal(name: str, of: Type, value: Any) -> Decimal:
    if type(value) is not int and (not isinstance(value, str) or not _NUMBER.fullmatch(value)):
        raise _wrong(name, of, value)
    try:
        number = Decimal(value)
        scaled = number.quantize(Decimal(1).scaleb(-of.scale), context=_EXACT) if abs(number.adjusted()) < 100 else None
    except InvalidOperation:
        scaled = None
    if scaled is None or scaled != number or len(scaled.as_tuple().digits) > of.precision:
        raise _wrong(name, of, value)
    return scaled


def _date(name: str, of: Type, value: Any) -> date:
    day = read_date(value) if isinstance(value, str) and not isinstance(value, JsonNumber) else None
    if day is None:
        raise _wrong(name, of, value, ' (as "2024-05-17")')
    return day


def _timestamp(name: str, of: Type, value: Any) -> datetime:
    if isinstance(value, JsonNumber) or type(value) is int:
        raise _wrong(name, of, value, " in ISO 8601; an epoch number needs a computed field")
    time = read_timestamp(value) if isinstance(value, str) else None
    if time is None:
        raise _wrong(name, of, value, ' in ISO 8601 (as "2024-05-17T10:05:03Z")')
    return time


def _array(name: str, of: Type, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(name, of, value)
    inner, reader = of.inner, _READERS[of.inner.name]
    return [None if item is None else reader(f"{name}[{index}]", inner, item) for index, item in enumerate(value)]


def _struct(name: str, of: Type, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(name, of, value)
    values: dict[str, Any] = {}
    for part, inner in of.parts:
        path = f"{name}.{part}"
        _check_once(value, part, path)
        item = value.get(part)
        values[part] = None if item is None else _READERS[inner.name](path, inner, item)
    return values


def _map(name: str, of: Type, value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise _wrong(name, of, value)
    inner, reader = of.inner, _READERS[of.inner.name]
    pairs: list[tuple[str, Any]] = []
    for key, item in value.items():
        path = f"{name}['{_short(key)}']"
        _check_once(value, key, path)
        pairs.append((_string(path, of, key), None if item is None else reader(path, inner, item)))
    return pairs


_READERS: dict[str, Callable[[str, Type, Any], Any]] = {
    "STRING": _string,
    "BOOLEAN": _boolean,
    "INT": _integer,
    "BIGINT": _integer,
    "DOUBLE": _double,
    "DECIMAL": _decimal,
    "DATE": _date,
    "TIMESTAMP": _timestamp,
    "ARRAY": _array,
    "STRUCT": _struct,
    "MAP": _map,
}
