"""The current figures of a run: counts of the sender and of the server."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from headrace.tools.demo.exact_answers import Row
from headrace.tools.demo.live_edit import Late, LiveEdit
from headrace.tools.demo.shop_server import ServerReader
from headrace.tools.demo.traffic_sender import Tally

HISTORY = 28
QUESTIONS = {  # what the page shows of each view: parameters, and the column to order by
    "traffic": ({"start": "-3m", "window": "3m"}, "hits"),
    "revenue": ({"by": "category", "window": "1d"}, "orders"),
    "audience": ({"start": "-40m"}, "window_start"),
}


@dataclass
class StreamFigures:
    """One stream; the last four fields are from the server."""

    name: str
    tally: Tally
    events: int = 0
    dead_letters: int = 0
    per_second: int = 0
    newest: str = ""


@dataclass
class Figures:
    """The figures that the page shows. Other threads write the tallies; this thread writes the rest."""

    seed: int
    flow_s: float
    start: float = field(default_factory=time.monotonic)
    url: str = ""
    phase: str = "starting the server"
    flowing_since: float | None = None
    streams: list[StreamFigures] = field(default_factory=list)
    rates: deque[int] = field(default_factory=lambda: deque(maxlen=HISTORY))
    freshness_ms: int | None = None
    measured_ms: list[int] = field(default_factory=list)  # freshness at each update while events were sent
    caught_up_s: float = 0.0  # from the last reply until every view had everything
    corrections: int = 0
    memory_mb: int = 0
    rows: dict[str, list[Row]] = field(default_factory=dict)
    edit: LiveEdit | None = None
    late: Late | None = None
    _last: tuple[float, int] = (0.0, 0)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.start

    @property
    def flowed(self) -> float:
        """The finished share of the flow."""
        return 0.0 if self.flowing_since is None else min(1.0, (time.monotonic() - self.flowing_since) / self.flow_s)

    @property
    def sent(self) -> int:
        return sum(stream.tally.events for stream in self.streams)

    @property
    def stored(self) -> int:
        """Events that the lake has, dead letters included."""
        return sum(stream.events + stream.dead_letters for stream in self.streams)

    def update(self, reader: ServerReader) -> None:
        """Read all figures from the server once."""
        self._take_status(reader.status())
        total = reader.ask("traffic", by="", window="1d")
        self.corrections = total["corrections"]
        rows = {}
        for view, (parameters, order) in QUESTIONS.items():
            view_rows = reader.ask(view, **parameters)["rows"]
            rows[view] = sorted(view_rows, key=itemgetter(order), reverse=True)
        self.rows = rows  # replaced at once, since the page may be rendered at any time
        now, sent = time.monotonic(), self.sent
        before, count = self._last
        if before and 0 < self.flowed < 1:
            self.rates.append(round((sent - count) / (now - before)))
        self._last = (now, sent)

    def _take_status(self, status: dict[str, Any]) -> None:
        statuses = {stream["name"]: stream for stream in status["streams"]}
        for stream in self.streams:
            now = statuses[stream.name]
            stream.events, stream.dead_letters = now["events"], now["dead_letters"]
            stream.per_second = now["events_per_second"]
            stream.newest = (now["newest_event"] or "")[11:19]
        fresh = [view["freshness_ms"] for view in status["views"]]
        self.freshness_ms = None if None in fresh else max(fresh, default=None)
        if self.freshness_ms is not None and 0 < self.flowed < 1:
            self.measured_ms.append(self.freshness_ms)
        self.memory_mb = status["memory_mb"]
