"""Notifies threads and coroutines that there is something new."""

from __future__ import annotations

import asyncio
import threading
import weakref


class Notifier:
    """Counts notifications. A waiter passes the count that it knows, so that it misses none between two waits."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()
        self._loops: dict[asyncio.AbstractEventLoop, asyncio.Event] = {}  # one event for all that wait in a loop
        self._others: weakref.WeakSet[Notifier] = weakref.WeakSet()

    def forward_to(self, other: Notifier) -> None:
        """Notify another one, too, as long as that one is used."""
        with self._changed:
            self._others.add(other)

    @property
    def count(self) -> int:
        """The number of notifications."""
        return self._count

    def notify(self) -> None:
        """Wake all that wait, from any thread."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()
            loops, self._loops = self._loops, {}
            others = list(self._others)
        for other in others:
            other.notify()
        for loop, event in loops.items():
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:
                continue  # the loop has ended, and with it who waited

    def wait(self, known: int, timeout_s: float) -> bool:
        """Wait in a thread until there are more notifications than these; False if the time is over."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count > known, timeout_s)

    async def wait_async(self, known: int, timeout_s: float) -> bool:
        """Wait in a coroutine."""
        loop = asyncio.get_running_loop()
        with self._changed:
            if self._count > known:
                return True
            event = self._loops.setdefault(loop, asyncio.Event())
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
            return True
        except TimeoutError:
            return False
