"""Which changes of a running stream's fields only loosen it: old events are read as before, and more are accepted.

Spark, pyarrow and DuckDB read these types from the older files of the lake (docs/decisions/0010).
"""

from __future__ import annotations

from dataclasses import replace

from headrace.define.model import Field, Stream
from headrace.types import Type

_WIDER = {("INT", "BIGINT"), ("INT", "DOUBLE")}
_ROUNDED = {
    "BIGINT": "a DOUBLE holds whole numbers exactly only up to 2^53, so larger ones of the log would change",
    "DECIMAL": "a DOUBLE holds some 15 digits and not every decimal fraction, so numbers of the log would change",
}


def loosens(before: Stream, after: Stream, name: str) -> bool:
    """Whether this field of both has only become looser."""
    old, new = _field(before, name), _field(after, name)
    same_place = (old.computed, old.path, old.record) == (new.computed, new.path, new.record)
    if not same_place or (new.nullable, old.nullable) == (False, True):
        return False
    if old.type == new.type:
        return True
    # Old events hold values computed from the old type, which the new type may format or round differently.
    expressions = [field.computed for field in before.fields if field.computed]
    return not old.computed and widens(old.type, new.type) and not any(name in of.fields() for of in expressions)


def strictest(before: Stream, after: Stream) -> Stream:
    """The stream that accepts only what both accept: the new fields, with the old declaration where there is one."""
    old = {field.name: field for field in before.fields}
    return replace(after, fields=tuple(old.get(field.name, field) for field in after.fields))


def widens(before: Type, after: Type) -> bool:
    """Whether each value of one type is the same value of the other."""
    if before.name == after.name == "DECIMAL":
        return after.scale >= before.scale and after.precision - after.scale >= before.precision - before.scale
    return (before.name, after.name) in _WIDER


def why_narrower(before: Field, after: Field) -> str | None:
    """Why a type that looks wider is not, and what to do; None where no explanation is needed."""
    reason = _ROUNDED.get(before.type.name) if after.type.name == "DOUBLE" else None
    fix = f"keep {before.type}, and write CAST({before.name} AS DOUBLE) in views"
    return f"{reason}; {fix}" if reason else None


def _field(stream: Stream, name: str) -> Field:
    return next(field for field in stream.fields if field.name == name)
