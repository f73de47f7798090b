"""Alerts over the rows of a view in a real store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headrace.alert.course import Rules
from headrace.alert.watch import StreamWatch, ViewWatch
from headrace.define.catalog import parse
from headrace.define.model import Alert
from tests.unit.serve.workbench import STREAM, Workbench, bench, view_of
from tests.unit.store.partial_files import Event, simple_event

MINUTE = 60_000
SELECT = "SELECT k0, count(*) AS n, sum(b) AS b, sum(b) / count(*) AS m FROM events GROUP BY k0, "


def events(key: str | None, minute: float, count: int = 1) -> list[Event]:
    return [simple_event(key, int(minute * MINUTE), 1) for _ in range(count)]


def alert_of(text: str, window: str) -> Alert:
    view = f"CREATE MATERIALIZED VIEW v AS {SELECT}{window};"
    (alert,) = parse(f"{STREAM}{view}CREATE ALERT a {text};").alerts.values()
    return alert


class Watched:
    """An alert on the view of a workbench."""

    def __init__(self, work: Workbench, text: str, window: str = "window(at, '1 minute')", slide_ms: int = MINUTE):
        self.alert = alert_of(text, window)
        self.rules = Rules("a", self.alert.for_ms * 1000, slide_ms * 1000, targets=("log",))
        self.file = work.folder / "a.json"
        self.work = work
        self.now_us = 1
        self.open()

    def open(self) -> None:
        self.watch = ViewWatch(self.alert, self.rules, self.file, self.work.store)

    def commit(self, *some: list[Event]) -> dict[str, str]:
        self.work.commit([event for each in some for event in each])
        return self.look()

    def look(self) -> dict[str, str]:
        """The states by key."""
        self.now_us += 1
        while self.watch.step(self.now_us):
            pass
        return {entry.key["k0"]: entry.incident.state for entry in self.watch.state.open.values()}

    def notices(self) -> list[tuple[str, str]]:
        return [(notice.key["k0"], notice.state) for notice in self.watch.state.notices]


def test_a_key_fires_and_is_resolved() -> None:
    with bench() as work:
        work.start(view_of("window(at, '1 minute')"))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n > 2")
        assert watched.commit(events("a", 0, 2), events("b", 0, 1)) == {}
        assert watched.commit(events("a", 0.5)) == {"a": "firing"}
        (entry,) = watched.watch.state.open.values()
        assert entry.incident.row["n"] == 3
        assert entry.incident.row["window_start"] == "1970-01-01T00:00:00Z"
        watched.commit(events("a", 1.1), events("b", 2.5))
        assert watched.notices() == [("a", "firing"), ("a", "resolved")]


def test_a_restart_changes_nothing() -> None:
    with bench() as work:
        work.start(view_of("window(at, '1 minute')"))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n > 2 FOR INTERVAL 2 MINUTES")
        assert watched.commit(events("a", 0, 3)) == {"a": "pending"}
        watched.open()
        assert watched.commit(events("a", 1, 3)) == {"a": "pending"}
        watched.open()
        assert watched.commit(events("a", 2, 1)) == {"a": "firing"}
        watched.open()
        assert watched.look() == {"a": "firing"}
        assert watched.notices() == [("a", "firing")]


def test_another_condition_starts_over() -> None:
    with bench() as work:
        work.start(view_of("window(at, '1 minute')"))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n > 2")
        assert watched.commit(events("a", 0, 3)) == {"a": "firing"}
        watched.alert = alert_of("AS SELECT k0, n FROM v WHERE n > 5", "window(at, '1 minute')")
        watched.open()
        assert watched.look() == {}


def test_other_options_keep_the_incidents() -> None:
    with bench() as work:
        work.start(view_of("window(at, '1 minute')"))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n > 2")
        assert watched.commit(events("a", 0, 3)) == {"a": "firing"}
        watched.alert = replace(watched.alert, options=(("severity", "page"),))
        watched.open()
        assert watched.look() == {"a": "firing"}
        assert watched.notices() == [("a", "firing")]


def test_only_settled_rows_on_window_close() -> None:
    with bench() as work:
        work.start(view_of("window(at, '1 minute')"))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n > 2 EMIT ON WINDOW CLOSE")
        assert watched.commit(events("a", 0, 3)) == {}
        assert watched.commit(events("b", 1.2)) == {"a": "firing"}


def test_a_refresh_and_an_edit_of_the_view_fire_nothing_again() -> None:
    with bench() as work:
        work.start(view_of("window(at, '1 minute')"))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n > 2")
        watched.commit(events("a", 0, 3), events("b", 0, 3))
        work.refresh()
        assert watched.look() == {"a": "firing", "b": "firing"}
        work.edit(view_of("window(at, '1 minute')"), "b")
        assert watched.look() == {"a": "firing"}
        assert watched.notices() == [("a", "firing"), ("b", "firing"), ("b", "resolved")]


def test_overlapping_windows_are_looked_at_when_they_end() -> None:
    window = "window(at, '3 minutes', '1 minute')"
    with bench() as work:
        work.start(view_of(window))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n < 2", window)
        # The windows that begin with the newest events hold few of them, and do not count yet.
        assert watched.commit(events("a", 10, 5), events("a", 11, 5), events("a", 12.5, 5)) == {}


def test_without_windows() -> None:
    with bench() as work:
        work.start(view_of(None))
        view = f"CREATE MATERIALIZED VIEW v AS {SELECT.removesuffix(', ')};"
        (alert,) = parse(f"{STREAM}{view}CREATE ALERT a AS SELECT * FROM v WHERE n % 3 = 0;").alerts.values()
        watched = Watched(work, "AS SELECT * FROM v WHERE n > 1")
        watched.alert, watched.rules = alert, Rules("a", targets=("log",))
        watched.open()
        assert watched.commit(events("a", 0, 3)) == {"a": "firing"}
        watched.commit(events("a", 1))
        assert watched.notices() == [("a", "firing"), ("a", "resolved")]


def test_a_key_without_events() -> None:
    with bench() as work:
        work.start(view_of("window(at, '1 minute')"))
        watched = Watched(work, "ON VIEW v WHEN NO EVENTS FOR INTERVAL 5 MINUTES")
        assert watched.commit(events("a", 0), events("b", 0)) == {}
        assert watched.commit(events("a", 5.5)) == {}
        assert watched.commit(events("a", 6)) == {"b": "firing"}
        watched.open()
        assert watched.look() == {"b": "firing"}
        assert watched.commit(events("b", 6.5)) == {}
        assert watched.notices() == [("b", "firing"), ("b", "resolved")]


def test_a_stream_without_events(tmp_path: Path) -> None:
    counts = [(3, "t"), (3, "t"), (4, "t")]
    alert = Alert("quiet", "events", absent_ms=1000)
    watch = StreamWatch(alert, Rules("quiet", targets=("log",)), tmp_path / "quiet.json", lambda: counts.pop(0))
    for now_us in (0, 1_000_000, 1_500_000):
        assert not watch.step(now_us)
    assert [notice.state for notice in watch.state.notices] == ["firing", "resolved"]
