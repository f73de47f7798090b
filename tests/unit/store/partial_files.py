"""Partials as the speed layer writes them, made with the aggregates' Python evaluation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.aggregate import INTERNAL, REGISTRY, Aggregate
from headrace.define.model import Column, Key, View, Window
from headrace.language.terms import Expression
from headrace.store.key_ids import key_id_of
from headrace.store.partial_columns import CORRECTIONS, EVENTS, FIRST_US, KEY_ID, PANE, UNTIL_US, partial_columns
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type, decimal
from tests.aggregates import every_aggregate

TYPES = (STRING, BOOLEAN, INT, BIGINT, DOUBLE, decimal(10, 2), DATE, TIMESTAMP)
ARROW = {
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "BINARY": pa.binary(),
}
MINUTE = Window(60_000, 60_000)
MOST_OF_A_CLASS = 5
NAMED = ("count", "sum")  # tests look at their columns


@dataclass(frozen=True)
class Event:
    """One event: its keys, its time and one value of each type."""

    keys: tuple[Any, ...]
    at_ms: int
    values: dict[str, Any]  # by name of type
    correction: bool = False


def arrow_type(of: Type) -> pa.DataType:
    if of.name == "ARRAY":
        return pa.list_(arrow_type(of.inner))
    if of.name == "STRUCT":
        return pa.struct([(name, arrow_type(part)) for name, part in of.parts])
    return pa.decimal128(of.precision, of.scale) if of.name == "DECIMAL" else ARROW[of.name]


def make_view(name: str = "v", keys: Iterable[Type] = (STRING,), window: Window | None = MINUTE) -> View:
    named = tuple(Key(f"k{i}", Expression.stored(f"k{i}", of)) for i, of in enumerate(keys))
    tried = [each for cls in (*REGISTRY.values(), *INTERNAL.values()) for each in _some(every_aggregate((cls,), TYPES))]
    every = {(each.columns, each.ordered, each if each.name in NAMED else None): each for each in tried}
    columns = tuple(Column(_name(each), each) for each in every.values())  # one for each form of partials
    return View(name, ("events",), named, columns, window)


def _some(aggregates: list[Aggregate]) -> list[Aggregate]:
    """At most a few of one class, of different types: more make DuckDB plan for seconds."""
    return aggregates[:: -(-len(aggregates) // MOST_OF_A_CLASS)]


def _name(aggregate: Aggregate) -> str:
    given = [argument.type.name.lower() for argument in aggregate.arguments] or ["all"]
    return "_".join([aggregate.name, *given, *map(str, aggregate.parameters)])


def given_of(event: Event, column: Column) -> tuple[Any, ...]:
    """What an aggregate is given of an event. Events that share a position are equal: their order does not matter."""
    values = tuple(event.values[argument.type.name] for argument in column.aggregate.arguments)
    if not column.aggregate.ordered:
        return values
    position = int(hashlib.md5(repr(event).encode()).hexdigest()[:15], 16)
    return (*values, event.at_ms * 1000, position)


def partials(view: View, events: Iterable[Event]) -> dict[tuple[tuple[Any, ...], int], list[Any]]:
    """(keys, pane) -> [events, corrections, *partials of each column]."""
    groups: dict[Any, list[Any]] = {}
    for event in events:
        pane = event.at_ms // view.window.pane_ms * view.window.pane_ms if view.window else 0
        lifted = [column.aggregate.lift(*given_of(event, column)) for column in view.columns]
        place = (repr(event.keys), pane)
        if place in groups:
            group = groups[place]
            group[2] += 1
            group[3] += event.correction
            group[4:] = [c.aggregate.merge(a, b) for c, a, b in zip(view.columns, group[4:], lifted, strict=True)]
        else:
            groups[place] = [event.keys, pane, 1, int(event.correction), *lifted]
    return groups


def _times(view: View, events: Iterable[Event]) -> dict[tuple[str, int], tuple[int, int]]:
    """(keys, pane) -> the first and the last time, in the order of `partials`."""
    times: dict[tuple[str, int], tuple[int, int]] = {}
    for event in events:
        assert view.window is not None
        place = (repr(event.keys), event.at_ms // view.window.pane_ms)
        first, last = times.get(place, (event.at_ms, event.at_ms))
        times[place] = min(first, event.at_ms), max(last, event.at_ms)
    return times


def _key_id(view: View, keys: tuple[Any, ...]) -> str:
    named = {key.name: value for key, value in zip(view.keys, keys, strict=True)}
    return key_id_of(view, named) or hashlib.md5(repr(keys).encode()).hexdigest()


def write_partials(path: Path, view: View, events: Iterable[Event]) -> str:
    groups = list(partials(view, events).values())
    table: dict[str, pa.Array] = {
        KEY_ID: pa.array([_key_id(view, g[0]) for g in groups], pa.string()),
        PANE: pa.array([g[1] for g in groups], pa.int64()),
    }
    for i, key in enumerate(view.keys):
        table[key.name] = pa.array([g[0][i] for g in groups], arrow_type(key.expression.type))
    table[EVENTS] = pa.array([g[2] for g in groups], pa.int64())
    table[CORRECTIONS] = pa.array([g[3] for g in groups], pa.int64())
    if view.has_sessions:
        assert view.window is not None
        times = _times(view, events).values()
        table[FIRST_US] = pa.array([first * 1000 for first, _ in times], pa.int64())
        table[UNTIL_US] = pa.array([(last + view.window.size_ms) * 1000 for _, last in times], pa.int64())
    for i, column in enumerate(view.columns):
        for j, (name, part) in enumerate(partial_columns(column.aggregate)):
            table[name] = pa.array([g[4 + i][j] for g in groups], arrow_type(part.type))
    pq.write_table(pa.table(table), path)
    return str(path)


def simple_event(key: Any, at_ms: int, n: int = 1) -> Event:
    day = date(2026, 1, 1)
    time = datetime(2026, 1, 1, tzinfo=UTC)
    values = {"STRING": f"s{n}", "BOOLEAN": True, "INT": n, "BIGINT": n, "DOUBLE": float(n)}
    values |= {"DECIMAL": n, "DATE": day, "TIMESTAMP": time}
    return Event((key,), at_ms, values)
