"""The lateness of a stream's events in numbers and in a sentence: is the patience what these events need?"""

from __future__ import annotations

from datetime import timedelta

from headrace.define.model import Stream
from headrace.format import EPOCH, span
from headrace.lake.lateness_histogram import Days, Lateness, LatenessHistogram
from headrace.language.durations import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, format_duration
from headrace.server.status import LatenessStatus

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999, "max": 1.0}
COVERED = 0.999
ROUND_MS = (
    *(n * SECOND_MS for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE_MS for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR_MS for n in (1, 2, 3, 6, 12)),
    *(n * DAY_MS for n in (1, 2, 3, 7, 14, 30, 60, 90, 180, 365)),
)


def describe_lateness(stream: Stream, days: Days) -> LatenessStatus | None:
    """What was measured of a stream; None if it has no event time, or no event."""
    measured = sum(days.values(), Lateness())
    if stream.event_time is None or not measured.events:
        return None
    return LatenessStatus(
        since=(EPOCH + timedelta(days=min(days))).date().isoformat(),
        events=measured.events,
        on_time=measured.on_time,
        late=measured.events - measured.on_time,
        lateness_ms=_quantiles(measured.lateness),
        delay_ms=_quantiles(measured.delay),
        advice=_advice(measured, stream.patience_ms),
    )


def _quantiles(histogram: LatenessHistogram) -> dict[str, float]:
    return {name: histogram.quantile_us(share) / 1000 for name, share in QUANTILES.items()}


def _advice(measured: Lateness, patience_ms: int) -> str:
    patience = f"patience is {format_duration(patience_ms)}"
    if measured.on_time == measured.events:
        return f"no event was late; {patience}"
    covered_ms = measured.lateness.quantile_us(COVERED) / 1000
    beyond = measured.lateness.above(patience_ms * 1000)
    if covered_ms <= patience_ms or not beyond:
        within = "in order" if covered_ms == 0 else f"within {span(covered_ms)}"
        return f"99.9 % of events come {within}; {patience}"
    enough = next((ms for ms in ROUND_MS if ms >= covered_ms), None)
    share = _percent(beyond / measured.events)
    if enough is None:
        return f"{share} of events came more than {format_duration(patience_ms)} late, the patience"
    return (
        f"{share} of events came more than {format_duration(patience_ms)} late, the patience; "
        f"{format_duration(enough)} would have covered 99.9 %"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %" if share >= 0.001 else "under 0.1 %"
