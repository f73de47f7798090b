"""Watches what one alert reads: the changed rows of its view, or whether events come."""

from __future__ import annotations

import heapq
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.alert.condition import Condition
from headrace.alert.course import Rules, absent, note_rows, note_time
from headrace.alert.incident import Clock, Observation
from headrace.alert.state import AlertState, Notice, key_text, read_state, write_state
from headrace.define.fingerprint import fingerprint
from headrace.define.model import Alert, View
from headrace.serve.change_cursor import Cursor
from headrace.serve.changes import ChangeBatch, changes_after
from headrace.serve.follower import ViewFollower
from headrace.store.base import Store
from headrace.store.version import Version

ROWS_AT_ONCE = 5_000
NEVER_US = -(1 << 62)  # before all times
CURSOR_KEPT_S = 10.0  # how often a cursor is kept while nothing else changes
KeyedObservation = tuple[Mapping[str, Any], Observation]  # a key, and what the alert sees of its row
MOST_KEYS = 1_000_000  # of a view whose keys are watched for absence


def follower_name(alert: str) -> str:
    """What the store knows an alert by, among those who follow views."""
    return f"alert:{alert}"


class Watch(ABC):
    """One alert at work: its state, and the file that it is kept in.

    One thread calls `step`; the one that delivers notices changes the state too.
    """

    def __init__(self, alert: Alert, rules: Rules, file: Path) -> None:
        self.alert, self.rules, self._file = alert, rules, file
        self._changing = threading.Lock()
        self._saved_s = time.monotonic()
        self.state = read_state(file)
        condition = fingerprint(replace(alert, options=()))  # where notices go is not part of it
        if self.state.fingerprint != condition:  # what fired by another condition is no incident of this one
            silences = self.state.silences
            self.update(lambda _: AlertState(condition, silences=silences))

    def update(self, change: Callable[[AlertState], AlertState]) -> None:
        """Change the state, on disk first. A new cursor alone can wait: rows that come twice change nothing."""
        with self._changing:
            state = change(self.state)
            is_due = time.monotonic() - self._saved_s > CURSOR_KEPT_S
            if replace(state, cursor=None) != replace(self.state, cursor=None) or is_due:
                write_state(self._file, state)
                self._saved_s = time.monotonic()
            self.state = state

    @abstractmethod
    def step(self, now_us: int) -> bool:
        """Look at what is new; whether there is more to look at."""

    def delivered(self, notice: Notice, target: str) -> None:
        """A target has got a notice."""

        def without(each: Notice) -> Notice:
            return replace(each, targets=tuple(name for name in each.targets if name != target))

        def change(state: AlertState) -> AlertState:
            notices = (without(each) if each.id == notice.id else each for each in state.notices)
            return replace(state, notices=tuple(each for each in notices if each.targets))

        self.update(change)


class StreamWatch(Watch):
    """An alert for the absence of events of a stream. It goes by the clock."""

    def __init__(
        self, alert: Alert, rules: Rules, file: Path, events: Callable[[], tuple[int, str | None] | None]
    ) -> None:
        super().__init__(alert, rules, file)
        self._events = events  # how many the stream has, and the time of the newest; None while that is not known

    def step(self, now_us: int) -> bool:
        """Look whether events have come."""
        known = self._events()
        if known is not None:
            events, newest = known
            row = {"stream": self.alert.source, "events": events, "newest_event": newest}
            absent_us = (self.alert.absent_ms or 0) * 1000
            self.update(lambda state: absent(state, self.rules, events, absent_us, now_us, row))
        return False


class ViewWatch(Watch):
    """An alert on the rows of a view. It goes by the time of the view's events."""

    def __init__(self, alert: Alert, rules: Rules, file: Path, store: Store) -> None:
        super().__init__(alert, rules, file)
        self._store = store
        self._follower = ViewFollower(store, alert.source, follower_name(alert.name))
        self._follower.follow()
        self._view: View | None = None
        self._condition: Condition | None = None
        self._ends = _Ends(alert) if alert.absent_ms is not None else None
        # The newest window of each key is known only after all rows were read.
        self._cursor = None if self._ends or self.state.cursor is None else Cursor.from_text(self.state.cursor)

    def step(self, now_us: int) -> bool:
        """Look at the next changes."""
        alert = self.alert
        batch = changes_after(
            self._store,
            alert.source,
            self._cursor,
            limit=ROWS_AT_ONCE,
            on_close=alert.on_close,
            corrections=not alert.on_close,
        )
        version = self._store.read(lambda snapshot: snapshot.serving(alert.source))
        if version is None or version.number != batch.version:
            return True  # another version has begun to serve; its rows come next
        clock = _clock(version)
        rows = self._observed(batch, version, clock) if clock else []
        # Time goes on only once all rows up to it were looked at.
        more = batch.more or batch.cursor.tick != version.total("applied_to")

        def change(state: AlertState) -> AlertState:
            if clock is not None:
                state = note_rows(state, self.rules, rows, clock)
                state = state if more else note_time(state, self.rules, clock, now_us)
            return replace(state, cursor=batch.cursor.to_text())

        self.update(change)
        self._cursor = batch.cursor
        self._follower.passed(batch.cursor)
        return more

    def _observed(self, batch: ChangeBatch, version: Version, clock: Clock) -> list[KeyedObservation]:
        """The rows as the alert sees them, the oldest window first.

        Of windows that overlap only those are looked at whose last step has begun: later ones lack most of their
        events.
        """
        condition = self._compiled(batch, version.view)
        at = (batch.version, batch.commit)
        rows: list[KeyedObservation] = [(condition.key(row), condition.observe(row, *at)) for row in batch.upserts]
        rows += [(condition.key(row), condition.observe_gone(row, *at)) for row in batch.deletes]
        rows = [
            (key, observation)
            for key, observation in rows
            if observation.start_us is None or observation.start_us <= clock.time_us
        ]
        rows.sort(key=lambda row: row[1].end_us or 0)
        return rows if self._ends is None else self._ends.note(rows, clock)

    def _compiled(self, batch: ChangeBatch, view: View) -> Condition:
        if self._condition is None or self._view != view:
            keys = [key.name for key in view.keys]
            self._condition = Condition(self.alert, batch.columns, keys, view.window)
            self._view = view
        return self._condition


class _Ends:
    """Up to when each key of a view had events, and which of them have had none for too long."""

    def __init__(self, alert: Alert) -> None:
        self._absent_us = (alert.absent_ms or 0) * 1000
        self._ends: dict[str, tuple[int, Mapping[str, Any], Observation]] = {}
        self._oldest: list[tuple[int, str]] = []  # a heap; entries that are no longer true are left in it

    def note(self, rows: Sequence[KeyedObservation], clock: Clock) -> list[KeyedObservation]:
        """Rows as the alert sees them: one that matches for each key without events, one that does not for others."""
        again: list[KeyedObservation] = []
        for key, observation in rows:
            text, end_us = key_text(key), observation.end_us or 0
            if text in self._ends and self._ends[text][0] >= end_us:
                continue
            if text in self._ends or len(self._ends) < MOST_KEYS:
                self._ends[text] = (end_us, key, observation)
                heapq.heappush(self._oldest, (end_us, text))
            if end_us + self._absent_us > clock.time_us:
                again.append((key, replace(observation, matches=False, settled=True, start_us=None, end_us=None)))
        return again + list(self._absent(clock))

    def _absent(self, clock: Clock) -> Iterable[KeyedObservation]:
        while self._oldest and self._oldest[0][0] + self._absent_us <= clock.time_us:
            end_us, text = heapq.heappop(self._oldest)
            known_us, key, observation = self._ends[text]
            if known_us == end_us:
                yield (
                    key,
                    replace(observation, row={**key, **observation.row}, matches=True, start_us=None, end_us=None),
                )


def _clock(version: Version) -> Clock | None:
    """The time of a view; None before its first event."""
    times = [base.time_us for base in version.bases if base.time_us is not None]
    if not times:
        return None
    settled_us = version.settled_us
    return Clock(max(times), NEVER_US if settled_us is None else settled_us)
