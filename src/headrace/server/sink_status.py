"""Sinks as `headrace sinks`, HTTP and the page show them; secrets are not shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.define.model import Sink
from headrace.deliver.sinks.sink_progress import SinkProgress, new_progress
from headrace.format import iso_us
from headrace.secrets import shown
from headrace.server.status import SinkStatus

if TYPE_CHECKING:
    from headrace.deliver.sinks.sink_runner import SinkState


def describe_sink(state: SinkState) -> SinkStatus:
    """A sink that runs."""
    return _describe(state.progress, state.state, state.reason, state.lag_s, state.behind_commits, state.retry_in_s)


def describe_stopped(sink: Sink, progress: SinkProgress | None) -> SinkStatus:
    """A sink whose server does not run."""
    known = new_progress(sink) if progress is None else progress.with_definition(sink)
    return _describe(known, "paused" if known.paused else "stopped", None, None, None, None)


def sink_warnings(sinks: Iterable[SinkStatus]) -> tuple[str, ...]:
    """What somebody has to look at."""
    return tuple(f"sink '{sink.name}' is stalled: {sink.reason}" for sink in sinks if sink.state == "stalled")


def _describe(
    progress: SinkProgress,
    state: str,
    reason: str | None,
    lag_s: float | None,
    behind_commits: int | None,
    retry_in_s: float | None,
) -> SinkStatus:
    sink = progress.sink
    return SinkStatus(
        name=sink.name,
        source=sink.source,
        connector=sink.connector,
        options={name: shown(name, value) for name, value in sink.options},
        where=sink.where.sql if sink.where else None,
        mode=sink.mode,
        on_close=sink.on_close,
        corrections=sink.corrections,
        state=state,
        reason=reason,
        retry_in_s=None if retry_in_s is None else round(retry_in_s, 1),
        rows=progress.rows,
        batches=progress.batches,
        errors=progress.errors,
        lag_s=lag_s,
        behind_commits=behind_commits,
        last_sent=iso_us(progress.sent_at_us),
    )
