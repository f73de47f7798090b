"""A lake commit is compare-and-set: a stale or fenced process writes nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headrace.errors import ConflictError, CorruptionError, FencedError
from headrace.lake.delta_table import LakeState, LakeTable
from headrace.transport.position import Position
from tests import wording
from tests.unit.lake.tables import STREAM, Table, new_file, table_of


def test_state_and_files_survive_opening_again(tmp_path: Path) -> None:
    table = Table(tmp_path, STREAM, fence=1)
    assert table.state == LakeState(0, Position.at(0), None)
    for number in range(3):
        table.commit(table.state, (number + 1) * 10, 1000 + number, [new_file(f"f{number}", number)])
    table.commit(table.state, 40, 1002, [new_file("bad", 3, dead=True)])
    again = Table(tmp_path, STREAM, fence=2)
    assert again.state == LakeState(4, Position.at(40), 1002)
    assert (again.rows(), again.rows(dead=True)) == (15, 5)
    assert [file.path[-10:-8] for file in again.files(1, 3)] == ["f1", "f2"]
    assert again.files(1, 3) == table.files(1, 3)


def test_a_stale_writer_is_refused(tmp_path: Path) -> None:
    table = Table(tmp_path, STREAM, fence=1)
    start = table.state
    table.commit(start, 10, None, [new_file("a", 0)])
    with wording.raises(FencedError):
        table.commit(start, 10, None, [new_file("b", 0)])
    assert Table(tmp_path, STREAM, fence=2).rows() == 5


def test_a_fenced_writer_commits_nothing(tmp_path: Path) -> None:
    old = Table(tmp_path, STREAM, fence=1)
    new = Table(tmp_path, STREAM, fence=2)
    with wording.raises(FencedError):
        old.commit(old.state, 10, None, [new_file("a", 0)])
    new.commit(new.state, 10, None, [new_file("b", 0)])
    assert new.rows() == 5
    with wording.raises(FencedError):
        Table(tmp_path, STREAM, fence=1)


def test_a_commit_adds_and_removes_at_once(tmp_path: Path) -> None:
    table = Table(tmp_path, STREAM, fence=1)
    table.commit(table.state, 10, None, [new_file("a", 0), new_file("bad", 0, dead=True)])
    (bad,) = table.files(0, 1, dead=True)
    table.commit(table.state, 10, None, [new_file("good", 1, rows=4), new_file("b2", 0, dead=True, rows=1)], [bad])
    for each in (table, Table(tmp_path, STREAM, fence=None)):
        assert each.state == LakeState(2, Position.at(10), None)
        assert (each.rows(), each.rows(dead=True)) == (9, 1)
        assert [file.path for file in each.files(0, 2, dead=True)] == ["_dead=true/b2.parquet"]
    with wording.raises(ConflictError, "_dead=true/bad.parquet"):
        table.commit(table.state, 10, None, [new_file("c", 2)], [bad])
    assert Table(tmp_path, STREAM, fence=None).state == table.state == LakeState(2, Position.at(10), None)


def test_a_rewrite_moves_no_commit_and_keeps_the_rows(tmp_path: Path) -> None:
    table = table_of(tmp_path, 4)
    state, old = table.state, table.files(0, 3)
    table.rewrite(old, [new_file("all", 0, rows=15, last=2)])
    table.commit(state, 50, None, [new_file("f4", 4)])  # an append that started before is not affected
    for each in (table, Table(tmp_path, STREAM, fence=None)):
        assert each.rows() == 25
        assert [(f.first_commit, f.last_commit) for f in each.files(0, 9)] == [(0, 2), (3, 3), (4, 4)]
        assert [(f.first_commit, f.last_commit) for f in each.files(1, 2)] == [(0, 2)]
    with wording.raises(ConflictError):
        table.rewrite(old, [new_file("again", 0, rows=15, last=2)])
    rest = table.files(3, 5)
    for wrong in ([], [new_file("w", 3, rows=9, last=4)], [new_file("w", 2, rows=10, last=4)]):
        with wording.raises(CorruptionError):
            table.rewrite(rest, wrong)
    assert Table(tmp_path, STREAM, fence=None).files(0, 9) == table.files(0, 9)


def test_a_fenced_process_rewrites_nothing(tmp_path: Path) -> None:
    old = table_of(tmp_path, 2)
    new = Table(tmp_path, STREAM, fence=2)
    with wording.raises(FencedError):
        old.rewrite(old.files(0, 2), [new_file("all", 0, rows=10, last=1)])
    new.rewrite(new.files(0, 2), [new_file("all", 0, rows=10, last=1)])
    assert Table(tmp_path, STREAM, fence=None).rows() == 10


def test_what_is_read_is_not_deleted_and_what_is_deleted_is_not_committed(tmp_path: Path) -> None:
    table = table_of(tmp_path, 2)
    with table.reading(0, 2) as files, table.reading(1, 2):
        table.rewrite(files, [new_file("all", 0, rows=10, last=1)])
        assert table.doom(file.path for file in files) == []
        assert table.doom(["_dead=false/all.parquet", "_dead=false/other.parquet"]) == ["_dead=false/other.parquet"]
    assert table.doom(file.path for file in files) == [file.path for file in files]
    for _ in range(2):
        with wording.raises(ConflictError):
            LakeTable.commit(table, table.state, Position.at(30), None, [new_file("other", 2)])
        table.forget("_dead=false/other.parquet")  # and it is not on disk
    assert table.rows() == 10


def test_turns_are_taken_one_after_the_other(tmp_path: Path) -> None:
    table = table_of(tmp_path, 1)

    def take(number: int) -> None:
        with table.turn:
            at = table.state
            table.commit(at, at.position.offset() + 10, None, [new_file(f"t{number}", at.next_commit)])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(take, range(20)))
    assert table.state == LakeState(21, Position.at(210), None)
