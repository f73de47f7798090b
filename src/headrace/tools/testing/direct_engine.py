"""Runs a test: events in, answers and dead letters out. Here without Spark: the parser, DuckDB's lift, a store."""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.api.paging import join
from headrace.define.catalog import Catalog
from headrace.define.fingerprint import fingerprint, has_code
from headrace.define.model import Stream, View
from headrace.engine.duckdb_relations import refuse_duckdb
from headrace.errors import DefinitionError, HeadraceError
from headrace.lake.added_fields import parser_of
from headrace.lake.append_task import newest_of
from headrace.lake.dead_letter_pages import decoded
from headrace.lake.repeated_events import RepeatCheck
from headrace.lake.table_schema import ARRIVED, COMMIT, POSITION, VALUE
from headrace.maintain.lift import Lifting, close_connection, lift_view
from headrace.maintain.lift import parts_of as lifted_parts
from headrace.maintain.table_versions import TableAt, table_at
from headrace.maintain.udf_checks import refuse_code
from headrace.parse.record_columns import utc_us
from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from headrace.serve.question_times import AsOf
from headrace.serve.sql.children import Children
from headrace.serve.sql.logical_answers import AnswerPages, ask_logical
from headrace.serve.sql.sql_answer import SqlAnswer
from headrace.serve.sql.view_queries import run_sql
from headrace.server.composed_status import parts_of
from headrace.store.open_store import open_temporary
from headrace.store.store_contract import Step, Store
from headrace.store.version import Version
from headrace.timing import later
from headrace.tools.testing.given_events import Commit, as_given
from headrace.transport.position import Position
from headrace.workspace.settings import Settings


@dataclass(frozen=True)
class Request:
    """A question, and whether all pages of its answer are read."""

    question: Question
    whole: bool


class AnswerReader:
    """Asks one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._children = Children.of(Settings())

    def close(self) -> None:
        """Stop the child process, if one was needed."""
        self._children.close()

    def ask(self, catalog: Catalog, request: Request) -> Answer:
        """The answer: all pages of it, or one."""
        question, now, kept = request.question, datetime.now(UTC), AnswerPages()

        def page(question: Question) -> Answer:
            logical = catalog.logical.get(question.view)
            if logical is None:
                return answer(self._store, question, up_to_date, now)
            return ask_logical(logical, question, run, kept)

        def run(query: str, limit: int, as_of: AsOf | None) -> SqlAnswer:
            return run_sql(self._store, self._children, query, limit, up_to_date, now, _no_past, catalog.logical, as_of)

        pages = [page(question)]
        while request.whole and (cursor := pages[-1].next_cursor):
            pages.append(page(replace(question, cursor=cursor)))
        return join(pages)


def _no_past(*_: Any, **__: Any) -> Any:
    raise AssertionError("queries of tests have no AS OF")


Commits = Sequence[tuple[str, Commit]]  # in order, each with the name of its stream


class NeedsSparkError(HeadraceError):
    """A view that only Spark computes."""


@dataclass(frozen=True)
class Letter:
    """A dead letter."""

    stream: str
    event: str
    reason: str


@dataclass(frozen=True)
class LayerAnswer:
    """An answer, and the layer that it was read from; "" where there is no other."""

    answer: Answer
    layer: str = ""


@dataclass(frozen=True)
class Outcome:
    """The results of the events: dead letters, and the answers to the question."""

    letters: tuple[Letter, ...]
    answers: tuple[LayerAnswer, ...] = ()


class Engine(Protocol):
    """Runs tests, one after the other. Nothing of one is left for the next."""

    def run(self, catalog: Catalog, commits: Commits, request: Request | None) -> Outcome:
        """Raises NeedsSparkError if this engine cannot, and QuestionError for what the view cannot answer."""

    def close(self) -> None:
        """Remove what it made."""


def views_behind(catalog: Catalog, request: Request | None) -> list[View]:
    """The materialized views that a question reads, each after what it is made of."""
    names: list[str] = []
    if request is not None:
        logical = catalog.logical.get(request.question.view)
        names = list(parts_of(logical, catalog.logical)) if logical else [request.question.view]
    views = [catalog.views[name] for name in names]
    tables = [catalog.views[view.over.table] for view in views if view.over]
    return list({view.name: view for view in (*tables, *views)}.values())


def logs_behind(views: Iterable[View]) -> set[str]:
    """The streams with the changes of tables that the rows of these views are joined to."""
    return {log for view in views if view.relation for log in view.relation.logs}


def check_code(catalog: Catalog, view: View, commits: Commits) -> None:
    """Try the laws of the functions and aggregates of the workspace that a view calls, as `apply` does.

    Raises DefinitionError with the counter-example.
    """
    if not has_code(view):
        return
    for name in view.streams:
        stream = catalog.streams[name]
        tables = [_parse(stream, commit, 0)[0] for of, commit in commits if of == name]
        reason = refuse_code(stream, view, pa.concat_tables(tables)) if tables else None
        if reason is not None:
            raise DefinitionError(f"view '{view.name}': {reason}", where=catalog.locations.get(view.name))


class QuickEngine:
    """The fused lane of the speed layer in this process: no Spark, no lake."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-test-"))
        self._store = open_temporary(self._folder)
        self._reader = AnswerReader(self._store)
        self._tests = 0

    def close(self) -> None:
        close_connection()
        self._reader.close()
        self._store.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, catalog: Catalog, commits: Commits, request: Request | None) -> Outcome:
        self._tests += 1
        views = views_behind(catalog, request)
        for view in views:
            _refuse_views(catalog, view)
            check_code(catalog, view, commits)
        letters: list[Letter] = []
        try:
            versions = [self._store.register(v, fingerprint(v), catalog.patience_ms(v)) for v in views]
            run = QuickRun(self._store, self._folder / str(self._tests), catalog, versions)
            for name, commit in commits:
                letters += run.advance(name, commit)
            return Outcome(tuple(letters), (LayerAnswer(self._reader.ask(catalog, request)),) if request else ())
        finally:
            for view in reversed(views):
                self._store.drop(view.name)


@dataclass
class _Log:
    """The state of a stream, and, if tables are made of it, the files of its commits."""

    stream: Stream
    check: RepeatCheck | None
    position: int = 0
    newest_us: int | None = None
    commits: int = 0
    files: list[str] = field(default_factory=list)


class QuickRun:
    """The streams and versions of one test."""

    def __init__(self, store: Store, folder: Path, catalog: Catalog, versions: Sequence[Version]) -> None:
        self._store = store
        self._folder = folder
        self._folder.mkdir()
        self._logs = {name: _Log(each, RepeatCheck.of_first(each)) for name, each in catalog.base_streams.items()}
        self._versions = [version for version in versions if version.moves]
        self._tables = logs_behind(version.view for version in versions)

    def advance(self, name: str, commit: Commit) -> list[Letter]:
        """Apply a commit of a stream; returns its dead letters."""
        log = self._logs[name]
        good, letters = _parse(log.stream, commit, log.position, log.check)
        log.position = int(commit.positions(log.position)[-1])
        before_us, log.newest_us = log.newest_us, later(log.newest_us, newest_of(log.stream, good))
        readers = [version for version in self._versions if version.reads(name)]
        partials = {version.id: self._lift(log, version, good, before_us) for version in readers}
        if partials:
            end, now_us = Position.at(log.position), time.time_ns() // 1000
            self._store.apply(Step(name, log.commits, log.commits + 1, end, log.newest_us, now_us), partials)
        if name in self._tables:
            self._write(log, good)
        log.commits += 1
        return letters

    def _lift(self, log: _Log, version: Version, events: pa.Table, newest_us: int | None) -> list[pa.Table]:
        patience_ms = version.base(log.stream.name).patience_ms
        lifted = lift_view(log.stream, version.view, version.number, patience_ms, newest_us)
        lifting = Lifting((replace(lifted, tables=tuple(self._joined(log, version.view))),), str(self._folder))
        tables = []
        for part in lifted_parts([lifting.run(events.select(lifting.reads))]):
            if part.error is not None and has_code(version.view):
                raise DefinitionError(f"view '{version.view.name}': {part.error}")
            _refuse_reason(part.error, version.view)
            table = part.read()
            assert table is not None, "it was just written"
            tables.append(table)
        return tables

    def _joined(self, log: _Log, view: View) -> Iterator[TableAt]:
        """The tables that events are joined to, with all commits so far."""
        branches = view.relation.branches_of(log.stream.name) if view.relation else ()
        for table_join in (each for branch in branches for each in branch.joins):
            of = self._logs[table_join.log.stream]
            yield table_at(table_join, of.commits, of.stream, str(self._folder), of.files)

    def _write(self, log: _Log, events: pa.Table) -> None:
        """Keep the changes of a table as the lake has them: that is where joins read them."""
        path = self._folder / f"{uuid.uuid4().hex}.parquet"
        commit = pa.repeat(pa.scalar(log.commits, pa.int64()), len(events))
        pq.write_table(events.append_column(COMMIT, commit), path)
        log.files.append(str(path))


def _refuse_views(catalog: Catalog, view: View) -> None:
    """Raise NeedsSparkError if only Spark computes a view; one over a table is computed where its rows are."""
    for name in view.streams if view.over is None else ():
        _refuse_reason(refuse_duckdb(catalog.streams[name], view), view)


def _refuse_reason(reason: str | None, view: View) -> None:
    if reason is not None:
        raise NeedsSparkError(f"view '{view.name}' needs Spark: {reason}", fix="`headrace test --spark` runs this test")


def _parse(
    stream: Stream, commit: Commit, position: int, check: RepeatCheck | None = None
) -> tuple[pa.Table, list[Letter]]:
    """The good events as the append keeps them, as far as views read them; and the dead letters."""
    stream = as_given(stream)
    frames = commit.frames(stream)
    parsed = parser_of(stream).parse(frames, commit.arrived_us)
    rows = parsed.columns.append_column(POSITION, pa.array(commit.positions(position)[:-1]))
    rows = rows.append_column(ARRIVED, pa.array(commit.arrived_us).cast(utc_us()))
    reasons = parsed.reasons if check is None else _check(check, rows, parsed.reasons)
    if reasons is None:
        return rows, []
    dead = rows.append_column(VALUE, frames.values()).append_column("reason", reasons)
    dead = dead.filter(reasons.is_valid())
    pairs = zip(*(dead.column(name).to_pylist() for name in (VALUE, "reason")), strict=True)
    letters = [Letter(stream.name, decoded(event, whole=True)[0], reason) for event, reason in pairs]
    return rows.filter(pc.is_null(reasons)), letters


def _check(check: RepeatCheck, rows: pa.Table, reasons: pa.Array | None) -> pa.Array | None:
    """The reasons why events are dead letters, also those that repeat others."""
    good = np.ones(len(rows), bool) if reasons is None else reasons.is_null().to_numpy(zero_copy_only=False)
    parsed = rows.filter(pa.array(good))
    first = check.check(parsed)
    if first is None:
        return reasons
    repeats = np.flatnonzero(good)[first >= 0].tolist()
    texts = [None] * len(rows) if reasons is None else reasons.to_pylist()
    again = check.describe(parsed.filter(pa.array(first >= 0)), first[first >= 0]).to_pylist()
    for index, text in zip(repeats, again, strict=True):
        texts[index] = text
    return pa.array(texts, pa.string())
