"""A bell: rung when there is something new, by any thread; threads and coroutines wait for the next ring."""

from __future__ import annotations

import asyncio
import threading
import weakref


class Notifier:
    """Whoever waits passes the number of rings that it knows, so that no ring is missed between two waits."""

    def __init__(self) -> None:
        self._rings = 0
        self._changed = threading.Condition()
        self._loops: dict[asyncio.AbstractEventLoop, asyncio.Event] = {}  # one event for all that wait in a loop
        self._followers: weakref.WeakSet[Notifier] = weakref.WeakSet()

    def listen(self, follower: Notifier) -> None:
        """Ring another bell whenever this one is rung, as long as that one is used."""
        with self._changed:
            self._followers.add(follower)

    @property
    def rings(self) -> int:
        """How often it was rung."""
        return self._rings

    def ring(self) -> None:
        """Wake all that wait."""
        with self._changed:
            self._rings += 1
            self._changed.notify_all()
            loops, self._loops = self._loops, {}
            followers = list(self._followers)
        for follower in followers:
            follower.ring()
        for loop, event in loops.items():
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:
                continue  # the loop has ended, and with it who waited

    def wait(self, known: int, timeout_s: float) -> bool:
        """Wait in a thread until it was rung more often than this; False if the time is over."""
        with self._changed:
            return self._changed.wait_for(lambda: self._rings > known, timeout_s)

    async def heard(self, known: int, timeout_s: float) -> bool:
        """The same in a coroutine."""
        loop = asyncio.get_running_loop()
        with self._changed:
            if self._rings > known:
                return True
            event = self._loops.setdefault(loop, asyncio.Event())
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
            return True
        except TimeoutError:
            return False
