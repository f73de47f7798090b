"""Threads are joined by handle; one that does not end in time is reported, and not waited for longer."""

from __future__ import annotations

import threading
import time

from headrace.server.threads import join_all


def test_threads_that_end_are_waited_for() -> None:
    ended = []

    def work() -> None:
        time.sleep(0.05)
        ended.append(True)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    unstarted = threading.Thread(target=work)  # of a stream whose start failed
    assert join_all([None, unstarted, *threads], within_s=30)
    assert ended == [True, True]


def test_a_thread_that_stays_is_not_waited_for_longer() -> None:
    release = threading.Event()
    waited_s: list[float | None] = []

    class Staying(threading.Thread):
        def join(self, timeout: float | None = None) -> None:
            waited_s.append(timeout)
            super().join(timeout)

    staying = [Staying(target=release.wait) for _ in range(3)]
    for thread in staying:
        thread.start()
    assert not join_all([*staying, threading.current_thread()], within_s=0.1)
    assert waited_s[1:] == [0.0, 0.0]  # the time is for all of them together
    release.set()
    assert join_all(staying, within_s=30)
