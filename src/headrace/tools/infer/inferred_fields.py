"""Infers the fields of a stream from samples; lists what cannot be a field, with the reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from headrace.errors import IngestError
from headrace.ingest.formats.csv_lines import field_names
from headrace.language.paths import Steps, format_path
from headrace.language.terms import quote
from headrace.tools.infer.definition_text import Candidate, DraftField, describe
from headrace.tools.infer.field_profile import NUMBER_TEXT, Profile, guess_type, is_identity, json_kind, profile_values
from headrace.tools.infer.file_sample import FileSample
from headrace.tools.infer.time_fields import Reading, find_readings
from headrace.types import DATE, DOUBLE, STRING, TIMESTAMP, Type, array, map_of, struct

NEARLY = 0.99  # of the values must be of one kind for the others to be refused
LONG_TEXT = 40  # characters: longer ones are not names of things
MOST_FIELDS = 500
_DECIMAL_COMMA = re.compile(r"-?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?", re.ASCII)
DEEPEST = 8
MOST_PARTS = 60
_PART = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass
class InferredFields:
    """The inferred fields, in the order in which they occur in the events."""

    declared: list[DraftField] = field(default_factory=list)
    typed: list[tuple[Profile, Type]] = field(default_factory=list)  # the single values in events, by path
    computed: list[Candidate] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    times: list[Reading] | None = None  # None: those of the typed fields
    kind: str | None = None  # of lines of text

    @property
    def readings(self) -> list[Reading]:
        """The possible event times, the likeliest first."""
        return find_readings(self.typed) if self.times is None else self.times

    def candidates(self) -> list[Candidate]:
        """The fields that a view may use."""
        return [candidate(profile, type_) for profile, type_ in self.typed] + self.computed


def candidate(profile: Profile, type_: Type) -> Candidate:
    """A field as a view may use it."""
    return Candidate(profile.name, type_, profile.rows, profile.nulls, profile.distinct, _is_long(profile))


def find_fields(samples: list[FileSample]) -> InferredFields:
    """The fields that the events of all samples have."""
    rows = [row for sample in samples for row in sample.rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    fields = InferredFields()
    if len(names) > MOST_FIELDS:
        raise IngestError(
            f"file '{samples[0].path}' has events of {len(names):,} different fields",
            expected=f"at most {MOST_FIELDS}",
            fix='if names are data, as in {"2024-05-17": 5}, send {"day": "2024-05-17", "value": 5} instead',
        )
    for key, name in zip(names, field_names(names), strict=True):
        profile = profile_values(name, (row.get(key) for row in rows), len(rows), texts=samples[0].texts)
        why = _add(profile, fields, (key,))
        if why:
            fields.left_out[key] = why
    if not fields.declared:
        reasons = "; ".join(f"'{name}': {why}" for name, why in list(fields.left_out.items())[:3])
        raise IngestError(
            f"file '{samples[0].path}' has no field that can be declared", found=reasons or "events without fields"
        )
    return fields


def _add(profile: Profile, fields: InferredFields, steps: Steps) -> str | None:
    """Declare the field of what is there in the events, or return why it cannot be declared."""
    if set(profile.kinds) == {"object"} and len(steps) < DEEPEST and _add_parts(profile, fields, steps):
        return None
    if not profile.values and not profile.texts:
        return "it is always null, so its type is not known"
    majority, note = profile, ""
    type_ = guess(profile)
    if type_ is None:
        majority = _most_of(profile)
        type_ = guess(majority)
        if type_ is None or len(majority.values) < NEARLY * len(profile.values):
            return _why_not(profile)
        note = f"; {len(profile.values) - len(majority.values):,} that are not are refused"
    required = is_identity(profile.name) and not profile.nulls
    path = format_path(steps)
    source = None if path == profile.name else path
    fields.declared.append(DraftField(profile.name, type_, not required, describe(profile) + note, path=source))
    fields.typed += [(majority, type_)] if not type_.is_nested else parts_of(majority, type_)
    if type_ == STRING and profile.texts:
        _add_number(majority, fields)
    return None


def _add_parts(profile: Profile, fields: InferredFields, steps: Steps) -> bool:
    """Declare each part of objects as a field; False if their names are data, or are too many to be fields."""
    keys = list(dict.fromkeys(key for value in profile.values for key in value))
    per_object = sum(map(len, profile.values)) / max(1, len(profile.values))
    if not keys or "" in keys or len(keys) > MOST_PARTS or (len(keys) > 10 and len(keys) > 4 * per_object):
        return False
    before = len(fields.declared)
    for key in keys:
        name = _free_name(f"{profile.name}_{key}", fields)
        part = profile_values(name, (value.get(key) for value in profile.values), profile.rows, texts=False)
        why = _add(part, fields, (*steps, key))
        if why:
            fields.left_out[format_path((*steps, key))] = why
    return len(fields.declared) > before


def _free_name(text: str, fields: InferredFields) -> str:
    """The nearest name to a text that no field has."""
    (name,) = field_names([text])
    names = {field.name.lower() for field in fields.declared}
    return next(each for n in count(1) if (each := name if n == 1 else f"{name}_{n}").lower() not in names)


def _most_of(profile: Profile) -> Profile:
    """The profile of the values that have the JSON type of most of them."""
    numbers = ("integer", "number")
    kinds = numbers if profile.kind in numbers else (profile.kind,)
    return profile_values(
        profile.name, (v for v in profile.values if json_kind(v) in kinds), profile.rows, texts=profile.texts
    )


def _why_not(profile: Profile) -> str:
    kinds = sorted(profile.kinds, key=lambda kind: -profile.kinds[kind])
    if len(kinds) == 1:
        return "it is always empty, or its elements are of different kinds"
    return f"its values are of different kinds ({', '.join(f'{profile.kinds[kind]:,} {kind}' for kind in kinds)})"


def _add_number(profile: Profile, fields: InferredFields) -> None:
    """Declare a computed number beside a text that nearly always is one."""
    name = f"{profile.name}_num"
    if is_identity(profile.name) or any(name.lower() == field.name.lower() for field in fields.declared):
        return
    field_ = quote(profile.name)
    readable = [value for value in profile.values if _DECIMAL_COMMA.fullmatch(value)]
    if any("," in value for value in readable) and len(readable) >= NEARLY * len(profile.values):
        expression = f"CAST(replace(replace({field_}, '.', ''), ',', '.') AS DOUBLE)"
        comment = "with a decimal comma"
    else:
        readable = [value for value in profile.values if NUMBER_TEXT.fullmatch(value)]
        if len(readable) < 0.9 * len(profile.values) or not readable or _has_leading_zeros(profile):
            return
        expression, comment = f"TRY_CAST({field_} AS DOUBLE)", "NULL if it is not a number"
    fields.declared.append(DraftField(name, DOUBLE, True, f"computed from {profile.name}: {comment}", expression))
    missing = profile.rows - len(readable)
    fields.computed.append(Candidate(name, DOUBLE, profile.rows, missing, len(set(readable))))


def _has_leading_zeros(profile: Profile) -> bool:
    return any(len(value) > 1 and value[0] == "0" and value[1].isdigit() for value in profile.values)


def _is_long(profile: Profile) -> bool:
    texts: list[Any] = [value for value in profile.values[:200] if isinstance(value, str)]
    return bool(texts) and sum(len(text) for text in texts) / len(texts) > LONG_TEXT


def guess(profile: Profile, depth: int = 1) -> Type | None:
    """The type that accepts every value; None if there is none."""
    kinds = set(profile.kinds)
    if depth > DEEPEST:
        return None
    if kinds == {"array"}:
        return _of_arrays(profile, depth)
    if kinds == {"object"}:
        return _of_objects(profile, depth)
    return guess_type(profile)


def parts_of(profile: Profile, type_: Type) -> Iterator[tuple[Profile, Type]]:
    """The single values inside a STRUCT, each by its path, as in `address.city`."""
    if type_.name != "STRUCT":
        return
    for name, of in type_.parts:
        inner = profile_values(
            f"{profile.name}.{name}", (value.get(name) for value in profile.values), profile.rows, texts=False
        )
        if of.is_nested:
            yield from parts_of(inner, of)
        else:
            yield inner, of


def _of_arrays(profile: Profile, depth: int) -> Type | None:
    elements = [element for value in profile.values for element in value]
    inner = guess(profile_values(profile.name, elements, len(elements), texts=False), depth + 1)
    return array(inner) if inner else None


def _of_objects(profile: Profile, depth: int) -> Type | None:
    names = Counter(name for value in profile.values for name in value)
    per_object = sum(names.values()) / max(1, len(profile.values))
    if len(names) > MOST_PARTS or (len(names) > 10 and len(names) > 4 * per_object):
        values = [inner for value in profile.values for inner in value.values()]
        of = guess(profile_values(profile.name, values, len(values), texts=False), depth + 1)
        # With so many names, the values of other names may be any text.
        return map_of(STRING if of in (DATE, TIMESTAMP) else of) if of else None
    parts: dict[str, Type] = {}
    for name in names:
        if not _PART.fullmatch(name) or name.lower() in (other.lower() for other in parts):
            continue
        of = guess(
            profile_values(name, (value.get(name) for value in profile.values), profile.rows, texts=False), depth + 1
        )
        if of:
            parts[name] = of
    return struct(*parts.items()) if parts else None
