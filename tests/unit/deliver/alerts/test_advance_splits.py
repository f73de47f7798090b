"""The same events in any split into commits, with kills between, give the incidents of a plain reference."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from headrace.deliver.alerts import advance
from headrace.deliver.alerts import alert_watch as watch_module
from tests.faults.seeds import SEEDS
from tests.unit.deliver.alerts.watched import Watched, events
from tests.unit.serve.change_readers import trim_log
from tests.unit.serve.workbench import bench, view_of
from tests.unit.store.partial_files import Event, simple_event

MINUTE = 60_000
Shown = tuple[str, str, float, float | None, float | None]  # key, state, since, fired at, resolved at, in minutes


@dataclass(frozen=True)
class Shape:
    """An alert, and what the reference has to know of it."""

    where: str
    size: int = 10
    slide: int = 10
    held: float = 0
    on_close: bool = False
    absent: bool = False
    having: int = 0
    gap: int = 0  # of sessions

    @property
    def alert(self) -> str:
        held = f" FOR INTERVAL {self.held:g} MINUTES" if self.held else ""
        if self.absent:
            return f"ON VIEW v WHEN NO EVENTS{held}"
        return f"AS SELECT k0, n FROM v WHERE {self.where}{held}{' EMIT ON WINDOW CLOSE' if self.on_close else ''}"

    @property
    def window(self) -> str:
        if self.gap:
            return f"session_window(at, '{self.gap} minutes')"
        if self.size == 60:
            return "date_trunc('hour', at)"
        return f"window(at, '{self.size} minutes', '{self.slide} minutes')"

    def matches(self, n: int) -> bool:
        return n >= self.having and bool(eval(self.where, {"n": n}))


SHAPES = {
    "many": Shape("n >= 3"),
    "few": Shape("n < 2"),
    "many on close": Shape("n >= 3", on_close=True),
    "for": Shape("n >= 2", held=20),
    "for some time": Shape("n >= 2", held=15),
    "for on close": Shape("n >= 2", held=15, on_close=True),
    "overlapping": Shape("n >= 3", size=15, slide=5),
    "overlapping for": Shape("n < 3", size=15, slide=5, held=10),
    "hours": Shape("n % 2 == 1", size=60, slide=60),
    "having": Shape("n < 4", having=2),
    "sessions": Shape("n >= 2", gap=10),
    "small sessions": Shape("n < 3", gap=5),
    "odd sessions": Shape("n % 2 == 1", gap=20),
    "sessions on close": Shape("n >= 2", gap=10, on_close=True),
    "sessions for": Shape("n >= 2", gap=10, held=15),
    "sessions having": Shape("n < 5", gap=10, having=2),
    "absent": Shape("", held=20, absent=True),
    "absent having": Shape("", held=20, absent=True, having=2),
}


def incidents_of(shape: Shape, events: Iterable[Event], patience: float) -> list[Shown]:
    """What the alert shows after these events, from the rows that the view has then."""
    if shape.gap:
        return session_incidents(shape, events, patience)
    counts: dict[str, dict[int, int]] = {}  # by key, by the end of a window
    time = max((event.at_ms / MINUTE for event in events), default=0.0)
    for event in events:
        first = int(event.at_ms // MINUTE) // shape.slide * shape.slide + shape.slide
        for end in range(first, int(event.at_ms // MINUTE) + shape.size + 1, shape.slide):
            of_key = counts.setdefault(event.keys[0], {})
            of_key[end] = of_key.get(end, 0) + 1
    last_end = time - patience if shape.on_close else time // shape.slide * shape.slide + shape.slide
    shown = []
    for key, ends in counts.items():
        seen = {end: n for end, n in ends.items() if end <= last_end}
        for since, until in gaps(shape, seen) if shape.absent else runs(shape, seen):
            known = until if shape.on_close else min(until, time)
            ended = until < float("inf") if shape.absent else until + shape.slide <= time - patience
            fires = known - since >= shape.held
            if fires or not (ended or shape.absent):
                state = ("resolved" if ended else "firing") if fires else "pending"
                shown.append((key, state, since, since + shape.held if fires else None, until if ended else None))
    return sorted(shown)


def session_incidents(shape: Shape, events: Iterable[Event], patience: float) -> list[Shown]:
    """The same of sessions: each that matches is a period of its own."""
    in_order = sorted(events, key=lambda event: event.at_ms)
    time_ms = in_order[-1].at_ms if in_order else 0
    settled_ms = time_ms - patience * MINUTE
    sessions: dict[str, list[list[int]]] = {}  # the times of each
    for event in in_order:
        of_key = sessions.setdefault(event.keys[0], [])
        if not of_key or event.at_ms > of_key[-1][-1] + shape.gap * MINUTE:
            of_key.append([])
        of_key[-1].append(event.at_ms)
    shown = []
    for key, of_key in sessions.items():
        for times in of_key:
            since, until = times[0], times[-1] + shape.gap * MINUTE
            ended = until < settled_ms
            if not shape.matches(len(times)) or (shape.on_close and not ended):
                continue
            known = until if shape.on_close else min(until, time_ms)
            fires = known - since >= shape.held * MINUTE
            if fires or not ended:
                state = ("resolved" if ended else "firing") if fires else "pending"
                fired, resolved = since / MINUTE + shape.held if fires else None, until / MINUTE if ended else None
                shown.append((key, state, since / MINUTE, fired, resolved))
    return sorted(shown)


def runs(shape: Shape, counts: dict[int, int]) -> list[tuple[float, float]]:
    """The times of windows that match and follow one another."""
    matching = {end for end, n in counts.items() if shape.matches(n)}
    starts = [end - shape.slide for end in sorted(matching) if end - shape.slide not in matching]
    return list(zip(starts, [end for end in sorted(matching) if end + shape.slide not in matching], strict=True))


def gaps(shape: Shape, counts: dict[int, int]) -> list[tuple[float, float]]:
    """The times without events after the first one."""
    starts = [end for end in sorted(counts) if end + shape.slide not in counts]
    ends: list[float] = [end - shape.slide for end in sorted(counts) if end - shape.slide not in counts]
    return list(zip(starts, [*ends[1:], float("inf")], strict=True))


def shown_by(watched: Watched) -> list[Shown]:
    def minutes(us: int | None) -> float | None:
        return None if us is None else us / 1000 / MINUTE

    entries = [*watched.watch.state.open, *watched.watch.state.resolved]
    return sorted(
        (
            entry.key["k0"],
            entry.incident.state,
            entry.incident.since_us / 1000 / MINUTE,
            minutes(entry.incident.fired_at_us),
            minutes(entry.incident.resolved_at_us),
        )
        for entry in entries
    )


def some_events(chance: random.Random) -> list[Event]:
    """In an order of arrival, with pauses and late events."""
    minute, events = 200.0, []
    for _ in range(chance.randrange(5, 40)):
        minute += chance.choice([0, 0.5, 1, 2, 4, 7, 30, 120])
        late = chance.choice([0, 0, 0, 0, 1, 5, 12, 100])
        events.append(simple_event(chance.choice("aab"), int((minute - late) * MINUTE), 1))
    return events


def split(chance: random.Random, events: list[Event]) -> list[list[Event]]:
    cuts = sorted(chance.sample(range(len(events)), chance.choice([0, 1, 4, len(events) // 2])))
    return [events[start:end] for start, end in zip([0, *cuts], [*cuts, len(events)], strict=True)]


@pytest.mark.parametrize("name", SHAPES)
def test_any_split_with_kills_gives_the_incidents_of_the_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in SEEDS:
        chance = random.Random(f"{name} {seed}")
        events, patience = some_events(chance), chance.choice([0, 3, 15])
        monkeypatch.setattr(watch_module, "ROWS_AT_ONCE", chance.choice([2, 1000]))
        check(SHAPES[name], split(chance, events), patience, chance)


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if not shape.absent])
def test_periods_that_were_forgotten_are_made_again_of_the_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events arrive in any order, and the alert remembers one period that was too short."""
    monkeypatch.setattr(advance, "MOST_SHORT", 1)
    monkeypatch.setattr(advance, "AROUND_WINDOWS", 1)
    for seed in SEEDS:
        chance = random.Random(f"forgotten {name} {seed}")
        events, patience = some_events(chance), chance.choice([0, 3, 15])
        newest = events.pop(
            max(range(len(events)), key=lambda at: events[at].at_ms)
        )  # all others are late, most are settled
        chance.shuffle(events)
        monkeypatch.setattr(watch_module, "ROWS_AT_ONCE", chance.choice([2, 1000]))
        first = [simple_event("z", 0, 1)]  # it is there before the alert: nothing else is settled when that begins
        check(SHAPES[name], [first, *split(chance, [newest, *events])], patience, chance)


def check(shape: Shape, commits: list[list[Event]], patience: int, chance: random.Random) -> None:
    with bench(patience * MINUTE) as work:
        work.start(view_of(shape.window, f"HAVING n >= {shape.having}" if shape.having else ""))
        watched = Watched(work, shape.alert.replace("==", "="), shape.window)
        for number, commit in enumerate(commits, 1):
            work.commit(commit)
            for _ in range(chance.choice([0, 0, 1, 2])):  # killed after some steps
                watched.watch.step(1)
                watched.open()
            if chance.random() < 0.3 and number < len(commits):
                continue  # it lags
            watched.look()
            events = [event for each in commits[:number] for event in each]
            assert shown_by(watched) == incidents_of(shape, events, patience)
        fired = [notice.id for notice in watched.watch.state.notices]
        assert len(fired) == len(set(fired))
        for key, state, since, *_ in shown_by(watched):
            wanted = {"firing": ["firing"], "resolved": ["firing", "resolved"], "pending": []}[state]
            assert told_of(watched, key, since)[-1:] == wanted[-1:]


def told_of(watched: Watched, key: str, since: float) -> list[str]:
    """The notices of an incident."""
    notices = [each for each in watched.watch.state.notices if each.key["k0"] == key]
    return [each.state for each in notices if each.incident.since_us == since * MINUTE * 1000]


@pytest.mark.parametrize("close", ["", " EMIT ON WINDOW CLOSE"])
@pytest.mark.parametrize("at_once", [1, 9])
def test_pauses_hide_no_incident(close: str, at_once: int) -> None:
    minutes = [1, 2, 3, 120, 240, 241, 242, 360, 480]
    events = [simple_event("a", minute * MINUTE, 1) for minute in minutes]
    with bench() as work:
        work.start(view_of("window(at, '10 minutes')"))
        watched = Watched(work, f"AS SELECT k0, n FROM v WHERE n >= 3{close}", "window(at, '10 minutes')")
        for start in range(0, len(events), at_once):
            watched.commit(events[start : start + at_once])
        assert shown_by(watched) == [("a", "resolved", 0, 0, 10), ("a", "resolved", 240, 240, 250)]
        assert watched.notices() == [("a", "firing"), ("a", "resolved")] * 2


@pytest.mark.parametrize("at_once", [1, 6, 100])
def test_periods_of_many_keys_are_not_forgotten_before_their_next_window_was_read(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "ROWS_AT_ONCE", at_once)
    monkeypatch.setattr(advance, "MOST_ENDED", 2)
    window = "window(at, '10 minutes')"
    with bench() as work:
        work.start(view_of(window))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n >= 1 FOR INTERVAL 30 MINUTES", window)
        lasting = {"a": 20, "b": 20, "c": 40, "d": 40}
        work.commit([simple_event(key, at * MINUTE) for key, end in lasting.items() for at in range(1, end, 10)])
        work.commit([simple_event("z", 600 * MINUTE)])
        watched.look()
        assert shown_by(watched)[:2] == [(key, "resolved", 0, 30, 40) for key in "cd"]


SESSIONS = "session_window(at, '10 minutes')"


def test_a_settled_session_that_is_open_again_has_its_incident_when_it_is_settled_again() -> None:
    with bench() as work:
        work.start(view_of(SESSIONS))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n >= 2 EMIT ON WINDOW CLOSE", SESSIONS)
        watched.commit(events("a", 0), events("a", 5), events("b", 16))
        assert shown_by(watched) == [("a", "resolved", 0, 0, 15)]
        watched.commit(events("a", 14))
        assert shown_by(watched) == []
        watched.commit(events("b", 30))
        assert shown_by(watched) == [("a", "resolved", 0, 0, 24)]


def test_incidents_of_sessions_that_merge_become_one() -> None:
    with bench(patience_ms=60 * MINUTE) as work:
        work.start(view_of(SESSIONS))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n >= 1", SESSIONS)
        watched.commit(events("a", 0), events("a", 20))
        assert shown_by(watched) == [("a", "firing", 0, 0, None), ("a", "firing", 20, 20, None)]
        watched.commit(events("a", 10))
        assert shown_by(watched) == [("a", "firing", 0, 0, None)]
        watched.commit(events("b", 200))
        assert shown_by(watched) == [("a", "resolved", 0, 0, 30), ("b", "firing", 200, 200, None)]
        assert [told_of(watched, "a", since) for since in (0, 20)] == [["firing", "resolved"]] * 2


def test_an_alert_continues_where_the_log_of_touched_sessions_has_ended() -> None:
    with bench(patience_ms=60 * MINUTE) as work:
        work.start(view_of(SESSIONS))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n % 2 = 1", SESSIONS)
        watched.commit(events("a", 10), events("a", 25), events("b", 30))
        work.commit(events("a", 5))
        trim_log(work)
        work.commit(events("a", 17))
        watched.look()
        assert shown_by(watched) == [("b", "firing", 30, 30, None)]
        watched.commit(events("a", 26))
        assert shown_by(watched) == [("a", "firing", 5, 5, None), ("b", "firing", 30, 30, None)]


def test_an_open_session_that_meets_the_condition_now_and_then_fires_once() -> None:
    with bench() as work:
        work.start(view_of(SESSIONS))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n % 2 = 1", SESSIONS)
        for minute in (0, 5, 8):
            watched.commit(events("a", minute))
        assert shown_by(watched) == [("a", "firing", 0, 0, None)]
        assert told_of(watched, "a", 0) == ["firing"]


def test_open_sessions_are_evaluated_again_after_an_edit_of_the_gap() -> None:
    with bench() as work:
        work.start(view_of(SESSIONS))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n >= 1", SESSIONS)
        watched.commit(events("a", 0), events("b", 5))
        assert shown_by(watched) == [("a", "firing", 0, 0, None), ("b", "firing", 5, 5, None)]
        work.edit(view_of("session_window(at, '2 minutes')"), left_out="none")
        watched.look()
        assert shown_by(watched) == [("b", "firing", 5, 5, None)], "that of 'a' was settled before the edit"
