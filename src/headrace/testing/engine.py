"""What runs a test: events in, answers and dead letters out. Here without Spark: the parser, DuckDB's lift, a store."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.client.whole import join
from headrace.define.catalog import Catalog
from headrace.define.fingerprint import fingerprint, has_code
from headrace.define.model import Stream, View
from headrace.define.relation_duckdb import refuse_duckdb
from headrace.errors import DefinitionError, HeadraceError
from headrace.lake.dead import decoded
from headrace.lake.range import newest_of
from headrace.lake.schema import ARRIVED, POSITION, VALUE
from headrace.lake.since import parser_of
from headrace.lake.unique import Judge
from headrace.maintain.lift import Lifting, close_connection, lift_view, parts_of
from headrace.maintain.own_laws import refuse_code
from headrace.parse.schema import UTC_US
from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer
from headrace.serve.question import Question
from headrace.serve.streams import up_to_date
from headrace.store.base import Step, Store
from headrace.store.opening import open_temporary
from headrace.store.version import Version
from headrace.testing.events import Commit, as_given
from headrace.timing import later
from headrace.transport.position import Position

Commits = Mapping[str, Sequence[Commit]]  # of each stream


class NeedsSparkError(HeadraceError):
    """A view that only Spark computes."""


@dataclass(frozen=True)
class Letter:
    """A dead letter."""

    stream: str
    event: str
    reason: str


@dataclass(frozen=True)
class Request:
    """A question, and whether all pages of its answer are read."""

    question: Question
    whole: bool


@dataclass(frozen=True)
class LayerAnswer:
    """An answer, and the layer that it was read from; "" where there is no other."""

    answer: Answer
    layer: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of the events: dead letters, and the answers to the question."""

    letters: tuple[Letter, ...]
    answers: tuple[LayerAnswer, ...] = ()


class Engine(Protocol):
    """Runs tests, one after the other. Nothing of one is left for the next."""

    def run(self, catalog: Catalog, commits: Commits, request: Request | None) -> Outcome:
        """Raises NeedsSparkError if this engine cannot, and QuestionError for what the view cannot answer."""

    def close(self) -> None:
        """Remove what it made."""


def ask(store: Store, request: Request) -> Answer:
    """The answer from a store."""
    question, now = request.question, datetime.now(UTC)
    pages = [answer(store, question, up_to_date, now)]
    while request.whole and (cursor := pages[-1].next_cursor):
        pages.append(answer(store, replace(question, cursor=cursor), up_to_date, now))
    return join(pages)


def check_code(catalog: Catalog, view: View, commits: Commits) -> None:
    """Try the laws of the functions and aggregates of the workspace that a view calls, as `apply` does.

    Raises DefinitionError with the counter-example.
    """
    if not has_code(view):
        return
    for name, stream_commits in commits.items():
        if name not in view.streams:
            continue
        stream = catalog.streams[name]
        tables = [_parse(stream, commit, 0)[0] for commit in stream_commits]
        reason = refuse_code(stream, view, pa.concat_tables(tables)) if tables else None
        if reason is not None:
            raise DefinitionError(f"view '{view.name}': {reason}", where=catalog.locations.get(view.name))


class QuickEngine:
    """The fused lane of the speed layer in this process: no Spark, no lake."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-test-"))
        self._store = open_temporary(self._folder)

    def close(self) -> None:
        close_connection()
        self._store.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, catalog: Catalog, commits: Commits, request: Request | None) -> Outcome:
        view = catalog.views[request.question.view] if request else None
        if view is not None:
            for name in view.streams:
                _check_face(refuse_duckdb(catalog.streams[name], view), view)
            check_code(catalog, view, commits)
        letters: list[Letter] = []
        try:
            version = self._register(catalog, view) if view else None
            for name, stream_commits in commits.items():
                letters += self._advance(catalog.streams[name], stream_commits, version)
            return Outcome(tuple(letters), (LayerAnswer(ask(self._store, request)),) if request else ())
        finally:
            if view is not None:
                self._store.drop(view.name)

    def _register(self, catalog: Catalog, view: View) -> Version:
        return self._store.register(view, fingerprint(view), catalog.patience_ms(view))

    def _advance(self, stream: Stream, commits: Sequence[Commit], version: Version | None) -> Iterator[Letter]:
        position, newest_us, judge = 0, None, Judge.of_first(stream)
        for number, commit in enumerate(commits):
            good, letters = _parse(stream, commit, position, judge)
            yield from letters
            position += len(commit.lines)
            before_us, newest_us = newest_us, later(newest_us, newest_of(stream, good))
            if version is not None and version.reads(stream.name):
                partials = self._lift(stream, version, good, before_us)
                step = Step(stream.name, number, number + 1, Position.at(position), newest_us, time.time_ns() // 1000)
                self._store.apply(step, {version.id: partials})

    def _lift(self, stream: Stream, version: Version, events: pa.Table, newest_us: int | None) -> list[pa.Table]:
        patience_ms = version.base(stream.name).patience_ms
        lifted = lift_view(stream, version.view, version.number, patience_ms, newest_us)
        lifting = Lifting((lifted,), str(self._folder))
        tables = []
        for part in parts_of([lifting.run(events.select(lifting.reads))]):
            if part.error is not None and has_code(version.view):
                raise DefinitionError(f"view '{version.view.name}': {part.error}")
            _check_face(part.error, version.view)
            table = part.read()
            assert table is not None, "it was just written"
            tables.append(table)
        return tables


def _check_face(reason: str | None, view: View) -> None:
    if reason is not None:
        raise NeedsSparkError(f"view '{view.name}' needs Spark: {reason}", fix="`headrace test --spark` runs this test")


def _parse(stream: Stream, commit: Commit, position: int, judge: Judge | None = None) -> tuple[pa.Table, list[Letter]]:
    """The good events as the append keeps them, as far as views read them; and the dead letters."""
    stream = as_given(stream)
    frames = commit.frames(stream)
    parsed = parser_of(stream).parse(frames, commit.arrived_us)
    positions = pa.array(np.arange(position, position + len(frames), dtype=np.int64))
    rows = parsed.columns.append_column(POSITION, positions)
    rows = rows.append_column(ARRIVED, pa.array(commit.arrived_us).cast(UTC_US))
    reasons = parsed.reasons if judge is None else _judge(judge, rows, parsed.reasons)
    if reasons is None:
        return rows, []
    dead = rows.append_column(VALUE, frames.values()).append_column("reason", reasons)
    dead = dead.filter(reasons.is_valid())
    pairs = zip(*(dead.column(name).to_pylist() for name in (VALUE, "reason")), strict=True)
    letters = [Letter(stream.name, decoded(event, whole=True)[0], reason) for event, reason in pairs]
    return rows.filter(pc.is_null(reasons)), letters


def _judge(judge: Judge, rows: pa.Table, reasons: pa.Array | None) -> pa.Array | None:
    """Why events are dead letters, also those that repeat others."""
    good = np.ones(len(rows), bool) if reasons is None else reasons.is_null().to_numpy(zero_copy_only=False)
    parsed = rows.filter(pa.array(good))
    first = judge.judge(parsed)
    if first is None:
        return reasons
    repeats = np.flatnonzero(good)[first >= 0].tolist()
    texts = [None] * len(rows) if reasons is None else reasons.to_pylist()
    again = judge.describe(parsed.filter(pa.array(first >= 0)), first[first >= 0]).to_pylist()
    for index, text in zip(repeats, again, strict=True):
        texts[index] = text
    return pa.array(texts, pa.string())
