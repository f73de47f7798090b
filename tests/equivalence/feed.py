"""Events on their way into a bench: posted in requests of random size, committed in random pieces, remembered."""

from __future__ import annotations

import random
from itertools import pairwise

from headrace.transport.position import Position, Range

from .bench import Bench
from .generate import BAD, to_json
from .reference import Event


class Feed:
    """Posts events and makes commits of them; knows which events are in which commit."""

    def __init__(self, bench: Bench, chance: random.Random) -> None:
        self.bench = bench
        self.chance = chance
        self.dead = 0  # letters
        self.commits: list[list[Event]] = []  # the events of each commit
        self.idle_us: dict[int, int] = {}  # commits without events, and what they say of the stream's time
        self._posted: list[tuple[Position, list[Event]]] = []  # not committed yet, with the journal's end after them
        self._posts = 0

    def send(self, events: list[Event]) -> None:
        """Post the events in requests of random size, some of them again, with broken lines between them."""
        at, chance = 0, self.chance
        while at < len(events):
            size = chance.randint(1, 30)
            self._post(events[at : at + size])
            at += size

    def _post(self, events: list[Event]) -> None:
        chance = self.chance
        lines = [(to_json(event, chance), True) for event in events]
        for _ in range(chance.choice([0, 0, 1, 3])):
            lines.insert(chance.randint(0, len(lines)), (chance.choice(BAD), False))
        keep_bad = chance.random() < 0.5
        bad = [index for index, (_, good) in enumerate(lines) if not good]
        self._posts += 1
        for _ in range(chance.choice([1, 1, 2])):
            reply = self.bench.post([line for line, _ in lines], f"key-{self._posts}", keep_bad=keep_bad)
            assert [r["index"] for r in reply.refused] == ([] if keep_bad else bad)
            assert reply.accepted == len(lines) - (0 if keep_bad else len(bad))
        self.dead += len(bad) if keep_bad else 0
        self._posted.append((self.bench.journal.end, events))

    def commit_some(self) -> bool:
        """Commit some of the journal's next records, in one or more ranges; returns whether there were any."""
        bench, chance = self.bench, self.chance
        start = bench.table.state.position
        if start.covers(bench.journal.end):
            return False
        if bench.table.state.time_us is not None and chance.random() < 0.2:
            self._be_idle()
        ends = [start.offset(), *(end.offset() for end, _ in self._posted)]
        whole = [Range(0, first, last) for first, last in pairwise(ends) if first < last]  # a request each
        take = whole[: chance.randint(1, len(whole))]
        ranges, target = [], chance.choice([1, 2, len(take)])
        for i in range(0, len(take), target):
            part = take[i : i + target]
            ranges.append(Range(part[0].partition, part[0].start, part[-1].end))
        bench.commit(ranges[:3])
        self._note()
        return True

    def _be_idle(self) -> None:
        number = self.bench.table.state.next_commit
        self.idle_us[number] = self.bench.be_idle(self.chance.randint(1, 3 * 3_600_000_000))
        self.commits.append([])

    def commit_all(self) -> None:
        """One commit of all that is left."""
        if not self.bench.table.state.position.covers(self.bench.journal.end):
            self.bench.commit()
            self._note()

    def _note(self) -> None:
        state = self.bench.table.state
        landed = [events for end, events in self._posted if state.position.covers(end)]
        self._posted = self._posted[len(landed) :]
        assert state.next_commit == len(self.commits) + 1
        self.commits.append([event for events in landed for event in events])

    def events(self, to_commit: int) -> list[Event]:
        """Those of commits [0, to_commit)."""
        return [event for commit in self.commits[:to_commit] for event in commit]
