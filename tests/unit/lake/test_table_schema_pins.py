"""Pins: each row contains which versions of the tables its commit saw; they survive compaction and replays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from headrace.lake.added_fields import read_filled
from headrace.lake.delta_table import LakeTable
from headrace.lake.parquet_file import LakeFileWriter
from headrace.lake.replay import DeadLetterReplay
from headrace.lake.table_schema import TABLES, pin_column, table_schema
from headrace.lake.upkeep import Compaction
from tests.unit.lake.dead_lake import DeadLake
from tests.unit.lake.rereading import LOOSE, STRICT, in_this_process

GOOD = b'{"id":%d,"x":1,"at":"2026-03-01T12:00:00Z"}'
BAD = b'{"id":%d,"x":1.5,"at":"2026-03-01T12:00:00Z"}'


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[DeadLake]:
    lake = DeadLake(tmp_path, STRICT)
    yield lake
    lake.close()


def pins_of(lake: DeadLake) -> dict[int, Any]:
    """The pins of each event, by its id."""
    rows = lake.rows(dead=False)
    return {row["id"]: None if row[TABLES] is None else dict(row[TABLES]) for row in rows}


def drop_pins(lake: DeadLake) -> None:
    """Make the files what an older release would have written."""
    for dead in (False, True):
        for file in lake.table.files(0, 99, dead=dead):
            rows = ds.dataset(str(lake.table.folder / file.path)).to_table().drop_columns([TABLES])
            writer = LakeFileWriter(lake.table.storage, file.first_commit, dead=dead)
            writer.write(rows)
            new = writer.close()
            assert new is not None
            lake.table.rewrite([file], [new])


@pytest.mark.parametrize("pins", [{}, {"users": 5}, {"users": 0, "plans": 1 << 40}])
def test_a_column_of_pins(pins: dict[str, int]) -> None:
    expected = None if not pins else list(pins.items())
    assert pin_column(pins, 3).to_pylist() == [expected] * 3
    assert len(pin_column(pins, 0)) == 0


def test_every_row_has_the_pins_of_its_commit_also_when_compacted(lake: DeadLake) -> None:
    lake.add(GOOD % 1, GOOD % 2)
    lake.pins = {"users": 7}
    lake.add(GOOD % 3)
    lake.pins = {"users": 9, "plans": 1}
    lake.add(GOOD % 4, GOOD % 5)
    expected = {1: None, 2: None, 3: {"users": 7}, 4: {"users": 9, "plans": 1}, 5: {"users": 9, "plans": 1}}
    assert pins_of(lake) == expected
    while Compaction(lake.table, gather=2).run_once():
        pass
    assert len(lake.table.files(0, 99)) == 1
    assert pins_of(lake) == expected


def test_a_replay_is_a_commit_with_pins_of_its_own(lake: DeadLake, tmp_path: Path) -> None:
    lake.pins = {"users": 1}
    lake.add(GOOD % 1, BAD % 2)
    drop_pins(lake)
    lake.add(BAD % 3, b"broken")
    step = DeadLetterReplay(in_this_process, lake.table, tmp_path, pins=lambda: {"users": 4}).step(LOOSE)
    assert step.readable == 2
    assert pins_of(lake) == {1: None, 2: {"users": 4}, 3: {"users": 4}}


def test_files_of_an_older_release_have_none(lake: DeadLake) -> None:
    lake.pins = {"users": 1}
    lake.add(GOOD % 1)
    drop_pins(lake)
    lake.add(GOOD % 2)
    read = [
        rows
        for file in lake.table.files(0, 99)
        for rows in read_filled(str(lake.table.folder / file.path), [0], STRICT, ["id", TABLES])
    ]
    assert pa.concat_tables(read).to_pylist() == [{"id": 1, TABLES: None}, {"id": 2, TABLES: [("users", 1)]}]


def test_the_column_is_no_field_that_was_added(lake: DeadLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake of an older release gets the column when it is opened; its dead letters are judged as before."""
    lake.add(GOOD % 1, BAD % 2)
    table = LakeTable(lake.table.folder, STRICT, fence=1)
    schema = pa.schema([field for field in table_schema(STRICT) if field.name != TABLES])
    monkeypatch.setattr("headrace.lake.delta_table.table_schema", lambda stream: schema)
    table.redefine(STRICT, lake.journal.end)
    monkeypatch.undo()
    table.redefine(STRICT, lake.journal.end)
    assert table.since == LakeTable(lake.table.folder, STRICT, fence=None).since == ()
