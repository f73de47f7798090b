"""Watches what one alert reads: the changed rows of its view, or whether events come."""

from __future__ import annotations

import heapq
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from headrace.define.fingerprint import fingerprint
from headrace.define.model import Alert, View
from headrace.define.outgoing_rules import row_types
from headrace.deliver.alerts.advance import EVENTS_ARRIVE, AlertRules, absent, note_rows, note_time, rows_around
from headrace.deliver.alerts.alert_condition import SETTLED, Condition
from headrace.deliver.alerts.alert_state import (
    FOREVER_US,
    NEVER_US,
    AlertState,
    Notice,
    Observation,
    ViewClock,
    key_text,
    read_state,
    write_state,
)
from headrace.deliver.view_reader import ViewReader
from headrace.serve.change_batch import ChangeBatch, ChangeCursor
from headrace.serve.changes import Evaluation, keeps_rows
from headrace.serve.windows import windows_of
from headrace.store.store_contract import Store
from headrace.store.version import Version

ROWS_AT_ONCE = 5_000
CURSOR_KEPT_S = 10.0  # how often a cursor is kept while nothing else changes
KeyedObservation = tuple[Mapping[str, Any], Observation]  # a key, and what the alert sees of its row
RowsOfKey = Callable[[Mapping[str, Any], int, int], list[Observation]]  # whose windows end in (start, end]
MOST_KEYS = 1_000_000  # of a view whose keys are watched for absence


def follower_name(alert: str) -> str:
    """What the store knows an alert by, among those who follow views."""
    return f"alert:{alert}"


class AlertWatch(ABC):
    """One alert at work: its state, and the file that it is kept in.

    One thread calls `step`; the one that delivers notices changes the state too.
    """

    def __init__(self, alert: Alert, rules: AlertRules, file: Path) -> None:
        self.alert, self.rules, self._file = alert, rules, file
        self._changing = threading.Lock()
        self._saved_s = time.monotonic()
        self.state = read_state(file)
        condition = fingerprint(replace(alert, options=()))  # where notices go is not part of it
        if self.state.fingerprint != condition:  # what fired by another condition is no incident of this one
            self.update(lambda state: AlertState(condition, silences=state.silences, written=state.written))
        self._keep_targets()

    def _keep_targets(self) -> None:
        """Forget notices for targets that the alert no longer has, or never had: nobody would get them."""

        def with_targets(notice: Notice) -> Notice:
            return replace(notice, targets=tuple(name for name in notice.targets if name in self.rules.targets))

        notices = tuple(each for each in map(with_targets, self.state.notices) if each.targets)
        if notices != self.state.notices:
            self.update(lambda state: replace(state, notices=notices))

    def update(self, change: Callable[[AlertState], AlertState]) -> None:
        """Change the state, on disk first. A new place alone can wait: rows that come twice change nothing."""
        with self._changing:
            state = change(self.state)
            is_due = time.monotonic() - self._saved_s > CURSOR_KEPT_S
            if _without_place(state) != _without_place(self.state) or is_due:
                write_state(self._file, state)
                self._saved_s = time.monotonic()
            self.state = state

    @abstractmethod
    def step(self, now_us: int) -> bool:
        """Look at what is new; whether there is more to look at."""

    def lag(self) -> int | None:
        """How many commits of its view it has not looked at, if that is known."""
        return None

    def delivered(self, notice: Notice, target: str) -> None:
        """A target has got a notice."""

        def without(each: Notice) -> Notice:
            return replace(each, targets=tuple(name for name in each.targets if name != target))

        def change(state: AlertState) -> AlertState:
            notices = (without(each) if each.id == notice.id else each for each in state.notices)
            return replace(state, notices=tuple(each for each in notices if each.targets))

        self.update(change)


def _without_place(state: AlertState) -> AlertState:
    return replace(state, cursor=None, settled_us=None)


class StreamWatch(AlertWatch):
    """An alert for the absence of events of a stream. It goes by the clock."""

    def __init__(
        self, alert: Alert, rules: AlertRules, file: Path, events: Callable[[], tuple[int, str | None] | None]
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


class ViewWatch(AlertWatch):
    """An alert on the rows of a view. It goes by the time of the view's events."""

    def __init__(self, alert: Alert, rules: AlertRules, file: Path, store: Store) -> None:
        super().__init__(alert, rules, file)
        self._reader = ViewReader(
            store,
            alert.source,
            limit=ROWS_AT_ONCE,
            mode="settled" if rules.on_close else "begun",
            follower=follower_name(alert.name),
        )
        self._reader.follow()
        self._view: View | None = None
        self._condition: Condition | None = None
        self._gaps = _Gaps(alert) if alert.absent_ms is not None else None
        known = None if self.state.cursor is None else ChangeCursor.from_text(self.state.cursor)
        self._seen_version = known.version if known else None
        self._cursor = None if self._gaps else known  # the windows of each key are known only after all rows were read
        version = self._reader.serving()
        if version is not None:  # all that comes after the definition counts, however soon it comes
            self._begin(version)

    def _begin(self, version: Version) -> None:
        """What is settled when the alert begins to watch is history."""
        if self.state.from_us is None:
            clock = _clock(version)
            self.update(lambda state: replace(state, from_us=clock.settled_us if clock else NEVER_US))

    def step(self, now_us: int) -> bool:
        """Look at the next changes."""
        with self._reader.open() as reading:
            version, batch = reading.version, reading.after(self._cursor)
            self._begin(version)
            clock = _clock(version)
            # Another version: what was settled before it keeps its incidents.
            is_other = self._seen_version not in (None, batch.version)
            if self._gaps and (is_other or batch.restarted):
                self._gaps.forget()
            rows = self._observed(batch, version, clock) if clock else []
            periods_join = self.rules.windows is not None and not self.rules.has_sessions
            if clock and periods_join and keeps_rows(version.view):
                rows += self._forgotten(rows, partial(self._rows_of_key, reading, clock))

        def change(state: AlertState) -> AlertState:
            if is_other and state.settled_us is not None:
                from_us = state.settled_us if state.from_us is None else max(state.settled_us, state.from_us)
                state = replace(state, from_us=from_us)
            if clock is not None:
                ended = self._ended(state, clock) if batch.restarted or (is_other and self._gaps) else ()
                read_to = _read_to(rows, clock) if batch.more else clock
                state = note_rows(state, self.rules, (*ended, *rows), read_to)
                # Time goes on only once all rows up to it were looked at.
                state = state if batch.more else note_time(state, self.rules, clock, now_us)
            return replace(state, cursor=batch.cursor.to_text())

        self.update(change)
        self._cursor, self._seen_version = batch.cursor, batch.version
        self._reader.passed(batch.cursor)
        return batch.more

    def lag(self) -> int | None:
        """How many commits of its view it has not looked at; None while the view is being built."""
        version = self._reader.serving()
        if version is None:
            return None
        cursor, lag = self._cursor, self._reader.lag(self._cursor)
        if cursor is None or lag is None:
            return version.total("applied_to")
        return max(lag, int(cursor.after is not None))  # it may be within the rows of a commit

    def _observed(self, batch: ChangeBatch, version: Version, clock: ViewClock) -> list[KeyedObservation]:
        """The rows as the alert sees them, the oldest window first."""
        condition = self._compiled(batch, version.view).at(clock.time_us)
        at = (batch.version, batch.commit)
        # A key has events also where HAVING leaves its row out, but not those of a version that serves no more.
        is_old = self._gaps is not None and self._cursor is not None and self._cursor.reads_old
        deletes = [] if is_old else batch.deletes
        rows: list[KeyedObservation] = [(condition.key(row), condition.observe_gone(row, *at)) for row in deletes]
        rows += [(condition.key(row), condition.observe(row, *at)) for row in batch.upserts]
        rows = [row for row in rows if row[1].start_us <= clock.time_us]
        rows.sort(key=lambda row: row[1].end_us)
        return rows if self._gaps is None else self._gaps.note(rows, None if batch.more else clock)

    def _forgotten(self, rows: Sequence[KeyedObservation], rows_of_key: RowsOfKey) -> list[KeyedObservation]:
        """The rows around late ones, where periods that these join may be forgotten: they are made again."""
        forgotten_us = self.state.forgotten_us
        late: dict[str, tuple[Mapping[str, Any], int, int]] = {}
        for key, row in rows:
            if row.matches and forgotten_us is not None and row.start_us <= forgotten_us:
                _, start_us, end_us = late.get(key_text(key), (key, row.start_us, row.end_us))
                late[key_text(key)] = (key, min(start_us, row.start_us), max(end_us, row.end_us))
        return [
            (key, row)
            for key, start_us, end_us in late.values()
            for row in rows_around(self.rules, start_us, end_us, partial(rows_of_key, key))
        ]

    def _rows_of_key(
        self, reading: Evaluation, clock: ViewClock, key: Mapping[str, Any], start_us: int, end_us: int
    ) -> list[Observation]:
        batch = reading.of_key(key, start_us // 1000, end_us // 1000)
        return [row for _, row in self._observed(batch, reading.version, clock)]

    def _ended(self, state: AlertState, clock: ViewClock) -> list[KeyedObservation]:
        """What is open, as if it had ended where rows may still change: the rows that follow take its place."""
        start_us = clock.time_us if self.rules.windows is None else state.settled_us
        ended = Observation({}, False, 0, 0, NEVER_US if start_us is None else start_us, FOREVER_US)
        if self.rules.has_sessions:  # an open session may still change as a whole
            return [(entry.key, replace(ended, start_us=entry.incident.since_us)) for entry in state.open]
        return [(entry.key, ended) for entry in state.open]

    def _compiled(self, batch: ChangeBatch, view: View) -> Condition:
        if self._condition is None or self._view != view:
            keys = [key.name for key in view.keys]
            self._condition = Condition(self.alert, batch.columns, keys, view.window)
            self._view = view
        return self._condition


class _Gaps:
    """When each key of a view had events, and which of them have had none for too long."""

    def __init__(self, alert: Alert) -> None:
        self._absent_us = (alert.absent_ms or 0) * 1000
        self.forget()

    def forget(self) -> None:
        """Begin again: the keys may be others."""
        self._spans: dict[str, tuple[int, int]] = {}  # from the first window of a key to its last
        self._last: dict[str, KeyedObservation] = {}
        self._oldest: list[tuple[int, str]] = []  # a heap by the end; entries that are no longer true are left in it

    def note(self, rows: Sequence[KeyedObservation], clock: ViewClock | None) -> list[KeyedObservation]:
        """The time without events of each key: what matches is such a time, what does not is a time with events.

        Without a clock there are more rows up to it.
        """
        observations: list[KeyedObservation] = []
        for key, row in rows:
            text = key_text(key)
            if text not in self._spans:
                if len(self._spans) >= MOST_KEYS:
                    continue
                self._spans[text] = (row.start_us, row.start_us)
            first_us, last_us = self._spans[text]
            gap = (last_us, row.start_us) if row.start_us > last_us else (row.end_us, first_us)
            if gap[1] - gap[0] >= self._absent_us:
                observations.append((key, _absence(self._last.get(text, (key, row)), *gap)))
            observations.append((key, replace(row, matches=False)))
            self._spans[text] = (min(first_us, row.start_us), max(last_us, row.end_us))
            if row.end_us > last_us:
                self._last[text] = (key, row)
                heapq.heappush(self._oldest, (row.end_us, text))
        return [*observations, *self._absent(clock)] if clock else observations

    def _absent(self, clock: ViewClock) -> Iterable[KeyedObservation]:
        while self._oldest and self._oldest[0][0] + self._absent_us <= clock.time_us:
            end_us, text = heapq.heappop(self._oldest)
            if self._spans[text][1] == end_us:
                yield self._last[text][0], _absence(self._last[text], end_us, FOREVER_US)


def _absence(last: KeyedObservation, start_us: int, end_us: int) -> Observation:
    key, row = last
    return replace(row, row={**key, **row.row}, matches=True, start_us=start_us, end_us=end_us)


def rules_of(alert: Alert, view: View, rules: AlertRules) -> AlertRules:
    """The rules of an alert on a view."""
    if alert.absent_ms is not None:
        return replace(rules, for_us=alert.absent_ms * 1000, ended=EVENTS_ARRIVE, has_pending=False)
    window = view.window
    closes = window is not None and view.over is None and keeps_rows(view)
    names_settled = alert.where is not None and SETTLED in alert.where.over(row_types(view)).fields()
    return replace(
        rules,
        for_us=alert.for_ms * 1000,
        windows=None if window is None else windows_of(window),
        on_close=alert.on_close or (closes and names_settled),
    )


def _read_to(rows: Iterable[KeyedObservation], clock: ViewClock) -> ViewClock:
    """The clock while there are more rows: windows from the newest one on may be among them, so none is settled."""
    newest_us = max((row.start_us for _, row in rows), default=NEVER_US)
    return replace(clock, settled_us=min(clock.settled_us, newest_us - (clock.time_us - clock.settled_us)))


def _clock(version: Version) -> ViewClock | None:
    """The time of a view; None before its first event. Over a table no row is settled, so the time alone counts."""
    times = [base.time_us for base in version.bases if base.time_us is not None]
    if not times:
        return None
    settled_us = max(times) if version.view.over is not None else version.settled_us
    return ViewClock(max(times), NEVER_US if settled_us is None else settled_us)
