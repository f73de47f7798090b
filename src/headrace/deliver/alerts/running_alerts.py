"""All alerts of a workspace at work: a thread watches, and one for each alert delivers its notices."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from headrace.define.catalog import Catalog
from headrace.define.model import Alert
from headrace.deliver.alerts.advance import AlertRules
from headrace.deliver.alerts.alert_condition import describe, describe_silence
from headrace.deliver.alerts.alert_state import AlertSilence, AlertState, state_file
from headrace.deliver.alerts.alert_watch import AlertWatch, StreamWatch, ViewWatch, follower_name, rules_of
from headrace.deliver.alerts.notice_targets import NoticeDelivery, target_names
from headrace.deliver.delivery_status import AlertStatus, SilenceStatus
from headrace.errors import HeadraceError, NotFoundError, NotReadyError, QuestionError, did_you_mean
from headrace.language.durations import parse_duration
from headrace.store.store_contract import Store
from headrace.workspace.settings import Workspace

LOOK_S = 1.0  # interval of looking at clocks while nothing changes
MOST_STEPS = 50  # of one alert before the next one is looked at
LATER_S = 5.0  # after a failure

EventCount = Callable[[str], tuple[int, str | None] | None]  # of a stream: how many events, and when the newest was

log = structlog.get_logger("headrace.alerts")


class Alerts:
    """Watches the alerts of a catalog. `redefine` and the questions may be called from any thread."""

    def __init__(self, folder: Path, store: Store, events: EventCount, url: str, workspace: Workspace) -> None:
        self._folder, self._store, self._events = folder, store, events
        self._url, self._workspace = url, workspace
        self._watches: Mapping[str, AlertWatch] = {}  # replaced, never changed
        self._deliveries: dict[str, NoticeDelivery] = {}
        self._errors: dict[str, str] = {}
        self._retry_at: dict[str, float] = {}
        self._changing = threading.Lock()
        self._new = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)

    def start(self, catalog: Catalog) -> None:
        """Begin to watch the alerts of a catalog."""
        self.redefine(catalog)
        self._thread.start()

    def stop(self) -> None:
        """End the threads; what was not delivered is delivered after the next start."""
        self._stopping.set()
        self._new.set()
        for delivery in self._deliveries.values():
            delivery.stop()
        if self._thread.is_alive():
            self._thread.join(LATER_S)

    def notify(self) -> None:
        """Views have changed."""
        self._new.set()

    def redefine(self, catalog: Catalog) -> None:
        """Watch the alerts of a catalog, and only these. Safe to repeat."""
        with self._changing:
            watches: dict[str, AlertWatch] = {}
            for name, alert in catalog.alerts.items():
                earlier = self._watches.get(name)
                rules = _rules(alert, catalog)
                if earlier is not None and (earlier.alert, earlier.rules) == (alert, rules):
                    watches[name] = earlier
                    continue
                watches[name] = self._make(alert, rules, catalog)
                if name in self._deliveries:
                    self._deliveries.pop(name).stop()
            dropped = self._watches.keys() - watches.keys()
            self._watches = watches
            for name in dropped:
                if name in self._deliveries:
                    self._deliveries.pop(name).stop()
            self._forget(watches)
        self._new.set()

    def _make(self, alert: Alert, rules: AlertRules, catalog: Catalog) -> AlertWatch:
        file = state_file(self._folder, alert.name)
        if alert.source in catalog.streams:
            return StreamWatch(alert, rules, file, lambda: self._events(alert.source))
        return ViewWatch(alert, rules, file, self._store)

    def _forget(self, kept: Iterable[str]) -> None:
        """Remove what dropped alerts left, also those that were dropped while no server ran."""
        followers = {follower_name(name) for name in kept}
        with self._store.snapshot() as snapshot:
            own = [each for each in snapshot.followers() if each.name.startswith(follower_name(""))]
        for each in own:
            if each.name not in followers:
                self._store.unfollow(each.view, each.name)
        files = {state_file(self._folder, name) for name in kept}
        for file in self._folder.glob("*.json"):
            if file not in files:
                with suppress(OSError):
                    file.unlink()

    # Watching

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._new.wait(LOOK_S)
            self._new.clear()
            for name, watch in self._watches.items():
                if not self._stopping.is_set() and time.monotonic() >= self._retry_at.get(name, 0.0):
                    self._look(name, watch)

    def _look(self, name: str, watch: AlertWatch) -> None:
        try:
            for _ in range(MOST_STEPS):
                if self._stopping.is_set():
                    return
                if not watch.step(time.time_ns() // 1000):
                    break
            else:
                self._new.set()
            self._errors.pop(name, None)
        except NotReadyError:
            self._errors.pop(name, None)  # its view is being built
        except HeadraceError as error:
            self._fail(name, str(error))
        except Exception as error:
            log.exception("an alert cannot be evaluated", alert=name)
            self._fail(name, str(error).splitlines()[0] if str(error) else type(error).__name__)
        self._deliver(name, watch)

    def _fail(self, name: str, error: str) -> None:
        if self._errors.get(name) != error:
            log.warning("an alert cannot be evaluated", alert=name, error=error)
        self._errors[name] = error
        self._retry_at[name] = time.monotonic() + LATER_S

    def _deliver(self, name: str, watch: AlertWatch) -> None:
        if not watch.state.notices:
            return
        with self._changing:
            if self._watches.get(name) is not watch or self._stopping.is_set():
                return
            delivery = self._deliveries.get(name)
            if delivery is None:
                delivery = self._deliveries[name] = NoticeDelivery(watch, self._url, self._workspace)
        delivery.notify()

    # Questions

    def status(self) -> list[AlertStatus]:
        """All alerts, by name."""
        now_us = time.time_ns() // 1000
        return [
            describe(watch.alert, watch.state, now_us, self._errors.get(name), self._delivery_error(name), watch.lag())
            for name, watch in sorted(self._watches.items())
        ]

    def _delivery_error(self, name: str) -> str | None:
        delivery = self._deliveries.get(name)
        return delivery.error if delivery else None

    def silence(self, name: str, values: Mapping[str, Any], for_ms: int, reason: str = "") -> SilenceStatus:
        """Hold notices back for a time: all of an alert, or those about rows with these values."""
        watch = self._find(name)
        if for_ms <= 0:
            raise QuestionError(
                "the duration of a silence is out of range", found=f"{for_ms} ms", expected="more than 0"
            )
        now_us = time.time_ns() // 1000
        silence = AlertSilence(uuid.uuid4().hex[:8], dict(values), now_us + for_ms * 1000, reason)

        def change(state: AlertState) -> AlertState:
            lasting = tuple(each for each in state.silences if each.until_us > now_us)
            return replace(state, silences=(*lasting, silence))

        watch.update(change)
        return describe_silence(silence)

    def end_silence(self, name: str, id: str | None = None) -> int:
        """End a silence of an alert, or all of them; returns how many."""
        watch = self._find(name)
        ended = [each for each in watch.state.silences if id in (None, each.id)]
        if id is not None and not ended:
            raise NotFoundError(f"alert '{name}' has no silence '{id}'", fix="`headrace alerts` lists them")
        watch.update(lambda state: replace(state, silences=tuple(s for s in state.silences if s not in ended)))
        self._new.set()
        return len(ended)

    def _find(self, name: str) -> AlertWatch:
        if name not in self._watches:
            hint = did_you_mean(name, self._watches)
            raise NotFoundError(
                f"alert '{name}' does not exist", fix=f"{hint + ' ' if hint else ''}`headrace alerts` lists all"
            )
        return self._watches[name]


def _rules(alert: Alert, catalog: Catalog) -> AlertRules:
    view = catalog.views.get(alert.source)
    repeat = alert.get("repeat")
    rules = AlertRules(
        alert.name,
        repeat_us=parse_duration(repeat) * 1000 if repeat else None,
        targets=target_names(alert),
    )
    return rules_of(alert, view, rules) if view else rules
