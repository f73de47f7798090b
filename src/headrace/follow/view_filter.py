"""Which changes of a view a reader wants: values of keys, and a condition on the columns of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.define.expression.check import Scope, check_condition, parse_tree
from headrace.engine.python_evaluation import Evaluate, compile_expression
from headrace.language.source_text import each
from headrace.define.own import functions_in
from headrace.language.source_text import SourceText
from headrace.errors import DefinitionError, QuestionError, did_you_mean
from headrace.serve.changes import ChangeBatch, Columns
from headrace.serve.values import key_value
from headrace.store.few import rank

Row = tuple[Any, ...]
MOST_KNOWN = 200_000  # rows of which a reader with a condition is known to have them, or not


@dataclass
class ChangeFilter:
    """Selects the changes that one reader gets. It remembers which rows the reader has, to delete only these."""

    key: tuple[tuple[str, tuple[Any, ...]], ...]
    where: str | None
    fresh: bool  # the reader has no row yet; else it may have any
    _known: dict[Row, bool] = field(default_factory=dict)  # by row: whether the reader has it
    _columns: Columns | None = None
    _selected: list[tuple[int, set[Any]]] = field(default_factory=list)
    _face: Evaluate | None = None

    def select(self, batch: ChangeBatch) -> tuple[Sequence[Row], Sequence[Row]]:
        """Upserts and deletes of a batch."""
        self.prepare(batch)
        upserts = [row for row in batch.upserts if self._has_key(row)]
        deletes = [row for row in batch.deletes if self._has_key(row)]
        if self._face is None:
            return upserts, deletes
        if batch.restarted:
            self._known.clear()
            self.fresh = True
        width = len(batch.deletes[0]) if batch.deletes else 0
        places = _places(batch)
        left = [row[: len(places)] for row in upserts if not self._face(row)]
        kept = [row for row in upserts if self._face(row)]
        removed = [row for row in (*(row[:width] for row in deletes), *left) if self._may_have(_place(row, places))]
        removed = [] if batch.first else removed
        for row in removed:
            self._known[_place(row, places)] = False
        for row in kept:
            self._known[_place(row, places)] = True
        if len(self._known) > MOST_KNOWN:  # from now on the reader may have any row
            self._known.clear()
            self.fresh = False
        return kept, removed

    def prepare(self, batch: ChangeBatch) -> None:
        """Check it against the columns of a batch; raises QuestionError if it does not fit."""
        if self._columns == batch.columns:
            return
        types, names = dict(batch.columns), [name for name, _ in batch.columns]
        keys = [name for name in batch.keys if name not in ("window_start", "window_end")]
        self._selected = []
        for name, values in self.key:
            if name not in keys:
                raise QuestionError(
                    f"view '{batch.view}' has no key '{name}'",
                    expected=", ".join(f"'{key}'" for key in keys) or "no key: the view has none",
                    fix=did_you_mean(name, keys),
                )
            values_of_key = {rank(key_value(name, types[name], value)) for value in values}
            self._selected.append((names.index(name), values_of_key))
        self._face = _compile(self.where, batch.columns) if self.where else None
        self._columns = batch.columns

    def _has_key(self, row: Row) -> bool:
        return all(rank(row[place]) in values_of_key for place, values_of_key in self._selected)

    def _may_have(self, place: Row) -> bool:
        return self._known.get(place, not self.fresh)


def _places(batch: ChangeBatch) -> range:
    """The places of what a row is known by: they come first."""
    last = max(
        (place for place, (name, _) in enumerate(batch.columns) if name in (*batch.keys, "window_end")), default=0
    )
    return range(last + 1)


def _place(row: Row, places: Iterable[int]) -> Row:
    return tuple(rank(row[place]) for place in places)


def _compile(where: str, columns: Columns) -> Evaluate:
    source = SourceText(where)
    try:
        expression = check_condition(source, parse_tree(source), Scope(dict(columns)), "where")
        if functions_in(expression.sql):
            raise QuestionError("where: functions of the workspace are for definitions", fix="use built-in functions")
        return compile_expression(expression, columns)
    except DefinitionError as error:
        first = each(error)[0]
        raise QuestionError(
            f"where: {first.message}", found=first.found, expected=first.expected, fix=first.fix
        ) from error
