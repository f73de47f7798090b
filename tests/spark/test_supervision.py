"""An append that has ended is restarted, and its supervisor does not wait for that."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.app import run
from headrace.define.catalog import load
from headrace.ingest.formats.format_detection import ANY
from headrace.server.neighbours import Neighbours
from headrace.server.pipeline import Pipeline
from headrace.server.running_stream import Running
from headrace.server.stream_maintenance import StreamMaintenance
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.workspace.lease import Lease
from headrace.workspace.settings import Workspace
from tests.waiting import wait_until


@pytest.fixture
def pipeline(spark: Any, tmp_path: Path) -> Iterator[Pipeline]:
    assert run(["init", str(tmp_path / "shop")]) == 0
    workspace = Workspace.open(tmp_path / "shop")
    catalog = load(workspace.definitions)
    lease = Lease(workspace.lease_file, url=None)
    store = DuckStore.open(tmp_path / "store", lease.fence)
    running = Pipeline(workspace, catalog.streams["visits"], lease, store, Neighbours(lambda: Running(catalog, {})))
    running.start(lambda: spark, tmp_path / "scratch", lambda: None)
    yield running
    running.close()
    store.close()
    lease.release()


def maintenance_of(pipeline: Pipeline) -> StreamMaintenance:
    assert pipeline._maintenance is not None
    return pipeline._maintenance


def test_the_heartbeat_does_not_wait_for_an_append_that_is_started_again(pipeline: Pipeline) -> None:
    append, supervisor = maintenance_of(pipeline).append, maintenance_of(pipeline)._supervisor
    append.stop()
    with ThreadPoolExecutor(1) as pool, pipeline.table.turn:  # without its turn no append starts
        pool.submit(pipeline.supervise).result(180)
        restarting = supervisor.restarting
        assert restarting is not None
        assert restarting.is_alive(), "it is being started"
        pool.submit(pipeline.supervise).result(180)
        assert supervisor.restarting is restarting, "once"
        assert not append.is_active()
    wait_until(append.is_active)


def test_an_append_is_not_started_after_close(pipeline: Pipeline) -> None:
    append = maintenance_of(pipeline).append
    append.stop()
    with pipeline.table.turn:
        closing = threading.Thread(target=pipeline.close)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(pipeline.supervise).result(180)
        closing.start()
    closing.join(180)
    assert not closing.is_alive()
    assert not append.is_active()
    pipeline.supervise()
    assert not append.is_active()


def test_the_time_of_an_idle_stream_goes_on_once_it_has_a_timeout(pipeline: Pipeline) -> None:
    event = b'{"visitor": "ann", "page": "/", "status": 200, "bytes": 1, "at": "2026-03-01T12:00:00Z"}'
    pipeline.ingest.take(event, layout=ANY, key=None, keep_bad=False).result()
    wait_until(lambda: pipeline.table.rows() == 1)
    first = pipeline.table.state
    assert first.idle_us is None
    pipeline.redefine(replace(pipeline.stream, idle_timeout_ms=1_000))
    wait_until(lambda: pipeline.table.state.idle_us is not None)
    idle = pipeline.table.state
    assert idle.newest_us == first.newest_us
    assert 1_000_000 <= (idle.time_us or 0) - (first.time_us or 0) < 60_000_000
    assert (idle.position, pipeline.table.rows()) == (first.position, 1)
