"""Answers questions that need the lake, two at a time, while views are updated; caches stores with views as of earlier
commits.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.define.model import Stream
from headrace.errors import NotReadyError, OverloadError, QuestionError, UnavailableError
from headrace.format import EPOCH, commits_of, iso, iso_us, plural
from headrace.lake.commit_times import reading_commits
from headrace.lake.delta_table import LakeTable
from headrace.lazy import later
from headrace.name_encoding import shell
from headrace.serve.answer import Answer
from headrace.serve.evaluate import Freshness, answer, answer_from, find_serving
from headrace.serve.explanation import US, CellQuestion, Explanation
from headrace.serve.freshness import Fresh
from headrace.serve.question import Question
from headrace.serve.question_times import AsOf, write_commits
from headrace.serve.read_plan import find_cell, plan
from headrace.spark.jobs import Job
from headrace.store.store_contract import Store, StoreReader
from headrace.store.version import Version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.maintain.spark_joins import TableLogs
    from headrace.serve.past.explain import Explainer

# These load PySpark: the server accepts events first.
_joins, _explain = later("headrace.maintain.spark_joins"), later("headrace.serve.past.explain")
MOST_STORES = 4
KEEP_S = 600.0

Key = tuple[str, int, str, tuple[int, ...]]  # view, number and fingerprint of its version, commits of each stream


@dataclass
class _Entry:
    folder: Path
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while it is built
    store: Store | None = None
    users: int = 0
    used_at: float = 0.0


class StoreCache:
    """A few stores, each in its own folder, which is removed with it."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._now = now
        self._lock = threading.Lock()
        self._entries: dict[Key, _Entry] = {}
        self._folders = 0  # that were created

    @contextmanager
    def use(self, version: Version, commits: tuple[int, ...], make: Callable[[Path], Store]) -> Iterator[Store]:
        """The store of a version as of these commits, built if there is none; a second caller waits for it."""
        key = (version.view.name, version.number, version.fingerprint, commits)
        entry = self._take(key)
        try:
            with entry.lock:
                if entry.store is None:
                    shutil.rmtree(entry.folder, ignore_errors=True)
                    entry.store = make(entry.folder)
            yield entry.store
        finally:
            with self._lock:
                entry.users -= 1
                entry.used_at = self._now()
            self._clear()

    def close(self) -> None:
        """Remove all stores."""
        with self._lock:
            entries, self._entries = list(self._entries.values()), {}
        for entry in entries:
            _remove(entry)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _take(self, key: Key) -> _Entry:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self._folders += 1
                entry = self._entries[key] = _Entry(self._folder / str(self._folders))
            entry.users += 1
            return entry

    def _clear(self) -> None:
        """Remove stores that are not in use: those that failed, the old ones, and the oldest above the limit."""
        with self._lock:
            idle = sorted((entry.used_at, key) for key, entry in self._entries.items() if not entry.users)
            old = [key for at, key in idle if at < self._now() - KEEP_S or self._entries[key].store is None]
            recent = [key for _, key in idle if key not in old]
            entries = [self._entries.pop(key) for key in [*old, *recent[: max(0, len(recent) - MOST_STORES)]]]
        for entry in entries:
            _remove(entry)


def _remove(entry: _Entry) -> None:
    if entry.store is not None:
        entry.store.close()
    shutil.rmtree(entry.folder, ignore_errors=True)


AT_ONCE = 2  # questions that Spark computes; each slows the updates of views

Lake = tuple[Stream, LakeTable | None]  # None: it has no events yet


class LakeQuestions:
    """Answers questions from the log of a workspace. Spark is needed only for valid questions."""

    def __init__(
        self,
        store: StoreReader,
        lake: Callable[[str], Lake],
        spark: Callable[[], SparkSession],
        freshness: Freshness,
        scratch: Path,
        limit: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`lake` returns that of a stream by name; `spark` returns a session, or raises if there is none.

        `limit` is around the work that is not Spark's.
        """
        self._store = store
        self._lake = lake
        self._spark = spark
        self._freshness = freshness
        self._limit = limit
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._running: set[Job] = set()
        self._stopping = False
        self._past = StoreCache(scratch)

    def stop(self) -> None:
        """Cancel the questions that Spark computes, also those that begin from now on."""
        self._stopping = True
        for job in list(self._running):
            job.cancel()

    def close(self) -> None:
        """Remove the cached stores."""
        self._past.close()

    def explain(self, question: CellQuestion, job: Job | None = None) -> Explanation:
        """The events behind a cell."""
        with self._store.snapshot() as snapshot:
            version = find_serving(snapshot, question.view)
            if version.view.over is not None:
                raise QuestionError(
                    f"view '{question.view}' is made of the rows of table '{version.view.over.table}', not of events",
                    fix=f"explain a row of the table: `headrace explain {shell(version.view.over.table)}`",
                )
            find_cell(question, snapshot, version)  # an invalid question does not wait for Spark
        with self._turn(job or Job()) as job:
            spark = self._spark()
            with self._limit(), self._store.snapshot() as snapshot:
                version = find_serving(snapshot, question.view)
                cell = find_cell(question, snapshot, version)
                now = datetime.now(UTC)
                cell_answer = answer_from(snapshot, version, cell.question(question.view), self._freshness, now)
            _refuse_quarantined(version)
            lakes = [self._lake(stream) for stream in version.view.streams]
            explainer: Explainer = _explain.Explainer(spark, lakes, version, self._logs())
            return explainer.explain(question, cell, cell_answer, job)

    def ask(self, question: Question, job: Job | None = None) -> Answer:
        """The answer of a view as of an earlier commit, with its current definition."""
        assert question.as_of is not None, "the store answers questions about the present"
        with self._store.snapshot() as snapshot:
            version = find_serving(snapshot, question.view)
        plan(question, version)
        with self.as_of(version, question.as_of, job) as (store, reason), self._limit():
            reply = answer(store, question, lambda version: Fresh(None, reason), datetime.now(UTC))
        return replace(reply, version=version.number)

    @contextmanager
    def as_of(
        self, version: Version, as_of: AsOf, job: Job | None = None, *, streams: Sequence[str] = ()
    ) -> Iterator[tuple[Store, str]]:
        """A store with a version as of an earlier commit, and which commit that is, in words.

        `streams` are those of all views that are computed as of the same moment: it is enough that one had a commit.
        """
        every = streams or version.view.streams
        _check_streams(as_of, version, every)
        lakes = [self._lake(stream) for stream in version.view.streams]
        commits = _find_all_commits(as_of, [self._lake(stream) for stream in every])
        commits = {stream.name: commits[stream.name] for stream, _ in lakes}

        def make(folder: Path) -> Store:
            _refuse_quarantined(version)
            from headrace.serve.past import past_build  # loads PySpark: the server accepts events first

            parts = []
            for stream, table in lakes:
                if not version.view.fits(stream):
                    raise NotReadyError(
                        f"view '{version.view.name}' is being rebuilt for the new types of stream '{stream.name}'",
                        fix="retry when its next version serves",
                    )
                parts.append(past_build.PastPart(stream, table, commits[stream.name]))
            with self._turn(job or Job()) as running:
                if version.view.over is None:
                    return past_build.build_as_of(self._spark(), parts, version, folder, running, self._logs())
                table_version = self._serving(version.view.over.table)
                store = past_build.build_as_of(self._spark(), parts, table_version, folder, running, self._logs())
                store.register(version.view, version.fingerprint, version.patience_ms)  # of the table's rows then
                return store

        with self._past.use(version, tuple(commits.values()), make) as store:
            yield store, f"as of {commits_of(commits)}"

    def _serving(self, view: str) -> Version:
        with self._store.snapshot() as snapshot:
            return find_serving(snapshot, view)

    def _logs(self) -> TableLogs:
        """The logs of tables: they are lakes like those of other streams."""

        def find(stream: str) -> tuple[Stream, LakeTable] | None:
            definition, table = self._lake(stream)
            return None if table is None else (definition, table)

        logs: TableLogs = _joins.TableLogs(find)
        return logs

    @contextmanager
    def _turn(self, job: Job) -> Iterator[Job]:
        if not self._turns.acquire(blocking=False):
            raise OverloadError(f"{AT_ONCE} such queries are already running", fix="retry in some seconds")
        self._running.add(job)
        try:
            if self._stopping:
                job.cancel()
            yield job
        except Exception as error:
            if self._stopping:
                raise UnavailableError("the server is stopping", fix="retry when it runs") from error
            raise
        finally:
            self._running.discard(job)
            self._turns.release()


def _refuse_quarantined(version: Version) -> None:
    """Refuse a view that crashes Java: a question about it would do the same."""
    if version.quarantined:
        raise NotReadyError(f"view '{version.view.name}' cannot be computed: {version.stalled}")


def _check_streams(as_of: AsOf, version: Version, streams: Sequence[str]) -> None:
    """Refuse a number of commits if it is not clear of which streams: each numbers its own."""
    example = f"such as {write_commits({stream: version.commits.get(stream, 1) for stream in streams})}"
    reads = f"view '{version.view.name}' reads several streams"
    if set(streams) != set(version.view.streams):
        reads = f"the query is about streams {', '.join(streams)}"
    if as_of.commits is not None and len(streams) > 1:
        raise QuestionError(
            f"{reads}, and each numbers its own commits",
            found=f"commit {as_of.commits}",
            expected=f"a time, or the commits of each stream, {example}",
        )
    if as_of.of_streams is None:
        return
    counts = dict(as_of.of_streams)
    other = next((name for name in counts if name not in streams), None)
    if other is not None:
        raise QuestionError(f"view '{version.view.name}' does not read stream '{other}'", expected=example)
    missing = next((name for name in streams if name not in counts), None)
    if missing is not None:
        raise QuestionError(
            f"view '{version.view.name}' also reads stream '{missing}', whose commits are not given", expected=example
        )


def _find_all_commits(as_of: AsOf, lakes: Sequence[Lake]) -> dict[str, int]:
    """How many commits of each stream a question is about; raises QuestionError if none had any then."""
    if as_of.of_streams is not None:
        counts = dict(as_of.of_streams)
        of_each = ((stream, table, AsOf(commits=counts[stream.name])) for stream, table in lakes)
        return {stream.name: find_commits(of, stream, table) if of.commits else 0 for stream, table, of in of_each}
    commits: dict[str, int] = {}
    for stream, table in lakes:
        try:
            commits[stream.name] = find_commits(as_of, stream, table)
        except QuestionError:
            if len(lakes) == 1:
                raise
            commits[stream.name] = 0
    if not any(commits.values()):
        find_commits(as_of, *lakes[0])
    return commits


def find_commits(as_of: AsOf, stream: Stream, table: LakeTable | None) -> int:
    """How many commits a question is about; raises QuestionError if the log had none then."""
    if table is None or not table.state.next_commit:
        raise QuestionError(f"the lake of stream '{stream.name}' has no commit yet", fix="ask without it")
    end = table.state.next_commit
    if as_of.commits is not None:
        if as_of.commits > end:
            raise QuestionError(
                f"the lake of stream '{stream.name}' has {plural(end, 'commit')}",
                found=f"version as of {as_of.commits}",
                expected=f"a number of commits up to {end}",
            )
        return as_of.commits
    assert as_of.time is not None, "one of them is given"
    with reading_commits(table) as commits:
        count = commits.count_until((as_of.time - EPOCH) // US)
        if not count:
            first = commits.at_or_after(0)
            raise QuestionError(
                f"the lake of stream '{stream.name}' had no commit then",
                found=iso(as_of.time),
                expected=f"a time from its first commit on, {iso_us(first.committed_at_us)}" if first else None,
            )
    return count
