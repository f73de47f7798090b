"""A session that runs but cannot run tasks is noticed: its context was stopped, or it has no executors."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.spark import process
from headrace.spark.process import GIVEN_UP_S, NO_EXECUTORS_S, SparkProcess, _Executors
from tests import wording


class Session:
    """A session as the process sees it; time passes when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.executors, self.alive = 0.0, 1, True
        monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        monkeypatch.setattr(process, "executors", lambda session: session.executors)
        monkeypatch.setattr(process, "is_alive", lambda session: session.alive)
        self.spark = SparkProcess(lambda start: self, lambda session: None, threading.Event())  # type: ignore[arg-type, return-value]
        self._watch = _Executors(self)  # type: ignore[arg-type]

    def look(self, after_s: float = 0.0) -> tuple[str | None, str | None]:
        """Why it is replaced, if it is, and the trouble that is reported."""
        self.now_s += after_s
        session: Any = self
        return self.spark._look(session, self._watch), self.spark.trouble


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    return Session(monkeypatch)


def test_a_session_with_executors_is_left_alone(session: Session) -> None:
    assert session.look(GIVEN_UP_S) == (None, None)
    assert session.look(GIVEN_UP_S) == (None, None)


def test_executors_that_come_back_end_the_trouble(session: Session) -> None:
    session.look()
    session.executors = 0
    assert session.look(NO_EXECUTORS_S - 1) == (None, None)
    ended, trouble = session.look(1)
    assert ended is None
    wording.check(trouble, 30)
    session.executors = 2
    assert session.look(1) == (None, None)


def test_a_session_that_stays_without_executors_is_replaced(session: Session) -> None:
    session.look()
    session.executors = 0
    wording.check(session.look(GIVEN_UP_S)[0], 120)


def test_a_context_that_was_stopped_is_replaced_though_java_runs(session: Session) -> None:
    session.alive = False
    wording.check(session.look()[0])
