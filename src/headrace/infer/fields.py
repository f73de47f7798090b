"""The fields of a stream to be, found in samples; and what cannot be one, with the reason."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from headrace.define.expression.terms import quote
from headrace.define.rules import check_name
from headrace.errors import DefinitionError, IngestError
from headrace.infer.names import is_identity
from headrace.infer.nested import guess, parts_of
from headrace.infer.sample import Sample
from headrace.infer.seen import NUMBER_TEXT, Seen, json_kind, look
from headrace.infer.times import Reading, find_readings
from headrace.infer.view import Candidate
from headrace.infer.write import DraftField, describe
from headrace.types import DOUBLE, STRING, Type

NEARLY = 0.99  # of the values must be of one kind for the others to be refused
LONG_TEXT = 40  # characters: longer ones are not names of things
MOST_FIELDS = 500
_DECIMAL_COMMA = re.compile(r"-?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?", re.ASCII)


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
            f"file '{samples[0].path}' holds nothing that can be a field", found=reasons or "events without fields"
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
