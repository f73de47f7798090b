"""Bounds of values that all engines apply alike: the years of times, the length of keys."""

from __future__ import annotations

from headrace.language.functions import FUNCTIONS
from headrace.language.terms import Term
from headrace.types import STRING, Type

TIMES = ("DATE", "TIMESTAMP")
YEARS_US = (-62_135_596_800_000_000, 253_402_300_799_999_999)  # since 1970
STAYS = ("date_trunc", "last_day")  # their result is within these years if their argument is
BOUNDS = {
    "DATE": ("DATE '0001-01-01'", "DATE '9999-12-31'"),
    "TIMESTAMP": ("TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
}


def makes_time(term: Term) -> bool:
    """Whether the result is a date or time that is not one of the arguments."""
    if term.type.name not in TIMES:
        return False
    if term.op in ("CAST", "TRY_CAST", "to_date", "to_timestamp"):
        return term.args[0].type.name not in TIMES
    function = FUNCTIONS.get(term.op)
    is_new = function is not None and isinstance(function.result, Type) and function.name not in STAYS
    return term.op in ("+", "-") or is_new


def makes_times(term: Term) -> bool:
    """Whether `makes_time` holds for an argument of the term, at any depth."""
    return any(makes_time(arg) or makes_times(arg) for arg in term.args)


LONGEST_KEY = 64 << 10  # bytes
KEPT = 200  # characters of a longer key; with its length and its MD5, different keys stay different


def shorten_duckdb(key: str, of: Type) -> str:
    """SQL of DuckDB for a key of a view."""
    return _shorten(key, of, f"strlen({key})", f"md5({key})")


def shorten_spark(key: str, of: Type) -> str:
    """The same for Spark."""
    return _shorten(key, of, f"octet_length({key})", f"md5(CAST({key} AS BINARY))")


def _shorten(key: str, of: Type, size: str, digest: str) -> str:
    if of != STRING:
        return key
    text = f"concat(left({key}, {KEPT}), '... (', CAST({size} AS STRING), ' bytes, MD5 ', {digest}, ')')"
    return f"CASE WHEN {size} > {LONGEST_KEY} THEN {text} ELSE {key} END"
