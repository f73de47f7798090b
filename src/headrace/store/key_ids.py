"""The id of a key: 128 bits of a canonical text of its values, as SQL for Spark, and in Python to find rows by it.

In Python only for types whose text in Spark is certain: for others rows are found by their key columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from headrace.aggregate import Value
from headrace.define.model import View
from headrace.engine.duckdb_terms import duckdb_name
from headrace.language.terms import in_backticks
from headrace.types import DOUBLE, Type

NULL = "n"


def key_id_sql(view: View) -> str:
    """Spark SQL for the id, from columns with the names of the keys: equal keys, and no others, have equal texts."""
    parts = [_canonical_sql(in_backticks(key.name), key.expression.type) for key in view.keys]
    return f"md5(concat({', '.join(parts)}))" if parts else "md5('')"


def key_id_duckdb(view: View) -> str:
    """The id in DuckDB's SQL, of a view that DuckDB can compute."""
    return key_id_of_duckdb([duckdb_name(key.name) for key in view.keys])


def key_id_of_duckdb(keys: Sequence[str]) -> str:
    """The id of expressions for the keys."""
    texts = [f"CAST({key} AS VARCHAR)" for key in keys]
    parts = [f"coalesce(length({text}) || ':' || {text}, '{NULL}')" for text in texts]
    return f"md5({' || '.join(parts)})" if parts else "md5('')"


def _canonical_sql(name: str, of: Type) -> str:
    # Adding 0.0 makes -0.0 and 0.0 one key, as grouping has done already. NaN is one text.
    text = f"CAST({name} + 0.0D AS STRING)" if of == DOUBLE else f"CAST({name} AS STRING)"
    return f"coalesce(concat(length({text}), ':', {text}), '{NULL}')"


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
    """The canonical text: its length in characters, a colon, the value as Spark writes it."""
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
