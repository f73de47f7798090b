"""The ids that a stream with UNIQUE remembers: which segments of event time are loaded, and in which runs.

It is a cache of the lake, in a temporary folder: what is not in it is read from the lake when an event needs it. After
a start, a failure or a change of the definition it begins empty.
"""

from __future__ import annotations

import shutil
import time
import uuid
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

import numpy as np
import structlog

from headrace.define.model import Stream
from headrace.lake.delta_table import LakeState, LakeTable
from headrace.lake.event_ids import Flags, Int64s, Run, merge_runs
from headrace.lake.event_ids_load import IdLoad, Loader, pieces_of
from headrace.lake.repeated_events import Known, Once, RepeatVerdict

GATHER = 4  # runs of about one size that become one
SMALLEST_TIER = 1 << 12  # entries: runs below are of one size
MOST_MERGED = 8_000_000  # entries of a run that merging makes
MOST_RUNS = 64  # before a commit waits until some are merged
KEPT_S = 600.0  # how long a segment stays that no event needs
MOST_ENTRIES = 64_000_000  # beyond it, no segment stays that is not needed now

Result = TypeVar("Result")

log = structlog.get_logger("headrace.unique")


class UniqueIndex:
    """The ids of one stream. Callers hold the turn of its lake, except for `close`."""

    def __init__(
        self, table: LakeTable, scratch: Path, load: Loader, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._table = table
        self._folder = scratch / f"unique-{table.folder.name}"
        self._load = load
        self._now = now
        self._made_for: object = None  # what the ids depend on
        self._next_commit = 0  # its segments hold the ids of all commits before
        self._segments: dict[int, float] = {}  # those that are loaded, and when each was last used
        self._runs: list[Run] = []  # with all entries of these segments, and perhaps some of others
        self._recent: frozenset[int] = frozenset()  # those that the last commit needed
        self._merger = ThreadPoolExecutor(1, thread_name_prefix=f"unique {table.folder.name}")
        self._merging: tuple[list[Run], Future[Run | None]] | None = None

    def plan(self, stream: Stream, at: LakeState, *, also: Collection[int] = ()) -> Known | None:
        """The known ids before the next commit: at least those around the newest event, and the segments `also`.

        None if all events of the stream count.
        """
        once = Once.of(stream)
        if once is None:
            self.reset()
            return None
        made_for = (once, tuple(each for each in stream.fields if each.name in once.reads))
        if self._made_for != made_for or not self._folder.exists():
            self.reset()
            self._made_for = made_for
            self._folder.mkdir(parents=True, exist_ok=True)
        self._catch_up(stream, once, at)
        needed = {*also, *(_around(once, at.time_us) if at.time_us is not None else ())}
        self._load_segments(stream, once, needed)
        self._evict(once, needed | self._recent)
        self._merge(once)
        runs, segments, is_empty = tuple(self._runs), frozenset(self._segments), not self._table.rows()
        return Known(once, at.next_commit, runs, segments, str(self._folder), complete=is_empty)

    def settle(
        self, stream: Stream, at: LakeState, check: Callable[[Known | None], tuple[Result, RepeatVerdict]]
    ) -> Result:
        """Apply what `check` made of a commit's events; it is called again if they need ids that were not loaded."""
        needed: frozenset[int] = frozenset()
        while True:
            result, verdict = check(self.plan(stream, at, also=needed))
            if not verdict.missing:
                return result
            needed |= verdict.segments  # events that are late: once more, with the ids of their times

    def adopt(self, verdict: RepeatVerdict) -> None:
        """The commit that these ids belong to was made."""
        self._next_commit += 1
        self._recent = verdict.segments
        self._segments.update(dict.fromkeys(verdict.segments, self._now()))
        self._runs += verdict.runs

    def reset(self) -> None:
        """Forget everything. Called after each failure: nothing here is trusted more than the lake."""
        if self._made_for is None:
            return
        self._finish_merge(wait=True)
        self._segments.clear()
        self._runs.clear()
        self._recent = frozenset()
        self._made_for = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        """Stop its thread. The folder belongs to the process, which removes it."""
        self._merger.shutdown(wait=False, cancel_futures=True)

    @property
    def entries(self) -> int:
        """The number of ids that it holds."""
        return sum(run.count for run in self._runs)

    # From the lake

    def _catch_up(self, stream: Stream, once: Once, at: LakeState) -> None:
        """Add the events of commits that others have made: replays of dead letters."""
        if self._segments and self._next_commit < at.next_commit:
            commits = (self._next_commit, at.next_commit)
            self._runs += self._read(stream, once, commits, frozenset(self._segments))
        self._next_commit = at.next_commit

    def _load_segments(self, stream: Stream, once: Once, needed: Collection[int]) -> None:
        missing = frozenset(needed) - self._segments.keys()
        if not missing:
            return
        self._runs += self._read(stream, once, (0, self._next_commit), missing)
        self._segments.update(dict.fromkeys(missing, self._now()))

    def _read(self, stream: Stream, once: Once, commits: tuple[int, int], segments: frozenset[int]) -> list[Run]:
        start_s = time.monotonic()
        with self._table.reading(*commits) as files:
            paths = [self._table.storage.locate(file.path) for file in files]
            pieces = pieces_of(paths, once, segments)
            runs = self._load(IdLoad(stream, once, commits, segments, str(self._folder)), pieces) if pieces else []
        if runs:
            seconds = round(time.monotonic() - start_s, 3)
            log.info("ids loaded", stream=stream.name, ids=sum(run.count for run in runs), seconds=seconds)
        return runs

    def _evict(self, once: Once, needed: Collection[int]) -> None:
        """Forget segments that were not used for a while, or all that are not needed now if there are too many ids."""
        oldest_s = self._now() - (KEPT_S if self.entries < MOST_ENTRIES else 0.0)
        unused = [number for number, used_s in self._segments.items() if used_s <= oldest_s and number not in needed]
        if not unused:
            return
        self._finish_merge(wait=True)
        for number in unused:
            del self._segments[number]
        kept = sorted(self._segments)
        stale = [run for run in self._runs if not _has_any(kept, once, run)]
        self._runs = [run for run in self._runs if run not in stale]
        discard(stale)

    # Merging of runs, in a thread of its own

    def _merge(self, once: Once) -> None:
        """Take over the result of the last merge; start another one if it is due."""
        self._finish_merge(wait=len(self._runs) > MOST_RUNS)
        group = _due(self._runs) if self._merging is None else []
        if group:
            path = self._folder / f"merged-{uuid.uuid4().hex}.ids"
            loaded = np.array(sorted(self._segments), np.int64)

            def is_loaded(time_us: Int64s) -> Flags:
                return np.isin(once.segments(time_us), loaded)

            self._merging = (group, self._merger.submit(merge_runs, group, path, is_loaded))

    def _finish_merge(self, *, wait: bool) -> None:
        if self._merging is None or not (wait or self._merging[1].done()):
            return
        old, future = self._merging
        self._merging = None
        try:
            merged = future.result()
        except (OSError, ValueError) as error:  # a full disk, for example: the runs stay as they are
            log.warning("ids were not merged", stream=self._table.folder.name, error=str(error))
            return
        self._runs = [*(run for run in self._runs if run not in old), *([merged] if merged else [])]
        discard(old)


def _has_any(segments: Sequence[int], once: Once, run: Run) -> bool:
    """Return whether a run may have entries of these segments, which are sorted."""
    at = bisect_left(segments, run.first_us // once.segment_us)
    return at < len(segments) and segments[at] <= run.last_us // once.segment_us


def _around(once: Once, time_us: int) -> set[int]:
    """The segments that events of about this time need."""
    first, last = (time_us - once.within_us) // once.segment_us, (time_us + once.within_us) // once.segment_us
    return set(range(first, last + 1))


def _due(runs: Iterable[Run]) -> list[Run]:
    """Runs of one tier that are enough for a merge."""
    tiers: dict[int, list[Run]] = {}
    for run in runs:
        tier = max(0, (run.count // SMALLEST_TIER).bit_length() + 1) // 2  # each has four times the entries
        tiers.setdefault(tier, []).append(run)
    for _, group in sorted(tiers.items()):
        sizes = accumulate(run.count for run in group)
        fitting = [run for run, size in zip(group, sizes, strict=True) if size <= MOST_MERGED]
        if len(fitting) >= GATHER:
            return fitting
    return []


def discard(runs: Iterable[Run]) -> None:
    """Delete runs that nobody reads any more."""
    for run in runs:
        with suppress(OSError):
            Path(run.path).unlink()
