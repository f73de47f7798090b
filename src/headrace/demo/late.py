"""One event three hours late, and the cell that it changes, with the events behind it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from headrace.demo.events import Visit
from headrace.demo.reader import Reader
from headrace.errors import UnavailableError

VIEW, STREAM = "traffic", "visits"
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
        """Whether the cell counts one event more, and explain marks it and counts as the view does."""
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


def send_late(reader: Reader, visit: Visit) -> tuple[Late, str]:
    """Send the visit, wait until the views have it, and explain its cell of one hour; with the token."""
    hour_us = visit.at_us - visit.at_us % HOUR_US
    parameters = {"key.page": PAGE, "start": _iso(hour_us), "end": _iso(hour_us + HOUR_US), "window": "1h"}
    before = reader.ask(VIEW, **parameters)["rows"]
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
    after = reader.ask(VIEW, **parameters)["rows"]
    explanation = reader.get(
        f"/v1/views/{VIEW}/explain", **{"key.page": PAGE, "at": _iso(visit.at_us), "window": "1h", "limit": "1000"}
    )
    return Late(event, before[0] if before else None, after[0] if after else None, explanation), token


def _iso(us: int) -> str:
    return f"{datetime.fromtimestamp(us // 1_000_000, UTC):%Y-%m-%dT%H:%M:%S}.{us % 1_000_000:06d}Z"
