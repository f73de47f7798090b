"""The arguments `unique` and `within` of hr.Stream."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.define.model import Field, Unique
from headrace.define.rules import check_unique_column, make_unique
from headrace.errors import DefinitionError


def read_unique(
    unique: str | Sequence[str] | None, within_ms: int | None, fields: Sequence[Field], stream: str
) -> Unique | None:
    """UNIQUE, as SQL writes it, of the arguments of a stream."""
    if unique is None:
        if within_ms is not None:
            raise DefinitionError(f"stream '{stream}' has within but no unique", fix='add unique=("id",)')
        return None
    columns = [unique] if isinstance(unique, str) else list(unique)
    if not columns or not all(isinstance(column, str) for column in columns):
        raise DefinitionError(
            f"stream '{stream}': unique names fields", found=repr(unique), expected='for example unique=("id",)'
        )
    if within_ms is None:
        raise DefinitionError(
            f"stream '{stream}': unique does not say how far apart repeats of an event may be", fix='add within="1 day"'
        )
    names = [check_unique_column(column, fields, stream) for column in columns]
    return make_unique(names, within_ms, stream)
