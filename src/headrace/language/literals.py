"""Constants, with the types that Spark gives them, in one canonical spelling."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from headrace.types import BIGINT, DOUBLE, INT, Type, decimal

_NUMBER = re.compile(r"(?P<digits>[\d.]+)(?P<exponent>[eE][+-]?\d+)?(?P<suffix>[A-Za-z]*)")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}$")
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2})(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?\s*(Z|UTC|[+-]\d{2}:?\d{2})?)?$"
)
SUFFIXES = ("", "L", "D", "BD")


def number(text: str, negative: bool) -> tuple[str, Type] | str:
    """The canonical spelling and type of a number as written; or why it cannot be one."""
    match = _NUMBER.fullmatch(text)
    assert match is not None, "the tokenizer gives nothing else"
    digits, exponent, suffix = match["digits"], match["exponent"] or "", match["suffix"].upper()
    sign = "-" if negative else ""
    if suffix not in SUFFIXES:
        return (
            f"the suffix {match['suffix']} of a number is not supported; "
            "write it plain, or with L (BIGINT), D (DOUBLE) or BD (DECIMAL)"
        )
    if suffix == "D" or (exponent and suffix == ""):
        return _double(sign + digits + exponent)
    if suffix == "L" or (suffix == "" and "." not in digits):
        return _integer(digits + exponent, sign, suffix)
    return _decimal(digits, exponent, sign)


def _integer(digits: str, sign: str, suffix: str) -> tuple[str, Type] | str:
    if not digits.isdigit():
        return f"{digits}{suffix} is not a whole number"
    value = int(sign + digits)
    if not -(2**63) <= value < 2**63:
        return _decimal(digits, "", sign) if not suffix else f"{value}L does not fit a BIGINT"
    if suffix or not -(2**31) <= value < 2**31:
        return f"{value}L", BIGINT
    return str(value), INT


def _decimal(digits: str, exponent: str, sign: str) -> tuple[str, Type] | str:
    if exponent:
        return "a DECIMAL is written without an exponent"
    whole, _, fraction = digits.partition(".")
    whole = whole.lstrip("0")
    scale = len(fraction)
    precision = max(len(whole + fraction) if whole else len(fraction.lstrip("0")), scale, 1)
    if precision > 38:
        return "a number of more than 38 digits fits no type"
    if scale:
        return f"{sign}{whole or 0}.{fraction}BD", decimal(precision, scale)
    return f"{sign}{whole or 0}BD", decimal(precision, 0)


def _double(text: str) -> tuple[str, Type] | str:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        return f"{text} does not fit a DOUBLE"
    digits = repr(value).upper().replace("E+", "E")
    return f"{digits}D", DOUBLE


def parse_date(text: str) -> str | None:
    """A date as YYYY-MM-DD; None if it is not one."""
    if not _DATE.match(text.strip()):
        return None
    year, month, day = (int(part) for part in text.strip().split("-"))
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None


def parse_timestamp(text: str) -> str | None:
    """A time, UTC if it names no zone, as YYYY-MM-DD HH:MM:SS[.ffffff] in UTC; None if it is not one."""
    match = _TIMESTAMP.match(text.strip())
    day = parse_date(match[1]) if match else None
    if match is None or day is None:
        return None
    hour, minute, second = (int(match[i] or 0) for i in (2, 3, 4))
    fraction = (match[5] or "").ljust(6, "0")
    zone = match[6] or "Z"
    zone = "+00:00" if zone in ("Z", "UTC") else zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
    try:
        value = datetime.fromisoformat(f"{day}T{hour:02}:{minute:02}:{second:02}.{fraction}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return value.replace(tzinfo=None).isoformat(sep=" ")
