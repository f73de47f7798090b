"""The events of derived streams: each once, in the order of their base streams, from any cursor."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from bench.ours.lake import add_commit

from headrace.define.catalog import parse
from headrace.define.model import Stream
from headrace.deliver import event_chunks
from headrace.deliver.event_log import EventLog
from headrace.deliver.event_page import EventCursor, UnionCursor, read_cursor
from headrace.deliver.stream_logs import Log, open_derived
from headrace.errors import QuestionError
from headrace.lake.delta_table import LakeTable

BASES = "CREATE STREAM a (id BIGINT, at TIMESTAMP); CREATE STREAM b (id BIGINT, at TIMESTAMP);"
DIGITS = "explode(split(CAST(id AS STRING), '1')) AS digit"


def pieces(number: int) -> list[list[Any]]:
    return [[number, piece] for piece in str(number).split("1")]


# Each query, and the rows that it makes of the event with a number, for each base stream.
DERIVED: dict[str, tuple[str, dict[str, Callable[[int], list[list[Any]]]]]] = {
    "filtered": ("SELECT * FROM a WHERE id % 3 = 0", {"a": lambda n: [[n]] if n % 3 == 0 else []}),
    "projected": ("SELECT id * 2 AS twice, at FROM a", {"a": lambda n: [[2 * n]]}),
    "exploded": (f"SELECT id, {DIGITS} FROM a", {"a": pieces}),
    "branches": (
        f"SELECT id, 'all' AS digit FROM a WHERE id % 2 = 0 UNION ALL SELECT id, {DIGITS} FROM a",
        {"a": lambda n: [[n, "all"]] * (n % 2 == 0) + pieces(n)},
    ),
    "union": (
        f"SELECT id, {DIGITS} FROM a UNION ALL SELECT id, 'b' FROM b WHERE id % 4 > 0",
        {"a": pieces, "b": lambda n: [[n, "b"]] * (n % 4 > 0)},
    ),
}


def definitions(query: str) -> tuple[Stream, dict[str, Stream]]:
    catalog = parse(f"{BASES} CREATE STREAM d AS {query}")
    derived = catalog.streams["d"]
    assert derived.relation is not None
    return derived, {name: catalog.streams[name] for name in derived.relation.streams}


def open_log(derived: Stream, bases: dict[str, Stream], tables: dict[str, LakeTable]) -> Log:
    logs = {name: EventLog(tables[name], partial(lambda stream: stream, base)) for name, base in bases.items()}
    return open_derived(lambda: derived, {name: partial(lambda s: s, base) for name, base in bases.items()}, logs)


def expected(table: LakeTable, stream: Stream, rows: Callable[[int], list[list[Any]]]) -> list[Any]:
    """Commit, position and fields of all events that are made of those in a table."""
    chunk = event_chunks.read_chunk(table, stream, EventCursor(0), rows=10**6)
    places = (
        zip(*(chunk.events.column(name).to_pylist() for name in ("_commit", "_position")), strict=True) if chunk else ()
    )
    return [(commit, position, row) for commit, position in places for row in rows(position)]


def read_all(log: Any, cursor: Any, chance: random.Random, where: str | None = None) -> list[Any]:
    events: list[Any] = []
    while True:
        limit = chance.randint(1, 9)
        page = log.after(cursor, log.filter(where), limit)
        assert len(page.lines) <= limit
        assert log.until(cursor, page.cursor, log.filter(where)) == page.lines
        events += map(orjson.loads, page.lines)
        cursor = log.parse(page.cursor.to_text())
        if not page.more:
            return events


def values(events: list[Any], base: str) -> list[Any]:
    own = [event for event in events if event["stream"] == base]
    return [(e["commit"], e["position"], [v for name, v in e["event"].items() if name != "at"]) for e in own]


@pytest.mark.parametrize("name", DERIVED)
def test_every_event_once_in_order_from_any_cursor(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(name)
    read = partial(event_chunks.read_chunk)
    monkeypatch.setattr(
        "headrace.deliver.derived_events.read_chunk",
        lambda t, s, c, rows, names: read(t, s, c, chance.randint(1, 20), names),
    )
    query, rows_of = DERIVED[name]
    derived, bases = definitions(query)
    tables = {base: LakeTable(tmp_path / base, stream, fence=1) for base, stream in bases.items()}
    for _ in range(12):
        base = chance.choice(list(bases))
        add_commit(tables[base], bases[base], chance.randint(1, 9), dead=1)
    log: Any = open_log(derived, bases, tables)
    events = read_all(log, log.start("earliest"), chance)
    rows = {base: expected(tables[base], bases[base], rows_of[base]) for base in bases}
    assert sum(map(len, rows.values())) == len(events) > 0
    for base in bases:
        assert values(events, base) == rows[base]
    assert len({event["cursor"] for event in events}) == len(events)
    for at in range(0, len(events), 7):  # by another process, from the cursor of any event
        later: Any = open_log(derived, bases, tables)
        rest = read_all(later, later.check(later.parse(events[at]["cursor"])), chance)
        for base in bases:
            assert values(rest, base) == values(events[at + 1 :], base)
    for count in (0, 1, 3, 10, 10**4):
        last = read_all(log, log.start_of_last(count), chance)
        assert len(last) == min(count, len(events))
        if len(bases) == 1:
            assert last == events[max(0, len(events) - count) :]
    assert log.lag(log.start("earliest")) == sum(table.rows() for table in tables.values())
    assert log.lag(log.end) == 0


def test_a_condition_selects_among_derived_events(tmp_path: Path) -> None:
    derived, bases = definitions(DERIVED["exploded"][0])
    tables = {"a": LakeTable(tmp_path, bases["a"], fence=1)}
    add_commit(tables["a"], bases["a"], 30)
    log: Any = open_log(derived, bases, tables)
    events = read_all(log, log.start("earliest"), random.Random(0), "digit = '2'")
    assert [(event["event"]["id"], event["cursor"]) for event in events] == [
        (2, "0-2.0"), (12, "0-12.1"), (21, "0-21.0"),
    ]  # fmt: skip


def test_the_last_events_where_there_are_fewer_and_the_log_begins_later(tmp_path: Path) -> None:
    derived, bases = definitions(DERIVED["filtered"][0])
    table = LakeTable(tmp_path, bases["a"], fence=1)
    add_commit(table, bases["a"], 0, dead=3)
    add_commit(table, bases["a"], 4)
    log: Any = open_log(derived, bases, {"a": table})
    events = read_all(log, log.start_of_last(10), random.Random(0))
    assert [event["event"]["id"] for event in events] == [3, 6]


def test_events_that_only_python_makes(tmp_path: Path) -> None:
    """DuckDB does not know these capitals as Spark does, so that it fails on them."""
    derived, bases = definitions("SELECT upper(concat('straße ', CAST(id AS STRING))) AS big FROM a")
    table = LakeTable(tmp_path, bases["a"], fence=1)
    add_commit(table, bases["a"], 2)
    log: Any = open_log(derived, bases, {"a": table})
    events = read_all(log, log.start("earliest"), random.Random(0))
    assert [event["event"]["big"] for event in events] == ["STRASSE 0", "STRASSE 1"]


def test_cursors() -> None:
    for text in ("12", "12-4096", "12-4096.3"):
        assert EventCursor.from_text(text).to_text() == text
        assert EventCursor.is_cursor(text)
    assert EventCursor(1, 2, 0) < EventCursor(1, 2, 1) < EventCursor(1, 2) < EventCursor(1, 3, 0)
    union = read_cursor("visits:12-4096.3,calls:3")
    assert isinstance(union, UnionCursor)
    assert union.to_text() == "visits:12-4096.3,calls:3"
    assert union.of("others") == EventCursor(0)
    for wrong in ("visits:", "12,13", "a:1-2.3.4", "visits:x"):
        with pytest.raises(QuestionError):
            UnionCursor.from_text(wrong)
