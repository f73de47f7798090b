"""A subscription against a plain model: members, acknowledgements in any order, time-outs, kills, losses of power."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import orjson
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.deliver import subscription_queue as queue_module
from headrace.deliver.delivery_status import AT_LEAST_ONCE, AT_MOST_ONCE
from headrace.deliver.subscription_queue import Delivery
from headrace.deliver.subscription_state import RecordFile
from headrace.deliver.subscriptions import Subscriptions
from tests.unit.deliver.numbers import Numbers

TIMEOUT_MS = 5_000
MEMBERS = st.sampled_from(["a", "b", "c"])


class Machine(RuleBasedStateMachine):
    """`held` is what members have: the numbers of each lease, and until when. What is in `acked` was acknowledged."""

    guarantee = AT_LEAST_ONCE
    repeats = True

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.now_ms = 1_000_000
        self.source = Numbers(5, selects=2, repeats=self.repeats)
        self.next = 0  # the first number that was never delivered
        self.leases: dict[str, tuple[str, set[int], int]] = {}  # member, numbers, deadline; also those that are over
        self.current: dict[int, str] = {}  # number -> its newest lease
        self.acked: set[int] = set()
        self.delivered: list[int] = []
        self.synced = 0
        self.open()
        self.subscriptions.create(
            "s", stream="numbers", guarantee=self.guarantee, start="earliest", timeout=f"{TIMEOUT_MS} ms"
        )

    def open(self) -> None:
        self.subscriptions = Subscriptions(
            Path(self.folder.name), lambda terms: self.source, lambda: None, lambda: self.now_ms
        )

    @property
    def path(self) -> Path:
        return Path(self.folder.name) / "s.log"

    def is_held(self, number: int) -> bool:
        lease = self.current.get(number)
        return lease is not None and self.leases[lease][2] > self.now_ms

    def unacked(self) -> set[int]:
        return {n for n in self.delivered if n not in self.acked}

    # What happens

    @rule(count=st.integers(1, 9))
    def append(self, count: int) -> None:
        self.source.end += count

    @rule(ms=st.integers(1, TIMEOUT_MS))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

    @rule(member=MEMBERS, limit=st.integers(1, 4), credit=st.integers(1, 6))
    def take(self, member: str, limit: int, credit: int) -> None:
        held = {n for n in self.unacked() if self.is_held(n) and self.leases[self.current[n]][0] == member}
        waiting = {n for n in self.unacked() if not self.is_held(n)}
        delivery = self.subscriptions.queue("s").take(member, limit, credit)
        if len(held) >= credit:
            assert delivery is None
        elif self.guarantee == AT_LEAST_ONCE and waiting:
            assert delivery is not None
            numbers = self.numbers(delivery)
            assert numbers <= waiting, "what somebody holds, or has acknowledged, was delivered again"
            assert delivery.attempt > 1
            self.hold(delivery, member)
        else:
            fresh = [n for n in range(self.next, self.source.end) if n % 2 == 0][: min(limit, credit - len(held))]
            assert self.numbers(delivery) == set(fresh)
            self.delivered += fresh
            if fresh:
                self.next = fresh[-1] + 1
            if delivery is not None:
                self.hold(delivery, member)

    def hold(self, delivery: Delivery, member: str) -> None:
        if delivery.lease is None:
            return
        self.leases[delivery.lease] = (member, self.numbers(delivery), self.now_ms + TIMEOUT_MS)
        self.current |= dict.fromkeys(self.numbers(delivery), delivery.lease)

    @staticmethod
    def numbers(delivery: Delivery | None) -> set[int]:
        return {orjson.loads(line) for line in delivery.lines} if delivery else set()

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def acknowledge(self, data: Any) -> None:
        """Also by a member whose time is over."""
        lease = data.draw(st.sampled_from(sorted(self.leases)))
        count = self.subscriptions.queue("s").acknowledge([lease])
        assert count == len(self.leases[lease][1] - self.acked)
        self.acked |= self.leases[lease][1]
        self.note_sync()

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def acknowledge_some(self, data: Any) -> None:
        lease = data.draw(st.sampled_from(sorted(self.leases)))
        _, numbers, _ = self.leases[lease]
        some = data.draw(st.sets(st.sampled_from(sorted(numbers))))
        was_open = numbers - self.acked
        self.subscriptions.queue("s").acknowledge([lease], [f"{n}" for n in some])
        self.acked |= some
        self.note_sync()
        newest = {self.current[n] for n in was_open}
        for each in newest:  # whoever holds the rest has another time-out for it, unless it was given back
            holder, of, deadline = self.leases[each]
            if deadline:
                self.leases[each] = (holder, of, self.now_ms + TIMEOUT_MS)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def give_back(self, data: Any) -> None:
        lease = data.draw(st.sampled_from(sorted(self.leases)))
        member, numbers, deadline = self.leases[lease]
        self.subscriptions.queue("s").give_back([lease])
        if deadline > self.now_ms and all(self.current[n] == lease for n in numbers):
            self.leases[lease] = (member, numbers, 0)

    @rule(member=MEMBERS)
    def disconnect(self, member: str) -> None:
        self.subscriptions.queue("s").leave(member)
        for lease, (holder, numbers, deadline) in self.leases.items():
            newest = all(self.current[n] == lease for n in numbers)
            if holder == member and deadline > self.now_ms and newest:
                self.leases[lease] = (holder, numbers, 0)

    @rule(torn=st.binary(max_size=20))
    def kill(self, torn: bytes) -> None:
        """The process ends; a record that it was writing may be torn."""
        with self.path.open("ab") as file:
            file.write(torn.replace(b"\n", b""))
        self.open()

    @invariant()
    def nothing_is_forgotten(self) -> None:
        status = self.subscriptions.queue("s").status()
        if self.guarantee == AT_LEAST_ONCE:
            assert status.in_flight == len(self.unacked())
            assert status.acknowledged == len(self.acked)
        assert status.delivered == len(self.delivered) == len(set(self.delivered))

    def note_sync(self) -> None:
        self.synced = self.path.stat().st_size

    def teardown(self) -> None:
        """Whoever is left gets all the rest."""
        if self.guarantee == AT_LEAST_ONCE:
            self.now_ms += 2 * TIMEOUT_MS
            queue, rest = self.subscriptions.queue("s"), set()
            while (delivery := queue.take("last", 3, 1_000_000)) is not None:
                assert not self.numbers(delivery) & (self.acked | rest)
                rest |= self.numbers(delivery)
                assert delivery.lease is not None
                queue.acknowledge([delivery.lease])
            assert rest | self.acked == {n for n in range(self.source.end) if n % 2 == 0}
            assert queue.status().in_flight == 0
        self.subscriptions.close()
        self.folder.cleanup()


class KeepsContent(Machine):
    """Of a log that cannot be read again."""

    repeats = False


class AtMostOnce(Machine):
    """Nothing comes twice."""

    guarantee = AT_MOST_ONCE


class PowerLoss(Machine):
    """What was not synced may be lost with the power: it is delivered again, and what was acknowledged is not."""

    @rule()
    def lose_power(self) -> None:
        content = self.path.read_bytes()
        self.path.write_bytes(content[: max(self.synced, len(b"\n".join(content.split(b"\n")[:2])) + 1)])
        self.open()
        status = self.subscriptions.queue("s").status()
        assert status.acknowledged == len(self.acked)
        # Whatever the file says was delivered: the rest is as if it had never been.
        assert status.cursor is not None
        self.next = int(status.cursor)
        self.delivered = [n for n in self.delivered if n < self.next]
        self.leases = {}
        self.current = {}
        self.now_ms += 3 * TIMEOUT_MS


class SmallFile(Machine):
    """Its file is replaced often."""

    def __init__(self) -> None:
        self._most = queue_module.MOST_RECORDS
        queue_module.MOST_RECORDS = 4
        super().__init__()

    def teardown(self) -> None:
        super().teardown()
        queue_module.MOST_RECORDS = self._most


_settings = settings(stateful_step_count=30)
for _machine in (Machine, KeepsContent, AtMostOnce, PowerLoss, SmallFile):
    _machine.TestCase.settings = _settings
TestAtLeastOnce = Machine.TestCase
TestKeepsContent = KeepsContent.TestCase
TestAtMostOnce = AtMostOnce.TestCase
TestPowerLoss = PowerLoss.TestCase
TestSmallFile = SmallFile.TestCase


def test_a_torn_end_is_left_out_and_other_damage_is_an_error(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "s.log", lambda: None)
    file.replace([{"terms": {}}, {"state": {}}])
    file.append({"ack": 1})
    file.append({"ack": 2})
    file.close()
    whole = (tmp_path / "s.log").read_bytes()
    for cut in range(len(whole) - 10, len(whole)):
        (tmp_path / "s.log").write_bytes(whole[:cut])
        assert len(RecordFile.read(tmp_path / "s.log")) == 3
