"""What sinks send of derived streams: each row once, from a cursor for each base stream."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

from bench.ours.lake import add_commit

from headrace.define.catalog import parse
from headrace.deliver.event_log import EventLog
from headrace.deliver.sinks.sink_feed import StreamFeed
from headrace.deliver.stream_logs import open_derived
from headrace.errors import QuestionError
from headrace.lake.delta_table import LakeTable
from tests import wording

DEFINITIONS = """CREATE STREAM a (id BIGINT, at TIMESTAMP); CREATE STREAM b (id BIGINT, at TIMESTAMP);
CREATE STREAM d AS SELECT id, explode(split(CAST(id AS STRING), '1')) AS piece FROM a
UNION ALL SELECT id, 'b' FROM b WHERE id % 2 = 0;
CREATE SINK s FROM d WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');"""


def test_each_row_once_over_restarts(tmp_path: Path) -> None:
    catalog = parse(DEFINITIONS)
    bases = [(catalog.streams[name], LakeTable(tmp_path / name, catalog.streams[name], fence=1)) for name in ("a", "b")]
    cursor: str | None = None
    rows: Counter[tuple[int, str]] = Counter()
    for turn in range(6):
        for stream, table in bases:
            add_commit(table, stream, 7 + turn)
        logs = {
            stream.name: EventLog(table, partial(catalog.streams.__getitem__, stream.name)) for stream, table in bases
        }
        streams = {name: partial(catalog.streams.__getitem__, name) for name in logs}
        log = open_derived(lambda: catalog.streams["d"], streams, logs)
        feed = StreamFeed(catalog.sinks["s"], partial(lambda log: log, log), 4)  # as after a restart
        for _ in range(20 if turn < 5 else 1000):
            batch = feed.after(cursor)
            if batch is None:
                break
            assert len(batch.changes) <= 4
            rows.update((change.row["id"], change.row["piece"]) for change in batch.changes)
            cursor = batch.cursor
    assert feed.after(cursor) is None
    assert feed.lag(cursor) == 0
    ids = range(sum(7 + turn for turn in range(6)))
    expected = Counter((number, piece) for number in ids for piece in str(number).split("1"))
    assert rows == expected + Counter((number, "b") for number in ids if number % 2 == 0)
    with wording.raises(QuestionError):
        feed.after("12-4096")
