"""Lost and damaged files of a lake: found, named, never read as something else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from headrace.define.catalog import parse
from headrace.disk import free_bytes
from headrace.errors import CorruptionError, DiskFullError
from headrace.lake.delta_table import LakeTable
from headrace.lake.health import check_contents, check_files, check_log
from headrace.lake.parquet_file import LakeFileWriter
from headrace.lake.storage import LocalStorage
from headrace.transport.position import Position
from tests import wording

(STREAM,) = parse("CREATE STREAM s (id BIGINT)").streams.values()
COMMITS, ROWS = 5, 1000


def write_file(table: LakeTable, commit: int) -> None:
    writer = LakeFileWriter(table.storage, commit, dead=False)
    numbers = pa.array(range(ROWS), pa.int64())
    writer.write(pa.table({"_commit": pa.repeat(pa.scalar(commit), ROWS), "_position": numbers, "id": numbers}))
    file = writer.close()
    assert file is not None
    table.commit(table.state, Position.at((commit + 1) * 10), None, [file])


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    table = LakeTable(tmp_path / "s", STREAM, fence=1)
    for commit in range(COMMITS):
        write_file(table, commit)
    return table.folder


def reopen(lake: Path) -> LakeTable:
    return LakeTable(lake, STREAM, fence=None)


def entries(lake: Path) -> list[Path]:
    return sorted((lake / "_delta_log").glob("*.json"))


def test_a_whole_lake_has_no_findings(lake: Path) -> None:
    storage, files = LocalStorage(lake), reopen(lake).files(0, COMMITS)
    assert [*check_log(storage), *check_files(storage, files), *check_contents(storage, files)] == []


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def drop_a_line(path: Path) -> None:
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])


def garble(path: Path) -> None:
    path.write_bytes(b"garbage\n")


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize("damage", [Path.unlink, cut_short, empty, garble, zero, drop_a_line])
@pytest.mark.parametrize("which", [0, 4])
def test_a_lost_or_damaged_log_entry_is_named(lake: Path, damage: Callable[[Path], None], which: int) -> None:
    entry = entries(lake)[which]
    damage(entry)
    # An entry without its lines is well-formed; the row count of all commits shows that some are missing.
    message = "events and dead letters where 5,000 were written" if damage is drop_a_line and which else "_delta_log"
    with pytest.raises(CorruptionError, match=message):
        reopen(lake)


def test_a_lost_newest_entry_is_a_lake_that_was_cut_back(lake: Path) -> None:
    entries(lake)[-1].unlink()
    assert reopen(lake).state.next_commit == COMMITS - 1  # store and journal show whether anything is missing


def test_a_lake_without_its_log_is_not_created_again(lake: Path) -> None:
    shutil.rmtree(lake / "_delta_log")
    for fence in (None, 2):
        with wording.raises(CorruptionError):
            LakeTable(lake, STREAM, fence)
    assert not (lake / "_delta_log").exists()


@pytest.mark.parametrize("damage", [Path.unlink, cut_short, garble])
def test_a_lost_or_damaged_checkpoint_is_named(lake: Path, damage: Callable[[Path], None]) -> None:
    DeltaTable(lake).create_checkpoint()
    for entry in entries(lake)[:-1]:
        entry.unlink()
    assert reopen(lake).rows() == COMMITS * ROWS
    (checkpoint,) = (lake / "_delta_log").glob("*.checkpoint.parquet")
    damage(checkpoint)
    with wording.raises(CorruptionError):
        reopen(lake)


def test_a_garbled_hint_at_the_checkpoint_does_not_matter(lake: Path) -> None:
    DeltaTable(lake).create_checkpoint()
    garble(lake / "_delta_log" / "_last_checkpoint")
    assert reopen(lake).rows() == COMMITS * ROWS


@pytest.mark.parametrize(("damage", "values"), [(Path.unlink, ()), (cut_short, ())])
def test_a_lost_or_shortened_file_is_named(lake: Path, damage: Callable[[Path], None], values: tuple[str, ...]) -> None:
    files = reopen(lake).files(0, COMMITS)
    damage(lake / files[2].path)
    (finding,) = check_files(LocalStorage(lake), files)
    assert finding.file == str(lake / files[2].path)
    wording.check(finding.what, *values)
    assert "restore it from a backup" in str(finding)
    assert [each.file for each in check_contents(LocalStorage(lake), files)] == [finding.file]


def test_a_flipped_bit_never_gives_another_value(lake: Path) -> None:
    files = reopen(lake).files(0, COMMITS)
    path = lake / files[1].path
    whole, rows = path.read_bytes(), pq.read_table(path)
    harmless = 0
    for at in range(4, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        assert check_files(LocalStorage(lake), files) == []
        paths = [each.file for each in check_contents(LocalStorage(lake), files)]
        assert paths in ([], [str(path)])
        if not paths:
            harmless += 1
            assert pq.read_table(path) == rows
    assert harmless < len(whole) / 100  # bits that nothing depends on


def test_a_full_disk_commits_nothing_and_the_next_commit_succeeds(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(1 << 20)
    table = LakeTable(disk / "s", STREAM, fence=1)
    for commit in range(3):
        write_file(table, commit)
    before, ballast = table.state, disk / "ballast"
    fill(ballast)
    writer = LakeFileWriter(table.storage, before.next_commit, dead=False)
    numbers = pa.array(range(10**5), pa.int64())
    rows = pa.table({"_commit": numbers, "_position": numbers, "id": numbers})
    with wording.raises(OSError):
        writer.write(rows)
    writer.abandon()
    assert len(list(table.folder.glob("_dead=false/*"))) == 3
    fill(ballast)
    with wording.raises(DiskFullError, f"{disk}/s"):
        table.commit(before, Position.at(10**6), None, [])
    assert table.state == reopen(table.folder).state == before
    ballast.unlink()
    write_file(table, table.state.next_commit)
    assert reopen(table.folder).rows() == table.rows() == 4 * ROWS


def fill(ballast: Path) -> None:
    with ballast.open("ab", buffering=0) as out:
        out.write(bytes(free_bytes(ballast.parent)))
