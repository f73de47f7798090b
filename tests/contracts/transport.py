"""What every transport must do, by its protocol in `transport_contract.py`; a file of tests gives the `place`."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from headrace.errors import CorruptionError, FencedError, StaleMarkError, UnavailableError
from headrace.transport.position import START, Position, Range
from headrace.transport.sent_files import FilePiece
from headrace.transport.transport_contract import Receipt, Transport

from .read_ranges import Read, read

DAY_S = 24 * 3600
ALL = 1 << 40  # bytes: more than there are


class Place:
    """Where a transport is, and its clocks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_us = 10**15
        self.opened: list[Transport] = []

    def passes(self, seconds: float) -> None:
        self.now_us += int(seconds * 1e6)

    def open(
        self, fence: int = 1, lake_end: Position = START, still_mine: Callable[[], None] = lambda: None
    ) -> Transport:
        self.opened.append(self.make(fence, lake_end, still_mine))
        return self.opened[-1]

    def make(self, fence: int, lake_end: Position, still_mine: Callable[[], None]) -> Transport:
        raise NotImplementedError

    def reopen(self, fence: int = 2, lake_end: Position = START) -> Transport:
        self.opened[-1].close()
        return self.open(fence, lake_end)

    def lose(self) -> None:
        """Everything that the transport holds is gone."""
        self.opened[-1].close()
        shutil.rmtree(self.folder)


def post(transport: Transport, *ids: int, key: str | None = None, file: FilePiece | None = None) -> Receipt:
    """One request of events with these ids."""
    payload = b"".join(b'{"id":%d}\n' % number for number in ids)
    return transport.submit(payload, len(ids), [], key=key, digest="d", file=file).result()


def read_all(transport: Transport, start: Position = START) -> Read:
    return read(transport.reader, transport.reader.ranges(start, transport.end, target_bytes=ALL))


def ids(events: Read) -> list[int]:
    return sorted(orjson.loads(event)["id"] for event, _ in events.values())


def after(start: Position, ranges: list[Range]) -> Position:
    """Where ranges that begin at a position end; they must follow one another."""
    for part in sorted(ranges):
        assert start.offset(part.partition) == part.start < part.end, "a gap or an overlap"
        start = start.merge(Position.at(part.end, part.partition))
    return start


# Accepting


def test_what_was_accepted_is_durable_and_read_once_at_its_positions(place: Place) -> None:
    transport = place.open()
    receipts = []
    for number in range(6):
        receipts.append(post(transport, *range(number * 10, number * 10 + number + 1)))
        place.passes(1)
    assert [receipt.accepted for receipt in receipts] == [1, 2, 3, 4, 5, 6]
    first = read_all(transport)
    assert ids(first) == sorted(number * 10 + i for number in range(6) for i in range(number + 1))
    assert {arrived_us for _, arrived_us in first.values()} == {10**15 + number * 10**6 for number in range(6)}
    again = place.reopen()
    assert read_all(again) == read_all(again) == first
    assert all(again.end.covers(receipt.end) for receipt in receipts)


def test_the_end_covers_a_request_as_soon_as_it_is_acknowledged(place: Place) -> None:
    transport = place.open()
    assert transport.end == transport.reader.end() == START
    for number in range(5):
        before = transport.end
        receipt = post(transport, number)
        assert not before.covers(receipt.end)
        assert transport.end.covers(receipt.end)
        assert transport.end.covers(before)
        assert transport.reader.end() == transport.end
        assert ids(read_all(transport, before)) == [number]


def test_a_key_is_known_for_a_day_also_after_a_restart(place: Place) -> None:
    transport = place.open()
    receipts = {key: post(transport, *range(count), key=key) for count, key in enumerate(("none", "one", "two"))}
    post(transport, 9)
    for opened in (transport, place.reopen()):
        assert {key: opened.recall(key) for key in receipts} == receipts
        assert opened.recall("other") is None
    place.passes(DAY_S + 1)
    assert place.opened[-1].recall("one") is None


def test_how_far_a_file_was_sent_is_as_durable_as_its_events(place: Place) -> None:
    transport = place.open()
    post(transport, 1, 2, key="a", file=FilePiece("log", "m1", start=True))
    post(transport, 3, key="b", file=FilePiece("log", "m2", after="m1"))
    post(transport, 4, key="c", file=FilePiece("other", "m3", start=True))
    for each in (transport, place.reopen()):
        ((content,), (other,)) = each.sent.contents("log"), each.sent.contents("other")
        assert (content.mark, content.events, other.mark, other.events) == ("m2", 3, "m3", 1)
        assert each.end.covers(content.end)
        assert not START.covers(content.end)
        with pytest.raises(StaleMarkError):
            each.sent.check(FilePiece("log", "m2", after="m1"))
        each.sent.check(FilePiece("log", "m4", after="m2"))


def test_a_process_that_was_replaced_acknowledges_nothing(place: Place) -> None:
    def replaced() -> None:
        raise FencedError("taken over")

    transport = place.open(still_mine=replaced)
    with pytest.raises(FencedError):
        post(transport, 1, key="k")
    assert transport.end == START
    assert transport.recall("k") is None


def test_a_transport_that_is_closed_refuses(place: Place) -> None:
    transport = place.open()
    transport.close()
    with pytest.raises(UnavailableError):
        post(transport, 1)


# Ends


def test_ends_never_move_back(place: Place) -> None:
    transport = place.open()
    for number in range(4):
        post(transport, number)
    end, events = transport.end, read_all(transport)
    again = place.reopen(lake_end=end)
    assert again.end == again.reader.end() == end
    post(again, 4)
    last = place.reopen(fence=3)
    post(last, 5)
    assert last.end.covers(end)
    assert ids(read_all(last)) == [0, 1, 2, 3, 4, 5]
    assert events.items() <= read_all(last).items()


def test_a_transport_that_lost_all_continues_after_the_lake(place: Place) -> None:
    transport = place.open()
    for number in range(4):
        post(transport, number)
    lake_end, events = transport.end, read_all(transport)
    place.lose()
    assert lake_end.covers(place.open(fence=2).reader.end())
    again = place.reopen(fence=3, lake_end=lake_end)
    assert again.end == lake_end
    for number in range(4, 8):
        post(again, number)
    new = read_all(again, lake_end)
    assert ids(new) == [4, 5, 6, 7]
    assert not events.keys() & new.keys(), "a position is used twice"


# Reading


@pytest.mark.parametrize("target_bytes", [1, 300, ALL])
@pytest.mark.parametrize("most_bytes", [1, 200, 1000, None])
def test_ranges_tile_whatever_their_size(place: Place, target_bytes: int, most_bytes: int | None) -> None:
    transport = place.open()
    sizes = [1, 30, 2, 7, 50, 1, 1, 12]
    for count in sizes:
        post(transport, *range(count))
    reader, position, events = transport.reader, START, Read()
    largest = 1000  # bytes of a request and its meta
    while position != transport.end:
        ranges = reader.ranges(position, transport.end, target_bytes=target_bytes, most_bytes=most_bytes)
        reached = after(position, ranges)
        assert reached != position, "no progress"
        if most_bytes is None:
            assert reached == transport.end
        else:
            partitions = len(transport.end.offsets)
            assert reader.bytes_between(position, reached) <= most_bytes + partitions * largest
        events |= read(reader, ranges)
        position = reached
    assert events == read_all(transport)
    assert len(events) == sum(sizes)


def test_bytes_between_grow_with_what_lies_there(place: Place) -> None:
    transport = place.open()
    post(transport, 1)
    middle = transport.end
    post(transport, *range(100))
    sizes = [transport.reader.bytes_between(*pair) for pair in ((START, middle), (middle, transport.end))]
    assert transport.reader.bytes_between(START, transport.end) == sum(sizes)
    assert 0 < sizes[0] < sizes[1]
    assert transport.reader.bytes_between(transport.end, transport.end) == 0


READ = """
import pickle, sys
from pathlib import Path
from tests.contracts.read_ranges import read
from headrace.transport.position import START
folder = Path(sys.argv[1])
reader = pickle.loads((folder / "reader").read_bytes())
events = read(reader, reader.ranges(START, reader.end(), target_bytes=1))
(folder / "events").write_bytes(pickle.dumps((reader.end(), events)))
"""


def test_a_fresh_process_reads_the_same(place: Place, tmp_path: Path, run_python: Callable[..., None]) -> None:
    transport = place.open()
    for number in range(4):
        post(transport, number, number + 10)
    (tmp_path / "reader").write_bytes(pickle.dumps(transport.reader))
    run_python(READ, str(tmp_path))
    assert pickle.loads((tmp_path / "events").read_bytes()) == (transport.end, read_all(transport))


# Freshness and upkeep


def test_the_age_of_a_position_is_that_of_the_oldest_event_after_it(place: Place) -> None:
    transport = place.open()
    assert transport.age_ms(START) == 0
    receipts = []
    for number in range(4):
        receipts.append(post(transport, number))
        place.passes(10)
    for opened in (transport, place.reopen()):
        assert opened.age_ms(START) == 40_000
        assert opened.age_ms(receipts[0].end) == 30_000
        assert opened.age_ms(opened.end) == 0


def test_reclaiming_keeps_what_is_not_covered(place: Place) -> None:
    transport = place.open()
    for number in range(6):
        post(transport, number, key=f"k{number}")
    middle = transport.end
    for number in range(6, 12):
        post(transport, number)
    assert transport.reclaim(transport.end) == 0  # a request may be sent again within a day
    assert transport.recall("k0") is not None
    place.passes(2 * DAY_S)
    late = read_all(transport, middle)
    assert transport.reclaim(START) == 0
    assert transport.reclaim(middle) > 0
    assert middle.covers(transport.start)
    assert transport.start != START
    assert read_all(transport, middle) == late
    with pytest.raises(CorruptionError):  # never skipped silently
        read_all(transport)
    assert transport.age_ms(START) != 0  # what is gone is not fresh
    again = place.reopen(lake_end=middle)
    assert read_all(again, middle) == late
    place.passes(2 * DAY_S)
    assert again.reclaim(again.end) > 0
    end = again.end
    last = place.reopen(fence=3, lake_end=end)
    post(last, 12)
    assert ids(read_all(last, end)) == [12]
