"""Dates and times are of the years 1 to 9999: an expression that would make another one makes NULL.

Spark and DuckDB go further, Python and ISO 8601 do not. What makes a time is guarded where it is made, in both, so that
it is NULL for all that follows: a comparison, a key, an argument (docs/decisions/0024).
"""

from __future__ import annotations

from headrace.define.expression.functions import FUNCTIONS
from headrace.define.expression.terms import Term
from headrace.types import Type

TIMES = ("DATE", "TIMESTAMP")
YEARS_US = (-62_135_596_800_000_000, 253_402_300_799_999_999)  # since 1970
STAYS = ("date_trunc", "last_day")  # of a time of these years they make another
BOUNDS = {
    "DATE": ("DATE '0001-01-01'", "DATE '9999-12-31'"),
    "TIMESTAMP": ("TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
}


def makes_time(term: Term) -> bool:
    """Whether a date or time comes out that did not go in."""
    if term.type.name not in TIMES:
        return False
    if term.op in ("CAST", "TRY_CAST", "to_date", "to_timestamp"):
        return term.args[0].type.name not in TIMES
    function = FUNCTIONS.get(term.op)
    made = function is not None and isinstance(function.result, Type) and function.name not in STAYS
    return term.op in ("+", "-") or made


def makes_times(term: Term) -> bool:
    """Whether one of a term's arguments does, or one of theirs."""
    return any(makes_time(arg) or makes_times(arg) for arg in term.args)
