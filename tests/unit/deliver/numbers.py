"""A log of numbers, in place of a stream, for tests of subscriptions."""

from __future__ import annotations

import orjson

from headrace.deliver.notifier import Notifier
from headrace.deliver.subscription_source import SourcePage
from headrace.deliver.subscription_state import SubscriptionBatch


class Numbers:
    """The numbers [0, end); only those that `selects` divides are events. A cursor is the next number."""

    def __init__(self, end: int, selects: int = 1, *, repeats: bool = True) -> None:
        self.end = end
        self.repeats = repeats
        self._selects = selects
        self._notifier = Notifier()

    @property
    def notifier(self) -> Notifier:
        return self._notifier

    def start(self, place: str | None) -> str:
        return "0" if place == "earliest" else f"{self.end}"

    def next(self, cursor: str, limit: int) -> SourcePage:
        numbers = [n for n in range(int(cursor), self.end) if n % self._selects == 0][:limit]
        return self._page(numbers, f"{numbers[-1] + 1}" if len(numbers) == limit else f"{self.end}")

    def again(self, batch: SubscriptionBatch) -> SourcePage:
        if batch.content is not None:
            return SourcePage(tuple(line.encode() for line in batch.content), batch.until, b"[]")
        return self._page([n for n in range(int(batch.after), int(batch.until)) if n % self._selects == 0], batch.until)

    def ids(self, lines: tuple[bytes, ...]) -> list[str]:
        return [f"{orjson.loads(line)}" for line in lines]

    def lag(self, cursor: str) -> int | None:
        return self.end - int(cursor)

    def drop(self) -> None:
        """Nothing to do."""

    def _page(self, numbers: list[int], cursor: str) -> SourcePage:
        return SourcePage(tuple(orjson.dumps(n) for n in numbers), cursor, b"[]")
