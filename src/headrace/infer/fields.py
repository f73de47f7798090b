"""Infers the fields of a stream from samples; names what cannot be a field, with the reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.define.expression.terms import quote
from headrace.define.rules import check_name
from headrace.errors import DefinitionError, IngestError
from headrace.infer.names import is_identity
from headrace.infer.sample import Sample
from headrace.infer.seen import NUMBER_TEXT, Seen, guess_type, json_kind, look
from headrace.infer.times import Reading, find_readings
from headrace.infer.view import Candidate
from headrace.infer.write import DraftField, describe
from headrace.types import DATE, DOUBLE, STRING, TIMESTAMP, Type, array, map_of, struct

NEARLY = 0.99  # of the values must be of one kind for the others to be refused
LONG_TEXT = 40  # characters: longer ones are not names of things
MOST_FIELDS = 500
_DECIMAL_COMMA = re.compile(r"-?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?", re.ASCII)
DEEPEST = 8
MOST_PARTS = 60
_PART = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass
class Fields:
    """What was found, in the order in which the events name it."""

    declared: list[DraftField] = field(default_factory=list)
    typed: list[tuple[Seen, Type]] = field(default_factory=list)  # the single values that events hold, by their path
    computed: list[Candidate] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    times: list[Reading] | None = None  # None: those of the typed fields
    kind: str | None = None  # of lines of text

    @property
    def readings(self) -> list[Reading]:
        """What can be the event time, the likeliest first."""
        return find_readings(self.typed) if self.times is None else self.times

    def candidates(self) -> list[Candidate]:
        """The fields that a view may use."""
        return [candidate(seen, type_) for seen, type_ in self.typed] + self.computed


def candidate(seen: Seen, type_: Type) -> Candidate:
    """A field as a view may use it."""
    return Candidate(seen.name, type_, seen.rows, seen.nulls, seen.distinct, _is_long(seen))


def find_fields(samples: list[Sample]) -> Fields:
    """The fields that the events of all samples have."""
    rows = [row for sample in samples for row in sample.rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    found = Fields()
    if len(names) > MOST_FIELDS:
        raise IngestError(
            f"file '{samples[0].path}' has events of {len(names):,} different fields",
            expected=f"at most {MOST_FIELDS}",
            fix='if names are data, as in {"2024-05-17": 5}, send {"day": "2024-05-17", "value": 5} instead',
        )
    for name in names:
        seen = look(name, (row.get(name) for row in rows), len(rows), texts=samples[0].texts)
        why = _refuse_name(name, found) or _add(seen, found)
        if why:
            found.left_out[name] = why
    if not found.declared:
        reasons = "; ".join(f"'{name}': {why}" for name, why in list(found.left_out.items())[:3])
        raise IngestError(
            f"file '{samples[0].path}' has no field that can be declared", found=reasons or "events without fields"
        )
    return found


def _refuse_name(name: str, found: Fields) -> str | None:
    try:
        check_name(name, "field")
    except DefinitionError as error:
        return error.message.partition(": ")[2] or error.message
    if name.lower() in (field.name.lower() for field in found.declared):
        return "it differs from another field only in the case of its letters"
    return None


def _add(seen: Seen, found: Fields) -> str | None:
    """Declare a field; or say why not."""
    if not seen.values and not seen.texts:
        return "it is always null, so its type is not known"
    kept, note = seen, ""
    type_ = guess(seen)
    if type_ is None:
        kept = _most_of(seen)
        type_ = guess(kept)
        if type_ is None or len(kept.values) < NEARLY * len(seen.values):
            return _why_not(seen)
        note = f"; {len(seen.values) - len(kept.values):,} that are not are refused"
    required = is_identity(seen.name) and not seen.nulls
    found.declared.append(DraftField(seen.name, type_, not required, describe(seen) + note))
    found.typed += [(kept, type_)] if not type_.is_nested else parts_of(kept, type_)
    if type_ == STRING and seen.texts:
        _add_number(kept, found)
    return None


def _most_of(seen: Seen) -> Seen:
    """Only the values of the kind that most have."""
    numbers = ("integer", "number")
    kinds = numbers if seen.kind in numbers else (seen.kind,)
    return look(seen.name, (v for v in seen.values if json_kind(v) in kinds), seen.rows, texts=seen.texts)


def _why_not(seen: Seen) -> str:
    kinds = sorted(seen.kinds, key=lambda kind: -seen.kinds[kind])
    if len(kinds) == 1:
        return "it is always empty, or what it holds is of different kinds"
    return f"its values are of different kinds ({', '.join(f'{seen.kinds[kind]:,} {kind}' for kind in kinds)})"


def _add_number(seen: Seen, found: Fields) -> None:
    """Beside a text that nearly always is a number, the number."""
    name = f"{seen.name}_num"
    if is_identity(seen.name) or any(name.lower() == field.name.lower() for field in found.declared):
        return
    field_ = quote(seen.name)
    readable = [value for value in seen.values if _DECIMAL_COMMA.fullmatch(value)]
    if any("," in value for value in readable) and len(readable) >= NEARLY * len(seen.values):
        expression = f"CAST(replace(replace({field_}, '.', ''), ',', '.') AS DOUBLE)"
        said = "its decimal comma read"
    else:
        readable = [value for value in seen.values if NUMBER_TEXT.fullmatch(value)]
        if len(readable) < 0.9 * len(seen.values) or not readable or _has_leading_zeros(seen):
            return
        expression, said = f"TRY_CAST({field_} AS DOUBLE)", "NULL where it is no number"
    found.declared.append(DraftField(name, DOUBLE, True, f"computed from {seen.name}: {said}", expression))
    missing = seen.rows - len(readable)
    found.computed.append(Candidate(name, DOUBLE, seen.rows, missing, len(set(readable))))


def _has_leading_zeros(seen: Seen) -> bool:
    return any(len(value) > 1 and value[0] == "0" and value[1].isdigit() for value in seen.values)


def _is_long(seen: Seen) -> bool:
    texts: list[Any] = [value for value in seen.values[:200] if isinstance(value, str)]
    return bool(texts) and sum(len(text) for text in texts) / len(texts) > LONG_TEXT


def guess(seen: Seen, depth: int = 1) -> Type | None:
    """The type that takes every value; None if there is none."""
    kinds = set(seen.kinds)
    if depth > DEEPEST:
        return None
    if kinds == {"array"}:
        return _of_arrays(seen, depth)
    if kinds == {"object"}:
        return _of_objects(seen, depth)
    return guess_type(seen)


def parts_of(seen: Seen, type_: Type) -> Iterator[tuple[Seen, Type]]:
    """The single values inside a STRUCT, each by its path, as in `address.city`."""
    if type_.name != "STRUCT":
        return
    for name, of in type_.parts:
        inner = look(f"{seen.name}.{name}", (value.get(name) for value in seen.values), seen.rows, texts=False)
        if of.is_nested:
            yield from parts_of(inner, of)
        else:
            yield inner, of


def _of_arrays(seen: Seen, depth: int) -> Type | None:
    elements = [element for value in seen.values for element in value]
    inner = guess(look(seen.name, elements, len(elements), texts=False), depth + 1)
    return array(inner) if inner else None


def _of_objects(seen: Seen, depth: int) -> Type | None:
    names = Counter(name for value in seen.values for name in value)
    per_object = sum(names.values()) / max(1, len(seen.values))
    if len(names) > MOST_PARTS or (len(names) > 10 and len(names) > 4 * per_object):
        values = [inner for value in seen.values for inner in value.values()]
        of = guess(look(seen.name, values, len(values), texts=False), depth + 1)
        # Among many names, one that was not seen yet may hold any text.
        return map_of(STRING if of in (DATE, TIMESTAMP) else of) if of else None
    parts: dict[str, Type] = {}
    for name in names:
        if not _PART.fullmatch(name) or name.lower() in (taken.lower() for taken in parts):
            continue
        of = guess(look(name, (value.get(name) for value in seen.values), seen.rows, texts=False), depth + 1)
        if of:
            parts[name] = of
    return struct(*parts.items()) if parts else None
