"""The edit of a serving view while it is queried, and one event three hours late."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from headrace.errors import HeadraceError, UnavailableError
from headrace.format import about
from headrace.tools.demo.shop_server import ServerReader
from headrace.tools.demo.traffic import Visit

LATE_VIEW, STREAM = "traffic", "visits"
LATE_US = 3 * 3600 * 1_000_000
HOUR_US = 3600 * 1_000_000
PAGE, VISITOR, LOAD_MS = "/checkout", "v-late", 1999.5
WAITS = 60  # of a second each


@dataclass(frozen=True)
class Late:
    """The event, its cell before and after, and the explanation of the cell."""

    event: dict[str, Any]
    before: dict[str, Any] | None  # the cell's row; None: it had no events
    after: dict[str, Any] | None
    explanation: dict[str, Any]

    @property
    def late_event(self) -> dict[str, Any] | None:
        """The event in the explanation."""
        events = [e for e in self.explanation["events"] if orjson.loads(e["value"])["visitor"] == VISITOR]
        return events[0] if len(events) == 1 else None

    @property
    def ok(self) -> bool:
        """Return whether the cell counts one event more, and explain marks it and counts as the view does."""
        before, after, late_event = self.before or {"hits": 0}, self.after, self.late_event
        return (
            after is not None
            and late_event is not None
            and after["hits"] == before["hits"] + 1 == self.explanation["found"]
            and after["slowest"] >= LOAD_MS
            and bool(late_event["correction"] and self.explanation["agrees"])
        )


def late_visit(newest_us: int) -> Visit:
    """A visit three hours before the newest event."""
    return Visit(VISITOR, PAGE, 200, 4096, LOAD_MS, None, newest_us - LATE_US)


def send_late(reader: ServerReader, visit: Visit) -> tuple[Late, str]:
    """Send the visit, wait until the views have it, and explain its cell of one hour; with the token."""
    hour_us = visit.at_us - visit.at_us % HOUR_US
    parameters = {"key.page": PAGE, "start": _iso(hour_us), "end": _iso(hour_us + HOUR_US), "window": "1h"}
    before = reader.ask(LATE_VIEW, **parameters)["rows"]
    event = {
        "visitor": visit.visitor, "page": visit.page, "status": visit.status, "bytes": visit.bytes,
        "load_ms": visit.load_ms, "at": _iso(visit.at_us),
    }  # fmt: skip
    token = str(reader.post(f"/v1/streams/{STREAM}/events", event)["token"])
    for _ in range(WAITS):
        if reader.has(token):
            break
    else:
        raise UnavailableError(f"the views did not have the late event within {WAITS} s")
    after = reader.ask(LATE_VIEW, **parameters)["rows"]
    explanation = reader.get(
        f"/v1/views/{LATE_VIEW}/explain", **{"key.page": PAGE, "at": _iso(visit.at_us), "window": "1h", "limit": "1000"}
    )
    return Late(event, before[0] if before else None, after[0] if after else None, explanation), token


def _iso(us: int) -> str:
    return f"{datetime.fromtimestamp(us // 1_000_000, UTC):%Y-%m-%dT%H:%M:%S}.{us % 1_000_000:06d}Z"


VIEW, COLUMN = "traffic", "slowest"
BEFORE = "avg(load_ms)                          AS load_ms\n"
AFTER = "avg(load_ms)                          AS load_ms,\n       max(load_ms)                          AS slowest\n"
POLL_EVERY_S = 0.2
LONGEST_S = 120.0  # for a step
PAUSE_S = 0.02


@dataclass
class EditStep:
    """One step of the edit, for display."""

    name: str
    text: str
    since: float = field(default_factory=time.monotonic)
    took_s: float | None = None  # None: it is running
    progress: float | None = None  # the finished share, if known


class LiveEdit(threading.Thread):
    """Edits the definitions when `begin` is set, and follows the new version until its first audit."""

    def __init__(self, url: str, definitions: Path, *, begin: threading.Event, stopping: threading.Event) -> None:
        super().__init__(name="edit", daemon=True)
        self.steps: list[EditStep] = []
        self.error: HeadraceError | None = None
        self.queries = QueryLoop(url, VIEW, {"start": "-3m", "window": "3m"})
        self.versions: tuple[int, int] = (0, 0)  # the previous and the current serving version
        self.events_read = 0
        self.estimated_s = 0.0  # by the plan
        self.served_after_s = 0.0
        self.audit: dict[str, Any] | None = None
        self._reader = ServerReader(url)
        self._definitions = definitions
        self._begin = begin
        self._stopping = stopping

    @property
    def took_s(self) -> float:
        """The time from the plan to the end of the comparison."""
        return sum(step.took_s or 0.0 for step in self.steps)

    @property
    def swapped(self) -> bool:
        """Return whether the new version answers."""
        return self.versions != (0, 0)

    @property
    def finished_steps(self) -> list[EditStep]:
        """The steps that have ended."""
        return [step for step in self.steps if step.took_s is not None]

    def run(self) -> None:
        """Run the edit; `error` is set if it failed."""
        self._begin.wait()
        if self._stopping.is_set():
            return
        self.queries.start()
        try:
            self._edit()
        except HeadraceError as error:
            self.error = error
        finally:
            self.queries.stop()
            self._reader.close()

    def _edit(self) -> None:
        before = self._view()
        with self._step("plan", f"one more line in {self._definitions.name}") as step:
            self._definitions.write_text(add_column(self._definitions.read_text(encoding="utf-8")), encoding="utf-8")
            plan = self._reader.post("/v1/plan", {})
            [change] = plan["changes"]
            cost = change["cost"]
            self.events_read, self.estimated_s = cost["events"], cost["seconds"]
            step.text = f"+ max(load_ms) AS {COLUMN}: a build, {cost['events']:,} events, {about(cost['seconds'])}"
        began = time.monotonic()
        with self._step("build", "version 2 from the log, version 1 answers") as step:
            self._reader.post("/v1/apply", {"expect": plan["fingerprint"]})
            self._wait(lambda view: self._follow(step, view, before["version"]))
            step.text = f"{self.events_read:,} events read from the log, while version {before['version']} answered"
        with self._step("swap", "it replaces version 1 when it has caught up") as step:
            now = self._wait(lambda view: view["version"] != before["version"])
            self.versions = (before["version"], now["version"])
            self.served_after_s = time.monotonic() - began
            answers = f"version {now['version']} answers, with '{COLUMN}' for all of history"
            step.text = f"{answers}, after {self.served_after_s:.1f} s"
        with self._step("compare", "the batch layer reads again what the speed layer has") as step:
            # A refresh compares only commits after the horizon, so wait until there is one.
            self._wait(lambda view: view["applied_to"] > view["horizon"])
            self._reader.post(f"/v1/views/{VIEW}/refresh", {})
            self.audit = self._wait(lambda view: view["last_audit"] is not None)["last_audit"]
            rows, drift = self.audit["rows"], sum(off["rows"] for off in self.audit["drift"])
            step.text = f"{rows:,} rows computed again by the batch layer, drift {drift}"

    def _follow(self, step: EditStep, view: dict[str, Any], before: int) -> bool:
        """Update the step with the progress of the build; returns whether it has ended."""
        build = view["building"]
        if build is None:
            return bool(view["version"] != before)
        if build["error"]:
            raise UnavailableError(f"view '{VIEW}' cannot be built: {build['error']}")
        self.events_read = build["events"]
        step.text = f"version {build['version']}: {build['events_done']:,} of {build['events']:,} events"
        step.progress = build["events_done"] / max(build["events"], 1)
        return bool(build["state"] == "ready")

    def _view(self) -> dict[str, Any]:
        return next(view for view in self._reader.get("/v1/views")["views"] if view["name"] == VIEW)

    def _wait(self, until: Any) -> dict[str, Any]:
        deadline = time.monotonic() + LONGEST_S
        while time.monotonic() < deadline:
            view = self._view()
            if view["alarm"]:
                raise UnavailableError(f"view '{VIEW}': {view['alarm']}")
            if until(view):
                return view
            if self._stopping.wait(POLL_EVERY_S):
                raise UnavailableError("the edit was stopped")
        raise UnavailableError(f"step '{self.steps[-1].name}' of the edit took more than {LONGEST_S:.0f} s")

    @contextmanager
    def _step(self, name: str, text: str) -> Iterator[EditStep]:
        step = EditStep(name, text)
        self.steps.append(step)
        yield step
        step.took_s, step.progress = time.monotonic() - step.since, None


def add_column(definitions: str) -> str:
    """The shop's definitions with one more column in a view."""
    assert definitions.count(BEFORE) == 1, "the demo's own definitions have this line"
    return definitions.replace(BEFORE, AFTER)


class QueryLoop:
    """Queries a view continuously in a thread. A query fails if there is no answer, or if its version is older."""

    def __init__(self, url: str, view: str, question: Mapping[str, str]) -> None:
        self.answers = 0
        self.failures = 0
        self.longest_ms = 0  # of an answer
        self.first_failure: str | None = None
        self.by_version: dict[int, int] = {}  # answers
        self._view = view
        self._question = dict(question)
        self._reader = ServerReader(url)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="asking", daemon=True)

    def start(self) -> None:
        """Start querying."""
        self._thread.start()

    def stop(self) -> None:
        """Ask a last time, so that the newest version has answered, then stop."""
        self._stopping.set()
        self._thread.join()
        self._reader.close()

    def _ask(self) -> None:
        newest, last = 0, False
        while not last:
            last = self._stopping.wait(PAUSE_S)
            start = time.monotonic()
            try:
                version = self._reader.ask(self._view, **self._question)["version"]
            except HeadraceError as error:
                self._fail(str(error))
                continue
            self.answers += 1
            self.longest_ms = max(self.longest_ms, round((time.monotonic() - start) * 1000))
            self.by_version[version] = self.by_version.get(version, 0) + 1
            if version < newest:
                self._fail(f"version {version} answered after version {newest}")
            newest = max(newest, version)

    def _fail(self, why: str) -> None:
        self.failures += 1
        self.first_failure = self.first_failure or why
