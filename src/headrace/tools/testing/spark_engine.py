"""Runs tests by the real jobs: journal, append, lake, speed layer, beat; one Spark session for all tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.define.catalog import Catalog
from headrace.define.fingerprint import fingerprint
from headrace.define.model import TEXT, Stream
from headrace.errors import HeadraceError
from headrace.ingest.formats.format_detection import FileLayout, Format
from headrace.ingest.intake import Ingest
from headrace.lake.append import Append
from headrace.lake.dead_letter_pages import DeadLetters
from headrace.lake.dead_letters import MOST_LIMIT
from headrace.lake.delta_table import LakeTable
from headrace.maintain.batch_layer import BatchLayer
from headrace.maintain.fused_lane import Fused
from headrace.maintain.spark_joins import TableLogs
from headrace.maintain.speed_layer import Speed
from headrace.store.open_store import open_temporary
from headrace.store.store_contract import Store
from headrace.store.version import Version
from headrace.tools.testing.direct_engine import (
    AnswerReader,
    Commits,
    LayerAnswer,
    Letter,
    Outcome,
    Request,
    check_code,
    logs_behind,
    views_behind,
)
from headrace.tools.testing.given_events import Commit, as_given
from headrace.transport.journal.journal import Journal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_PIECES = 100  # of work for one view; a test has few events, so more of it means that it goes round in circles


class SparkEngine:
    """Runs each test in a separate folder with all that a workspace has."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-test-"))
        self._tests = 0

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, catalog: Catalog, commits: Commits, request: Request | None) -> Outcome:
        self._tests += 1
        folder = self._folder / str(self._tests)
        views = views_behind(catalog, request)
        sources = list(dict.fromkeys(name for name, _ in commits))
        names = dict.fromkeys([*sources, *(name for view in views for name in view.streams), *logs_behind(views)])
        with ExitStack() as stack:
            store = open_temporary(folder)
            stack.callback(store.close)
            pipelines: dict[str, _Pipeline] = {}
            for name in names:
                pipelines[name] = _Pipeline(
                    self._spark, folder / name, as_given(catalog.streams[name]), store, pipelines
                )
                stack.callback(pipelines[name].close)
            for view in views:
                check_code(catalog, view, commits)
                store.register(view, fingerprint(view), catalog.patience_ms(view))
            for name, commit in commits:
                pipelines[name].append(commit)
            letters = tuple(letter for name in sources for letter in pipelines[name].letters())
            if request is None:
                return Outcome(letters)
            reader = AnswerReader(store)
            stack.callback(reader.close)
            return Outcome(letters, tuple(_answers(store, reader, catalog, pipelines, request)))


def _answers(
    store: Store, reader: AnswerReader, catalog: Catalog, pipelines: Mapping[str, _Pipeline], request: Request
) -> Iterator[LayerAnswer]:
    """The answer of the speed layer, and that of the batch layer after a beat, which compares the two."""
    for pipeline in pipelines.values():
        pipeline.maintain()
    yield LayerAnswer(reader.ask(catalog, request), "speed layer")
    views = [view.name for view in views_behind(catalog, request)]
    for pipeline in pipelines.values():
        pipeline.beat(views)
    with store.snapshot() as snapshot:
        versions = [version for name in views if (version := snapshot.serving(name))]
    assert len(versions) == len(views), "they were registered without history, so they serve"
    for version in versions:
        _check_beat(version)
    yield LayerAnswer(reader.ask(catalog, request), "batch layer")


def _check_beat(version: Version) -> None:
    if version.alarm is not None:
        raise HeadraceError(f"view '{version.view.name}': {version.alarm}", fix="please report it")
    behind = [base.stream for base in version.bases if base.horizon != base.applied_to and version.moves]
    if behind and version.stalled is None:
        raise HeadraceError(f"view '{version.view.name}': the batch layer did not read stream '{behind[0]}'")


class _Pipeline:
    """Journal, append, lake and both layers of one stream, whose clock and commits the test decides."""

    def __init__(
        self, spark: SparkSession, folder: Path, stream: Stream, store: Store, all_of_them: Mapping[str, _Pipeline]
    ) -> None:
        """`all_of_them` are the pipelines of the test by stream: some have the changes of tables."""
        folder.mkdir(parents=True)
        self._spark = spark
        self._stream = stream
        self._now_us = 0
        self._table = LakeTable(folder / "lake", stream, fence=1)
        self._journal = Journal(folder / "journal", fence=1, clock_us=lambda: self._now_us)
        self._ingest = Ingest(stream, self._journal)
        self._fused = Fused(stream.name, self._table, store, folder)
        reader, logs = self._journal.reader, TableLogs(lambda name: _lake_of(all_of_them.get(name)))
        self._append = Append(
            lambda: spark,
            stream,
            reader,
            self._table,
            folder,
            companion=self._fused,
            pins=lambda: {name: each.commits for name, each in all_of_them.items()},
        )
        self._speed = Speed(lambda: spark, stream, self._table, store, folder, fused=self._fused, logs=logs)
        self._batch = BatchLayer(lambda: spark, stream, self._table, store, folder / "builds", logs=logs)

    @property
    def commits(self) -> int:
        """The number of commits of its log."""
        return self._table.state.next_commit

    def append(self, commit: Commit) -> None:
        """Send the events of a commit, each at its arrival, and append them."""
        layout = FileLayout(Format.TEXT if self._stream.format == TEXT else Format.NDJSON)
        for line, arrived_us in zip(commit.lines, commit.arrived_us.tolist(), strict=True):
            self._now_us = arrived_us
            self._ingest.take(line, layout=layout, key=None, keep_bad=True).result()
        start, end = self._table.state.position, self._journal.end
        self._append.append(self._spark, self._journal.reader.ranges(start, end, target_bytes=1 << 40))

    @property
    def lake(self) -> tuple[Stream, LakeTable]:
        """The stream, and the log of its events."""
        return self._stream, self._table

    def letters(self) -> list[Letter]:
        """The dead letters, in the order of arrival."""
        dead = DeadLetters(self._stream.name, self._table)
        page = dead.page(limit=MOST_LIMIT)
        return [Letter(self._stream.name, letter.value, letter.reason) for letter in reversed(page.dead_letters)]

    def maintain(self) -> None:
        """Advance the view to the end of the lake."""
        for _ in range(MOST_PIECES):
            if not (self._fused.run_once() or self._speed.run_once()):
                return

    def beat(self, views: Iterable[str]) -> None:
        """Let the batch layer take over what the speed layer has."""
        for view in views:
            self._batch.refresh(view)
        for _ in range(MOST_PIECES):
            if not self._batch.run_once():
                return

    def close(self) -> None:
        self._speed.close()
        self._batch.close()
        self._journal.close()


def _lake_of(pipeline: _Pipeline | None) -> tuple[Stream, LakeTable] | None:
    return pipeline.lake if pipeline else None
