"""The files of subscriptions: damage, full disks, take-overs; and limits of what members may do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.deliver.subscription_state import RecordFile
from headrace.deliver.subscriptions import Subscriptions
from headrace.errors import ConflictError, CorruptionError, DiskFullError, FencedError, NotFoundError, QuestionError
from tests import wording
from tests.unit.deliver.numbers import Numbers


def open_all(folder: Path, end: int = 10, still_mine: Callable[[], None] = lambda: None) -> Subscriptions:
    source = Numbers(end)
    return Subscriptions(folder, lambda terms: source, still_mine)


def test_a_damaged_file_is_refused_alone(tmp_path: Path) -> None:
    subscriptions = open_all(tmp_path)
    for name in ("good", "bad"):
        subscriptions.create(name, stream="numbers", start="earliest")
        assert subscriptions.queue(name).take("a", 1, 10)
        assert subscriptions.queue(name).take("a", 1, 10)
    subscriptions.close()
    content = (tmp_path / "bad.log").read_bytes()
    (tmp_path / "bad.log").write_bytes(content.replace(b'"deliver":1', b'"deliver":7'))
    again = open_all(tmp_path)
    assert again.queue("good").take("b", 1, 10)
    assert list(again.problems()) == ["bad"]
    for use in (lambda: again.queue("bad"), lambda: again.create("bad", stream="numbers")):
        with wording.raises(CorruptionError, 3):
            use()
    again.drop("bad")
    assert not again.problems()
    assert again.create("bad", stream="numbers").delivered == 0
    for cut in (b"", content.split(b"\n")[0] + b"\n"):
        (tmp_path / "bad.log").write_bytes(cut)
        with wording.raises(CorruptionError):
            RecordFile.read(tmp_path / "bad.log")


def test_what_a_full_disk_cannot_hold_has_not_happened(small_disk: Callable[[int], Path]) -> None:
    folder = small_disk(64 << 10)
    subscriptions = open_all(folder / "subscriptions")
    subscriptions.create("s", stream="numbers", start="earliest")
    queue = subscriptions.queue("s")
    batch = queue.take("a", 2, 10)
    assert batch
    assert batch.lease
    (folder / "filler").write_bytes(b"x" * ((64 << 10) - 4096 - 4096))

    def fill() -> None:
        for _ in range(100):
            other = queue.take("b", 1, 10_000)
            assert other
            assert other.lease
            queue.give_back([other.lease])

    with wording.raises(DiskFullError, "s"):
        fill()
    before = queue.status()
    (folder / "filler").unlink()
    assert queue.status() == before
    assert queue.acknowledge([batch.lease]) == 2
    subscriptions.close()
    assert open_all(folder / "subscriptions").queue("s").status().acknowledged == 2


def test_a_process_that_was_taken_over_confirms_nothing(tmp_path: Path) -> None:
    holder = [1]

    def still_mine() -> None:
        if holder != [1]:
            raise FencedError("another process has the workspace")

    old = open_all(tmp_path, still_mine=still_mine)
    old.create("s", stream="numbers", start="earliest")
    batch = old.queue("s").take("a", 2, 10)
    assert batch
    assert batch.lease
    holder[0] = 2
    new = open_all(tmp_path)
    with pytest.raises(FencedError):
        old.queue("s").acknowledge([batch.lease])
    assert new.queue("s").status().in_flight == 2
    assert open_all(tmp_path).queue("s").status().in_flight == 2  # the other wrote to a file that has no name


def test_limits(tmp_path: Path) -> None:
    subscriptions = open_all(tmp_path)
    subscriptions.create("s", stream="numbers", start="earliest")
    queue = subscriptions.queue("s")
    first = queue.take("a", 5, 3)
    assert first
    assert len(first.lines) == 3  # its credit
    assert queue.take("a", 5, 3) is None
    assert queue.take("b", 5, 100) is not None
    assert first.lease
    with pytest.raises(QuestionError, match="has no event 9"):
        queue.acknowledge([first.lease], ["9"])
    with wording.raises(QuestionError):
        queue.acknowledge([first.lease, first.lease], ["0"])
    with wording.raises(QuestionError):
        queue.acknowledge(["7"])
    assert queue.acknowledge(["99.1.00000000"]) == 0  # of a batch that was lost with the power
    subscriptions.drop("s")
    with wording.raises(NotFoundError, "s"):
        subscriptions.queue("s")
    with wording.raises(ConflictError):
        queue.take("a", 1, 1)
    for name in ("", "a/b", "..", "x" * 101, "a b"):
        with wording.raises(QuestionError):
            subscriptions.create(name, stream="numbers")


def test_the_lag_counts_no_event_twice_while_others_take_batches(tmp_path: Path) -> None:
    class Busy(Numbers):
        def lag(self, cursor: str) -> int | None:
            assert subscriptions.queue("s").take("a", 2, 10)  # between two reads of the state
            return super().lag(cursor)

    source = Busy(10)
    subscriptions = Subscriptions(tmp_path, lambda terms: source, lambda: None)
    subscriptions.create("s", stream="numbers", start="earliest")
    for _ in range(3):
        assert subscriptions.queue("s").status().lag == 10
