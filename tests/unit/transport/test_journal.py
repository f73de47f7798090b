"""The journal: durable, torn records cut off whole, positions used once, keys remembered."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CorruptionError, FencedError
from headrace.transport.journal import KEY_WINDOW_US, Journal
from headrace.transport.record import cut, list_segments, read_durable, walk

LINE = b'{"a":1}\n'


def lines_of(folder: Path, end: int) -> bytes:
    found = b""
    for segment in list_segments(folder):
        for record in walk(segment, segment.start, min(end, segment.end)):
            data = segment.path.read_bytes()
            found += data[record.payload_position - segment.start : record.end - segment.start]
    return found


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    journal = Journal(tmp_path, fence=1)
    receipts = [journal.submit(LINE * n, n, []).result() for n in (1, 2, 3)]
    assert [r.accepted for r in receipts] == [1, 2, 3]
    assert read_durable(tmp_path) == journal.end == receipts[-1].end
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
    whole = journal.end
    journal.submit(LINE * 5, 5, []).result()
    journal.close()
    segment = list_segments(folder)[-1]
    os.truncate(segment.path, min(whole + cut_at, segment.end - 1))
    with segment.path.open("ab") as file:
        file.write(garbage)
    (folder / "durable").unlink()  # as after a loss of power: it is not synced
    again = Journal(folder, fence=2)
    assert again.end == whole
    assert again.submit(LINE * 2, 2, []).result().end > whole
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
    with pytest.raises(CorruptionError, match="is damaged at position 0"):
        Journal(tmp_path, fence=2)


def test_a_lost_journal_goes_on_behind_the_lake(tmp_path: Path) -> None:
    journal = Journal(tmp_path, fence=1, lake_end=12345)
    assert journal.end == 12345
    assert journal.submit(LINE, 1, []).result().end > 12345
    journal.close()


def test_a_retried_key_gives_its_receipt_after_a_restart_and_for_a_day(tmp_path: Path) -> None:
    now = [10**15]
    journal = Journal(tmp_path, fence=1, clock_us=lambda: now[0])
    first = journal.submit(LINE, 1, [{"index": 1, "reason": "bad"}], key="k", digest="d").result()
    journal.close()
    again = Journal(tmp_path, fence=2, clock_us=lambda: now[0])
    assert again.recall("k") == first
    assert again.recall("other") is None
    now[0] += KEY_WINDOW_US + 1
    assert again.recall("k") is None
    again.close()


def test_a_writer_that_lost_its_lease_acknowledges_nothing(tmp_path: Path) -> None:
    def taken() -> None:
        raise FencedError("taken over")

    journal = Journal(tmp_path, fence=1, still_mine=taken)
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
    old.submit(LINE * 9, 9, []).result()  # written into its own segment, behind where the new one begins
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
    end, position = journal.end, 0
    while position < end:
        ranges = cut(folder, position, end, target, most)
        assert ranges
        for start, stop in ranges:
            assert start == position < stop
            position = stop
    assert position == end
    journal.close()
