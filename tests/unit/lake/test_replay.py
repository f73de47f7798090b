"""Replay turns readable dead letters into events, each once, whatever is killed, compacted or appended meanwhile."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace.errors import ConflictError, NotReadyError, QuestionError, UnavailableError
from headrace.faults import VARIABLE
from headrace.lake.dead_letter_pages import DeadLetters
from headrace.lake.dead_letters import ReplayStep
from headrace.lake.delta_table import LakeTable
from headrace.lake.parquet_file import LakeFileWriter, batches
from headrace.lake.replay import DeadLetterReplay, _group
from headrace.lake.replay_files import Reread
from headrace.lake.table_files import LakeFile
from tests import wording
from tests.unit.lake.dead_lake import DeadLake, stream_of
from tests.unit.lake.rereading import LOOSE, LOOSER, STRICT, in_this_process

AT = b'"at":"2026-03-01T12:%02d:00Z"'


def replay_all(replay: DeadLetterReplay, stream: Any, **options: Any) -> list[ReplayStep]:
    steps = [replay.step(stream, **options)]
    while steps[-1].cursor:
        steps.append(replay.step(stream, steps[-1].cursor, **options))
    return steps


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[DeadLake]:
    lake = DeadLake(tmp_path, STRICT)
    lake.add(b'{"id":1,"x":1,%s}' % (AT % 1), b'{"id":2,"x":2.5,%s}' % (AT % 2), b"broken")
    lake.add(b'{"id":3,"x":3.5,%s}' % (AT % 50), b'{"x":4.5,%s}' % (AT % 4))
    lake.add(b'{"id":5,"x":5,%s}' % (AT % 5))
    yield lake
    lake.close()


def test_what_is_readable_becomes_events_of_the_next_commit(lake: DeadLake, tmp_path: Path) -> None:
    replay = DeadLetterReplay(in_this_process, lake.table, tmp_path)
    before = {row["_position"]: row for row in lake.rows(dead=True)}
    state = lake.table.state
    assert replay.step(LOOSE, dry_run=True) == ReplayStep(4, 2, 0, 3, None)
    assert lake.table.state == state
    assert replay.step(LOOSE) == ReplayStep(4, 2, 0, 4, None)
    live = {row["id"]: row for row in lake.rows(dead=False)}
    assert sorted(live) == [1, 2, 3, 5]
    for number in (2, 3):
        row = live[number]
        letter = before[row["_position"]]
        assert (row["_commit"], row["_newest"], row["_reason"]) == (3, live[5]["at"], None)
        assert (row["_arrived"], row["_value"], row["x"]) == (letter["_arrived"], letter["_value"], number + 0.5)
    rest = lake.rows(dead=True)
    assert [(r["_value"], r["_commit"]) for r in rest] == [
        (b"broken", 0),
        (b'{"x":4.5,"at":"2026-03-01T12:04:00Z"}', 1),
    ]
    # The second was refused for x before; now it is refused for the missing id.
    wording.check(rest[1]["_reason"], "id")
    assert (lake.table.rows(), lake.table.rows(dead=True)) == (4, 2)
    assert lake.table.state.position == state.position
    assert lake.table.state.newest_us == int(live[3]["at"].timestamp() * 1e6)  # 12:50 is newer than all before
    again = LakeTable(lake.table.folder, LOOSE, fence=1)
    assert (again.rows(), again.rows(dead=True), again.state) == (4, 2, lake.table.state)


def test_again_it_finds_nothing_and_leaves_the_files_alone(lake: DeadLake, tmp_path: Path) -> None:
    replay = DeadLetterReplay(in_this_process, lake.table, tmp_path)
    replay_all(replay, LOOSE)
    files, state = lake.table.files(0, 9, dead=True), lake.table.state
    assert replay_all(replay, LOOSE) == [ReplayStep(2, 0, 0, 4, None)]
    assert (lake.table.files(0, 9, dead=True), lake.table.state) == (files, state)
    replay_all(replay, LOOSER)
    assert [row["_value"] for row in lake.rows(dead=True)] == [b"broken"]
    assert lake.dead.page().total == 1


def test_new_reasons_alone_are_written_without_a_commit(lake: DeadLake, tmp_path: Path) -> None:
    """A stricter definition stands for a parser with other texts of reasons."""
    (other,) = [stream_of("CREATE STREAM s (id STRING NOT NULL, x STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at)")]
    state = lake.table.state
    assert DeadLetterReplay(in_this_process, lake.table, tmp_path).step(other) == ReplayStep(4, 0, 0, 3, None)
    assert lake.table.state == state
    assert {row.reason for row in lake.dead.reasons()} > {"field 'id' takes STRING"}
    assert lake.table.rows(dead=True) == 4


def test_a_step_is_retried_after_compaction(lake: DeadLake, tmp_path: Path) -> None:
    compacted = []

    def disturbed(work: Reread, paths: Sequence[str]) -> list[Any]:
        results = in_this_process(work, paths)
        if not compacted:
            compact(lake)
            compacted.append(paths)
        return results

    assert DeadLetterReplay(disturbed, lake.table, tmp_path).step(LOOSER).readable == 3
    assert [row["id"] for row in lake.rows(dead=False)] == [1, 2, 3, None, 5]

    def hopeless(work: Reread, paths: Sequence[str]) -> list[Any]:
        results = in_this_process(work, paths)
        compact(lake)
        return results

    lake.add(b'{"id":7,"x":7.5,%s}' % (AT % 7))
    with pytest.raises(ConflictError, match="no longer has file"):
        DeadLetterReplay(hopeless, lake.table, tmp_path).step(LOOSER)
    assert lake.table.rows(dead=True) == 2


def compact(lake: DeadLake) -> None:
    """All dead letters in one file, as upkeep does it."""
    files = lake.table.files(0, lake.table.state.next_commit, dead=True)
    writer = LakeFileWriter(lake.table.storage, files[0].first_commit, dead=True)
    reserved = ["_commit", "_committed_at", "_arrived", "_newest", "_position", "_reason", "_value"]
    for file in files:
        writer.write(pq.read_table(lake.table.folder / file.path, columns=reserved, partitioning=None))
    new = writer.close()
    assert new is not None
    lake.table.rewrite(files, [new])


@pytest.mark.parametrize("seed", range(6))
def test_any_mix_any_groups_any_halves_give_each_event_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lake = DeadLake(tmp_path, STRICT)
    fence, number = 0, 0
    for stream in (STRICT, LOOSE, LOOSER):
        lake.redefine(stream)
        for _ in range(chance.randint(2, 6)):
            lines = []
            for _ in range(chance.randint(1, 30)):
                number += 1
                minute = chance.randint(0, 59)
                good = b'{"id":%d,"x":%d,%s}' % (number, number, AT % minute)
                wide = b'{"id":%d,"x":%d.5,%s}' % (number, number, AT % minute)
                nameless = b'{"x":%d.5,%s}' % (number, AT % minute)
                lines.append(chance.choice([good, wide, nameless, b"broken %d" % number]))
            lake.add(*lines)
            if chance.random() < 0.3 and lake.table.rows(dead=True):
                compact(lake)
        everything = lake.table.rows() + lake.table.rows(dead=True)
        replay = DeadLetterReplay(in_this_process, lake.table, tmp_path, most_rows=chance.choice([1, 10, 1000]))
        step = replay.step(stream, dry_run=chance.random() < 0.5)
        if chance.random() < 0.5:  # it dies after some step, and another process continues
            fence += 1
            lake.table = LakeTable(lake.table.folder, stream, fence=fence)
            replay = DeadLetterReplay(in_this_process, lake.table, tmp_path, most_rows=chance.choice([1, 10, 1000]))
        elif chance.random() < 0.5:
            compact(lake)
            if step.cursor:
                replay.step(stream, step.cursor)
        replay_all(replay, stream)
        assert all(s.readable == 0 for s in replay_all(replay, stream))
        assert lake.table.rows() + lake.table.rows(dead=True) == everything
    live, dead = lake.rows(dead=False), lake.rows(dead=True)
    assert len({row["_position"] for row in live + dead}) == len(live) + len(dead) == number
    assert {int(row["x"]) for row in live} | {int(row["_value"].split()[1]) for row in dead} == set(
        range(1, number + 1)
    )
    lake.close()


KILLED = """
import sys
from pathlib import Path
from headrace.lake.replay import DeadLetterReplay
from headrace.lake.delta_table import LakeTable
from tests.unit.lake.rereading import LOOSE, in_this_process
table = LakeTable(Path(sys.argv[1]), LOOSE, fence=int(sys.argv[2]))
DeadLetterReplay(in_this_process, table, Path(sys.argv[3])).step(LOOSE)
"""


def test_killed_at_each_point(lake: DeadLake, tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    for fence, point, events in ((1, "replay.before_commit", 2), (2, "replay.after_commit", 4)):
        ended = subprocess.run(
            [sys.executable, "-c", KILLED, str(lake.table.folder), str(fence), str(tmp_path)],
            cwd=root, env={**os.environ, VARIABLE: point}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == -9, ended.stderr
        table = LakeTable(lake.table.folder, LOOSE, fence=None)
        assert (table.rows(), table.rows(dead=True)) == (events, 6 - events)
    lake.table = LakeTable(lake.table.folder, LOOSE, fence=3)
    assert DeadLetterReplay(in_this_process, lake.table, tmp_path).step(LOOSE).readable == 0
    assert sorted(row["id"] for row in lake.rows(dead=False)) == [1, 2, 3, 5]


def test_failures_say_what_to_do(lake: DeadLake, tmp_path: Path) -> None:
    def broken(work: Reread, paths: Sequence[str]) -> list[Any]:
        raise RuntimeError("a worker died\nof something")

    with wording.raises(UnavailableError):
        DeadLetterReplay(broken, lake.table, tmp_path).step(LOOSE)
    with wording.raises(QuestionError, "cursor"):
        DeadLetterReplay(in_this_process, lake.table, tmp_path).step(LOOSE, "x")
    with wording.raises(NotReadyError):
        DeadLetters("s", lake.table).replay()
    running = DeadLetterReplay(in_this_process, lake.table, tmp_path)
    with running._one, wording.raises(ConflictError):
        running.step(LOOSE)


def test_a_step_never_splits_a_commit() -> None:
    """The next step begins after the last commit of this one: files of that commit that are left would be skipped."""
    files = [
        LakeFile(f"f{n}", 1, 10, True, *commits) for n, commits in enumerate([(0, 0), (0, 0), (0, 3), (2, 2), (4, 4)])
    ]
    for most_rows, count in ((1, 4), (15, 4), (45, 4), (50, 5)):
        assert len(_group(files, most_rows)) == count
    assert list(_group(files[3:], 1)) == files[3:4]
    assert not _group([], 1)


def test_nothing_is_left_behind(lake: DeadLake, tmp_path: Path) -> None:
    """Only files of the table, those that left it, and none of a replay that changed nothing."""
    replay = DeadLetterReplay(in_this_process, lake.table, tmp_path)
    before = {file.path for dead in (False, True) for file in lake.table.files(0, 9, dead=dead)}
    replay.step(STRICT)
    replay.step(LOOSE, dry_run=True)
    replay.step(LOOSE)
    replay.step(LOOSE)
    after = {file.path for dead in (False, True) for file in lake.table.files(0, 9, dead=dead)}
    on_disk = {str(path.relative_to(lake.table.folder)) for path in lake.table.folder.glob("_dead=*/*.parquet")}
    assert on_disk == before | after
    assert not list(tmp_path.glob("replay-*"))


def test_events_of_any_size_are_read_a_few_at_a_time(lake: DeadLake, tmp_path: Path) -> None:
    assert replay_all(DeadLetterReplay(in_this_process, lake.table, tmp_path, batch_bytes=1), LOOSER)[0].readable == 3
    file = lake.table.folder / lake.table.files(0, 9)[0].path
    assert [len(rows) for rows in batches(file, most_bytes=1)] == [1]
    assert lake.dead.page().dead_letters[0].value == "broken"
