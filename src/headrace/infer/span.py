"""The time that sampled events span and how late they come; the patience and the window that fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.define.durations import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

PATIENCES_MS = (
    *(s * SECOND_MS for s in (10, 30)), *(m * MINUTE_MS for m in (1, 2, 5, 10, 30)),
    *(h * HOUR_MS for h in (1, 2, 6, 12)), DAY_MS,
)  # fmt: skip
UNKNOWN_MS = MINUTE_MS  # the patience where nothing came late
MOST_WINDOWS, LEAST_EVENTS = 400, 2  # of the suggested view; events in a window, on average
MOST = 0.99  # of the events come within the patience


@dataclass(frozen=True)
class Span:
    """From the first event to the last, and the lateness that all but the latest 1 % stay within."""

    first_us: int
    last_us: int
    lateness_ms: int
    events: int
    late: int  # events that came behind a newer one
    newest_first: bool  # the file is sorted so; sent as it is, all but the first are late

    @property
    def patience_ms(self) -> int:
        """The next round span above the lateness, from 10 seconds to a day."""
        if not self.late:
            return UNKNOWN_MS
        return next((ms for ms in PATIENCES_MS if ms >= self.lateness_ms), DAY_MS)

    @property
    def window_ms(self) -> int:
        """The smallest of a minute, an hour and a day that makes neither too many windows nor too empty ones."""
        ms = (self.last_us - self.first_us) // 1000
        for window_ms in (MINUTE_MS, HOUR_MS):
            windows = ms / window_ms
            if windows <= MOST_WINDOWS and self.events >= LEAST_EVENTS * windows:
                return window_ms
        return DAY_MS


def measure(runs: list[npt.NDArray[np.int64]]) -> Span | None:
    """The span of event times in microseconds, given in stretches without a gap, in the order of the file."""
    runs = [run for run in runs if len(run)]
    if not runs:
        return None
    steps = np.concatenate([np.diff(run) for run in runs])
    newest_first = bool((steps < 0).sum() > 2 * (steps > 0).sum() and len(steps) > 2)
    ordered = [run[::-1] for run in runs] if newest_first else runs
    lateness = np.concatenate([np.maximum.accumulate(run) - run for run in ordered])
    return Span(
        first_us=int(min(run.min() for run in runs)),
        last_us=int(max(run.max() for run in runs)),
        lateness_ms=int(np.ceil(np.quantile(lateness, MOST) / 1000)),
        events=sum(len(run) for run in runs),
        late=int((lateness > 0).sum()),
        newest_first=newest_first,
    )
