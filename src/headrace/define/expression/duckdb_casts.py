"""Casts and time parsing in DuckDB that accept exactly what Spark accepts."""

from __future__ import annotations

from headrace.define.expression.coercion import VOID
from headrace.define.expression.terms import Term, render
from headrace.errors import DefinitionError
from headrace.types import TIMESTAMP, Type

_BLANKS = "[\\x01-\\x20]*"
_WHOLE = f"^{_BLANKS}([+-]?\\d+)(?:\\.\\d*)?{_BLANKS}$"
_WHOLE_ONLY = f"^{_BLANKS}([+-]?\\d+){_BLANKS}$"
_NUMBER = f"^{_BLANKS}([+-]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][+-]?\\d+)?){_BLANKS}$"
_DAY = f"^{_BLANKS}(\\d{{4}}-\\d{{1,2}}-\\d{{1,2}})(?:[ T].*)?{_BLANKS}$"
_TIME = (
    f"^{_BLANKS}(\\d{{4}}-\\d{{1,2}}-\\d{{1,2}}(?:[ T]\\d{{1,2}}:\\d{{1,2}}(?::\\d{{1,2}}(?:\\.\\d{{1,6}})?)?)?)"
    f"\\d*{_BLANKS}(Z|UTC|[+-]\\d{{2}}(?::?\\d{{2}})?)?{_BLANKS}$"
)
# Functions of ours in DuckDB (`parse/time_patterns.py`, `parse/zones.py`). They give microseconds since 1970.
READ_TIME, TO_LOCAL, TO_UTC = "headrace_time", "headrace_to_local", "headrace_to_utc"


def cast_sql(sql: str, value: Term, cast: Term) -> str:
    """CAST or TRY_CAST of a value as Spark does it."""
    to, source = cast.type, value.type
    if source == VOID:
        if value.is_literal:
            return "NULL"
        raise DefinitionError(
            f"the type of {render(value)} must be known to translate its cast", fix="pass stream.types()"
        )
    if source == to:
        return sql
    if source.name == "STRING":
        return _from_text(sql, to, strict=cast.op == "TRY_CAST")
    if to.name == "STRING":
        return _to_text(sql, value)
    if to.is_integer and source.name in ("DOUBLE", "DECIMAL"):
        return f"TRY_CAST(trunc({sql}) AS {_name(to)})"
    if to.name == "BOOLEAN":
        return f"{sql} <> 0"
    return f"TRY_CAST({sql} AS {_name(to)})"


def time_sql(sql: str, value: Term, to: Type) -> str:
    """to_date(x) and to_timestamp(x)."""
    return cast_sql(sql, value, Term("CAST", to))


def parse_format_sql(sql: str, value: Term, pattern: str, to: Type) -> str:
    """to_date(x, format) and to_timestamp(x, format)."""
    if value.type.name in ("DATE", "TIMESTAMP"):
        return time_sql(sql, value, to)
    return f"CAST(make_timestamptz({READ_TIME}({sql}, {_text(pattern)})) AS {_name(to)})"


def _from_text(sql: str, to: Type, *, strict: bool) -> str:
    match to.name:
        case "INT" | "BIGINT":
            return f"TRY_CAST({_extract(sql, _WHOLE_ONLY if strict else _WHOLE)} AS {_name(to)})"
        case "DOUBLE" | "DECIMAL":
            return f"TRY_CAST({_extract(sql, _NUMBER)} AS {_name(to)})"
        case "BOOLEAN":
            word = f"lower(trim({sql}, ' '))"
            yes, no = "('t', 'true', 'y', 'yes', '1')", "('f', 'false', 'n', 'no', '0')"
            return f"CASE WHEN {word} IN {yes} THEN true WHEN {word} IN {no} THEN false END"
        case "DATE":
            return f"TRY_CAST({_extract(sql, _DAY)} AS DATE)"
    # More than six digits of a second are cut off, as Spark does.
    time, zone = _extract(sql, _TIME), _extract(sql, _TIME, 2)
    return f"TRY_CAST({time} || CASE {zone} WHEN 'UTC' THEN 'Z' ELSE {zone} END AS TIMESTAMPTZ)"


def _to_text(sql: str, value: Term) -> str:
    if value.type.name == "DOUBLE":
        raise DefinitionError(
            f"a computed field cannot write a DOUBLE as text ({render(value)}): engines spell it differently",
            fix="CAST it to a DECIMAL first",
        )
    if value.type == TIMESTAMP:
        return f"CAST(CAST({sql} AS TIMESTAMP) AS VARCHAR)"
    return f"CAST({sql} AS VARCHAR)"


def _extract(sql: str, pattern: str, group: int = 1) -> str:
    return f"regexp_extract({sql}, {_text(pattern)}, {group})"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _name(type_: Type) -> str:
    return {"INT": "INTEGER", "TIMESTAMP": "TIMESTAMPTZ"}.get(type_.name, str(type_))
