"""The time of an idle stream: when it is recorded, what it is, and that it never goes back."""

from __future__ import annotations

from pathlib import Path

from headrace.define.catalog import parse
from headrace.lake.commit_times import IdleClock
from headrace.lake.delta_table import LakeState, LakeTable
from headrace.transport.position import START

MINUTE_MS, SECOND_US = 60_000, 1_000_000
NOON_US = 1_772_366_400 * SECOND_US


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def test_nothing_is_recorded_before_the_first_event() -> None:
    clock = Clock()
    idle = IdleClock(clock)
    for _ in range(3):
        assert idle.advance(LakeState(0, START, None), MINUTE_MS) is None
        clock.now_s += 3_600


def test_the_time_goes_on_from_the_newest_event_after_the_timeout() -> None:
    clock = Clock()
    idle, at = IdleClock(clock), LakeState(4, START, NOON_US)
    assert idle.advance(at, MINUTE_MS) is None
    clock.now_s += 59
    assert idle.advance(at, MINUTE_MS) is None
    clock.now_s += 1
    assert idle.advance(at, MINUTE_MS) == NOON_US + 60 * SECOND_US
    at = LakeState(5, START, NOON_US, NOON_US + 60 * SECOND_US)
    assert idle.advance(at, MINUTE_MS) is None
    clock.now_s += 60
    assert idle.advance(at, MINUTE_MS) == NOON_US + 120 * SECOND_US


def test_a_commit_of_events_ends_the_idle_time() -> None:
    clock = Clock()
    idle = IdleClock(clock)
    idle.advance(LakeState(4, START, NOON_US), MINUTE_MS)
    clock.now_s += 50
    idle.advance(LakeState(5, START, NOON_US + 1), MINUTE_MS)
    clock.now_s += 50
    assert idle.advance(LakeState(5, START, NOON_US + 1), MINUTE_MS) is None
    idle.restart()  # the time that the server was down does not count
    clock.now_s += 50
    assert idle.advance(LakeState(5, START, NOON_US + 1), MINUTE_MS) is None


def test_entries_become_rarer_and_a_tenth_is_missing_at_most() -> None:
    clock = Clock()
    idle, at, entries = IdleClock(clock), LakeState(0, START, NOON_US), 0
    began_s = clock.now_s
    recorded_us = NOON_US
    for _ in range(7 * 24 * 60 * 6):  # a week in steps of 10 s
        time_us = idle.advance(at, MINUTE_MS)
        if time_us is not None:
            entries += 1
            at = LakeState(at.next_commit + 1, START, NOON_US, time_us)
            recorded_us = time_us
        reached_us = NOON_US + int((clock.now_s - began_s) * SECOND_US)
        assert reached_us - recorded_us <= max(70 * SECOND_US, (reached_us - NOON_US) // 10 + 10 * SECOND_US)
        clock.now_s += 10
    assert entries < 110


def test_it_is_kept_by_the_lake_and_by_later_commits(tmp_path: Path) -> None:
    stream = parse("CREATE STREAM s (n INT, at TIMESTAMP NOT NULL, WATERMARK FOR at)").streams["s"]
    table = LakeTable(tmp_path / "lake", stream, fence=1)
    first = table.commit(table.state, START, NOON_US, [])
    idle = table.commit(first, START, NOON_US, [], idle_us=NOON_US + 5)
    assert (idle.newest_us, idle.time_us) == (NOON_US, NOON_US + 5)
    after = table.commit(idle, START, NOON_US + 3, [])
    assert after.time_us == NOON_US + 5, "an event before the time of the stream does not take it back"
    reopened = LakeTable(tmp_path / "lake", stream, fence=2)
    assert reopened.state == after
    newer = reopened.commit(reopened.state, START, NOON_US + 9, [])
    assert newer.time_us == NOON_US + 9
