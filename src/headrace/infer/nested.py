"""Types of values that hold other values: arrays, and objects as STRUCT or, where their names are data, as MAP."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from headrace.infer.seen import Seen, guess_type, look
from headrace.types import DATE, STRING, TIMESTAMP, Type, array, map_of, struct

DEEPEST = 8
MOST_PARTS = 60
_PART = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


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
