"""The real parts of the product, driven by a test: it decides what becomes a commit and when views advance."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from headrace.define.catalog import Catalog, parse
from headrace.define.definition_rules import strictest
from headrace.define.fingerprint import fingerprint
from headrace.define.model import View
from headrace.ingest.formats.format_detection import FileLayout, Format
from headrace.ingest.intake import Ingest
from headrace.lake.append import Append
from headrace.lake.delta_table import LakeTable
from headrace.lake.lateness_record import LatenessRecord
from headrace.lake.table_schema import ChoosePins, no_pins
from headrace.maintain.batch_layer import _ORDER as ORDER
from headrace.maintain.batch_layer import BatchLayer
from headrace.maintain.fused_lane import Fused
from headrace.maintain.spark_joins import NO_LOGS, TableLogs
from headrace.maintain.speed_layer import Speed
from headrace.maintain.table_snapshots import TableSnapshots
from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from headrace.server.reconcile import point_of, reconcile_views
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.version import Version
from headrace.transport.position import Range
from tests.transports import make_source, on, open_one


class Bench:
    """Transport, append, lake, maintain and store of one stream, advanced by the test; streams may share a store."""

    def __init__(
        self,
        spark: Any,
        folder: Path,
        stream_sql: str,
        *,
        store: DuckStore | None = None,
        fused: bool = True,
        logs: TableLogs = NO_LOGS,
        pins: ChoosePins = no_pins,
        **batch: Any,
    ) -> None:
        """`fused`: versions that the fused lane can compute go through it, the others by Spark."""
        self.spark = spark
        self._source = make_source()
        self._define(stream_sql)
        self.table = LakeTable(folder / "lake", self.stream, fence=1)
        self.journal = open_one(folder, self.stream)
        self.ingest = Ingest(self.stream, self.journal)
        self.store = store or DuckStore.open(folder / "views.duckdb", 1)
        self.states = TableSnapshots(lambda: spark, logs, folder / "tables")
        self.fused = Fused(self.stream.name, self.table, self.store, folder, tables=self.states)
        companion = self.fused if fused else None
        self.lateness = LatenessRecord(self.table, self.stream)
        self.append = Append(
            lambda: spark,
            self.stream,
            self.journal.reader,
            self.table,
            folder,
            companion=companion,
            lateness=self.lateness,
            pins=pins,
        )
        self.speed = Speed(lambda: spark, self.stream, self.table, self.store, folder, fused=self.fused, logs=logs)
        self.batch = BatchLayer(
            lambda: spark,
            self.stream,
            self.table,
            self.store,
            folder / "builds",
            logs=logs,
            next_partials=self.fused.next_commit,
            **batch,
        )

    def _define(self, stream_sql: str) -> None:
        catalog = parse(stream_sql)
        (stream,) = catalog.streams.values()
        self.stream = on(stream, self._source)
        self.catalog = replace(catalog, streams={self.stream.name: self.stream})

    def redefine(self, stream_sql: str) -> None:
        """Continue with a changed definition, in the same order as a pipeline."""
        before = self.stream
        self._define(stream_sql)
        self.table.redefine(self.stream, self.ingest.redefine(strictest(before, self.stream)))
        self.speed.redefine(self.stream)
        self.batch.redefine(self.stream)
        self.append.redefine(self.stream)
        self.ingest.redefine(self.stream)

    def add_view(self, sql: str) -> View:
        """Register a view at commit 0, whatever the lake already has."""
        (view,) = parse(sql, known=self.catalog).views.values()
        self.store.register(view, fingerprint(view), self.catalog.patience_ms(view))
        return view

    def edit_view(self, view: View) -> Version:
        """A new version, whose horizon is where the lake is now."""
        return self.store.register(
            view,
            fingerprint(view),
            self.catalog.patience_ms(view),
            {self.stream.name: point_of(self.table.state)},
        )

    def work(self) -> None:
        """Let the batch layer do all that is due."""
        while self.batch.run_once():
            pass

    def beat(self, view: str) -> None:
        """Let the batch layer take over what the speed layer has of a view."""
        self.batch.refresh(view)
        self.work()

    def advance(self, view: str) -> bool:
        """One piece of the batch layer's work on one view; returns whether there was any. Errors are raised."""
        with self.store.snapshot() as snapshot:
            versions = snapshot.versions()
        own = [version for version in versions if version.view.name == view]
        for version in sorted(own, key=lambda version: ORDER.index(version.state)):
            if self.batch._is_due(version, versions):
                self.batch._work(version)
                return True
        return False

    def reconcile(self, views: list[str]) -> None:
        """Make these the views, as `apply` does."""
        targets = parse("\n".join(views), known=self.catalog).views
        reconcile_views(self.store, Catalog(self.catalog.streams, targets), {self.stream.name: self.table.state})

    def post(self, lines: list[bytes], key: str, *, keep_bad: bool) -> Any:
        """One request; done when durable."""
        return self.ingest.take(
            b"\n".join(lines), layout=FileLayout(Format.NDJSON), key=key, keep_bad=keep_bad
        ).result()

    def commit(self, ranges: list[Range] | None = None) -> None:
        """Make one lake commit of these ranges, or of all that the lake does not have, as the append does."""
        if ranges is None:
            ranges = self.journal.reader.ranges(self.table.state.position, self.journal.end, target_bytes=1 << 40)
        self.append.append(self.spark, ranges)

    def be_idle(self, time_us: int) -> int:
        """Let the time of the stream go on by so much, as an append without events does; returns what it is then."""
        at = self.table.state
        assert at.time_us is not None, "only a stream with events has a time"
        self.append.commit_idle(at, at.time_us + time_us)
        return at.time_us + time_us

    def lines(self, *, dead: bool) -> list[tuple[bytes, str | None]]:
        """The events or dead letters in the lake's files, as they were sent, with the reason."""
        files = self.table.folder.glob(f"_dead={str(dead).lower()}/*.parquet")
        tables = [pq.read_table(file, columns=["_value", "_reason"]) for file in files]
        return [pair for read in tables for pair in zip(*(column.to_pylist() for column in read.columns), strict=True)]

    def maintain(self) -> None:
        """Bring all views up to the lake."""
        while self.fused.run_once() or self.speed.run_once():
            pass

    def ask(self, view: str, chance: random.Random, **options: Any) -> list[dict[str, Any]]:
        """All rows, page by page."""
        rows: list[dict[str, Any]] = []
        cursor = None
        limit = chance.choice([1000, 7, 100])
        while True:
            page = self.answer(view, limit=limit, cursor=cursor, **options)
            rows += page.rows()
            cursor = page.next_cursor
            if cursor is None:
                return rows

    def answer(self, view: str, **options: Any) -> Answer:
        """One answer from the store."""
        return answer(self.store, Question.of(view, **options), up_to_date, datetime.now(UTC))

    def close(self) -> None:
        self.speed.close()
        self.journal.close()
        self.store.close()
