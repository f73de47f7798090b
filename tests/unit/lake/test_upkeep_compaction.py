"""Compaction keeps every row once, in its commit, during appends, reads and takeovers."""

from __future__ import annotations

import os
import random
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bench.ours.lake import add_commit

from headrace.define.catalog import parse
from headrace.errors import FencedError
from headrace.lake import upkeep
from headrace.lake.delta_table import LakeTable
from headrace.lake.upkeep import Compaction
from headrace.transport.position import START
from tests import wording
from tests.unit.lake.lake_rows import STREAM, expected, read, rows_of, small_lake


def compact_all(table: LakeTable, **options: Any) -> int:
    """How many groups were compacted."""
    compaction, count = Compaction(table, **options), 0
    while compaction.run_once():
        count += 1
    return count


def test_small_files_become_one_with_the_same_rows(tmp_path: Path) -> None:
    table = small_lake(tmp_path, 20, dead=2)
    assert compact_all(table) == 2  # live events and dead letters apart
    for each in (table, LakeTable(tmp_path, STREAM, fence=None)):
        for dead in (False, True):
            (file,) = each.files(0, 20, dead=dead)
            assert (file.first_commit, file.last_commit) == (0, 19)
            assert rows_of(each, dead=dead) == expected((0, 20), dead=2, of_dead=dead)
        assert rows_of(each, (7, 9)) == expected((7, 9), dead=2)
    assert compact_all(table) == 0
    group = pq.ParquetFile(tmp_path / table.files(0, 20)[0].path).metadata.row_group(0)
    columns = [column for i in range(group.num_columns) if (column := group.column(i)).is_stats_set]
    assert [column.path_in_schema for column in columns] == ["_commit", "_arrived", "_position", "at"]


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_appends_compactions_and_readers(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    table = small_lake(tmp_path, 1, dead=1)
    compaction = Compaction(table, gather=chance.choice([2, 3]), target_bytes=chance.choice([6_000, 1 << 30]))
    with ExitStack() as readers:
        reads = []
        for step in range(60):
            match chance.choice(["append", "append", "compact", "read", "open", "check"]):
                case "append":
                    add_commit(table, STREAM, 5, dead=1)
                case "compact":
                    compaction.run_once()
                case "read":
                    span = (chance.randint(0, step), table.state.next_commit)
                    reads.append((span, readers.enter_context(table.reading(*span))))
                case "open":
                    again = LakeTable(tmp_path, STREAM, fence=None)
                    assert again.files(0, 99) == table.files(0, 99)
                case _:
                    first = chance.randint(0, table.state.next_commit - 1)
                    span = (first, chance.randint(first, table.state.next_commit))
                    for dead in (False, True):
                        assert rows_of(table, span, dead=dead) == expected(span, dead=1, of_dead=dead)
        for span, files in reads:
            assert read(table, files, span) == expected(span, dead=1)
    assert table.rows() == 5 * table.state.next_commit


def test_a_row_is_rewritten_only_a_few_times(tmp_path: Path) -> None:
    table, rows = small_lake(tmp_path, 0), 0
    compaction = Compaction(table, gather=4)
    for number in range(1, 129):
        add_commit(table, STREAM, 1)
        before = table.files(0, number)
        while compaction.run_once():
            after = table.files(0, number)
            rows += sum(file.rows for file in after if file not in before)
            before = after
    assert rows <= 128 * 4  # log of 128 to base 4, rounded up
    assert len(table.files(0, 128)) <= 3 * 4
    assert rows_of(table) == expected((0, 128), rows=1)


def test_files_stay_below_the_target_and_full_ones_are_left_alone(tmp_path: Path) -> None:
    table = small_lake(tmp_path, 16, rows=100)
    one = table.files(0, 1)[0].size
    compact_all(table, target_bytes=5 * one, gather=2)
    assert all(file.size <= 5 * one for file in table.files(0, 16))
    spans = [(file.first_commit, file.last_commit) for file in table.files(0, 16)]
    assert len(spans) > 1
    assert [first for first, _ in spans[1:]] == [last + 1 for _, last in spans[:-1]]
    assert rows_of(table) == expected((0, 16), rows=100)


def test_files_of_different_columns_are_not_mixed(tmp_path: Path) -> None:
    table = small_lake(tmp_path, 9)
    (wider,) = parse("CREATE STREAM s (id BIGINT, at TIMESTAMP, more STRING)").streams.values()
    table.redefine(wider, START)
    for _ in range(9):
        add_commit(table, wider, 5)
    assert compact_all(table, gather=8) == 2
    names = [pq.read_schema(tmp_path / file.path).names[-1] for file in table.files(0, 18)]
    assert names == ["at", "more"]
    assert rows_of(table, (0, 9)) + rows_of(table, (9, 18)) == expected((0, 18))


def test_a_file_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    table = small_lake(tmp_path, 9)
    before = table.files(0, 9)
    os.truncate(tmp_path / before[5].path, 700)
    with pytest.raises((pa.ArrowInvalid, OSError)):
        compact_all(table)
    assert LakeTable(tmp_path, STREAM, fence=None).files(0, 9) == before
    assert len(list((tmp_path / "_dead=false").iterdir())) == 9


def test_lost_rows_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that was written is read back: here the writer drops a row."""
    table = small_lake(tmp_path, 9)
    whole = upkeep.LakeFileWriter.write
    monkeypatch.setattr(upkeep.LakeFileWriter, "write", lambda self, rows: whole(self, rows.slice(1)))
    with wording.raises(upkeep.CorruptionError, 9):
        compact_all(table)
    assert len(table.files(0, 9)) == 9


def test_it_stops_half_way_and_leaves_nothing(tmp_path: Path) -> None:
    table, answers = small_lake(tmp_path, 9), iter([False, False, True])
    assert not Compaction(table, group_rows=10).run_once(stopping=lambda: next(answers, True))
    assert len(list((tmp_path / "_dead=false").iterdir())) == 9
    assert rows_of(table) == expected((0, 9))


def test_a_process_that_was_taken_over_compacts_nothing(tmp_path: Path) -> None:
    lake = tmp_path / "visits"
    old = small_lake(lake, 9)
    new = LakeTable(lake, STREAM, fence=2)
    assert compact_all(new) == 1
    with wording.raises(FencedError):
        compact_all(old)
    assert rows_of(LakeTable(lake, STREAM, fence=None)) == expected((0, 9))


def test_a_rewrite_with_wrong_row_counts_is_refused(tmp_path: Path) -> None:
    table = small_lake(tmp_path, 9)
    compaction = Compaction(table)
    files = table.files(0, 9)
    new = compaction._write(files, lambda: False)
    assert new is not None
    with wording.raises(upkeep.CorruptionError):
        table.rewrite(files, [replace(new, rows=44)])
