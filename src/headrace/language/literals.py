"""Reads types, durations and constants, in one canonical spelling and with the types that Spark gives them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from headrace.errors import DefinitionError, nearest
from headrace.language.durations import parse_duration, unit_ms
from headrace.language.source_text import NUMBER, STRING, WORD, Token
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, TIMESTAMP, Type, array, decimal, map_of, struct
from headrace.types import STRING as STRING_TYPE

if TYPE_CHECKING:
    from headrace.language.token_cursor import TokenCursor

TYPES = {
    **dict.fromkeys(("STRING", "TEXT", "VARCHAR", "NVARCHAR", "CHAR", "CHARACTER", "BPCHAR", "UUID"), STRING_TYPE),
    **dict.fromkeys(("BOOLEAN", "BOOL"), BOOLEAN),
    # Integers of other sizes are read as the next larger one.
    **dict.fromkeys(("INT", "INTEGER", "INT4", "INT32", "SMALLINT", "SHORT", "INT2", "INT16", "TINYINT", "BYTE",
                     "UINT8", "UINT16"), INT),
    **dict.fromkeys(("BIGINT", "LONG", "INT8", "INT64", "UINT32"), BIGINT),
    # Also those of 32 bits: 0.1 stays 0.1.
    **dict.fromkeys(("DOUBLE", "FLOAT", "REAL", "FLOAT4", "FLOAT8", "FLOAT32", "FLOAT64"), DOUBLE),
    "DATE": DATE,
    # An instant, in microseconds; a text without a zone is UTC.
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DATETIME"), TIMESTAMP),
    "DATETIME64": TIMESTAMP,
}  # fmt: skip
DECIMALS = ("DECIMAL", "NUMERIC", "DEC")
BARE_DECIMAL = decimal(10, 0)  # without precision, as in Spark
NEAREST = {
    "TIME": "STRING", **dict.fromkeys(("JSON", "JSONB", "VARIANT"), "STRING for a text, STRUCT<…> for an object"),
    **dict.fromkeys(("BINARY", "VARBINARY", "BYTES", "BYTEA", "BLOB", "ENUM", "INTERVAL", "NCHAR", "CLOB"), "STRING"),
    **dict.fromkeys(("BIGNUMERIC", "NUMBER", "MONEY"), "DECIMAL(38,4)"), "SERIAL": "INT", "BIGSERIAL": "BIGINT",
    "LIST": "ARRAY<…>", "OBJECT": "STRUCT<…>", "HUGEINT": "DECIMAL(38,0)", "UINT64": "DECIMAL(20,0)",
}  # fmt: skip
_LENGTHS = ("VARCHAR", "NVARCHAR", "CHAR", "CHARACTER", "BPCHAR")
_ZONES = (("WITH", "TIME", "ZONE"), ("WITH", "LOCAL", "TIME", "ZONE"), ("WITHOUT", "TIME", "ZONE"))
DEEPEST_TYPE = 8
_PART = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"(?P<digits>[\d.]+)(?P<exponent>[eE][+-]?\d+)?(?P<suffix>[A-Za-z]*)")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}$")
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2})(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?\s*(Z|UTC|[+-]\d{2}:?\d{2})?)?$"
)
SUFFIXES = ("", "L", "D", "BD")


def read_type(cursor: TokenCursor) -> Type:
    """Read a type that a field or CAST may have."""
    token = cursor.next
    type_ = _read_type(cursor)
    if type_.depth > DEEPEST_TYPE:
        raise cursor.error(
            token.start,
            f"a type of {type_.depth} levels is not supported",
            expected=f"at most {DEEPEST_TYPE}",
            fix="declare the inner part STRING and use get_json_object",
        )
    return type_


def _read_type(cursor: TokenCursor) -> Type:
    type_ = _read_single_type(cursor)
    while cursor.sees_symbol("[") and cursor.ahead(1).text == "]":  # BIGINT[]
        cursor.index += 2
        type_ = array(type_)
    return type_


def _read_single_type(cursor: TokenCursor) -> Type:
    token = cursor.next
    if token.kind != WORD:
        raise cursor.unexpected("a type, such as STRING, INT, BIGINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP, DECIMAL(10,2)")
    cursor.take()
    name = token.upper
    if name in DECIMALS:
        return _read_decimal(cursor, token)
    if name in TYPES:
        _skip_details(cursor, name)
        return TYPES[name]
    if name in ("ARRAY", "MAP", "STRUCT", "ROW"):
        return _read_nested(cursor, "STRUCT" if name == "ROW" else name)
    if name in ("NULLABLE", "LOWCARDINALITY") and cursor.accept_symbol("("):  # of ClickHouse
        inner = _read_type(cursor)
        cursor.expect_symbol(")", f"the type of {token.text}")
        return inner
    if name in NEAREST:
        near = NEAREST[name]
        raise cursor.error(
            token.start, f"the type {name} is not supported", fix=f"the nearest is {near}",
            write=None if "…" in near else near, end=token.end,
        )  # fmt: skip
    similar = nearest(name, [*TYPES, "DECIMAL", "ARRAY", "MAP", "STRUCT"])
    fix = f"did you mean '{similar}'?" if similar else None
    names = "STRING, INT, BIGINT, DOUBLE, DECIMAL(p,s), BOOLEAN, DATE, TIMESTAMP, ARRAY<…>, STRUCT<…> or MAP<…>"
    raise cursor.error(
        token.start, f"the type '{token.text}' is unknown", expected=names, fix=fix, write=similar, end=token.end
    )


def _read_nested(cursor: TokenCursor, name: str) -> Type:
    form = {"ARRAY": "ARRAY<INT>", "MAP": "MAP<STRING, INT>", "STRUCT": "STRUCT<a: INT, b: STRING>"}[name]
    closing = ")" if cursor.sees_symbol("(") else ">"
    if not (cursor.accept_symbol("<") or cursor.accept_symbol("(")):
        raise cursor.unexpected(f"the inner types after {name}, as in {form}")
    if name == "ARRAY":
        type_ = array(_read_type(cursor))
    elif name == "MAP":
        type_ = _read_map(cursor)
    else:
        type_ = _read_struct(cursor)
    cursor.expect_symbol(closing, f"the inner types of {name}")
    return type_


def _read_map(cursor: TokenCursor) -> Type:
    at = cursor.next.start
    key = _read_type(cursor)
    if key != STRING_TYPE:
        raise cursor.error(
            at, "the keys of a MAP are STRING, as in a JSON object", found=str(key), fix="MAP<STRING, …>"
        )
    cursor.expect_symbol(",", "the type of the keys of a MAP")
    return map_of(_read_type(cursor))


def _read_struct(cursor: TokenCursor) -> Type:
    parts: list[tuple[str, Type]] = []
    while not parts or cursor.accept_symbol(","):
        token = cursor.take() if cursor.next.kind == WORD else cursor.expect_name("a part of the STRUCT")
        if not _PART.fullmatch(token.text):
            raise cursor.error(
                token.start, f"'{token.text}' cannot name a part of a STRUCT", expected="letters, digits and _"
            )
        if any(token.text.lower() == name.lower() for name, _ in parts):
            raise cursor.error(
                token.start, f"the part '{token.text}' of the STRUCT is declared twice", fix="rename one"
            )
        cursor.accept_symbol(":")
        parts.append((token.text, _read_type(cursor)))
        if cursor.sees("NOT", "NULL"):
            raise cursor.error(
                cursor.next.start,
                "a part of a STRUCT may always be missing",
                fix="remove NOT NULL; a computed field of that part can have it",
            )
    return struct(*parts)


def _skip_details(cursor: TokenCursor, name: str) -> None:
    """Read what other systems write after a type and what does not change the values here: VARCHAR(20)."""
    if name == "DOUBLE":
        cursor.accept("PRECISION")
    if name == "CHARACTER":
        cursor.accept("VARYING")
    if (name in _LENGTHS or TYPES[name] in (TIMESTAMP, DOUBLE)) and cursor.accept_symbol("("):
        _read_count(cursor, "a length" if name in _LENGTHS else "a precision")
        if cursor.accept_symbol(","):  # DateTime64(3, 'UTC')
            cursor.take()
        cursor.expect_symbol(")", f"the {'length' if name in _LENGTHS else 'precision'}")
    if TYPES[name] == TIMESTAMP:
        any(cursor.accept(*words) for words in _ZONES)


def _read_decimal(cursor: TokenCursor, token: Token) -> Type:
    precision, scale = BARE_DECIMAL.precision, BARE_DECIMAL.scale
    if cursor.accept_symbol("("):
        precision = _read_count(cursor, "a precision")
        if cursor.accept_symbol(","):
            scale = _read_count(cursor, "a scale")
        cursor.expect_symbol(")", "the precision of a DECIMAL")
    if not 1 <= precision <= 38 or scale > precision:
        raise cursor.error(
            token.start,
            "a DECIMAL has 1 to 38 digits, of which the scale is a part",
            found=f"DECIMAL({precision},{scale})",
            fix="write for example DECIMAL(18,2)",
        )
    return decimal(precision, scale)


def _read_count(cursor: TokenCursor, what: str) -> int:
    if cursor.next.kind != NUMBER or not cursor.next.text.isdigit():
        raise cursor.unexpected(what)
    return int(cursor.take().text)


def read_interval(cursor: TokenCursor) -> int:
    """Read what follows INTERVAL, in milliseconds: 1 MINUTE, '5' MINUTES, '1 minute', '1 hour 30 minutes'."""
    return duration_at(cursor, *interval_text(cursor))


def interval_text(cursor: TokenCursor) -> tuple[str, int]:
    """Read what follows INTERVAL, as text, and its offset."""
    start = cursor.next
    if start.kind not in (NUMBER, STRING):
        raise cursor.unexpected("a duration, such as 1 MINUTE or '1 minute', after INTERVAL")
    cursor.take()
    text = start.text
    if cursor.next.kind == WORD and (unit_ms(cursor.next.text) or not any(c.isalpha() for c in text)):
        text += " " + cursor.take().text
    return text, start.start


def read_duration(cursor: TokenCursor) -> int:
    """Read a duration as '1 minute', INTERVAL 1 MINUTE or plain 1 MINUTE, in milliseconds."""
    cursor.accept("INTERVAL")
    return read_interval(cursor)


def duration_at(cursor: TokenCursor, text: str, at: int) -> int:
    """Milliseconds of a duration written at this offset."""
    try:
        return parse_duration(text)
    except DefinitionError as e:
        raise cursor.error(at, e.message, found=e.found, expected=e.expected, fix=e.fix) from None


def number(text: str, negative: bool) -> tuple[str, Type] | str:
    """Return the canonical spelling and type of a number as written; or why it cannot be one."""
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
        return _decimal(digits, "", sign) if not suffix else f"{value}L is out of range for BIGINT"
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
        return f"{text} is out of range for DOUBLE"
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
