"""A served view that changes when a test says so, in the store and in the lake; without Spark."""

from __future__ import annotations

from pathlib import Path

from headrace.server.runtime import Runtime
from headrace.store.store_contract import Step
from headrace.transport.position import Position
from tests.unit.store.partial_files import Event, write_partials


def change_view(runtime: Runtime, folder: Path, view: str, *events: Event) -> None:
    """One commit of these events, in the view."""
    with runtime._store.snapshot() as snapshot:
        version = snapshot.serving(view)
    assert version is not None
    (base,) = version.bases
    at = base.applied_to
    file = write_partials(folder / f"{view}-{at}.parquet", version.view, events)
    newest_us = max([version.newest_us or 0, *(event.at_ms * 1000 for event in events)])
    lake = runtime.lookup.pipelines[base.stream].table
    lake.commit(lake.state, Position.at(at + 1), newest_us, [])  # a view ahead of its lake would be dropped
    step = Step(base.stream, at, at + 1, Position.at(at + 1), newest_us, at)
    runtime._store.apply(step, {version.id: [file]})
    runtime._notify()
