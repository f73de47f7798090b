"""`/metrics`: numbers of the workspace for Prometheus, read at each scrape. Starts no job, stores nothing."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Generic, TypeVar

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
    StateSetMetricFamily,
)
from prometheus_client.registry import Collector
from starlette.responses import Response

from headrace.deliver.delivery_status import AlertStatus, SubscriptionStatus
from headrace.server.status import SinkStatus, StreamStatus, ViewStatus, WorkspaceStatus
from headrace.timing import Timing

if TYPE_CHECKING:
    from headrace.api.server_verbs import ServerVerbs

STATES = ("ok", "starting", "restarting", "failing")
TIMES = {
    "commit": ("headrace_commit_seconds", "Time of one lake commit: read, parse, write, commit."),
    "merge": (
        "headrace_merge_seconds",
        "Time to merge into the views the partials that were computed while a commit was appended.",
    ),
    "maintain": ("headrace_maintain_seconds", "Time of a Spark step that applies commits to views."),
}

LATENCY = (
    "headrace_latency_seconds",
    "Time from the arrival of an event until a view answers with it, measured for the oldest event of each step.",
)

Of = TypeVar("Of", StreamStatus, ViewStatus, SinkStatus, SubscriptionStatus, AlertStatus)


@dataclass(frozen=True)
class StatusNumber(Generic[Of]):
    """A metric of a stream, a view, a sink, a subscription or an alert; None is omitted."""

    name: str
    what: str
    read: Callable[[Of], float | None]
    counts: bool = False  # it only grows


OF_STREAMS: tuple[StatusNumber[StreamStatus], ...] = (
    StatusNumber("headrace_events", "Events in the log of a stream.", lambda s: s.events, counts=True),
    StatusNumber(
        "headrace_dead_letters", "Dead letters of a stream; a replay can reduce them.", lambda s: s.dead_letters
    ),
    StatusNumber(
        "headrace_duplicates",
        "Duplicates of a stream with UNIQUE; they are dead letters.",
        lambda s: s.duplicates if s.unique or s.duplicates else None,
        counts=True,
    ),
    StatusNumber("headrace_commits", "Lake commits of a stream.", lambda s: s.commits, counts=True),
    StatusNumber("headrace_events_per_second", "Recent events per second.", lambda s: s.events_per_second),
    StatusNumber(
        "headrace_backlog_bytes", "Bytes of the journal that are not in the lake yet.", lambda s: s.backlog_bytes
    ),
    StatusNumber(
        "headrace_kafka_lag_events",
        "Events in Kafka that are not in the lake yet, by offsets; absent while the broker is unavailable.",
        lambda s: s.lag.events if s.lag else None,
    ),
    StatusNumber("headrace_lake_files", "Files of a stream's lake.", lambda s: s.lake_files),
    StatusNumber("headrace_lake_bytes", "Bytes of a stream's lake.", lambda s: s.lake_bytes),
    StatusNumber("headrace_stream_failing", "1 while a stream has an error.", lambda s: int(s.error is not None)),
)
OF_VIEWS: tuple[StatusNumber[ViewStatus], ...] = (
    StatusNumber(
        "headrace_view_freshness_seconds",
        "Age of the oldest accepted event that a view does not have; 0 if it has all; absent if unknown.",
        lambda v: None if v.freshness_ms is None else v.freshness_ms / 1000,
    ),
    StatusNumber(
        "headrace_view_freshness_known",
        "1 when the freshness of a view is known.",
        lambda v: int(v.freshness_ms is not None),
    ),
    StatusNumber("headrace_view_lag_commits", "Commits that a view does not have yet.", lambda v: _lag_commits(v)),
    StatusNumber(
        "headrace_view_lag_bytes", "Bytes of the journal that a view does not have yet.", lambda v: v.lag_bytes
    ),
    StatusNumber("headrace_view_stalled", "1 while a view is stalled.", lambda v: int(v.stalled is not None)),
    StatusNumber(
        "headrace_view_building", "1 while a new version is being built.", lambda v: int(v.building is not None)
    ),
    StatusNumber("headrace_view_version", "The serving version.", lambda v: v.version),
    StatusNumber("headrace_view_horizon", "The first commit of the speed layer.", lambda v: v.horizon),
    StatusNumber("headrace_view_batch_tables", "Batch tables of a view.", lambda v: v.batch_tables),
    StatusNumber("headrace_view_batch_rows", "Rows of a view in its batch tables.", lambda v: v.batch_rows),
    StatusNumber("headrace_view_speed_rows", "Rows of a view in the speed layer.", lambda v: v.speed_rows),
    StatusNumber("headrace_view_events", "Events in the rows of a view.", lambda v: _events(v)),
    StatusNumber(
        "headrace_view_corrections",
        "Events of a view that arrived after their pane was settled; the others were on time.",
        lambda v: v.corrections,
    ),
    StatusNumber("headrace_view_audits", "Audits of a view.", lambda v: v.audits_run, counts=True),
    StatusNumber(
        "headrace_view_audit_timestamp_seconds",
        "Time of the last audit of the serving version; absent before the first.",
        lambda v: datetime.fromisoformat(v.last_audit.at).timestamp() if v.last_audit else None,
    ),
    StatusNumber(
        "headrace_view_audit_rows",
        "Rows compared in the last audit.",
        lambda v: v.last_audit.rows if v.last_audit else None,
    ),
    StatusNumber("headrace_view_alarm", "1 while the two layers of a view differ.", lambda v: int(v.alarm is not None)),
    StatusNumber(
        "headrace_view_build_events",
        "Events that the current build has to read; absent without a build.",
        lambda v: v.building.events if v.building else None,
    ),
    StatusNumber(
        "headrace_view_build_events_done",
        "Events that the current build has read; absent without a build.",
        lambda v: v.building.events_done if v.building else None,
    ),
)
OF_SINKS: tuple[StatusNumber[SinkStatus], ...] = (
    StatusNumber("headrace_sink_rows", "Rows that a sink has sent, including deletes.", lambda s: s.rows, counts=True),
    StatusNumber("headrace_sink_batches", "Batches that a sink has written.", lambda s: s.batches, counts=True),
    StatusNumber("headrace_sink_errors", "Failed attempts of a sink.", lambda s: s.errors, counts=True),
    StatusNumber(
        "headrace_sink_lag_seconds",
        "Time since the destination of a sink last had all changes; 0 if it has all.",
        lambda s: s.lag_s,
    ),
    StatusNumber(
        "headrace_sink_lag_commits",
        "Commits that a sink has not sent yet; absent when unknown.",
        lambda s: s.behind_commits,
    ),
    StatusNumber("headrace_sink_stalled", "1 while a sink is stalled.", lambda s: int(s.state == "stalled")),
    StatusNumber("headrace_sink_paused", "1 while a sink is paused.", lambda s: int(s.state == "paused")),
)
OF_SUBSCRIPTIONS: tuple[StatusNumber[SubscriptionStatus], ...] = (
    StatusNumber(
        "headrace_subscription_lag_events",
        "Events that a subscription has not delivered, whether or not they meet its condition, and those in flight.",
        lambda s: s.lag,
    ),
    StatusNumber("headrace_subscription_in_flight", "Events delivered and not acknowledged.", lambda s: s.in_flight),
    StatusNumber("headrace_subscription_members", "Members of a subscription.", lambda s: s.members),
    StatusNumber(
        "headrace_subscription_delivered", "Events delivered, without redeliveries.", lambda s: s.delivered, counts=True
    ),
    StatusNumber("headrace_subscription_redelivered", "Events delivered again.", lambda s: s.redelivered, counts=True),
    StatusNumber("headrace_subscription_acknowledged", "Events acknowledged.", lambda s: s.acknowledged, counts=True),
)
OF_ALERTS: tuple[StatusNumber[AlertStatus], ...] = (
    StatusNumber("headrace_alert_firing", "Keys for which an alert fires.", lambda a: a.firing),
    StatusNumber(
        "headrace_alert_pending", "Keys for which the condition holds, but not long enough.", lambda a: a.pending
    ),
    StatusNumber("headrace_alert_undelivered", "Notifications that are not delivered yet.", lambda a: a.undelivered),
    StatusNumber(
        "headrace_alert_failing",
        "1 while an alert cannot be evaluated or its notifications cannot be delivered.",
        lambda a: int(bool(a.error or a.delivery_error)),
    ),
)
# Numbers of which a stream, or a view, has several: name, meaning, label, and how they are read.
PARTS_OF_STREAMS: tuple[tuple[str, str, str, Callable[[StreamStatus], Mapping[str, float]]], ...] = (
    (
        "headrace_kafka_partition_lag_events",
        "Events of a partition in Kafka that are not in the lake yet, by offsets.",
        "partition",
        lambda s: s.lag.partitions if s.lag else {},
    ),
    (
        "headrace_lateness_seconds",
        "How far events of the last 7 days were behind the newest event: a quantile or the maximum.",
        "quantile",
        lambda s: _seconds(s.lateness.lateness_ms) if s.lateness else {},
    ),
    (
        "headrace_delay_seconds",
        "Arrival minus event time of events of the last 7 days: a quantile or the maximum.",
        "quantile",
        lambda s: _seconds(s.lateness.delay_ms) if s.lateness else {},
    ),
    (
        "headrace_timely_events",
        "Events of the last 7 days that were on time, and that were late.",
        "timeliness",
        lambda s: {"on_time": s.lateness.on_time, "late": s.lateness.late} if s.lateness else {},
    ),
)
PARTS_OF_VIEWS: tuple[tuple[str, str, str, Callable[[ViewStatus], Mapping[str, float]]], ...] = (
    (
        "headrace_view_drift_rows",
        "Rows that differed in the last audit, by column.",
        "column",
        lambda v: v.drift or {},
    ),
    ("headrace_view_versions", "Versions of a view, by state.", "state", lambda v: v.versions),
)


def _events(view: ViewStatus) -> int | None:
    return None if view.on_time is None or view.corrections is None else view.on_time + view.corrections


def _seconds(quantiles_ms: Mapping[str, float]) -> dict[str, float]:
    return {name.removeprefix("p").replace("_", "."): ms / 1000 for name, ms in quantiles_ms.items()}


def _lag_commits(view: ViewStatus) -> float | None:
    if view.applied_to is None or view.commits is None:
        return None
    return float(max(0, view.commits - view.applied_to))


class RuntimeCollector(Collector):
    """Reads the runtime at each scrape."""

    def __init__(self, verbs: ServerVerbs) -> None:
        self._verbs = verbs

    def collect(self) -> Iterator[Metric]:
        status = self._verbs.status()
        yield from _of_process(status)
        yield from _families("stream", status.streams, OF_STREAMS)
        yield from _families("view", status.views, OF_VIEWS)
        yield from _families("sink", status.sinks, OF_SINKS)
        yield from _families("subscription", status.subscriptions, OF_SUBSCRIPTIONS)
        yield from _families("alert", status.alerts, OF_ALERTS)
        yield from _parts("stream", status.streams, PARTS_OF_STREAMS)
        yield from _parts("view", status.views, PARTS_OF_VIEWS)
        yield from _times(self._verbs.runtime.monitor.timings())
        yield _latencies(self._verbs.runtime.monitor.latencies())


def make_registry(verbs: ServerVerbs) -> CollectorRegistry:
    """A separate registry: the global one may have metrics of other libraries."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types here
    registry = CollectorRegistry()
    registry.register(RuntimeCollector(verbs))
    ProcessCollector(namespace="headrace", registry=registry)
    return registry


def metrics_routes(registry: CollectorRegistry) -> APIRouter:
    """The endpoint, over a registry."""
    routes = APIRouter(tags=["workspace"])

    @routes.get("/metrics", response_class=Response)
    def metrics(request: Request) -> Response:
        """Metrics of the workspace as Prometheus or OpenMetrics text; docs/metrics.md lists them."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": content_type, "cache-control": "no-store"})

    return routes


def _of_process(status: WorkspaceStatus) -> Iterator[Metric]:
    parts = {name: version(name) for name in ("headrace", "pyspark", "deltalake", "duckdb")}
    parts["version"] = parts.pop("headrace")
    yield InfoMetricFamily(
        "headrace_build", "Versions of Headrace and its dependencies.", {**parts, "python": platform.python_version()}
    )
    yield StateSetMetricFamily(
        "headrace_state", "State of the server.", {state: state == status.state for state in STATES}
    )
    yield GaugeMetricFamily("headrace_up", "1 while the server answers.", 1)
    yield GaugeMetricFamily(
        "headrace_memory_bytes", "Memory of the server and its child processes.", (status.memory_mb or 0) << 20
    )
    if status.heartbeat_ms is not None:
        yield GaugeMetricFamily(
            "headrace_heartbeat_age_seconds",
            "Time since the last heartbeat of Spark; absent while it starts.",
            status.heartbeat_ms / 1000,
        )


def _families(label: str, statuses: Sequence[Of], numbers: Iterable[StatusNumber[Of]]) -> Iterator[Metric]:
    for number in numbers:
        kind = CounterMetricFamily if number.counts else GaugeMetricFamily
        family = kind(number.name, number.what, labels=[label])
        for status in statuses:
            value = number.read(status)
            if value is not None:
                family.add_metric([status.name], value)
        yield family


def _parts(
    kind: str, statuses: Sequence[Of], numbers: Iterable[tuple[str, str, str, Callable[[Of], Mapping[str, float]]]]
) -> Iterator[Metric]:
    for name, what, label, read in numbers:
        family = GaugeMetricFamily(name, what, labels=[kind, label])
        for status in statuses:
            for part, value in read(status).items():
                family.add_metric([status.name, part], value)
        yield family


def _times(timings: Mapping[str, Mapping[str, Timing]]) -> Iterator[Metric]:
    for kind, (name, what) in TIMES.items():
        family = HistogramMetricFamily(name, what, labels=["stream"])
        for stream, times in timings.items():
            if kind in times:
                family.add_metric([stream], *_histogram(times[kind]))
        yield family


def _latencies(latencies: Mapping[str, Mapping[str, Timing]]) -> Metric:
    family = HistogramMetricFamily(*LATENCY, labels=["stream", "view"])
    for stream, of_views in latencies.items():
        for view, timing in of_views.items():
            family.add_metric([stream, view], *_histogram(timing))
    return family


def _histogram(timing: Timing) -> tuple[list[tuple[str, float]], float]:
    below, total = timing.read()
    return [("+Inf" if bound == float("inf") else str(bound), count) for bound, count in below], total
