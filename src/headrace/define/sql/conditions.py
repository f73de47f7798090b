"""WHERE of a view: a condition on events. One on what is aggregated of them belongs to HAVING, and is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.define.expression.check import check_condition
from headrace.define.view_columns import contains_aggregate, is_aggregate
from headrace.errors import DefinitionError
from headrace.language.source_text import Mistakes
from headrace.language.syntax import Logic, Name, Node, walk
from headrace.types import Expression

if TYPE_CHECKING:
    from headrace.define.answer_shape import ShapeReader
    from headrace.define.derived_rows import RowScope
    from headrace.define.sql.select import ViewStatement


def read_where(select: ViewStatement, scope: RowScope, reader: ShapeReader) -> Expression | None:
    """The condition of WHERE over the rows of FROM; `reader` has read SELECT, and tells what HAVING would take."""
    where = select.where
    if where is None:
        return None
    conditions = where.args if isinstance(where, Logic) and where.op == "AND" else (where,)
    texts = _texts(select, where, len(conditions))
    mistakes, kept = Mistakes(), []
    for condition, text in zip(conditions, texts, strict=True):
        place = _aggregated(condition, select, scope)
        if place is None:
            kept.append(condition)
        else:
            mistakes.errors.append(_of_having(select, reader, condition, place, text))
    expression = None
    if kept:
        rest = where if len(kept) == len(conditions) else kept[0] if len(kept) == 1 else _all(where, kept)
        with mistakes.collect():
            expression = check_condition(select.source, rest, scope, "WHERE")
    mistakes.check()
    return expression


def _aggregated(condition: Node, select: ViewStatement, scope: RowScope) -> Node | None:
    """The part of a condition that is an aggregate, or the name that SELECT gives to one; None: it is of events."""
    aliases = {item.alias.lower() for item in select.items if item.alias and contains_aggregate(item.node)}
    for part in walk(condition):
        by_name = isinstance(part, Name) and not part.of and part.name.lower() in aliases - scope.fields.keys()
        if by_name or is_aggregate(part):
            return part
    return None


def _of_having(
    select: ViewStatement, reader: ShapeReader, condition: Node, place: Node, text: str | None
) -> DefinitionError:
    fix = "conditions on aggregates and keys belong to HAVING, after GROUP BY"
    try:
        reader.having(select.source, condition)
    except DefinitionError:
        text = None  # HAVING would not take it as it is
    if text:
        fix = f"add it to HAVING: AND {text}" if select.having else f"write it after GROUP BY: HAVING {text}"
    return select.source.error(place.at, "WHERE selects events before they are aggregated", fix=fix)


def _texts(select: ViewStatement, where: Node, count: int) -> list[str | None]:
    """The conditions as they are written, as far as that is known."""
    text = select.source.text
    if count == 1 and select.peer.where:
        start, end = select.peer.where
        return [text[start:end].strip()[len("WHERE") :].strip()]
    spans = where.spans if isinstance(where, Logic) else ()
    return [text[start:end] for start, end in spans] if len(spans) == count else [None] * count


def _all(where: Node, conditions: list[Node]) -> Node:
    return Logic(where.at, "AND", tuple(conditions))
