"""Generates docs/metrics.md from the metrics of a server."""

from __future__ import annotations

from typing import Any

from headrace.api.server_verbs import ServerVerbs
from headrace.server.runtime import Runtime
from headrace.web.meter import RequestNumbers
from headrace.web.metrics import (
    LATENCY,
    OF_SINKS,
    OF_STREAMS,
    OF_SUBSCRIPTIONS,
    OF_VIEWS,
    PARTS_OF_STREAMS,
    PARTS_OF_VIEWS,
    TIMES,
    make_registry,
)

_METRICS = """\
# Metrics

A running server serves `GET /metrics` as Prometheus text, or as OpenMetrics if the scraper accepts it. A scrape reads
current values and starts no job. If the setting `token` is set, the request needs the bearer token.
`headrace status --watch` shows the most important metrics in a terminal.

```yaml
scrape_configs:
  - job_name: headrace
    static_configs: [{targets: ["127.0.0.1:8090"]}]
    authorization: {credentials: THE_TOKEN}   # only if a token is set
```

Counters of requests start at 0 with the process. Counters of the log (`headrace_events_total`,
`headrace_commits_total`) and of subscriptions cover their whole history. The labels `stream`, `view`,
`sink` and `subscription` only contain defined names.

| metric | type | labels | description |
|---|---|---|---|
@ROWS
## Alerts to start from

| expression | meaning |
|---|---|
| `headrace_view_stalled == 1` | a view is stalled; `headrace views` shows the error |
| `headrace_view_alarm == 1` | the batch and speed layers of a view differ; `headrace audit VIEW` shows where |
| `time() - headrace_view_audit_timestamp_seconds > 86400` | a view had no audit for a day |
| `headrace_view_freshness_seconds > 60` | a view is more than a minute behind the accepted events |
| `headrace_sink_stalled == 1` or `headrace_sink_lag_seconds > 300` | a sink fails or is behind; see `headrace sinks` |
| `headrace_view_freshness_known == 0` for 5 minutes | the freshness of a view is unknown |
| `headrace_state{headrace_state="failing"} == 1` or `absent(headrace_up)` | the server has failed or stopped |
| `headrace_heartbeat_age_seconds > 5` | Spark does not answer |
| `delta(headrace_dead_letters[5m]) > 0` | new dead letters; `headrace status` counts them |
| `rate(headrace_events_refused_total[5m]) / rate(headrace_events_accepted_total[5m]) > 0.01` | many refused events |
| `rate(headrace_ingest_requests_total{status=~"429\\|5.."}[5m]) > 0` | ingest requests are rejected |
| `deriv(headrace_subscription_lag_events[10m]) > 0` for 30 minutes | members of a subscription are too slow |
| `deriv(headrace_backlog_bytes[10m]) > 0` for 30 minutes | events arrive faster than they are appended |
| `histogram_quantile(0.99, rate(headrace_answer_seconds_bucket[5m])) > 0.25` | slow answers |
| `histogram_quantile(0.99, rate(headrace_latency_seconds_bucket[5m])) > 5` | answers include events late |
"""


def metrics_reference(runtime: Runtime) -> str:
    """Every metric with its type, labels and description."""
    registry = make_registry(ServerVerbs(runtime))
    # Labels of metrics that have no sample before the first request, or before Spark runs.
    labels = {number._name: number._labelnames for number in vars(RequestNumbers(registry)).values()}
    labels |= {name: ("stream",) for name, _ in TIMES.values()} | {number.name: ("stream",) for number in OF_STREAMS}
    labels |= {LATENCY[0]: ("stream", "view")} | {number.name: ("view",) for number in OF_VIEWS}
    labels |= {number.name: ("sink",) for number in OF_SINKS}
    labels |= {number.name: ("subscription",) for number in OF_SUBSCRIPTIONS}
    labels |= {name: ("stream", label) for name, _, label, _ in PARTS_OF_STREAMS}
    labels |= {name: ("view", label) for name, _, label, _ in PARTS_OF_VIEWS}
    rows = [
        f"| `{_name(family)}` | {family.type} | {_labels(family, labels)} | {family.documentation} |\n"
        for family in sorted(registry.collect(), key=lambda family: family.name)
    ]
    return _METRICS.replace("@ROWS", "".join(rows))


def _name(family: Any) -> str:
    return str(family.name) + {"counter": "_total", "info": "_info"}.get(family.type, "")


def _labels(family: Any, labels_by_name: dict[str, Any]) -> str:
    labels = labels_by_name.get(family.name) or {name for sample in family.samples for name in sample.labels}
    return ", ".join(sorted(name for name in labels if name != "le")) or "–"
