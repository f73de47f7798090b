"""Compares what the two layers say of the same commits, row by row and column by column: the audit.

What is equal to the byte DuckDB decides; of the rest, `agrees` of each aggregate.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from headrace.aggregate import Aggregate, Value
from headrace.define.model import View
from headrace.format import iso, iso_us
from headrace.store.base import CORRECTIONS, EVENTS, KEY_ID, PANE, Drift
from headrace.store.duckdb.batch_table import MEMORY_MB, UNFINISHED, connect, explained, read_files
from headrace.store.duckdb.database import run
from headrace.store.duckdb.portions import cut, stage
from headrace.store.duckdb.tables import folded_columns, partial_columns, partials_of, quoted

PIECE = 2_000  # rows that are looked at at once: sketches have up to 4 kB each
LONGEST = 60  # characters of a value in an example
COUNTS = {"events": EVENTS, "corrections": CORRECTIONS}


@dataclass(frozen=True)
class Comparison:
    """How many rows were compared, how many events the batch layer has in them, and what disagrees."""

    rows: int
    events: int
    drift: tuple[Drift, ...]


@dataclass(frozen=True)
class _Pair:
    """A row as both layers have it: of each column (batch, speed), None where a layer has no such row."""

    pane: int
    keys: tuple[Value, ...]
    values: dict[str, tuple[Any, Any]]


def compare(
    view: View,
    speed: Path,
    partials: Sequence[Path],
    *,
    corrections: bool = True,
    memory_mb: int = MEMORY_MB,
    threads: int = 1,
) -> Comparison:
    """Compare the speed layer's rows, a Parquet file with one for each (key, pane), with files of partials.

    Beside the view's columns: how many `events` are in a row and, unless not wanted, how many were `corrections`.
    """
    judge = _Judge(view, corrections=corrections)
    rows = events = 0
    spill = speed.with_name(f"{speed.name}.spill{UNFINISHED}")
    batch, said = read_files(view, partials or [speed]), read_files(view, [speed])
    if not partials:
        batch += " WHERE false"
    try:
        with (
            explained(f"view '{view.name}': its two layers cannot be compared", speed, [speed, *partials]),
            closing(connect(spill, memory_mb, threads)) as connection,
        ):
            portions = cut(connection, view, f"{batch} UNION ALL {said}", memory_mb << 20)
            if len(portions) > 1:
                batch, said = stage(connection, batch, spill / "batch"), stage(connection, said, spill / "speed")
            for part in portions:
                there = f"SELECT * FROM ({said}) WHERE {part.condition}"
                folded = f"SELECT {folded_columns(view)} FROM ({batch}) WHERE {part.condition}"
                run(connection, f"CREATE OR REPLACE TEMP TABLE folded AS {folded} GROUP BY {KEY_ID}, {PANE}")
                counts = run(connection, f"SELECT count(*), coalesce(sum({EVENTS}), 0)::BIGINT FROM folded")[0]
                rows, events = rows + counts[0], events + counts[1]
                for pair in _differing(connection, view, there):
                    rows += pair.values[EVENTS][0] is None  # this one only the speed layer has
                    judge.look_at(pair)
    finally:
        shutil.rmtree(spill, ignore_errors=True)
    return Comparison(rows, events, judge.drift())


def _differing(connection: duckdb.DuckDBPyConnection, view: View, speed: str) -> Iterator[_Pair]:
    """The rows of table `folded` and of the query that are not equal to the byte, or missing on one side."""
    names = [EVENTS, CORRECTIONS, *(name for name, _ in partials_of(view))]
    sides = [(f"b.{quoted(name)}", f"s.{quoted(name)}") for name in names]
    fixed = [f"coalesce(b.{name}, s.{name})" for name in (PANE, *(quoted(key.name) for key in view.keys))]
    selected = [*fixed, *(side for pair in sides for side in pair)]
    differs = " OR ".join(f"{batch} IS DISTINCT FROM {speed}" for batch, speed in sides)
    reader = connection.sql(
        f"SELECT {', '.join(f'{column} AS c{i}' for i, column in enumerate(selected))} "
        f"FROM folded AS b FULL JOIN ({speed}) AS s ON b.{KEY_ID} = s.{KEY_ID} AND b.{PANE} = s.{PANE} WHERE {differs}"
    ).to_arrow_reader(PIECE)
    at = len(fixed)
    for piece in reader:
        for row in zip(*(column.to_pylist() for column in piece.columns), strict=True):
            pairs = zip(row[at::2], row[at + 1 :: 2], strict=True)
            yield _Pair(row[0], row[1:at], dict(zip(names, pairs, strict=True)))


class _Judge:
    """Says of each row which of its columns disagree, and keeps count."""

    def __init__(self, view: View, *, corrections: bool) -> None:
        self._keys = [key.name for key in view.keys]
        self._has_panes = view.window is not None
        self._counts = {name: of for name, of in COUNTS.items() if corrections or of != CORRECTIONS}
        self._columns: dict[str, tuple[Aggregate, list[str]]] = {
            column.name: (column.aggregate, [name for name, _ in partial_columns(column.aggregate)])
            for column in view.columns
        }
        self._drift: dict[str, Drift] = {}

    def look_at(self, pair: _Pair) -> None:
        for name, of in self._counts.items():
            batch, speed = pair.values[of]
            if batch != speed:
                self._note(name, pair, batch or 0, speed or 0)
        for name, (aggregate, columns) in self._columns.items():
            batch, speed = zip(*(pair.values[of] for of in columns), strict=True)
            if batch != speed and not aggregate.agrees(batch, speed):
                self._note(name, pair, aggregate.present(batch), aggregate.present(speed))

    def _note(self, column: str, pair: _Pair, batch: Value, speed: Value) -> None:
        known = self._drift.get(column)
        if known:
            self._drift[column] = replace(known, rows=known.rows + 1)
            return
        place = [f"{name} {_text(value)}" for name, value in zip(self._keys, pair.keys, strict=True)]
        if self._has_panes:
            place.append(f"pane {iso_us(pair.pane * 1000)}")
        example = (
            f"{', '.join(place) or 'all events'}: {_text(batch)} by the batch layer, {_text(speed)} by the speed layer"
        )
        self._drift[column] = Drift(column, 1, example)

    def drift(self) -> tuple[Drift, ...]:
        return tuple(self._drift[name] for name in (*self._counts, *self._columns) if name in self._drift)


def _text(value: Value) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= LONGEST else value[:LONGEST] + "…")
    return "NULL" if value is None else iso(value) if isinstance(value, datetime) else str(value)
