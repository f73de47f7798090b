"""The columns of fields that are deeper in an event: which columns to read, and how to take the fields out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headrace.language.paths import Steps

_ELEMENT = None  # stands for every index of an array
_Tree = dict[str | None, "_Tree | pa.DataType"]


@dataclass(frozen=True)
class Pass:
    """Columns that one reading of the events gives, and the fields in them."""

    schema: pa.Schema
    fields: tuple[tuple[str, Steps], ...]

    def columns(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        """The columns of the fields, by name."""
        return {name: _take_out(table.column(str(steps[0])), steps[1:]) for name, steps in self.fields}


def plan_passes(fields: Sequence[tuple[Steps, pa.Field]]) -> list[Pass]:
    """Plan as few passes as possible: in one, a part of an event has one type, which two fields may not agree on."""
    trees: list[tuple[_Tree, list[tuple[str, Steps]]]] = [({}, [])]
    for steps, field in fields:
        tree, inside = next((each for each in trees if _add(each[0], steps, field.type, dry=True)), ({}, []))
        if not inside and not any(tree is other for other, _ in trees):
            trees.append((tree, inside))
        _add(tree, steps, field.type)
        inside.append((field.name, steps))
    return [Pass(pa.schema(list(_type_of(tree))), tuple(inside)) for tree, inside in trees]


def _add(tree: _Tree, steps: Steps, of: pa.DataType, *, dry: bool = False) -> bool:
    """Add a field to a tree; False if something else is there. `dry` changes nothing."""
    step = steps[0] if isinstance(steps[0], str) else _ELEMENT
    if any((name is _ELEMENT) != (step is _ELEMENT) for name in tree):
        return False
    child = tree.get(step)
    if len(steps) == 1:
        if child is None and not dry:
            tree[step] = of
        return child is None or child == of
    if child is None:
        child = {}
        if not dry:
            tree[step] = child
    return isinstance(child, dict) and _add(child, steps[1:], of, dry=dry)


def _type_of(tree: _Tree | pa.DataType) -> pa.DataType:
    if not isinstance(tree, dict):
        return tree
    if _ELEMENT in tree:
        return pa.list_(_type_of(tree[_ELEMENT]))
    return pa.struct([pa.field(str(name), _type_of(child)) for name, child in tree.items()])


def _take_out(column: pa.ChunkedArray, steps: Steps) -> pa.ChunkedArray:
    for step in steps:
        column = _part(column, step) if isinstance(step, str) else _element(column, step)
    return column


def _part(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    return pc.struct_field(column, [column.type.get_field_index(name)])


def _element(column: pa.ChunkedArray, index: int) -> pa.ChunkedArray:
    """The element of each list; NULL where there are fewer. Arrow's own function fails there."""
    lists = column.combine_chunks()
    has_it = pc.greater(pc.list_value_length(lists), index)
    places = pc.if_else(has_it, pc.add(lists.offsets[:-1], index), pa.scalar(None, pa.int32()))
    return pa.chunked_array([lists.values.take(places)])
