"""Lateness and corrections in every report: on time + late = all events; on time + corrections = events of a view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.api.connect import connect
from tests.surfaces.conftest import Ran, Served
from tests.surfaces.pour import beat, pour_lines, pour_view
from tests.surfaces.sql_shop import visit_of

ADVICE = "50 % of events came more than 1 minute late, the patience; 10 minutes would have covered 99.9 %"


def line(minute: int) -> bytes:
    return b'{"visitor":"ann","page":"/","status":200,"bytes":1,"at":"2026-03-01T12:%02d:00Z"}' % minute


@pytest.fixture
def shop(served: Served) -> Served:
    """Two events in order, and two that are eight minutes late; the view has one correction in each layer."""
    pour_lines(served.runtime, "visits", line(0), line(9))
    pour_lines(served.runtime, "visits", line(1), line(1))
    pour_view(served.runtime, "traffic", [visit_of("/", 0), replace(visit_of("/", 1), correction=True)])
    beat(served.runtime, "traffic")
    pour_view(served.runtime, "traffic", [visit_of("/", 9), replace(visit_of("/", 1), correction=True)])
    return served


def test_http_and_python_report_lateness(shop: Served) -> None:
    (stream,) = shop.http.get("/v1/streams").json()["streams"]
    lateness = stream["lateness"]
    assert (lateness["on_time"], lateness["late"], lateness["events"]) == (2, 2, 4)
    assert lateness["lateness_ms"]["max"] == 8 * 60_000
    assert 8 * 60_000 <= lateness["lateness_ms"]["p99_9"] <= 8.5 * 60_000
    assert list(lateness["delay_ms"]) == ["p50", "p90", "p99", "p99_9", "max"]
    assert lateness["advice"] == ADVICE
    (view,) = shop.http.get("/v1/status").json()["views"]
    assert (view["corrections"], view["on_time"]) == (2, 2)
    assert view["on_time"] + view["corrections"] == view["batch_events"] + view["speed_events"]
    folder = shop.runtime.workspace.folder
    with connect(shop.url) as connection:
        assert connection.status().as_dict()["streams"][0]["lateness"] == lateness
    shop.stop()
    with connect(folder) as connection:
        assert connection.status().as_dict()["streams"][0]["lateness"] == lateness
        assert connection.views()[0].corrections == 2


def test_rows_add_up_to_the_view(shop: Served) -> None:
    answer = shop.http.get("/v1/views/traffic?corrections=true").json()
    assert [(row["events"], row["corrections"]) for row in answer["rows"]] == [(1, 0), (2, 2), (1, 0)]
    assert (sum(answer["events"].values()), answer["corrections"]) == (4, 2)


def test_the_command_line_shows_lateness(shop: Served, headrace: Callable[..., Ran]) -> None:
    assert f"visits: {ADVICE}" in headrace("status", "-w", shop.url).out.replace("\n", " ").replace("  ", " ")
    listed = headrace("streams", "-w", shop.url).out
    assert "2 on time + 2 late = 4 events since" in listed
    assert "p99.9" in listed
    assert headrace("views", "-w", shop.url, "--json").json[0]["corrections"] == 2


def test_the_page_and_metrics_show_lateness(shop: Served) -> None:
    assert f"visits: {ADVICE}." in shop.http.get("/").text
    metrics = shop.http.get("/metrics").text
    assert 'headrace_lateness_seconds{quantile="max",stream="visits"} 480.0' in metrics
    assert 'headrace_timely_events{stream="visits",timeliness="late"} 2.0' in metrics
    assert 'headrace_view_corrections{view="traffic"} 2.0' in metrics
    assert 'headrace_view_events{view="traffic"} 4.0' in metrics


def test_it_is_kept_over_a_restart(shop: Served, serve: Callable[..., Served], applied: Path) -> None:
    before = shop.http.get("/v1/streams").json()["streams"][0]["lateness"]
    shop.stop()
    again = serve(applied)
    assert again.http.get("/v1/streams").json()["streams"][0]["lateness"] == before
