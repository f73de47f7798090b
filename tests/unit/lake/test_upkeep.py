"""Upkeep killed at any point loses nothing and leaves nothing; files stay while a reader may need them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from bench.ours.lake import STREAM as VISITS
from bench.ours.lake import add_commit

from headrace.errors import FencedError
from headrace.faults import VARIABLE
from headrace.lake.delta_table import LakeTable, lake_figures
from headrace.lake.upkeep import ATTEMPT_S, GRACE_S, Upkeep
from headrace.transport.journal.idempotency_keys import WINDOW_US
from headrace.transport.journal.journal import Journal
from headrace.transport.journal.journal_records import list_segments
from headrace.transport.position import START, Position
from tests import wording
from tests.unit.lake.lake_rows import STREAM, expected, rows_of, small_lake

# A journal of two files, whose records came long ago, and a lake that holds the first of them.
CHILD = """
import sys, time
from pathlib import Path
from headrace.lake.upkeep import Upkeep
from headrace.transport.journal.journal import Journal
from tests.unit.lake.lake_rows import small_lake
folder = Path(sys.argv[1])
clock = [time.time_ns() // 1000 - 3 * 24 * 3600 * 1_000_000]
journal = Journal(folder / "journal", fence=1, segment_bytes=1, clock_us=lambda: clock[0],
                  monotonic_s=lambda: clock[0] / 1e6)
for _ in range(3):
    journal.submit(b"x" * 30, 1, []).result()
clock[0] += 2 * 24 * 3600 * 1_000_000
table = small_lake(folder / "lake", 30, rows=5, dead=1)
Upkeep(table, journal, grace_s=0, now=lambda: time.time() + 1).run()
print("was not killed")
"""


def upkeep_of(table: LakeTable, folder: Path, **options: object) -> Upkeep:
    return Upkeep(table, Journal(folder / "journal", fence=99), **options)  # type: ignore[arg-type]


def on_disk(table: LakeTable) -> set[str]:
    return {f"{path.parent.name}/{path.name}" for path in table.folder.glob("_dead=*/*")}


def in_table(table: LakeTable) -> set[str]:
    return {file.path for dead in (False, True) for file in table.files(0, table.state.next_commit, dead=dead)}


@pytest.mark.parametrize(
    "point",
    ["compact.before_commit", "compact.after_commit:2", "upkeep.before_delete:3", "upkeep.before_reclaim:2"],
)
def test_it_continues_after_a_kill_at_any_point(tmp_path: Path, point: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        env={**os.environ, VARIABLE: point},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == -9, ended.stdout + ended.stderr
    table = LakeTable(tmp_path / "lake", STREAM, fence=2)
    journal = Journal(tmp_path / "journal", fence=2, lake_end=table.state.position)
    assert journal.end == Position.at(max(180, 3 * (32 + 30)))
    Upkeep(table, journal, grace_s=0, now=lambda: time.time() + 1).run()
    for dead in (False, True):
        assert rows_of(table, dead=dead) == expected((0, 30), dead=1, of_dead=dead)
    assert on_disk(table) == in_table(table)
    assert len(in_table(table)) < 10
    journal.close()


def test_a_file_that_was_replaced_stays_for_readers(tmp_path: Path) -> None:
    table, now = small_lake(tmp_path / "lake", 9), [time.time()]
    upkeep = upkeep_of(table, tmp_path, now=lambda: now[0])
    old = in_table(table)
    for path in old:
        os.utime(table.folder / path, (0, 0))  # written long ago: what counts is when it was replaced
    with table.reading(0, 5) as files:
        upkeep.run()
        now[0] += GRACE_S - 5
        assert upkeep.delete_unused() == 0
        now[0] += 10
        assert upkeep.delete_unused() == 4
        assert on_disk(table) == in_table(table) | {file.path for file in files}
    assert upkeep.delete_unused() == 5
    assert rows_of(table) == expected((0, 9))


def attempt(table: LakeTable, commit: int, age_s: float) -> Path:
    path = table.folder / "_dead=false" / f"{commit:012d}-failed.parquet"
    path.write_bytes(b"half a file")
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_files_of_failed_attempts_are_deleted_when_no_process_can_commit_them(tmp_path: Path) -> None:
    table = small_lake(tmp_path / "lake", 2)
    upkeep = upkeep_of(table, tmp_path)
    young, next_one = attempt(table, 0, GRACE_S / 2), attempt(table, 2, ATTEMPT_S * 2)
    old, running = attempt(table, 1, GRACE_S * 2), attempt(table, 3, ATTEMPT_S / 2)
    deletion = threading.Thread(target=upkeep.delete_unused)
    with table.turn:  # a micro-batch is running: its file may be any of these
        deletion.start()
        deletion.join(0.2)
        assert deletion.is_alive()
        assert all(path.exists() for path in (young, next_one, old, running))
    deletion.join()
    assert [path.exists() for path in (young, next_one, old, running)] == [True, False, False, True]
    assert rows_of(table) == expected((0, 2))


def test_a_process_that_was_taken_over_deletes_nothing(tmp_path: Path) -> None:
    old = small_lake(tmp_path / "lake", 2)
    new = LakeTable(tmp_path / "lake", STREAM, fence=2)
    add_commit(new, STREAM, 5)
    late = upkeep_of(old, tmp_path, grace_s=0, now=lambda: time.time() + 10 * ATTEMPT_S)
    with wording.raises(FencedError):
        late.delete_unused()
    assert rows_of(new) == expected((0, 3))


def test_while_events_wait_only_what_is_quick_is_done(tmp_path: Path) -> None:
    table = small_lake(tmp_path / "lake", 20)
    upkeep = upkeep_of(table, tmp_path)
    upkeep.run(busy=lambda: True)
    assert lake_figures(table).files == 20
    upkeep.run()
    assert lake_figures(table).files == lake_figures(table).small == 1
    assert upkeep.last_us is not None


def test_the_journal_deletes_what_is_in_the_lake_and_needed_by_no_key(tmp_path: Path) -> None:
    clock = [10**15]
    journal = Journal(
        tmp_path / "j", fence=1, segment_bytes=1, clock_us=lambda: clock[0], monotonic_s=lambda: clock[0] / 1e6
    )
    ends = [journal.submit(b"x" * 30, 1, [], key=f"k{n}").result().end.offset() for n in range(4)]
    assert journal.reclaim(journal.end) == 0  # a retry may still arrive
    clock[0] += WINDOW_US + 2
    assert journal.reclaim(Position.at(ends[1] - 1)) == ends[0]
    assert (journal.start, journal.recall("k0")) == (Position.at(ends[0]), None)
    assert journal.reclaim(journal.end) == ends[2] - ends[0]  # but not the file that is written to
    assert [segment.start for segment in list_segments(tmp_path / "j")] == [ends[2]]
    journal.close()
    again = Journal(tmp_path / "j", fence=2, lake_end=Position.at(ends[3]))
    assert again.end == Position.at(ends[3])
    assert again.age_ms(START) is None  # not 0: what is gone is not fresh
    again.close()


def test_a_lake_of_many_small_commits_becomes_a_few_files(tmp_path: Path) -> None:
    many = small_lake(tmp_path / "lake", 300, rows=200, stream=VISITS)
    upkeep_of(many, tmp_path).run()
    files = many.files(0, 300)
    assert len(files) < 10  # `make bench` measures what that does for scans
    assert sum(file.rows for file in files) == 300 * 200
