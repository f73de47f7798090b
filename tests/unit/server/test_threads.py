"""Threads are joined by handle; one that does not end in time is reported, and not waited for longer."""

from __future__ import annotations

import threading
import time
from typing import Any

from headrace.server.threads import AppendSupervisor, join_all


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


class StartedMeanwhile:
    """An append that another thread starts while it is looked at."""

    error = None
    failed_transiently = False

    def __init__(self) -> None:
        self.starts = 0

    def is_active(self) -> bool:
        return self.starts > 0

    def is_orphaned(self) -> bool:
        self.start()
        return self.starts == 1

    def failure(self) -> None:
        return None

    def start(self) -> None:
        self.starts += 1


def test_an_append_that_was_started_meanwhile_has_not_failed() -> None:
    append: Any = StartedMeanwhile()
    supervisor = AppendSupervisor("s", append)
    supervisor.check()
    assert supervisor.restarting is not None
    supervisor.restarting.join(30)
    assert append.starts == 1
    assert supervisor.error is None
