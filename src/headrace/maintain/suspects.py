"""Versions that were being computed when Java ended, or that fail: which of them is to blame, and for which event.

Java may end for reasons that have nothing to do with a view, so nobody is blamed for one end. A version that was being
computed is computed alone next; if Java ends again, the version is quarantined and put on trial in a Java of its own.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING

import structlog

from headrace.call_limits import SETTING
from headrace.define.fingerprint import code_names
from headrace.define.model import Stream, View
from headrace.errors import ConflictError
from headrace.lake.delta_table import LakeTable
from headrace.maintain.failing_event import Attempt, Culprit, FailedCommits, attempt_on, find_culprit
from headrace.maintain.trial import Trial, TrialSettings
from headrace.spark.failures import one_line, worker_ended
from headrace.spark.session import BATCH_POOL, Session, is_alive
from headrace.store.store_contract import Store
from headrace.store.version import Version, VersionId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDS = 2  # of Java during the same version's computation, before it is quarantined
BEYOND = 1 << 62  # every position
RELEASES = 2  # by trials that could not confirm it; after more ends than that it stays quarantined
FIX = "change the view so that it can process this event, or drop it, then `headrace apply`; other views continue"
MEMORY = "raise the setting `spark_memory` and restart, or change the view, then `headrace apply`; other views continue"
LATE_OUTSIDE = f"did not return to Python in time (the setting {SETTING})"

log = structlog.get_logger("headrace.suspects")


class Suspects:
    """The suspects of one stream. Searches run one at a time in a separate thread; `wake` is called after each."""

    def __init__(
        self,
        session: Session,
        table: LakeTable,
        store: Store,
        settings: TrialSettings,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._session = session
        self._table = table
        self._store = store
        self._settings = settings
        self._wake = wake
        self._ends: Counter[VersionId] = Counter()
        self._ended_last: dict[VersionId, SparkSession] = {}  # the session whose end was counted last
        self._releases: Counter[VersionId] = Counter()
        self._sentences: dict[
            VersionId, tuple[int, str]
        ] = {}  # the first commit that failed, and the sentence about it
        self._lock = threading.Lock()
        self._searches = ThreadPoolExecutor(1, thread_name_prefix="trial")
        self._under_way: list[Future[None]] = []
        self.stopping = threading.Event()

    def __contains__(self, version: Version) -> bool:
        """Return whether a version has to be computed alone."""
        return self._ends[version.id] > 0

    def java_ended(self, spark: SparkSession, stream: Stream, version: Version, commits: tuple[int, int]) -> None:
        """The Java of a session ended while these commits of a version were computed."""
        with self._lock:
            if self._ended_last.get(version.id) is spark:
                return  # the other layer computed it, too
            self._ended_last[version.id] = spark
            self._ends[version.id] += 1
            ends = self._ends[version.id]
        log.warning("java ended during a view", view=version.view.name, version=version.number, ends=ends)
        if ends < ENDS:
            return
        span = f"commits {commits[0]} to {commits[1] - 1}" if commits[1] - commits[0] > 1 else f"commit {commits[0]}"
        looking = f"Java ended {ends} times while {span} of stream '{stream.name}' were computed for this view; "
        self._stall(
            stream, version, f"{looking}the event is being searched for; other views continue", quarantined=True
        )
        self._search(partial(self._try, stream, version, commits))

    def computed(self, version: Version) -> None:
        """Note that the version was computed successfully."""
        if self._ends[version.id]:
            del self._ends[version.id]
        self._sentences.pop(version.id, None)

    def failed(self, stream: Stream, version: Version, commits: tuple[int, int], error: str) -> str:
        """Describe an error: it names the event that causes it as soon as that is known."""
        start, sentence = self._sentences.get(version.id, (-1, error))
        if start != commits[0]:
            sentence = error
            self._sentences[version.id] = commits[0], error
            self._search(partial(self._name_event, stream, version, commits))
        return sentence

    def review(self, stream: Stream, versions: Sequence[Version]) -> None:
        """Put versions that an earlier process quarantined on trial again: there may be more memory now."""
        for version in versions:
            if version.live and version.reads(stream.name) and version.base(stream.name).quarantined:
                base = version.base(stream.name)
                commits = (base.applied_to, self._table.state.next_commit)
                if not base.built:
                    commits = (base.built_to, base.horizon)
                self._search(partial(self._try, stream, version, commits))

    def close(self) -> None:
        """Stop searching."""
        with self._lock:
            self.stopping.set()
        self._searches.shutdown(wait=False, cancel_futures=True)

    def join(self, timeout_s: float) -> None:
        """Wait, so long at most, until the search that was under way when it was closed has ended."""
        wait([search for search in self._under_way if not search.cancelled()], timeout_s)

    def _search(self, work: Callable[[], None]) -> None:
        with self._lock:
            if not self.stopping.is_set():
                self._under_way = [search for search in self._under_way if not search.done()]
                self._under_way.append(self._searches.submit(self._guarded, work))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except ConflictError:
            return  # the version is gone: there is nobody to blame any more
        except Exception as error:
            if not self.stopping.is_set():
                log.warning("a search for a failing event did not end", error=one_line(error))
        finally:
            self._wake()

    def _try(self, stream: Stream, version: Version, commits: tuple[int, int]) -> None:
        """Compute what ended Java in a Java of its own; release the version if that goes well."""
        with self._table.reading(*commits) as files:
            case = FailedCommits(stream, version, self._table.storage, files, commits)
            trial = Trial(case, self._settings, self.stopping.is_set)
            try:
                error = trial.attempt(0, BEYOND)
                if error is None:
                    self._release(stream, version)
                    return
                culprit = find_culprit(case, trial.attempt)
            finally:
                trial.close()
        log.error("a view ends java", view=version.view.name, version=version.number, culprit=str(culprit))
        self._stall(stream, version, _blame(culprit, stream, commits, error), quarantined=True)

    def _release(self, stream: Stream, version: Version) -> None:
        self._releases[version.id] += 1
        if self._releases[version.id] > RELEASES:
            why = f"Java ended {self._ends[version.id]} times while this view was computed, though not in a trial"
            self._stall(stream, version, f"{why}; {MEMORY}", quarantined=True)
            return
        log.info("a view was cleared by its trial", view=version.view.name, version=version.number)
        self._ends[version.id] = ENDS - 1  # computed alone the next time, too
        self._store.stall(*version.id, stream.name, None)

    def _name_event(self, stream: Stream, version: Version, commits: tuple[int, int]) -> None:
        """Find the event that fails a job, on the server's own Spark: such a failure does not end Java."""
        spark = self._session()
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", BATCH_POOL)
        with self._table.reading(*commits) as files:
            case = FailedCommits(stream, version, self._table.storage, files, commits)
            culprit = find_culprit(case, _catching(spark, version.view, attempt_on(spark, case)))
        if culprit is None:
            return
        sentence = _blame(culprit, stream, commits, culprit.error)
        self._sentences[version.id] = commits[0], sentence
        if version.moves:  # else the batch layer says it
            self._stall(stream, version, sentence)

    def _stall(self, stream: Stream, version: Version, sentence: str, *, quarantined: bool = False) -> None:
        self._store.stall(*version.id, stream.name, sentence, quarantined=quarantined)


def _blame(culprit: Culprit | None, stream: Stream, commits: tuple[int, int], error: str) -> str:
    if culprit is not None:
        return f"stream '{stream.name}': {culprit} makes this view fail: {error}; {FIX}"
    span = f"commits {commits[0]} to {commits[1] - 1} of stream '{stream.name}'"
    return f"{span} make this view fail, and no single event is the cause: {error}; {MEMORY}"


def describe_failure(view: View, error: BaseException) -> str:
    """The reason why a view cannot be computed; of a Python worker that ended, the code that it ran."""
    names = code_names(view) if worker_ended(error) else []
    if not names:
        return one_line(error)
    code = " or ".join(f"'{name}'" for name in names)
    return f"a Python worker ended in a call of {code}: it crashed, ended its process or {LATE_OUTSIDE}"


def _catching(spark: SparkSession, view: View, compute: Callable[[int, int], None]) -> Attempt:
    def attempt(low: int, high: int) -> str | None:
        try:
            compute(low, high)
        except Exception as error:
            if not is_alive(spark):
                raise
            return describe_failure(view, error)
        return None

    return attempt
