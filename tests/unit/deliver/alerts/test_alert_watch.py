"""Alerts over the rows of a view in a real store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.define.model import Alert
from headrace.deliver.alerts.advance import AlertRules
from headrace.deliver.alerts.alert_state import read_state
from headrace.deliver.alerts.alert_watch import StreamWatch
from tests.unit.deliver.alerts.watched import Watched, alert_of, events
from tests.unit.serve.workbench import bench, view_of


def test_a_key_fires_and_is_resolved() -> None:
    with bench() as work:
        work.start(view_of("window(at, '1 minute')"))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n > 2")
        assert watched.commit(events("a", 0, 2), events("b", 0, 1)) == {}
        assert watched.commit(events("a", 0.5)) == {"a": "firing"}
        (entry,) = watched.watch.state.open
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


def test_notices_for_targets_that_an_alert_no_longer_has_are_forgotten() -> None:
    with bench() as work:
        work.start(view_of("window(at, '1 minute')"))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n > 2", targets=("log", "connector"))
        watched.commit(events("a", 0, 3))
        watched.targets = ("log",)
        watched.open()
        assert [notice.targets for notice in watched.watch.state.notices] == [("log",)]
        watched.targets = ()
        watched.open()
        assert watched.look() == {"a": "firing"}
        assert read_state(watched.file).notices == ()


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
        watched.commit(events("a", 1, 3))  # the window is settled
        assert watched.notices() == [("a", "firing"), ("b", "firing"), ("b", "resolved")]


def test_after_an_edit_of_the_view_settled_windows_keep_their_incidents() -> None:
    with bench() as work:
        work.start(view_of("window(at, '1 minute')"))
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n > 2")
        watched.commit(events("b", 0, 3), events("a", 5, 3))
        work.edit(view_of("window(at, '1 minute')"), "b")
        watched.look()
        watched.open()
        assert watched.look() == {"a": "firing"}
        assert [entry.key["k0"] for entry in watched.watch.state.resolved] == ["b"]
        assert watched.notices() == [("b", "firing"), ("b", "resolved"), ("a", "firing")]


def test_windows_that_were_settled_before_the_alert_are_history() -> None:
    with bench() as work:
        work.start(view_of("window(at, '1 minute')"))
        work.commit([*events("a", 0, 3), *events("b", 5.5, 3)])
        watched = Watched(work, "AS SELECT k0, n FROM v WHERE n > 2")
        work.commit(events("a", 10))  # before it looks for the first time
        assert watched.look() == {}
        assert [entry.key["k0"] for entry in watched.watch.state.resolved] == ["b"]


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
        watched = Watched(work, "AS SELECT * FROM v WHERE n % 3 = 0", None)
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


@pytest.mark.parametrize("restarts", [False, True])
def test_a_key_without_events_that_an_edit_leaves_out_is_over(*, restarts: bool) -> None:
    with bench() as work:
        work.start(view_of("window(at, '1 minute')"))
        watched = Watched(work, "ON VIEW v WHEN NO EVENTS FOR INTERVAL 5 MINUTES")
        assert watched.commit(events("a", 0), events("b", 0), events("c", 10)) == {"a": "firing", "b": "firing"}
        work.edit(view_of("window(at, '1 minute')"), "b")
        if restarts:
            watched.open()
        assert watched.look() == {"a": "firing"}
        assert sorted(watched.notices()) == [("a", "firing"), ("b", "firing"), ("b", "resolved")]


def test_a_stream_without_events(tmp_path: Path) -> None:
    counts = [(3, "t"), (3, "t"), (4, "t")]
    alert = Alert("quiet", "events", absent_ms=1000)
    watch = StreamWatch(alert, AlertRules("quiet", targets=("log",)), tmp_path / "quiet.json", lambda: counts.pop(0))
    for now_us in (0, 1_000_000, 1_500_000):
        assert not watch.step(now_us)
    assert [notice.state for notice in watch.state.notices] == ["firing", "resolved"]
