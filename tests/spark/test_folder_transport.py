"""A transport of two partitions feeds a real append: Spark, a lake, views and tokens know it by its protocol only."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint
from headrace.ingest.formats.format_detection import FileLayout, Format
from headrace.ingest.intake import Ingest
from headrace.ingest.receiver import IngestReply, read_token
from headrace.lake.append import Append
from headrace.lake.dead_letter_pages import DeadLetters
from headrace.lake.delta_table import LakeTable
from headrace.lake.upkeep import Upkeep
from headrace.maintain.speed_layer import Speed
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.version import Version
from headrace.transport.position import START

from ..contracts.folder_transport import FolderTransport, requests
from ..waiting import wait_until

OLD = parse("CREATE STREAM s (id BIGINT NOT NULL)").streams["s"]
NEW = parse("CREATE STREAM s (id BIGINT NOT NULL, size INT)").streams["s"]
VIEW = parse(
    "CREATE STREAM s (id BIGINT NOT NULL); CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(id) AS total FROM s"
).views["v"]


class Workbench:
    """The product's parts over the folder transport, opened as a server opens them."""

    def __init__(self, spark: Any, folder: Path, fence: int) -> None:
        self.stream = OLD
        self.table = LakeTable(folder / "lake", OLD, fence, transport=FolderTransport.name)
        self.transport = FolderTransport(folder / "events", fence=fence, lake_end=self.table.state.position)
        self.ingest = Ingest(OLD, self.transport)
        # Little at a time, so that there are several commits, of some files each.
        self.append = Append(lambda: spark, OLD, self.transport.reader, self.table, folder, most_bytes=1000)
        self.store = DuckStore.open(folder / "views.duckdb", fence)
        self.speed = Speed(lambda: spark, OLD, self.table, self.store, folder)

    def post(self, *lines: bytes, key: str | None = None) -> IngestReply:
        body = b"\n".join(lines)
        return self.ingest.take(body, layout=FileLayout(Format.NDJSON), key=key, keep_bad=True).result()

    def wait(self) -> None:
        """Until the lake has everything; the first job of a session takes its time."""
        wait_until(lambda: self.is_appended() or not self.append.is_active(), 180, self.append.failure)
        assert self.is_appended(), self.append.failure()

    def is_appended(self) -> bool:
        return self.table.state.position == self.transport.end

    def settle(self) -> None:
        """Wait until the lake has everything, then let the view have it."""
        self.wait()
        while self.speed.run_once():
            pass

    def version(self) -> Version:
        with self.store.snapshot() as snapshot:
            (version,) = snapshot.versions()
        return version

    def answer(self) -> tuple[int, int]:
        (row,) = answer(self.store, Question.of("v"), up_to_date, datetime.now(UTC)).rows()
        return row["n"], row["total"]

    def rows(self, *, dead: bool) -> list[dict[str, Any]]:
        files = self.table.files(0, self.table.state.next_commit, dead=dead)
        rows = [row for file in files for row in ds.dataset(self.table.folder / file.path).to_table().to_pylist()]
        return sorted(rows, key=lambda row: row["_position"])

    def close(self) -> None:
        self.append.stop()
        self.speed.close()
        self.transport.close()
        self.store.close()


@pytest.fixture
def bench(spark: Any, tmp_path: Path) -> Iterator[Workbench]:
    bench = Workbench(spark, tmp_path, fence=1)
    yield bench
    bench.close()


def test_events_of_two_partitions_are_appended_once(spark: Any, tmp_path: Path, bench: Workbench) -> None:
    bench.store.register(VIEW, fingerprint(VIEW), {"s": 0})
    bench.append.start()
    replies = [bench.post(*(b'{"id":%d}' % (n * 10 + i) for i in range(n)), b"bad", key=f"k{n}") for n in range(1, 9)]
    bench.settle()
    expected = [n * 10 + i for n in range(1, 9) for i in range(n)]
    state = bench.table.state
    assert len(state.position.offsets) == 2
    assert all(state.position.offsets), "both partitions were used"
    assert state.next_commit > 1, "one micro-batch does not take all"
    assert sorted(row["id"] for row in bench.rows(dead=False)) == expected
    positions = [row["_position"] for dead in (False, True) for row in bench.rows(dead=dead)]
    assert len(set(positions)) == len(expected) + 8
    # Views, freshness and tokens use the same position.
    assert bench.answer() == (len(expected), sum(expected))
    assert bench.version().bases[0].position == state.position
    assert bench.transport.age_ms(state.position) == 0
    for reply in replies:
        token = read_token(reply.token)
        assert token is not None
        assert state.position.covers(token[1])
        assert not START.covers(token[1])
    # A dead letter is found by its one number, in whichever partition it is.
    letters = DeadLetters("s", bench.table)
    for row in bench.rows(dead=True):
        assert letters.show(row["_position"]).value == "bad"

    # The next process continues where the lake ends, also if the transport was lost.
    bench.close()
    for partition in range(2):
        for request in requests(tmp_path / "events", partition):
            request.path.unlink()
    again = Workbench(spark, tmp_path, fence=2)
    try:
        assert again.table.state == state
        assert again.transport.end == state.position
        again.append.start()
        more = [again.post(b'{"id":%d}' % n) for n in (100, 200, 300)]
        again.settle()
        assert again.answer() == (len(expected) + 3, sum(expected) + 600)
        assert len({row["_position"] for row in again.rows(dead=False)}) == len(expected) + 3
        assert [read_token(reply.token) != read_token(replies[0].token) for reply in more] == [True] * 3
        Upkeep(again.table, again.transport).run()
        assert sorted(row["id"] for row in again.rows(dead=False)) == sorted([*expected, 100, 200, 300])
    finally:
        again.close()


def test_a_field_that_is_added_counts_from_a_position_of_each_partition(bench: Workbench) -> None:
    for n in range(4):
        bench.post(b'{"id":%d,"size":"x"}' % n)
    position = bench.ingest.redefine(NEW)
    bench.table.redefine(NEW, position)
    bench.append.redefine(NEW)
    for n in range(4, 8):
        bench.post(b'{"id":%d,"size":"x"}' % n)
    again = LakeTable(bench.table.folder, NEW, None, transport=FolderTransport.name)
    assert again.since == bench.table.since == (("size", position),)
    assert len(position.offsets) == 2
    bench.append.start()
    bench.wait()
    assert sorted((row["id"], row["size"]) for row in bench.rows(dead=False)) == [(n, None) for n in range(4)]
    assert len(bench.rows(dead=True)) == 4
