"""The log: entries once, checkpoints, clean-up; a process that was taken over notices it, even after a clean-up."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from headrace.errors import FencedError
from headrace.lake.delta_log import FOLDER, LAST_CHECKPOINT
from headrace.lake.delta_table import LakeTable
from tests import wording
from tests.unit.lake.tables import STREAM, Table, new_file, table_of

EVERY = 15  # entries from checkpoint to checkpoint


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / FOLDER).iterdir())


def append(table: LakeTable, commits: int) -> None:
    for _ in range(commits):
        at = table.state
        table.commit(at, at.position.offset() + 10, 7, [new_file(f"f{at.next_commit}", at.next_commit)])


def test_the_log_stays_short_and_says_the_same(tmp_path: Path) -> None:
    table = table_of(tmp_path, 1)
    assert table.log.tidy(EVERY) == 0
    for _ in range(4):
        append(table, EVERY)
        table.rewrite(table.files(0, 2), [new_file(f"r{table.state.next_commit}", 0, rows=10, last=1)])
        table.log.tidy(EVERY)
    assert len(names(tmp_path)) < 2 * EVERY + 5
    assert table.log.entries() < EVERY
    again = Table(tmp_path, STREAM, fence=None)
    assert again.state == table.state
    assert again.files(0, 10_000) == table.files(0, 10_000)
    assert again.rows() == 5 * (4 * EVERY + 1)
    # Other readers read it like any Delta table.
    assert len(DeltaTable(tmp_path).file_uris()) == len(table.files(0, 10_000))
    append(Table(tmp_path, STREAM, fence=2), 3)


def test_a_paused_writer_whose_log_entries_were_cleaned_up_is_refused(tmp_path: Path) -> None:
    slept = table_of(tmp_path, 3)
    new = Table(tmp_path, STREAM, fence=2)
    for _ in range(2):
        append(new, EVERY)
        new.log.tidy(EVERY)
    assert f"{slept.log.version + 1:020d}.json" not in names(tmp_path)
    before, state = names(tmp_path), slept.state
    with wording.raises(FencedError):
        append(slept, 1)
    with wording.raises(FencedError):
        slept.rewrite(slept.files(0, 2), [new_file("r", 0, rows=10, last=1)])
    assert slept.state == state
    assert names(tmp_path) == before
    assert Table(tmp_path, STREAM, fence=None).files(0, 10_000) == new.files(0, 10_000)


def test_what_a_fenced_writer_left_is_not_read(tmp_path: Path) -> None:
    """It linked an entry, or wrote a checkpoint, where the log was cleaned up already, and was killed."""
    table = table_of(tmp_path, EVERY)
    DeltaTable(tmp_path).create_checkpoint()
    log = tmp_path / FOLDER
    old = [(path.name, path.read_bytes()) for path in log.iterdir() if "checkpoint" in path.name]
    for _ in range(2):
        append(table, EVERY)
        table.log.tidy(EVERY)
    entry = log / f"{5:020d}.json"
    shutil.copy(log / f"{table.log.version:020d}.json", entry)
    for name, content in old:
        (log / name).write_bytes(content)
    again = Table(tmp_path, STREAM, fence=2)
    assert again.state == table.state
    assert again.files(0, 10_000) == table.files(0, 10_000)
    append(again, EVERY)
    again.log.tidy(EVERY)
    assert not entry.exists()
    assert LAST_CHECKPOINT in names(tmp_path)


def test_a_table_opened_again_by_the_same_process_takes_over_from_the_previous_one(tmp_path: Path) -> None:
    old = table_of(tmp_path, 1)
    new = Table(tmp_path, STREAM, fence=1)  # a stream that was dropped and created again
    with pytest.raises(FencedError):
        append(old, 1)
    append(new, 1)
    assert Table(tmp_path, STREAM, fence=None).state == new.state


def test_a_draft_of_a_killed_process_does_no_harm(tmp_path: Path) -> None:
    table = table_of(tmp_path, 1)
    (tmp_path / ".entry-00000001").write_bytes(b"half an en")
    append(table, 1)
    assert Table(tmp_path, STREAM, fence=None).state.next_commit == 2


def test_a_table_opened_for_reading_writes_nothing(tmp_path: Path) -> None:
    table_of(tmp_path, 1)
    before = names(tmp_path)
    reader = Table(tmp_path, STREAM, fence=None)
    with wording.raises(FencedError):
        append(reader, 1)
    assert names(tmp_path) == before
