"""Events for a server without Spark: into its lake by the range writer, into its views by Python aggregates."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from headrace.ingest.formats.format_detection import FileLayout, Format
from headrace.lake.append_task import Work, range_writer
from headrace.server.reconcile import point_of
from headrace.server.runtime import Runtime
from headrace.store.store_contract import Audit, Drift, Step
from headrace.transport.position import Range
from tests.unit.store.partial_files import Event, write_partials


def pour_lines(runtime: Runtime, stream: str, *lines: bytes) -> None:
    """One lake commit of these lines; those that cannot be parsed become dead letters."""
    pipeline = runtime.lookup.pipelines[stream]
    pipeline.ingest.take(b"\n".join(lines), layout=FileLayout(Format.NDJSON), key=None, keep_bad=True).result()
    at, end = pipeline.table.state, pipeline.transport.end
    places = (pipeline.transport.reader, str(pipeline.table.folder))
    work = Work(pipeline.stream, *places, at.next_commit, time.time_ns() // 1000, at.newest_us)
    (result,) = range_writer(work)([Range(0, at.position.offset(), end.offset())])
    pipeline.table.commit(at, end, result.newest_us or at.newest_us, result.files)
    pipeline._lateness.note(at.next_commit, [result.lateness])


def pour_view(runtime: Runtime, view: str, events: Sequence[Event]) -> None:
    """One step of a view's serving version; it is then at the end of its stream's journal."""
    with runtime._store.snapshot() as snapshot:
        version = snapshot.serving(view)
    assert version is not None
    newest_us = max([event.at_ms * 1000 for event in events] + [version.newest_us or 0])
    (base,) = version.bases
    path = Path(runtime.workspace.data) / f"{view}-{base.applied_to}.parquet"
    write_partials(path, version.view, events)
    end = runtime.lookup.pipelines[base.stream].transport.end
    step = Step(base.stream, base.applied_to, base.applied_to + 1, end, newest_us, time.time_ns() // 1000)
    runtime._store.apply(step, {(view, version.number): [str(path)]})


def beat(runtime: Runtime, view: str, *drift: Drift) -> None:
    """A beat of a view's serving version; with drift it is refused."""
    store = runtime._store
    with store.snapshot() as snapshot:
        version = snapshot.serving(view)
    assert version is not None
    current = store.begin_beat(*version.id, version.bases[0].stream)
    (base,) = current.bases
    assert base.next_horizon is not None
    at_us = time.time_ns() // 1000
    commits = (base.horizon, base.next_horizon)
    files = [runtime.workspace.data / f"{view}-{k}.parquet" for k in range(*commits)]
    table = store.make_batch_table(current, commits, files)
    audit = Audit(view, current.number, base.stream, *commits, at_us, 12, table.events, table.rows, tuple(drift))
    if drift:
        store.refuse_beat(current, audit)
    else:
        store.end_beat(current, [*current.batch, table], audit)


def begin_build(runtime: Runtime, view: str) -> None:
    """Register a new version of a view over its stream's lake, without building it."""
    with runtime._store.snapshot() as snapshot:
        version = snapshot.serving(view)
    assert version is not None
    at = {stream: point_of(runtime.lookup.pipelines[stream].table.state) for stream in version.view.streams}
    runtime._store.register(version.view, f"{version.fingerprint} again", version.patience_ms, at)
