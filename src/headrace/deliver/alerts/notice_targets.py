"""Delivers the notices of one alert, in a thread of its own: to the server's log, and by the connector of the alert."""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from typing import Any, Protocol

import orjson
import structlog

from headrace.define.model import Alert, Sink
from headrace.define.outgoing_rules import OPTIONS
from headrace.deliver.alerts.alert_condition import notice_row
from headrace.deliver.alerts.alert_state import Notice
from headrace.deliver.alerts.alert_watch import AlertWatch
from headrace.deliver.sinks.http_sink import open_poster
from headrace.deliver.sinks.sink_writer import SinkBatch, SinkChange, open_writer
from headrace.errors import HeadraceError
from headrace.secrets import without_passwords
from headrace.types import BIGINT, STRING
from headrace.workspace.settings import Workspace

LOG, CONNECTOR = "log", "connector"
BACKOFF_S = (1.0, 2.0, 5.0, 15.0, 60.0)
TEXTS = ("id", "alert", "state", "severity", "summary", "source", "condition", "key", "row", "since", "fired_at",
         "resolved_at", "reason", "explain")  # fmt: skip
# JSON values: what is called STRING passes every encoder unchanged, objects too.
COLUMNS = (*((name, STRING) for name in TEXTS), ("version", BIGINT), ("commit", BIGINT))

log = structlog.get_logger("headrace.deliver.alerts")


def target_names(alert: Alert) -> tuple[str, ...]:
    """Where the notices of an alert go."""
    logged = (LOG,) if alert.get("log") != "false" else ()
    return (*logged, CONNECTOR) if alert.get("connector") else logged


class NoticeDelivery:
    """Hands notices on, oldest first, each until it was taken. What fails is retried with increasing pauses."""

    def __init__(self, watch: AlertWatch, url: str, workspace: Workspace) -> None:
        self._watch, self._url, self._workspace = watch, url, workspace
        self._target: NoticeTarget | None = None
        self._new, self._stopping = threading.Event(), threading.Event()
        self._failures = 0
        self.error: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"alert {watch.alert.name}", daemon=True)
        self._thread.start()

    def notify(self) -> None:
        """There are new notices."""
        self._new.set()

    def stop(self) -> None:
        """End; what is not delivered stays in the state of the alert."""
        self._stopping.set()
        self._new.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._new.wait()
            self._new.clear()
            while not self._stopping.is_set() and self._watch.state.notices:
                if not self._hand_on(self._watch.state.notices[0]):
                    self._stopping.wait(BACKOFF_S[min(self._failures, len(BACKOFF_S)) - 1])
        self._close()

    def _hand_on(self, notice: Notice) -> bool:
        """Hand a notice to the targets that lack it; whether all have it."""
        try:
            for target in notice.targets:
                self._send(target, notice)
                self._watch.delivered(notice, target)
        except Exception as error:
            self._failures += 1
            self._close()
            text = without_passwords(
                str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
            )
            if self.error != text:
                log.warning("a notice was not delivered", alert=self._watch.alert.name, error=text)
            self.error = text
            return False
        self._failures, self.error = 0, None
        return True

    def _send(self, target: str, notice: Notice) -> None:
        alert = self._watch.alert
        row = notice_row(alert, notice, self._url)
        if target == LOG:
            write = log.warning if notice.state == "firing" else log.info
            write("alert", **{name: value for name, value in row.items() if value is not None})
            return
        if self._target is None:
            self._target = _open(alert, self._workspace)
        self._target.send(notice, row)

    def _close(self) -> None:
        target, self._target = self._target, None
        if target is not None:
            with suppress(Exception):
                target.close()


class NoticeTarget(Protocol):
    """Where notices go to, open."""

    def send(self, notice: Notice, row: dict[str, Any]) -> None:
        """Send a notice; the target has it when this returns."""

    def close(self) -> None:
        """Release connections."""


class Webhook:
    """A URL that gets each notice as a JSON object of its own."""

    def __init__(self, sink: Sink, allowed: str) -> None:
        self._poster = open_poster(sink, f"alert '{sink.source}'", allowed)

    def send(self, notice: Notice, row: dict[str, Any]) -> None:
        """Post it, with its id so that a repeat can be told."""
        digest = hashlib.sha256(notice.id.encode()).hexdigest()[:32]
        self._poster.post(orjson.dumps(row), {"idempotency-key": digest})

    def close(self) -> None:
        """Close the connection."""
        self._poster.close()


class NoticeTopic:
    """A topic that gets each notice as a message."""

    def __init__(self, sink: Sink, workspace: Workspace) -> None:
        self._alert, self._writer = sink.source, open_writer(sink, workspace)

    def send(self, notice: Notice, row: dict[str, Any]) -> None:
        """Produce it."""
        change = SinkChange("upsert", row, notice.incident.version, notice.incident.commit)
        self._writer.write(SinkBatch(self._alert, COLUMNS, (), (change,), notice.id))

    def close(self) -> None:
        """Close the producer."""
        self._writer.close()


def _open(alert: Alert, workspace: Workspace) -> NoticeTarget:
    own = {option.name for option in OPTIONS}
    options = tuple((name, value) for name, value in alert.options if name not in own)
    sink = Sink(f"alert_{alert.name}", alert.name, alert.get("connector") or "", options, mode="append")
    return Webhook(sink, workspace.settings.http_allow) if sink.connector == "http" else NoticeTopic(sink, workspace)
