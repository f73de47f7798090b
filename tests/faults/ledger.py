"""The clicks that a server was sent, and the expected answers for those that were acknowledged: the reference."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

Event = dict[str, Any]
Total = tuple[int, int, int]  # events, sum of ids, greatest id
LIMITS = range(2, 11)  # what `WHERE weight < ...` may say
TOO_HEAVY = 10**10  # for an INT


class Ledger:
    """Events in the order in which they count, and every state that an answer may show."""

    def __init__(self, seed: int) -> None:
        self.events: list[Event] = []
        self.dead: dict[str, list[Event]] = defaultdict(list)  # by the field that cannot hold its value yet
        self._chance = random.Random(seed)
        self._next_id = 0
        self._hoped: list[Event] = []  # dead letters of a replay that may have been committed, until that is known
        self._states: dict[int, set[Total]] = {limit: {(0, 0, 0)} for limit in LIMITS}

    def make(self, count: int, too_heavy: str | None = None) -> list[Event]:
        """New events: most follow each other, some come late; `too_heavy` is a field that makes them dead letters."""
        events = []
        for number in range(self._next_id, self._next_id + count):
            second = number if self._chance.random() < 0.8 else self._chance.randrange(number + 1)
            event = {
                "id": number,
                "who": f"w{self._chance.randrange(7)}",
                "weight": self._chance.randrange(10),
                "at": f"2026-04-01T{10 + second // 3600 % 10:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z",
            }
            events.append(event | ({too_heavy: TOO_HEAVY} if too_heavy else {}))
        self._next_id += count
        return events

    def intend(self, events: list[Event]) -> None:
        """They are in flight: from now on an answer may include them, all or none."""
        for limit, states in self._states.items():
            states.add(total([*self.events, *events], limit))
            states.add(total([*self.events, *self._hoped, *events], limit))

    def hope(self, letters: list[Event]) -> None:
        """They are replayed: an answer may show them, with or without what follows, until the list is emptied."""
        self.intend(letters)
        self._hoped = letters

    def count(self, events: list[Event]) -> None:
        """They were acknowledged: from now on every answer must include them."""
        self.events += events

    def shows(self, answer: Total, limits: set[int]) -> bool:
        """Whether one of these definitions could give this answer, at some time up to now."""
        return any(answer in self._states[limit] for limit in limits)


def total(events: list[Event], limit: int) -> Total:
    """The view `total` in plain Python."""
    ids = [event["id"] for event in events if event["weight"] < limit]
    return len(ids), sum(ids), max(ids, default=0)


def per_minute(events: list[Event], limit: int) -> dict[tuple[str, str], tuple[int, int]]:
    """The view `per_minute` in plain Python, by minute and who."""
    counts, weights = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for event in events:
        if event["weight"] < limit:
            key = event["at"][:17] + "00Z", event["who"]
            counts[key] += 1
            weights[key] += event["weight"]
    return {key: (counts[key], weights[key]) for key in counts}
