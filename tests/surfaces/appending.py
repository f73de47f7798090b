"""Commits what a server without Spark has accepted, as the append does."""

from __future__ import annotations

import time

from headrace.lake.append_task import Work, range_writer
from headrace.server.runtime import Runtime
from headrace.transport.position import Range


def append(runtime: Runtime, stream: str) -> None:
    """One commit of all that the journal holds."""
    pipeline = runtime.lookup.pipelines[stream]
    table, transport = pipeline.table, pipeline.transport
    at, end = table.state, transport.end
    work = Work(
        pipeline.stream,
        transport.reader,
        str(table.folder),
        at.next_commit,
        time.time_ns() // 1000,
        at.newest_us,
        table.since,
    )
    (result,) = range_writer(work)([Range(0, at.position.offset(), end.offset())])
    newest = max((us for us in (result.newest_us, at.newest_us) if us is not None), default=None)
    table.commit(at, end, newest, result.files)
