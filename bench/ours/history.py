"""Generates a long history quickly: commits of the size that `headrace send` makes, by the lake's own writer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.ours.events import BASE_S, PAGES, STREAM
from headrace.define.catalog import parse
from headrace.lake.delta_table import LakeState, LakeTable
from headrace.lake.parquet_file import LakeFileWriter, NewFile
from headrace.lake.table_schema import pin_column, table_schema
from headrace.parse.record_columns import utc_us
from headrace.transport.journal.journal_reader import CHUNK_BYTES
from headrace.transport.position import Position

VISITORS = 10_000
EVENTS_PER_S = 2_778  # 10 M in an hour: 10,000 visitors then have some 600,000 groups of 1-minute panes
COMMIT_ROWS = 1_000_000  # what 96 MB of the journal hold
FILES = 2  # of a commit: one per core
EVENT_BYTES = 96
GROUP_ROWS = CHUNK_BYTES // EVENT_BYTES  # the append writes a row group per chunk
(VISITS,) = parse(STREAM).streams.values()


def extend(table: LakeTable, events: int) -> None:
    """Append this many visits."""
    last = table.rows() + events
    with ThreadPoolExecutor(FILES) as threads:
        while (first := table.rows()) < last:
            end = min(first + COMMIT_ROWS, last)
            with table.turn:
                at = table.state
                cuts = np.linspace(first, end, FILES + 1).astype(int).tolist()
                files = list(threads.map(lambda cut, at=at: _write(table, at, *cut), pairwise(cuts)))
                table.commit(at, Position.at(end * EVENT_BYTES), _event_us(end - 1), files)


def _write(table: LakeTable, at: LakeState, first: int, end: int) -> NewFile:
    writer = LakeFileWriter(table.storage, at.next_commit, dead=False)
    for start in range(first, end, GROUP_ROWS):
        writer.write(_rows(at, start, min(start + GROUP_ROWS, end)))
    file = writer.close()
    assert file is not None, "a commit has events"
    return file


def _rows(at: LakeState, first: int, end: int) -> pa.Table:
    """Events [first, end) as the append would write them. Each number always gives the same event."""
    rng = np.random.default_rng(first)
    count = end - first
    numbers = np.arange(first, end, dtype=np.int64)
    late_us = (rng.exponential(3.0, count) * 1000).astype(np.int64) * 1000
    event_us = BASE_S * 1_000_000 + numbers * 1_000_000 // EVENTS_PER_S - late_us
    fields = {
        "visitor": _texts("u", rng.integers(0, VISITORS, count)),
        "page": _texts("/p/", rng.integers(0, PAGES, count)),
        "status": pa.array(rng.choice(np.array([200, 304, 404, 500], np.int32), count, p=[0.9, 0.05, 0.04, 0.01])),
        "bytes": pa.array(rng.integers(100, 100_000, count)),
        "at": pa.array(event_us).cast(utc_us()),
    }
    now = pa.repeat(pa.scalar(_event_us(end - 1), pa.int64()).cast(utc_us()), count)
    newest = pa.repeat(pa.scalar(at.newest_us, pa.int64()).cast(utc_us()), count)
    columns = {
        "_commit": pa.repeat(at.next_commit, count),
        "_committed_at": now,
        "_arrived": now,
        "_newest": newest,
        "_position": pa.array(numbers * EVENT_BYTES),
        "_reason": pa.nulls(count, pa.string()),
        "_value": _json(fields),
        "_tables": pin_column({}, count),
        **fields,
    }
    return pa.table({name: columns[name] for name in table_schema(VISITS).names if name in columns})


def _texts(prefix: str, numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "")


def _json(fields: dict[str, pa.Array]) -> pa.Array:
    """The events as JSON, as they would be received."""
    parts: list[object] = []
    quote_before = ""
    for name, values in fields.items():
        if values.type == utc_us():
            values = values.cast(pa.timestamp("us"))  # converting times with a zone to text is twenty times slower
        quote = "" if pa.types.is_integer(values.type) else '"'
        before = f'{quote_before}{"," if parts else "{"}"{name}":{quote}'
        parts += [before, values.cast(pa.string())]
        quote_before = quote
    return pc.binary_join_element_wise(*parts, f"{quote_before}}}", "").cast(pa.binary())


def _event_us(number: int) -> int:
    return BASE_S * 1_000_000 + number * 1_000_000 // EVENTS_PER_S
