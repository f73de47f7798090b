"""The journal: durable, torn records cut off whole, positions used once, keys remembered."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CorruptionError, DiskFullError, FencedError
from headrace.faults import VARIABLE
from headrace.transport.journal.idempotency_keys import WINDOW_US
from headrace.transport.journal.journal import Journal
from headrace.transport.journal.journal_records import cut, list_segments, read_durable, spans
from headrace.transport.position import START, Position
from tests import wording
from tests.unit.transport.journals import LINE, Clock, lines_of


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    journal = Journal(tmp_path, fence=1)
    receipts = [journal.submit(LINE * n, n, []).result() for n in (1, 2, 3)]
    assert [r.accepted for r in receipts] == [1, 2, 3]
    assert journal.reader.end() == journal.end == receipts[-1].end
    journal.close()
    again = Journal(tmp_path, fence=2)
    assert again.end == receipts[-1].end
    assert lines_of(tmp_path, again.end) == LINE * 6
    again.close()


@given(st.integers(1, 60), st.binary(max_size=40))
def test_a_torn_record_is_cut_off_whole(tmp_path_factory: pytest.TempPathFactory, cut_at: int, garbage: bytes) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder, fence=1)
    journal.submit(LINE, 1, []).result()
    whole = journal.end.offset()
    journal.submit(LINE * 5, 5, []).result()
    journal.close()
    segment = list_segments(folder)[-1]
    os.truncate(segment.path, min(whole + cut_at, segment.end - 1))
    with segment.path.open("ab") as file:
        file.write(garbage)
    (folder / "durable").unlink()  # as after a loss of power: it is not synced
    again = Journal(folder, fence=2)
    assert again.end == Position.at(whole)
    assert again.submit(LINE * 2, 2, []).result().end.offset() > whole
    assert lines_of(folder, again.end) == LINE * 3
    again.close()


def test_damage_before_the_durable_end_is_named_not_cut(tmp_path: Path) -> None:
    journal = Journal(tmp_path, fence=1)
    journal.submit(LINE, 1, []).result()
    journal.close()
    segment = list_segments(tmp_path)[-1]
    raw = bytearray(segment.path.read_bytes())
    raw[-2] ^= 255
    segment.path.write_bytes(raw)
    with wording.raises(CorruptionError, 0):
        Journal(tmp_path, fence=2)


def test_a_lost_journal_continues_after_the_lake(tmp_path: Path) -> None:
    journal = Journal(tmp_path, fence=1, lake_end=Position.at(12345))
    assert journal.end == Position.at(12345)
    assert journal.submit(LINE, 1, []).result().end.offset() > 12345
    journal.close()


def test_a_retried_key_gives_its_receipt_after_a_restart_and_for_a_day(tmp_path: Path) -> None:
    clock = Clock()
    journal = clock.open(tmp_path, 1)
    first = journal.submit(LINE, 1, [{"index": 1, "reason": "bad"}], key="k", digest="d").result()
    journal.close()
    again = clock.open(tmp_path, 2)
    assert again.recall("k") == first
    assert again.recall("other") is None
    clock.passes(WINDOW_US + 1)
    assert again.recall("k") is None
    again.close()


def test_a_writer_that_lost_its_lease_acknowledges_nothing(tmp_path: Path) -> None:
    def raise_fenced() -> None:
        raise FencedError("taken over")

    journal = Journal(tmp_path, fence=1, still_mine=raise_fenced)
    with pytest.raises(FencedError):
        journal.submit(LINE, 1, []).result()
    with pytest.raises(FencedError):
        journal.submit(LINE, 1, [])
    assert read_durable(tmp_path) == 0
    journal.close()


def test_what_a_fenced_writer_left_behind_is_not_read(tmp_path: Path) -> None:
    old = Journal(tmp_path, fence=1)
    old.submit(LINE, 1, []).result()
    new = Journal(tmp_path, fence=2)
    old.submit(LINE * 9, 9, []).result()  # written to its own segment, after the start of the new one
    new.submit(LINE * 2, 2, []).result()
    assert lines_of(tmp_path, new.end) == LINE * 3
    old.close()
    new.close()


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(1, 400), st.integers(1, 2000))
def test_ranges_tile_the_journal(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], target: int, most: int
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder, fence=1, segment_bytes=300)
    for size in sizes:
        journal.submit(LINE * size, size, []).result()
    end, position = journal.end.offset(), 0
    while position < end:
        ranges = cut(folder, position, end, target, most)
        assert ranges
        for start, stop in ranges:
            assert start == position < stop
            position = stop
    assert position == end
    journal.close()


# The wall clock is set while events flow


@pytest.mark.parametrize("jump_days", [400, -400])
def test_a_retried_request_is_stored_once_even_if_the_clock_is_set(tmp_path: Path, jump_days: int) -> None:
    clock = Clock()
    journal = clock.open(tmp_path, 1)
    first = journal.submit(LINE, 1, [], key="k", digest="d").result()
    clock.wall_us += jump_days * WINDOW_US
    assert journal.recall("k") == first
    second = journal.submit(LINE, 1, [], key="l", digest="d").result()
    journal.close()
    clock.wall_us -= 2 * jump_days * WINDOW_US
    again = clock.open(tmp_path, 2)
    assert (again.recall("k"), again.recall("l")) == (first, second)
    again.close()


def test_ages_do_not_jump_with_the_clock(tmp_path: Path) -> None:
    clock = Clock()
    journal = clock.open(tmp_path, 1)
    first = journal.submit(LINE, 1, []).result()
    clock.passes(2_000_000)
    journal.submit(LINE, 1, []).result()
    clock.passes(1_000_000)
    for set_to in (10**15 + 10**13, 10**9):
        clock.wall_us = set_to
        assert (journal.age_ms(START), journal.age_ms(first.end), journal.age_ms(journal.end)) == (3000, 1000, 0)
    journal.close()


def test_an_age_that_no_clock_can_tell_is_none(tmp_path: Path) -> None:
    clock = Clock()
    journal = clock.open(tmp_path, 1)
    journal.submit(LINE, 1, []).result()
    journal.close()
    clock.wall_us -= 1
    again = clock.open(tmp_path, 2)
    assert again.age_ms(START) is None
    clock.passes(5001)
    assert again.age_ms(START) == 5
    again.close()


# The disk is full


@pytest.mark.parametrize("point", ["journal.before_write", "journal.before_fsync", "journal.after_fsync"])
def test_a_full_disk_refuses_stores_nothing_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    journal = Journal(tmp_path, fence=1)
    receipt = journal.submit(LINE, 1, [], key="a", digest="d").result()
    monkeypatch.setenv(VARIABLE, f"{point}=ENOSPC")
    with pytest.raises(DiskFullError, match=f"the disk of '{tmp_path}' is full.*nothing of this request was stored"):
        journal.submit(LINE * 9, 9, [], key="b", digest="d").result()
    assert isinstance(journal.trouble, DiskFullError)
    assert journal.recall("b") is None
    assert (journal.end, journal.reader.end()) == (receipt.end, receipt.end)
    journal.mend()
    with pytest.raises(DiskFullError):
        journal.submit(LINE, 1, []).result()
    monkeypatch.delenv(VARIABLE)
    journal.submit(LINE * 2, 2, []).result()
    assert journal.trouble is None
    journal.close()
    again = Journal(tmp_path, fence=2)
    assert lines_of(tmp_path, again.end) == LINE * 3
    again.close()


def test_trouble_ends_when_the_disk_accepts_a_write_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, fence=1)
    monkeypatch.setenv(VARIABLE, "journal.before_write=ENOSPC")
    with pytest.raises(DiskFullError):
        journal.submit(LINE, 1, []).result()
    monkeypatch.delenv(VARIABLE)
    journal.mend()
    journal.close()  # after the queued requests
    assert journal.trouble is None
    assert list_segments(tmp_path)[-1].path.stat().st_size == 0


def test_a_really_full_disk(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(1 << 20)
    journal = Journal(disk / "journal", fence=1)
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(512 << 10))
    accepted = 0
    while journal.trouble is None:
        with suppress(DiskFullError):
            accepted += journal.submit(LINE * 5000, 5000, []).result().accepted
    assert accepted
    with pytest.raises(DiskFullError):
        journal.submit(LINE * 50_000, 50_000, []).result()
    ballast.unlink()
    accepted += journal.submit(LINE * 5000, 5000, []).result().accepted
    journal.close()
    again = Journal(disk / "journal", fence=2)
    assert lines_of(disk / "journal", again.end) == LINE * accepted
    again.close()


# Files are lost or damaged


def filled(folder: Path) -> list[Path]:
    """A journal of three segments, of 10 events each."""
    journal = Journal(folder, fence=1, segment_bytes=1)
    for _ in range(3):
        journal.submit(LINE * 10, 10, []).result()
    journal.close()
    return [segment.path for segment in list_segments(folder)]


def end_of(segment: Path) -> int:
    return int(segment.name[:20]) + segment.stat().st_size


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_segment_that_the_lake_does_not_have_is_named(tmp_path: Path, lost: int) -> None:
    segments = filled(tmp_path)
    start, end = int(segments[lost].name[:20]), int(segments[lost + 1].name[:20])
    segments[lost].unlink()
    with wording.raises(CorruptionError, segments[lost + 1].name, start, end):
        Journal(tmp_path, fence=2)
    Journal(tmp_path, fence=2, lake_end=Position.at(end)).close()  # the lake has it: nothing is lost


def test_a_shortened_segment_that_the_lake_does_not_have_is_named(tmp_path: Path) -> None:
    segments = filled(tmp_path)
    os.truncate(segments[1], 20)
    with wording.raises(CorruptionError, segments[1]):
        Journal(tmp_path, fence=2)


def test_a_lost_last_segment_is_noticed_by_the_durable_end(tmp_path: Path) -> None:
    segments = filled(tmp_path)
    end = end_of(segments[2])
    segments[2].unlink()
    with wording.raises(CorruptionError, f"{tmp_path}/durable", end):
        Journal(tmp_path, fence=2)
    (tmp_path / "durable").unlink()
    again = Journal(tmp_path, fence=2)
    assert lines_of(tmp_path, again.end) == LINE * 20
    again.close()


@pytest.mark.parametrize("content", [None, b"", b"garbage bytes", bytes(12)])
def test_a_lost_or_damaged_durable_end_is_found_again(tmp_path: Path, content: bytes | None) -> None:
    end = end_of(filled(tmp_path)[2])
    (tmp_path / "durable").unlink()
    if content is not None:
        (tmp_path / "durable").write_bytes(content)
    again = Journal(tmp_path, fence=2)
    assert again.end.offset() == read_durable(tmp_path) == end
    (tmp_path / "durable").unlink()  # also while it runs
    again.mend()
    again.close()
    assert read_durable(tmp_path) == end


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    end = end_of(filled(tmp_path)[-1])
    others = [tmp_path / name for name in ("copy of a segment.seg", "notes.txt", "00000000000000000000.seg.bak")]
    for other in others:
        other.write_bytes(b"x")
    journal = Journal(tmp_path, fence=2)
    assert journal.end.offset() == end
    journal.reclaim(journal.end)
    journal.close()
    assert [other.read_bytes() for other in others] == [b"x"] * len(others)


@given(st.integers(0, 3), st.integers(0, 4))
def test_a_missing_file_is_named_never_skipped(tmp_path_factory: pytest.TempPathFactory, lost: int, first: int) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder, fence=1, segment_bytes=1)
    starts = [0, *(journal.submit(LINE, 1, []).result().end.offset() for _ in range(4))]
    list_segments(folder)[lost].path.unlink()
    for read in (lambda: cut(folder, starts[first], starts[4], 10, 10**6), lambda: list(spans(folder, 0, starts[4]))):
        if first <= lost:
            with pytest.raises(CorruptionError, match=f"does not contain position {starts[lost]}"):
                read()
    assert cut(folder, starts[lost + 1], starts[4], 10**6, 10**6) == (
        [] if lost == 3 else [(starts[n], starts[n + 1]) for n in range(lost + 1, 4)]
    )
    journal.close()
