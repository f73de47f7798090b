"""A bell: rung when there is something new, by any thread; threads and coroutines wait for the next ring."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable


class Bell:
    """Whoever waits passes the number of rings that it knows, so that no ring is missed between two waits."""

    def __init__(self) -> None:
        self._rings = 0
        self._changed = threading.Condition()
        self._waiters: dict[object, Callable[[], None]] = {}
        self._followers: weakref.WeakSet[Bell] = weakref.WeakSet()

    def listen(self, follower: Bell) -> None:
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
            waiters = list(self._waiters.values())
            self._waiters.clear()
            followers = list(self._followers)
        for follower in followers:
            follower.ring()
        for wake in waiters:
            wake()

    def wait(self, known: int, timeout_s: float) -> bool:
        """Wait in a thread until it was rung more often than this; False if the time is over."""
        with self._changed:
            return self._changed.wait_for(lambda: self._rings > known, timeout_s)

    async def heard(self, known: int, timeout_s: float) -> bool:
        """The same in a coroutine."""
        loop, key = asyncio.get_running_loop(), object()
        ring = asyncio.Event()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(ring.set)
            except RuntimeError:
                return  # the loop has ended, and with it who waited

        with self._changed:
            if self._rings > known:
                return True
            self._waiters[key] = wake
        try:
            async with asyncio.timeout(timeout_s):
                await ring.wait()
            return True
        except TimeoutError:
            return False
        finally:
            with self._changed:
                self._waiters.pop(key, None)
