"""Replay of dead letters: those that the current definition can read become events, exactly once.

A step takes some files of dead letters. Spark's workers parse them; then ONE commit removes these files, adds
the readable events as events of that commit, with their own position and arrival, and the rest as dead letters.
After a kill at any point, a step is complete or changed nothing, and the next replay continues from there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.define.model import Stream
from headrace.errors import (
    ConflictError,
    CorruptionError,
    HeadraceError,
    LostFileError,
    QuestionError,
    UnavailableError,
)
from headrace.faults import fault_point
from headrace.lake.dead_letters import ReplayStep
from headrace.lake.delta_table import LakeState, LakeTable
from headrace.lake.event_id_index import UniqueIndex, discard
from headrace.lake.event_ids_load import load_here
from headrace.lake.parquet_file import MOST_BYTES, LakeFileWriter, NewFile, batches
from headrace.lake.repeated_events import Known, RepeatCheck, RepeatVerdict
from headrace.lake.replay_files import REREAD, ReadableFile, Reread, dead_file_reader, split_letters
from headrace.lake.table_files import LakeFile
from headrace.lake.table_schema import COMMIT, COMMITTED_AT, NEWEST, TABLES, ChoosePins, no_pins, pin_column, reserved
from headrace.spark.failures import one_line
from headrace.spark.session import Session
from headrace.timing import later

POOL = "replay"
MOST_ROWS = 200_000  # of one step, unless its first commit has more
MOST_FILES = 2_000
Rereader = Callable[[Reread, Sequence[str]], list[Any]]  # of these files of the table; a row of REREAD for each
TRIES = 5  # of a step whose files were compacted meanwhile


def on_spark(session: Session) -> Rereader:
    """Reads files again in Spark's workers."""

    def reread(work: Reread, paths: Sequence[str]) -> list[Any]:
        spark = session()
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        rows = spark.createDataFrame([(path,) for path in paths], "path STRING")
        return list(rows.mapInArrow(dead_file_reader(work), REREAD).collect())

    return reread


class DeadLetterReplay:
    """Replays the dead letters of one stream, a step at a time."""

    def __init__(
        self,
        reread: Rereader,
        table: LakeTable,
        scratch: Path,
        *,
        pins: ChoosePins = no_pins,
        unique: UniqueIndex | None = None,
        on_commit: Callable[[], None] = lambda: None,
        most_rows: int = MOST_ROWS,
        batch_bytes: int = MOST_BYTES,
    ) -> None:
        self._reread = reread
        self._table = table
        self._scratch = scratch
        self._pins = pins
        self._unique = unique or UniqueIndex(table, scratch, load_here)
        self._on_commit = on_commit
        self._most_rows = most_rows
        self._batch_bytes = batch_bytes
        self._one = threading.Lock()

    def step(self, stream: Stream, cursor: str | None = None, *, dry_run: bool = False) -> ReplayStep:
        """Read the next files again; `dry_run` only counts the letters that can be read now."""
        start, end = _read_cursor(cursor, self._table.state.next_commit)
        if not self._one.acquire(blocking=False):
            raise ConflictError(f"stream '{stream.name}': a replay is already running", fix="wait until it has ended")
        try:
            for _ in range(TRIES):
                try:
                    return self._step(stream, start, end, dry_run)
                except ConflictError as error:  # compaction has replaced one of the files
                    conflict = error
            raise conflict
        finally:
            self._one.release()

    def _step(self, stream: Stream, start: int, end: int, dry_run: bool) -> ReplayStep:
        with self._table.reading(start, end, dead=True) as files:
            group = _group(files, self._most_rows)
            aside = Path(tempfile.mkdtemp(prefix="replay-", dir=self._scratch))
            try:
                counts_only = dry_run and stream.unique is None
                results = self._read(stream, group, None if counts_only else aside)
                if not counts_only:
                    with self._table.turn:
                        results = self._check(stream, group, results, aside, dry_run)
            finally:
                shutil.rmtree(aside, ignore_errors=True)
        later_files = files[len(group) :]
        behind = max((file.last_commit for file in group), default=end) + 1
        return ReplayStep(
            sum(result.rows for result in results),
            sum(result.readable for result in results),
            sum(file.rows for file in later_files),
            self._table.state.next_commit,
            f"{behind}-{end}" if later_files else None,
        )

    def _read(self, stream: Stream, group: Sequence[LakeFile], aside: Path | None) -> list[ReadableFile]:
        if not group:
            return []
        work = Reread(
            stream, str(self._table.folder), str(aside) if aside else None, self._table.since, self._batch_bytes
        )
        try:
            results = [ReadableFile.of(row) for row in self._reread(work, [file.path for file in group])]
        except HeadraceError:
            raise
        except Exception as error:  # errors of Spark have no narrower base class
            raise UnavailableError(
                f"stream '{stream.name}': dead letters could not be read again: {one_line(error)}",
                fix="nothing of this step was changed; replay again",
            ) from error
        _check_rows(self._table, {file.path: file.rows for file in group}, {each.path: each.rows for each in results})
        if aside is not None:
            _check_written(aside, results)
        return results

    def _check(
        self, stream: Stream, group: Sequence[LakeFile], results: list[ReadableFile], aside: Path, dry_run: bool
    ) -> list[ReadableFile]:
        """Commit what is readable and, in a stream with UNIQUE, repeats no event. The caller holds the turn."""
        at = self._table.state

        def check(known: Known | None) -> tuple[tuple[list[ReadableFile], RepeatVerdict], RepeatVerdict]:
            if known is None:
                return (results, RepeatVerdict()), RepeatVerdict()
            check = RepeatCheck(known)
            judged = split_letters(check, stream, results, aside, self._batch_bytes)
            verdict = check.finish()
            return (judged, verdict), verdict

        try:
            judged, verdict = self._unique.settle(stream, at, check)
            if not dry_run:
                self._commit(group, judged, aside)
            if self._table.state.next_commit > at.next_commit:
                self._unique.adopt(verdict)
            else:
                discard(verdict.runs)
        except BaseException:
            self._unique.reset()
            raise
        return judged

    def _commit(self, group: Sequence[LakeFile], results: Sequence[ReadableFile], aside: Path) -> None:
        """Replace the files that change by those written aside. The caller holds the turn: no clean-up runs."""
        changes = [result for result in results if result.changes]
        paths = {result.path for result in changes}
        removes = [file for file in group if file.path in paths]
        rest = [file for result in changes for file in result.rest]
        for file in rest:
            self._table.storage.finish(aside / file.path, file.path)
        for old in removes:  # the time that they must stay for readers starts now
            self._table.storage.touch(old.path)
        if not any(result.readable for result in changes):
            if removes:  # the same dead letters, with new reasons
                self._table.rewrite(removes, rest)
            return
        at, newest = self._table.state, self._table.state.newest_us
        for result in changes:
            newest = later(newest, result.newest_us)
        files = [*self._stamp(at, [result.aside for result in changes if result.aside]), *rest]
        _check_rows(self._table, {"all": _rows(removes)}, {"all": _rows(files)})
        fault_point("replay.before_commit")
        self._table.commit(at, at.position, newest, files, removes)
        fault_point("replay.after_commit")
        self._on_commit()

    def _stamp(self, at: LakeState, aside: Sequence[str]) -> list[NewFile]:
        """The readable events as a file of the commit that is next now."""
        stamps = {COMMIT: at.next_commit, COMMITTED_AT: time.time_ns() // 1000, NEWEST: at.time_us}
        pins = self._pins()
        live = LakeFileWriter(self._table.storage, at.next_commit, dead=False)
        for path in aside:
            for rows in batches(Path(path), most_bytes=self._batch_bytes):
                stamped = rows
                for name, value in stamps.items():
                    column = pa.repeat(pa.scalar(value, pa.int64()).cast(reserved().field(name).type), len(rows))
                    stamped = stamped.set_column(rows.schema.get_field_index(name), name, column)
                at_pins = stamped.schema.get_field_index(TABLES)
                live.write(stamped.set_column(at_pins, TABLES, pin_column(pins, len(rows))))
        file = live.close()
        return [file] if file else []


def _group(files: Sequence[LakeFile], most_rows: int) -> Sequence[LakeFile]:
    """The first files, as many as one step takes. The next step begins after their last commit: none is split."""
    count, rows, last = 0, 0, -1
    for file in files:
        if count and file.first_commit > last and (rows + file.rows > most_rows or count >= MOST_FILES):
            break
        count, rows, last = count + 1, rows + file.rows, max(last, file.last_commit)
    return files[:count]


def _check_written(aside: Path, results: Sequence[ReadableFile]) -> None:
    """The files that tasks report are there; their rows are compared when they are committed."""
    written: dict[str, int | None] = {each.aside: None for each in results if each.aside}
    written |= {str(aside / file.path): file.size for each in results for file in each.rest}
    for path, size in written.items():
        if not os.path.exists(path) or size not in (None, os.stat(path).st_size):
            raise LostFileError(
                f"a Spark task wrote '{path}', but this process reads other content",
                fix="nothing was changed; replay again, with executors that share this folder",
            )


def _rows(files: Sequence[LakeFile | NewFile]) -> int:
    return sum(file.rows for file in files)


def _check_rows(table: LakeTable, before: dict[str, int], after: dict[str, int]) -> None:
    """Check that there are as many rows as before."""
    if before != after:
        raise CorruptionError(
            f"lake '{table.folder.name}': the row counts of the replay do not match",
            found=f"{sum(after.values())} rows",
            expected=f"{sum(before.values())} rows",
            fix="nothing was changed; `headrace doctor` looks at the lake's files",
        )


def _read_cursor(cursor: str | None, next_commit: int) -> tuple[int, int]:
    if cursor is None:
        return 0, next_commit
    try:
        start, end = (int(part) for part in cursor.split("-"))
    except ValueError:
        raise QuestionError("'cursor' is not a cursor of a replay", found=repr(cursor)[:80]) from None
    return start, min(end, next_commit)
