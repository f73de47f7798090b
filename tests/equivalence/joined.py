"""A stream that is joined to tables, with its real parts; and plain Python for what the rows are."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from headrace.define.catalog import Catalog, parse
from headrace.define.fingerprint import fingerprint
from headrace.define.model import Stream, View
from headrace.ingest.formats.format_detection import FileLayout, Format
from headrace.ingest.intake import Ingest
from headrace.lake.append import Append
from headrace.lake.delta_table import LakeTable
from headrace.maintain.batch_layer import BatchLayer
from headrace.maintain.fused_lane import Fused
from headrace.maintain.spark_joins import TableLogs
from headrace.maintain.speed_layer import Speed
from headrace.maintain.table_snapshots import TableSnapshots
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from headrace.server.reconcile import pin_tables, point_of
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.version import Version
from headrace.transport.journal.journal import Journal


class Part:
    """One stream, the log of a table or the one that is joined."""

    def __init__(self, whole: Joined, stream: Stream, folder: Path, *, fused: bool) -> None:
        self.stream = stream
        self.table = LakeTable(folder / "lake" / stream.name, stream, fence=1)
        self.journal = Journal(folder / "journal" / stream.name, fence=1)
        self.ingest = Ingest(stream, self.journal)
        spark, store = whole.spark, whole.store
        self.states = TableSnapshots(lambda: spark, whole.logs, folder / f"tables-{stream.name}")
        self.fused = Fused(stream.name, self.table, store, folder, tables=self.states)
        self.append = Append(
            lambda: spark, stream, self.journal.reader, self.table, folder,
            companion=self.fused if fused else None, pins=whole.pins,
        )  # fmt: skip
        self.speed = Speed(lambda: spark, stream, self.table, store, folder, fused=self.fused, logs=whole.logs)
        self.batch = BatchLayer(lambda: spark, stream, self.table, store, folder / "builds", logs=whole.logs)
        self.spark = spark

    def send(self, *events: dict[str, Any]) -> None:
        lines = b"\n".join(map(orjson.dumps, events))
        reply = self.ingest.take(lines, layout=FileLayout(Format.NDJSON), key=None, keep_bad=False).result()
        assert not reply.refused, reply
        ranges = self.journal.reader.ranges(self.table.state.position, self.journal.end, target_bytes=1 << 40)
        self.append.append(self.spark, ranges)

    def close(self) -> None:
        self.speed.close()
        self.journal.close()


class Joined:
    """All streams of a catalog, over one store."""

    def __init__(self, spark: Any, folder: Path, sql: str, *, fused: bool = True) -> None:
        self.spark = spark
        self.catalog: Catalog = parse(sql)
        self.store = DuckStore.open(folder / "views.duckdb", 1)
        self.parts: dict[str, Part] = {}
        self.logs = TableLogs(self.find)
        for name, stream in self.catalog.base_streams.items():
            self.parts[name] = Part(self, stream, folder, fused=fused)

    def find(self, stream: str) -> tuple[Stream, LakeTable] | None:
        part = self.parts.get(stream)
        return (part.stream, part.table) if part else None

    def pins(self) -> dict[str, int]:
        return {name: part.table.state.next_commit for name, part in self.parts.items()}

    def register(self, name: str, *, fill: bool = False) -> Version:
        """A new version of a view, whose horizon is where the lake is; with `fill`, as `--tables missing` makes it."""
        view: View = self.catalog.views[name]
        at = {stream: point_of(self.parts[stream].table.state) for stream in view.streams}
        with self.store.snapshot() as snapshot:
            pinned = pin_tables(view, snapshot.versions(), self.pins())
        if fill:
            until = tuple((stream, point.commit) for stream, point in at.items())
            pinned = replace(pinned, fill=tuple(self.pins().items()), fill_until=until)
        return self.store.register(view, fingerprint(view), self.catalog.patience_ms(view), at, pinned)

    def prepare(self, view: str) -> None:
        """Make the rows of the tables of a view ready for the fused lane, if it can join them."""
        relation = self.catalog.views[view].relation
        for branch in relation.branches if relation else ():
            for join in branch.joins:
                self.parts[branch.stream].states.make(join)

    def maintain(self) -> None:
        for part in self.parts.values():
            while part.fused.run_once() or part.speed.run_once():
                pass

    def build(self) -> None:
        for part in self.parts.values():
            while part.batch.run_once():
                pass

    def ask(self, view: str) -> list[dict[str, Any]]:
        return answer(self.store, Question.of(view, limit=1000), up_to_date, datetime.now(UTC)).rows()

    def close(self) -> None:
        for part in self.parts.values():
            part.close()
        self.store.close()
