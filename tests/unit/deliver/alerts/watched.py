"""An alert on the view of a workbench."""

from __future__ import annotations

from headrace.define.catalog import parse
from headrace.define.model import Alert
from headrace.deliver.alerts.advance import AlertRules
from headrace.deliver.alerts.alert_watch import ViewWatch, rules_of
from tests.unit.serve.workbench import STREAM, Workbench
from tests.unit.store.partial_files import Event, simple_event

MINUTE = 60_000
SELECT = "SELECT k0, count(*) AS n, sum(b) AS b, sum(b) / count(*) AS m FROM events GROUP BY k0"


def events(key: str | None, minute: float, count: int = 1) -> list[Event]:
    return [simple_event(key, int(minute * MINUTE), 1) for _ in range(count)]


def alert_of(text: str, window: str | None) -> Alert:
    view = f"CREATE MATERIALIZED VIEW v AS {f'{SELECT}, {window}' if window else SELECT};"
    (alert,) = parse(f"{STREAM}{view}CREATE ALERT a {text};").alerts.values()
    return alert


class Watched:
    """An alert on the view of a workbench."""

    def __init__(
        self,
        work: Workbench,
        text: str,
        window: str | None = "window(at, '1 minute')",
        targets: tuple[str, ...] = ("log",),
    ) -> None:
        self.alert = alert_of(text, window)
        self.targets = targets
        self.file = work.folder / "a.json"
        self.work = work
        self.now_us = 1
        self.open()

    def open(self) -> None:
        rules = rules_of(self.alert, self.work.serving().view, AlertRules("a", targets=self.targets))
        self.watch = ViewWatch(self.alert, rules, self.file, self.work.store)

    def commit(self, *some: list[Event]) -> dict[str, str]:
        self.work.commit([event for each in some for event in each])
        return self.look()

    def look(self) -> dict[str, str]:
        """The states by key."""
        self.now_us += 1
        while self.watch.step(self.now_us):
            pass
        return {entry.key["k0"]: entry.incident.state for entry in self.watch.state.open}

    def notices(self) -> list[tuple[str, str]]:
        return [(notice.key["k0"], notice.state) for notice in self.watch.state.notices]
