"""The id of a key, computed from its values just as Spark does for partials, so that rows are found by it.

Only for types whose text in Spark is certain: for others rows are found by their key columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date
from typing import Any

from headrace.aggregate import Value
from headrace.define.model import View
from headrace.types import Type

NULL = "n"


def key_id_of(view: View, values: Mapping[str, Value]) -> str | None:
    """32 hex digits if `values` has every key of the view, each of a type whose text is certain; else None."""
    texts = []
    for key in view.keys:
        text = _canonical(values[key.name], key.expression.type) if key.name in values else None
        if text is None:
            return None
        texts.append(text)
    try:
        return hashlib.md5("".join(texts).encode(), usedforsecurity=False).hexdigest()
    except UnicodeEncodeError:  # half of a surrogate pair: in no row
        return None


def _canonical(value: Any, of: Type) -> str | None:
    """What `maintain/partials.py` has Spark write for a key: its length in characters, a colon, its text."""
    if value is None:
        return NULL
    match of.name:
        case "STRING":
            text = value
        case "BOOLEAN":
            text = "true" if value else "false"
        case "INT" | "BIGINT":
            text = str(value)
        case "DATE" if isinstance(value, date) and value.year >= 1000:
            text = value.isoformat()
        case _:
            return None
    return f"{len(text)}:{text}"
