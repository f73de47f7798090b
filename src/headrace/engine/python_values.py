"""Values of expressions in Python as Spark (ansi off) computes them: conversions between types, text, arithmetic."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from headrace.aggregate.merges import EXACT
from headrace.types import Type

Convert = Callable[[Any], Any]
MOST_DIGITS = 19  # of a BIGINT
INT_BITS = {"INT": 32, "BIGINT": 64}
QUOTIENT = Context(prec=80, rounding=ROUND_DOWN)
WIDE = Context(prec=400)  # for values that are not bounded by 38 digits
_BLANKS = "".join(map(chr, range(1, 33)))
_WHOLE = re.compile(r"([+-]?)(?=[\d.])(\d*)(\.\d*)?", re.ASCII)
_FLOAT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[dDfF]?", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WORDS = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    "-inf": -math.inf, "-infinity": -math.inf, "nan": math.nan,
}  # fmt: skip
_YES, _NO = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")


def wrap(value: int, of: Type) -> int:
    """The integer in as many bits as its type has."""
    half = 1 << (INT_BITS[of.name] - 1)
    return value if -half <= value < half else (value + half) % (2 * half) - half


def fit(value: Decimal, of: Type) -> Decimal | None:
    """The DECIMAL rounded to its type; None if it does not fit."""
    if value.adjusted() >= of.precision and value:
        return None
    rounded = value.quantize(Decimal(1).scaleb(-of.scale), ROUND_HALF_UP, EXACT)
    return rounded if abs(rounded) < 10 ** (of.precision - of.scale) else None


def to_whole(value: float, of: Type) -> int:
    """A DOUBLE without its fraction; the nearest integer where it does not fit, 0 for NaN, as in Java."""
    if math.isnan(value):
        return 0
    half = 1 << (INT_BITS[of.name] - 1)
    return max(-half, min(half - 1, int(value))) if math.isfinite(value) else (half - 1 if value > 0 else -half)


def conversion(source: Type, to: Type, *, strict: bool = False) -> Convert | None:
    """CAST of a value that is not None; None if the value stays as it is. `strict` is TRY_CAST."""
    if source == to or source.name == "VOID":
        return None
    match source.name, to.name:
        case "STRING", _:
            return _from_text(to, strict=strict)
        case _, "STRING":
            return _TO_TEXT.get(source.name, str)
        case "BOOLEAN", "DECIMAL":
            return lambda value: fit(Decimal(int(value)), to)
        case "BOOLEAN", _:
            return float if to.name == "DOUBLE" else int
        case _, "BOOLEAN":
            return lambda value: value != 0
        case (("INT" | "BIGINT"), ("INT" | "BIGINT")):
            return (lambda value: _checked(value, to) if strict else wrap(value, to)) if to.name == "INT" else None
        case "DOUBLE", ("INT" | "BIGINT"):
            return lambda value: _checked_double(value, to) if strict else to_whole(value, to)
        case "DECIMAL", ("INT" | "BIGINT"):
            return lambda value: _checked(int(value), to) if strict else wrap(int(value), to)
        case (("INT" | "BIGINT"), "DECIMAL"):
            return lambda value: fit(Decimal(value), to)
        case "DECIMAL", "DECIMAL":
            return lambda value: fit(value, to)
        case "DOUBLE", "DECIMAL":
            return lambda value: fit(Decimal(repr(value)), to) if math.isfinite(value) else None
        case _, "DOUBLE":
            return float
        case "DATE", "TIMESTAMP":
            return lambda value: datetime(value.year, value.month, value.day, tzinfo=UTC)
        case "TIMESTAMP", "DATE":
            return lambda value: value.astimezone(UTC).date()
    raise AssertionError(f"no cast from {source} to {to}")


def _checked(value: int, to: Type) -> int | None:
    return value if wrap(value, to) == value else None


def _checked_double(value: float, to: Type) -> int | None:
    return _checked(int(value), to) if math.isfinite(value) else None


def _from_text(to: Type, *, strict: bool) -> Convert:
    match to.name:
        case "BOOLEAN":
            return _boolean
        case "DOUBLE":
            return _double
        case "DECIMAL":
            return lambda text: _decimal(text, to)
    return lambda text: _integer(text, to, strict=strict)


def _boolean(text: str) -> bool | None:
    word = text.strip(_BLANKS).lower()
    return True if word in _YES else False if word in _NO else None


def _double(text: str) -> float | None:
    text = text.strip(_BLANKS)
    match = _FLOAT.fullmatch(text)
    return float(match[1]) if match else _WORDS.get(text.lower())


def _decimal(text: str, to: Type) -> Decimal | None:
    text = text.strip(_BLANKS)
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return fit(Decimal(text), to)
    except InvalidOperation:  # too many digits
        return None


def _integer(text: str, to: Type, *, strict: bool) -> int | None:
    match = _WHOLE.fullmatch(text.strip(_BLANKS))
    if not match or (strict and match[3]):
        return None
    digits = match[2].lstrip("0") or "0"
    # Python refuses to read thousands of digits.
    return _checked(int(match[1] + digits), to) if len(digits) <= MOST_DIGITS else None


def double_text(value: float) -> str:
    """A DOUBLE as Java writes it."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f") if "e" in repr(value) else repr(value)
    short = f"{value:.1e}"  # Java writes two digits at least
    sign, digits, exponent = Decimal(short if float(short) == value else repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    power = len(digits) - 1 + int(exponent)
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


def time_text(value: datetime) -> str:
    """A TIMESTAMP as Spark writes it."""
    value = value.astimezone(UTC)
    fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
    return f"{value.date().isoformat()} {value:%H:%M:%S}{fraction}"


_TO_TEXT: dict[str, Convert] = {
    "BOOLEAN": lambda value: "true" if value else "false",
    "DOUBLE": double_text,
    "DATE": date.isoformat,
    "TIMESTAMP": time_text,
}


def arithmetic(op: str, of: Type) -> Callable[[Any, Any], Any]:
    """An operator over two values of a type, neither of them None; the result has the type `of`."""
    if of.name == "DOUBLE":
        return _DOUBLES[op]
    if of.name == "DECIMAL":
        exact = _DECIMALS[op]

        def decimals(a: Decimal, b: Decimal) -> Decimal | None:
            value = exact(a, b)
            return None if value is None else fit(value, of)

        return decimals
    exact_integer = _INTEGERS[op]

    def integers(a: int, b: int) -> int | None:
        value = exact_integer(a, b)
        return None if value is None else wrap(value, of)

    return integers


def divide_whole(a: Any, b: Any) -> int | None:
    """DIV: the quotient without its fraction."""
    if b == 0:
        return None
    if isinstance(a, int):
        quotient: int = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    return int(EXACT.divide(a, b).to_integral_value(ROUND_DOWN, EXACT))


def _remainder(a: int, b: int) -> int | None:
    quotient = divide_whole(a, b)
    return None if quotient is None else a - b * quotient


def _double_remainder(a: float, b: float) -> float | None:
    if b == 0:
        return None
    return math.fmod(a, b) if math.isfinite(a) else math.nan


def _divide(a: Decimal, b: Decimal) -> Decimal | None:
    # More than 39 digits of the fraction, cut off, so that the quotient is rounded once, to its type.
    return QUOTIENT.divide(a, b) if b else None


_INTEGERS: dict[str, Callable[[int, int], int | None]] = {
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
    "%": _remainder,
}
_DOUBLES: dict[str, Callable[[float, float], float | None]] = {
    "+": float.__add__,
    "-": float.__sub__,
    "*": float.__mul__,
    "/": lambda a, b: a / b if b else None,
    "%": _double_remainder,
}
_DECIMALS: dict[str, Callable[[Decimal, Decimal], Decimal | None]] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "/": _divide,
    "%": lambda a, b: EXACT.remainder(a, b) if b else None,
}
