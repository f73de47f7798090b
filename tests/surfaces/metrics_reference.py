"""Makes docs/metrics.md from what `/metrics` says."""

from __future__ import annotations

from typing import Any

from headrace.server.runtime import Runtime
from headrace.web.meter import RequestNumbers
from headrace.web.metrics import OF_STREAMS, OF_VIEWS, PARTS_OF_VIEWS, TIMES, make_registry

_METRICS = """\
# Metrics

`GET /metrics` on a running server, as Prometheus text or, where the scraper asks for it, OpenMetrics. Numbers are read
when they are asked for; a scrape starts no job. With the setting `token` it asks for the bearer token as everything
does. `headrace status --watch` shows the most important ones in a terminal.

```yaml
scrape_configs:
  - job_name: headrace
    static_configs: [{targets: ["127.0.0.1:8090"]}]
    authorization: {credentials: THE_TOKEN}   # only where a token is set
```

Counters of requests count since the process began; those of the log (`headrace_events_total`,
`headrace_commits_total`) count all there ever was. The labels `stream` and `view` take
only names that are defined, so that no client can make up new series.

| metric | kind | labels | what it is |
|---|---|---|---|
@ROWS
## Alerts to start from

| expression | says |
|---|---|
| `headrace_view_stalled == 1` | a view cannot go on; `headrace views` shows its error |
| `headrace_view_alarm == 1` | the two layers of a view disagree; `headrace audit VIEW` shows where |
| `time() - headrace_view_audit_timestamp_seconds > 86400` | a view was not checked for a day |
| `headrace_view_freshness_seconds > 60` | answers are more than a minute behind what was accepted |
| `headrace_view_freshness_known == 0` for 5 minutes | how fresh a view is cannot be said |
| `headrace_state{headrace_state="failing"} == 1` or `absent(headrace_up)` | the server fails, or is gone |
| `headrace_heartbeat_age_seconds > 5` | Spark does not answer |
| `delta(headrace_dead_letters[5m]) > 0` | events come that cannot be read; `headrace status` counts them |
| `rate(headrace_events_refused_total[5m]) / rate(headrace_events_accepted_total[5m]) > 0.01` | events that do not fit |
| `rate(headrace_ingest_requests_total{status=~"429\\|5.."}[5m]) > 0` | events are turned away |
| `deriv(headrace_backlog_bytes[10m]) > 0` for 30 minutes | events come faster than they are appended |
| `histogram_quantile(0.99, rate(headrace_answer_seconds_bucket[5m])) > 0.25` | slow answers |
"""


def metrics_reference(runtime: Runtime) -> str:
    """Every number of `/metrics` with its kind, labels and meaning."""
    registry = make_registry(runtime)
    # What has no sample before the first request, or before Spark runs.
    labels = {number._name: number._labelnames for number in vars(RequestNumbers(registry)).values()}
    labels |= {name: ("stream",) for name, _ in TIMES.values()} | {number.name: ("stream",) for number in OF_STREAMS}
    labels |= {number.name: ("view",) for number in OF_VIEWS}
    labels |= {name: ("view", label) for name, _, label, _ in PARTS_OF_VIEWS}
    rows = [
        f"| `{_shown(family)}` | {family.type} | {_labels(family, labels)} | {family.documentation} |\n"
        for family in sorted(registry.collect(), key=lambda family: family.name)
    ]
    return _METRICS.replace("@ROWS", "".join(rows))


def _shown(family: Any) -> str:
    return str(family.name) + {"counter": "_total", "info": "_info"}.get(family.type, "")


def _labels(family: Any, known: dict[str, Any]) -> str:
    found = known.get(family.name) or {name for sample in family.samples for name in sample.labels}
    return ", ".join(sorted(name for name in found if name != "le")) or "–"
