"""`/metrics`, over a real runtime without Spark: parsed as Prometheus would, and current at each scrape."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from headrace.store.store_contract import Drift
from headrace.timing import BOUNDS_S, Timing
from tests.surfaces.conftest import Served, visit
from tests.surfaces.pour import beat, begin_build, pour_lines, pour_view
from tests.unit.store.partial_files import Event

Sample = tuple[str, tuple[tuple[str, str], ...]]


def scrape(served: Served) -> dict[Sample, float]:
    reply = served.http.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=")
    samples: dict[Sample, float] = {}
    for family in parse(reply.text):
        assert family.documentation, family.name
        for sample in family.samples:
            samples[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return samples


def at(name: str, **labels: str) -> Sample:
    return name, tuple(sorted(labels.items()))


def test_every_metric_exists_from_the_start(served: Served) -> None:
    samples = scrape(served)
    assert samples[at("headrace_up")] == 1
    assert samples[at("headrace_state", headrace_state="starting")] == 1
    assert samples[at("headrace_state", headrace_state="ok")] == 0
    assert samples[at("headrace_memory_bytes")] > 1 << 20
    assert samples[at("headrace_process_resident_memory_bytes")] > 1 << 20
    assert samples[at("headrace_events_total", stream="visits")] == 0
    assert samples[at("headrace_dead_letters", stream="visits")] == 0
    assert samples[at("headrace_view_stalled", view="traffic")] == 0
    assert samples[at("headrace_view_lag_commits", view="traffic")] == 0
    assert samples[at("headrace_view_freshness_seconds", view="traffic")] == 0
    assert [labels for name, labels in samples if name == "headrace_build_info"]
    assert all(name.startswith("headrace_") for name, _ in samples)


def test_labels_have_defined_names_only(served: Served) -> None:
    events = [visit(), visit(status="oops"), visit(1)]
    reply = served.http.post("/v1/streams/visits/events", json=events)
    served.http.post("/v1/streams/visits/events", content=b"")
    for name in ("a", "b", "c"):
        served.http.post(f"/v1/streams/{name}/events", json=events)
        served.http.get(f"/v1/views/{name}")
    served.http.get("/v1/views/traffic")
    served.http.get("/v1/views/traffic?limit=0")
    served.http.get("/no/such/path")
    samples = scrape(served)
    assert samples[at("headrace_events_accepted_total", stream="visits")] == 2
    assert samples[at("headrace_events_refused_total", stream="visits")] == 1
    assert samples[at("headrace_ingest_bytes_total", stream="visits")] == len(reply.request.content)
    assert samples[at("headrace_ingest_requests_total", stream="visits", status="200")] == 1
    assert samples[at("headrace_ingest_requests_total", stream="", status="404")] == 3
    assert samples[at("headrace_answers_total", view="traffic", status="200")] == 1
    assert samples[at("headrace_answers_total", view="traffic", status="400")] == 1
    assert samples[at("headrace_answers_total", view="", status="404")] == 3
    assert samples[at("headrace_answer_seconds_count")] == 5
    assert samples[at("headrace_http_requests_total", endpoint="", status="404")] == 1
    assert samples[at("headrace_backlog_bytes", stream="visits")] > 0
    assert samples[at("headrace_view_lag_bytes", view="traffic")] > 0
    assert samples[at("headrace_view_freshness_known", view="traffic")] == 0
    assert at("headrace_view_freshness_seconds", view="traffic") not in samples
    names = {value for _, labels in samples for label, value in labels if label in ("stream", "view")}
    assert names == {"", "visits", "traffic"}


def test_metrics_of_the_batch_layer(served: Served) -> None:
    def events(minutes: int) -> list[Event]:
        values = {"STRING": "ann", "BIGINT": 1, "INT": 200}
        return [Event((page,), minute * 60_000, values) for page in ("/a", "/b") for minute in range(minutes)]

    runtime = served.runtime
    of = {"view": "traffic"}
    samples = scrape(served)
    assert samples[at("headrace_view_horizon", **of)] == samples[at("headrace_view_alarm", **of)] == 0
    assert samples[at("headrace_view_versions", state="serving", **of)] == 1
    assert not [name for name, _ in samples if name.startswith(("headrace_view_drift", "headrace_view_audit_"))]
    pour_view(runtime, "traffic", events(3))
    before_s = time.time()
    beat(runtime, "traffic")
    pour_view(runtime, "traffic", events(2))
    samples = scrape(served)
    assert samples[at("headrace_view_horizon", **of)] == samples[at("headrace_view_batch_tables", **of)] == 1
    assert samples[at("headrace_view_batch_rows", **of)] == samples[at("headrace_view_audit_rows", **of)] == 6
    assert samples[at("headrace_view_speed_rows", **of)] == 4
    drift = {
        dict(labels)["column"]: rows for (name, labels), rows in samples.items() if name == "headrace_view_drift_rows"
    }
    assert drift == dict.fromkeys(("events", "corrections", "hits", "errors", "bytes", "visitors"), 0)
    assert before_s <= samples[at("headrace_view_audit_timestamp_seconds", **of)] <= time.time()
    beat(runtime, "traffic", Drift("hits", 3, "page '/a': 1 by the batch layer, 2 by the speed layer"))
    pour_lines(runtime, "visits", orjson.dumps(visit()), orjson.dumps(visit(1)))
    begin_build(runtime, "traffic")
    samples = scrape(served)
    assert samples[at("headrace_view_alarm", **of)] == 1
    assert samples[at("headrace_view_drift_rows", column="hits", **of)] == 3
    assert samples[at("headrace_view_drift_rows", column="bytes", **of)] == 0
    assert samples[at("headrace_view_build_events", **of)] == 2
    assert samples[at("headrace_view_build_events_done", **of)] == 0
    assert samples[at("headrace_view_versions", state="registered", **of)] == 1
    health = served.http.get("/health")
    assert health.status_code == 200
    assert health.json()["warnings"][0].startswith("view 'traffic': the two layers disagree over commits [1, 2): hits")


def test_openmetrics_by_accept_header(served: Served) -> None:
    reply = served.http.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert reply.headers["content-type"].startswith("application/openmetrics-text")
    assert {"headrace_events", "headrace_view_freshness_seconds"} <= {f.name for f in parse_openmetrics(reply.text)}


def test_a_token_is_required(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, token="open sesame")
    assert served.http.get("/metrics").status_code == 401
    reply = served.http.get("/metrics", headers={"authorization": "Bearer open sesame"})
    assert 'headrace_http_requests_total{endpoint="",status="401"} 1.0' in reply.text


def test_times_become_a_histogram(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Timing()
    for seconds in (0.004, 0.005, 0.3, 100.0):
        commit.note(seconds)
    pipeline: Any = served.runtime.lookup.pipelines["visits"]
    monkeypatch.setattr(pipeline, "timings", lambda: {"commit": commit})
    samples = scrape(served)
    assert samples[at("headrace_commit_seconds_bucket", stream="visits", le=str(BOUNDS_S[0]))] == 2
    assert samples[at("headrace_commit_seconds_bucket", stream="visits", le="0.5")] == 3
    assert samples[at("headrace_commit_seconds_bucket", stream="visits", le="+Inf")] == 4
    assert samples[at("headrace_commit_seconds_count", stream="visits")] == 4
    assert samples[at("headrace_commit_seconds_sum", stream="visits")] == pytest.approx(100.309)
