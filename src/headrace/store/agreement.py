"""Judges whether the two layers agree about a row, column by column, by `agrees` of each aggregate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from headrace.aggregate import Aggregate, Value
from headrace.define.model import View
from headrace.format import iso, iso_us
from headrace.store.partial_columns import CORRECTIONS, EVENTS, FIRST_US, UNTIL_US, partial_columns
from headrace.store.store_contract import Drift

LONGEST = 60  # characters of a value in an example
COUNTS = {"events": EVENTS, "corrections": CORRECTIONS}
SESSION_BOUNDS = {"window_start": FIRST_US, "window_end": UNTIL_US}


@dataclass(frozen=True)
class Pair:
    """A row as both layers have it: of each column (batch, speed), None where a layer has no such row."""

    pane: int
    keys: tuple[Value, ...]
    values: dict[str, tuple[Any, Any]]


class Agreement:
    """Finds the columns of each row that disagree, and counts them."""

    def __init__(self, view: View, *, corrections: bool) -> None:
        self._keys = [key.name for key in view.keys]
        self._has_panes = view.window is not None
        self._counts = {name: of for name, of in COUNTS.items() if corrections or of != CORRECTIONS}
        self._columns: dict[str, tuple[Aggregate, list[str]]] = {
            column.name: (column.aggregate, [name for name, _ in partial_columns(column.aggregate)])
            for column in view.columns
        }
        self._bounds = SESSION_BOUNDS if view.has_sessions else {}
        self._drift: dict[str, Drift] = {}
        self._sides = ("by the batch layer", "by the speed layer")
        if view.over is not None:
            self._sides = ("by the rows of the table", "in the view")

    def look_at(self, pair: Pair) -> None:
        """Compare one more row."""
        for name, of in self._counts.items():
            batch, speed = pair.values[of]
            if batch != speed:
                self._note(name, pair, batch or 0, speed or 0)
        for name, of in self._bounds.items():
            batch, speed = pair.values[of]
            if batch != speed:
                self._note(name, pair, *(None if us is None else iso_us(us) for us in (batch, speed)))
        for name, (aggregate, columns) in self._columns.items():
            batch, speed = zip(*(pair.values[of] for of in columns), strict=True)
            if batch != speed and not aggregate.agrees(batch, speed):
                self._note(name, pair, aggregate.present(batch), aggregate.present(speed))

    def _note(self, column: str, pair: Pair, batch: Value, speed: Value) -> None:
        known = self._drift.get(column)
        if known:
            self._drift[column] = replace(known, rows=known.rows + 1)
            return
        place = [f"{name} {_text(value)}" for name, value in zip(self._keys, pair.keys, strict=True)]
        if self._has_panes:
            place.append(f"pane {iso_us(pair.pane * 1000)}")
        sides = ", ".join(f"{_text(value)} {side}" for value, side in zip((batch, speed), self._sides, strict=True))
        example = f"{', '.join(place) or 'all events'}: {sides}"
        self._drift[column] = Drift(column, 1, example)

    def drift(self) -> tuple[Drift, ...]:
        """The columns that disagree, in the order of the view."""
        return tuple(
            self._drift[name] for name in (*self._counts, *self._bounds, *self._columns) if name in self._drift
        )


def _text(value: Value) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= LONGEST else value[:LONGEST] + "…")
    if isinstance(value, list | dict):
        text = str(value)
        return text if len(text) <= LONGEST else text[:LONGEST] + "…"
    return "NULL" if value is None else iso(value) if isinstance(value, datetime) else str(value)
