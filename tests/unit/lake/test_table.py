"""A lake commit is compare-and-set: who is late, or fenced, writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.define.sql import parse
from headrace.errors import FencedError
from headrace.lake.table import LakeState, LakeTable, NewFile

(STREAM,) = parse("CREATE STREAM s (id BIGINT)").streams.values()


def new_file(name: str, commit: int, *, dead: bool = False) -> NewFile:
    stats = f'{{"numRecords":5,"minValues":{{"_commit":{commit}}},"maxValues":{{"_commit":{commit}}},"nullCount":{{}}}}'
    return NewFile(f"_dead={str(dead).lower()}/{name}.parquet", 100, 5, dead, stats)


def test_state_and_files_survive_opening_again(tmp_path: Path) -> None:
    table = LakeTable(tmp_path, STREAM, fence=1)
    assert table.state == LakeState(0, 0, None)
    for number in range(3):
        table.commit(table.state, (number + 1) * 10, 1000 + number, [new_file(f"f{number}", number)])
    table.commit(table.state, 40, 1002, [new_file("bad", 3, dead=True)])
    again = LakeTable(tmp_path, STREAM, fence=2)
    assert again.state == LakeState(4, 40, 1002)
    assert (again.rows(), again.rows(dead=True)) == (15, 5)
    assert [file.path[-10:-8] for file in again.files(1, 3)] == ["f1", "f2"]
    assert again.files(1, 3) == table.files(1, 3)


def test_a_stale_writer_is_refused(tmp_path: Path) -> None:
    table = LakeTable(tmp_path, STREAM, fence=1)
    start = table.state
    table.commit(start, 10, None, [new_file("a", 0)])
    with pytest.raises(FencedError, match="moved on without this process"):
        table.commit(start, 10, None, [new_file("b", 0)])
    assert LakeTable(tmp_path, STREAM, fence=2).rows() == 5


def test_a_fenced_writer_commits_nothing(tmp_path: Path) -> None:
    old = LakeTable(tmp_path, STREAM, fence=1)
    new = LakeTable(tmp_path, STREAM, fence=2)
    with pytest.raises(FencedError, match="taken over"):
        old.commit(old.state, 10, None, [new_file("a", 0)])
    new.commit(new.state, 10, None, [new_file("b", 0)])
    assert new.rows() == 5
    with pytest.raises(FencedError, match="taken over"):
        LakeTable(tmp_path, STREAM, fence=2)  # a fence is used once
