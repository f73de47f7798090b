"""The Delta table of one stream, from which all else can be rebuilt. A commit is compare-and-set."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from headrace.define.model import Stream
from headrace.disk import FIRST_FORMAT, disk_full, is_disk_full, refuse_newer
from headrace.errors import ConflictError, CorruptionError, FencedError, HeadraceError, UnavailableError
from headrace.lake.delta_log import Action, DeltaLog, file_changes, schema_change, transaction
from headrace.lake.health import check_log, has_events
from headrace.lake.storage import LocalStorage, Storage
from headrace.lake.table_files import TARGET_BYTES, FileIndex, LakeFile, summary
from headrace.lake.table_schema import COMMIT, DEAD, reserved, table_schema
from headrace.spark.failures import one_line
from headrace.timing import later
from headrace.transport.position import Position

if TYPE_CHECKING:
    from headrace.lake.added_fields import Since
    from headrace.lake.parquet_file import NewFile


FORMAT = 1  # of the table: its columns, its application transactions and the names of its files

# Application transactions survive checkpoints, log clean-up and vacuum; commit metadata does not.
COMMIT_ID = "headrace:commit"
FENCE_ID = "headrace:fence"
FORMAT_ID = "headrace:format"
NEWEST_ID = "headrace:newest"
IDLE_ID = "headrace:idle"
DUPLICATES_ID = "headrace:duplicates"  # events of all commits that repeated others
ROWS_ID = "headrace:rows"  # of all commits so far: shows whether an entry of the log lost lines
REWRITE_ID = "headrace:rewrite"
SINCE_ID = "headrace:since:"  # and the name of a field that was added: earlier events do not have it
SINCE_PARTITION_ID = "headrace:since@"  # the same in another partition than 0: its number, a colon and the name
JOURNAL = "journal"  # the default transport
DATA = (f"{DEAD}=false/", f"{DEAD}=true/")  # how names of data files begin: events, dead letters
RECENT = 10_000  # commits whose state is in memory


@dataclass(frozen=True)
class LakeState:
    """The state of the log: commits [0, next_commit) hold the transport up to `position`."""

    next_commit: int
    position: Position
    newest_us: int | None  # newest event time
    idle_us: int | None = None  # the time that the stream reached while it was idle

    @property
    def time_us(self) -> int | None:
        """The time of the stream: that of its newest event, or later if it has been idle. It never goes back."""
        return later(self.newest_us, self.idle_us)


class LakeTable:
    """Opens, appends to and lists one stream's table. Safe for one process that writes and many readers.

    A thread that commits holds `turn` from reading `state` until it has committed; other threads wait, instead of
    failing because the state has changed.
    """

    def __init__(self, folder: Path, stream: Stream, fence: int | None, *, transport: str | None = None) -> None:
        self.folder = folder
        self.storage: Storage = LocalStorage(folder)
        # The name of the transport is part of the ids of its offsets.
        self._transport = transport or (stream.source.connector if stream.source else JOURNAL)
        self._stream = stream
        self._fence = fence
        self.turn = threading.RLock()
        self._lock = threading.Lock()
        table = self._open()
        self.format = table.transaction_version(FORMAT_ID) or FIRST_FORMAT
        refuse_newer(f"lake '{folder}'", self.format, FORMAT)
        self.log = DeltaLog(self.storage, table.version())
        if fence is not None:
            self.storage.prepare(*DATA)
            self._raise_fence(fence, table)
        self.state = _read_state(table, self._transport)
        self.since = _read_since(table, stream)
        self.duplicates = table.transaction_version(DUPLICATES_ID) or 0  # events that UNIQUE did not count so far
        self._index = FileIndex(_list_files(table))
        self._check_rows(table.transaction_version(ROWS_ID))
        self._ends: dict[int, LakeState] = {}  # next_commit -> state there, for recent commits
        self.on_commit: Callable[[], None] = lambda: None  # called after each commit: readers of events wait for it

    def commit(
        self,
        at: LakeState,
        position: Position,
        newest_us: int | None,
        files: Sequence[NewFile],
        removes: Sequence[LakeFile] = (),
        *,
        idle_us: int | None = None,
        duplicates: int = 0,
        notes: Mapping[str, int] | None = None,
    ) -> LakeState:
        """Append commit `at.next_commit`, which takes the log from `at` to `position`.

        A commit without events may say how far the time of the stream advanced while it was idle, or in `notes` which
        offsets were skipped; the log keeps these forever. `duplicates` are those among its dead letters.

        Raises FencedError, with nothing written, if the table is not at `at` or another process
        has written to it: `state` is that of the last entry of the log, and the next entry can only
        follow that one. Raises ConflictError, with nothing written, if a file of `removes` is no longer
        in the table.
        """
        with self._lock:
            if self.state != at:
                raise FencedError(
                    f"lake '{self.folder.name}' was changed by another process",
                    found=f"{self.state}",
                    expected=f"{at}",
                    fix="this process stops; the other one continues",
                )
            self._check_present(removes)
            after = LakeState(at.next_commit + 1, position, newest_us, later(at.idle_us, idle_us))
            rows = sum(self._index.rows.values()) + sum(f.rows for f in files) - sum(f.rows for f in removes)
            all_duplicates = self.duplicates + duplicates
            marks = {**self._marks(after, rows), DUPLICATES_ID: all_duplicates or None, **(notes or {})}
            self._put(files, removes, marks, data_change=True)
            self._index.replace(map(_lake_file, files), removes)
            self.duplicates = all_duplicates
            self.state = after
            self._ends[after.next_commit] = after
            self._ends.pop(after.next_commit - RECENT, None)
        self.on_commit()
        return after

    def rewrite(self, old: Sequence[LakeFile], new: Sequence[NewFile]) -> None:
        """Replace files by others with the same rows. No commit number and no event changes.

        Raises ConflictError, with nothing written, if a file of `old` is no longer in the table;
        CorruptionError if the rows or their commits differ; FencedError as `commit` does.
        """
        with self._lock:
            self._check_present(old)
            self._check_same(old, [_lake_file(file) for file in new])
            self._put(new, old, {REWRITE_ID: self.log.version + 1}, data_change=False)
            self._index.replace(map(_lake_file, new), old)

    def redefine(self, stream: Stream, position: Position) -> None:
        """Accept files of a changed stream from now on. Existing rows do not change.

        Events before `position` of the transport do not have the fields that are new to the table.
        """
        schema = table_schema(stream)
        with self._lock:
            table = DeltaTable(self.storage.location)
            change = schema_change(table, schema)
            if change is not None:
                old_names = {field.name for field in table.schema().fields}
                names = [name for name in schema.names if name not in old_names and name not in reserved().names]
                self._put_entry([change, *(mark for name in names for mark in _since_marks(name, position))])
                self.since = (*(s for s in self.since if s[0] not in names), *((name, position) for name in names))
            self._stream = stream

    def state_at(self, next_commit: int) -> LakeState | None:
        """The state before a commit, if it is recent."""
        return self.state if next_commit == self.state.next_commit else self._ends.get(next_commit)

    def files(self, from_commit: int, to_commit: int, *, dead: bool = False) -> list[LakeFile]:
        """The files with rows of commits [from_commit, to_commit), oldest first."""
        with self._lock:
            return self._index.find(from_commit, to_commit, dead)

    def all_files(self) -> list[LakeFile]:
        """Every file of the table: events first, then dead letters."""
        return [file for dead in (False, True) for file in self.files(0, self.state.next_commit, dead=dead)]

    @contextmanager
    def reading(self, from_commit: int, to_commit: int, *, dead: bool = False) -> Iterator[list[LakeFile]]:
        """The files, which stay on disk until the block ends, even if they leave the table."""
        with self._lock:
            files = self._index.find(from_commit, to_commit, dead)
            self._index.pin(files)
        try:
            yield files
        finally:
            with self._lock:
                self._index.unpin(files)

    def doom(self, paths: Iterable[str]) -> list[str]:
        """Mark the paths that are not in the table and have no reader in this process: the caller deletes them.

        From here on no commit can add them, and no reader can find them. Raises FencedError if another
        process writes the table now: the files may belong to that process.
        """
        with self._lock:
            self.log.check()
            return self._index.doom(paths)

    def forget(self, path: str) -> None:
        """A doomed file was deleted."""
        with self._lock:
            self._index.forget(path)

    def rows(self, *, dead: bool = False) -> int:
        """The number of events, or dead letters, that the log holds."""
        return self._index.rows[dead]

    def _check_present(self, files: Sequence[LakeFile]) -> None:
        """The index is that of the table, or the next entry will not be put: another process has written one."""
        for file in files:
            if not self._index.has(file):
                raise ConflictError(
                    f"lake '{self.folder.name}' no longer has file '{file.path}'",
                    fix="nothing was written; list the files again and repeat",
                )

    def _check_same(self, old: Sequence[LakeFile], new: Sequence[LakeFile]) -> None:
        before, after = summary(old), summary(new)
        if before != after:
            raise CorruptionError(
                f"lake '{self.folder.name}': a rewrite would change the log",
                found=f"(dead, rows, first commit, last commit) {after}",
                expected=f"{before}",
                fix="nothing was written; the files are as they were",
            )

    # The Delta table

    def _open(self) -> DeltaTable:
        try:
            return DeltaTable(self.storage.location)
        except TableNotFoundError:
            if has_events(self.storage):
                raise self._damaged("its log is gone") from None
            if self._fence is None:
                raise
            return self._create()
        except DeltaError as error:
            raise self._damaged(str(error).splitlines()[0][:200]) from error

    def _create(self) -> DeltaTable:
        self.storage.prepare()
        try:
            return DeltaTable.create(
                self.storage.location,
                schema=table_schema(self._stream),
                partition_by=[DEAD],
                configuration={
                    # Removed files are remembered for other writers of the table; there are none.
                    "delta.deletedFileRetentionDuration": "interval 10 minutes",
                    "delta.enableExpiredLogCleanup": "false",  # `delta_log.py` does it, when checkpoints are on disk
                },
            )
        except (DeltaError, OSError) as error:
            raise self._unwritten(error) from error

    def _damaged(self, problem: str) -> CorruptionError:
        """The error for a damaged log; it names the damaged file if that is known."""
        damage = next(iter(check_log(self.storage)), None)
        return CorruptionError(
            f"lake '{self.folder}' cannot be read",
            found=f"'{damage.file}' {damage.what}" if damage else problem,
            fix=f"nothing was changed; {damage.fix if damage else 'restore its _delta_log folder from a backup'}",
        )

    def _check_rows(self, expected: int | None) -> None:
        rows = sum(self._index.rows.values())
        if expected is not None and expected != rows:
            raise self._damaged(f"files with {rows:,} events and dead letters where {expected:,} were written")

    def _unwritten(self, error: Exception) -> HeadraceError:
        if is_disk_full(error):
            return disk_full(f"the lake of stream '{self.folder.name}' cannot be written", self.folder)
        return UnavailableError(
            f"the lake '{self.folder}' cannot be written: {one_line(error)}", fix="nothing was changed; see its folder"
        )

    def _raise_fence(self, fence: int, table: DeltaTable) -> None:
        """Ensure that a process with a lower fence cannot commit any more, nor can this one with a table opened before.

        The same fence is that of this process: a stream was dropped and created again.
        """
        newest = table.transaction_version(FENCE_ID)
        if newest is not None and newest > fence:
            raise FencedError(f"lake '{self.folder.name}' was taken over", found=f"fence {newest}", expected=f"{fence}")
        self._put_entry([transaction(FENCE_ID, fence), transaction(FORMAT_ID, FORMAT)])

    def _put_entry(self, actions: Sequence[Action]) -> None:
        try:
            self.log.put(actions)
        except OSError as error:
            raise self._unwritten(error) from error

    def _marks(self, after: LakeState, rows: int) -> dict[str, int | None]:
        return {
            COMMIT_ID: after.next_commit - 1,
            ROWS_ID: rows,
            **_offset_ids(self._transport, after.position),
            NEWEST_ID: after.newest_us,
            IDLE_ID: after.idle_us,
            FENCE_ID: self._fence,
        }

    def _put(
        self, add: Sequence[NewFile], remove: Sequence[LakeFile], marks: dict[str, int | None], *, data_change: bool
    ) -> None:
        if self._fence is None:
            raise FencedError(f"lake '{self.folder.name}' was opened for reading", fix="nothing was written")
        for file in add:
            if self._index.is_doomed(file.path) or not self.storage.stat(file.path):
                raise ConflictError(
                    f"lake '{self.folder.name}': file '{file.path}' was cleaned up before it was committed",
                    fix="nothing was written; repeat what made it",
                )
        actions = file_changes(add, remove, data_change=data_change)
        try:
            # A name must be on disk before the log contains it, so that all files of the log survive a loss of power.
            self.storage.sync_names(file.path for file in add)
            self.log.put([*actions, *(transaction(name, value) for name, value in marks.items() if value is not None)])
        except OSError as error:
            raise self._unwritten(error) from error


def _read_state(table: DeltaTable, transport: str) -> LakeState:
    last = table.transaction_version(COMMIT_ID)
    ids = (f"{transport}:{partition}" for partition in count())
    offsets = takewhile(lambda offset: offset is not None, map(table.transaction_version, ids))
    return LakeState(
        0 if last is None else last + 1,
        Position(tuple(offset or 0 for offset in offsets)),
        table.transaction_version(NEWEST_ID),
        table.transaction_version(IDLE_ID),
    )


def _offset_ids(transport: str, position: Position) -> dict[str, int]:
    """An id for each partition up to the last that has events: a reader stops at the first one that is missing."""
    return {f"{transport}:{partition}": offset for partition, offset in enumerate(position.offsets or (0,))}


def _read_since(table: DeltaTable, stream: Stream) -> Since:
    since = []
    for name in (field.name for field in stream.fields):
        first = table.transaction_version(f"{SINCE_ID}{name}")
        if first is not None:
            ids = (f"{SINCE_PARTITION_ID}{partition}:{name}" for partition in count(1))
            others = takewhile(lambda offset: offset is not None, map(table.transaction_version, ids))
            since.append((name, Position((first, *(offset or 0 for offset in others)))))
    return tuple(since)


def _since_marks(name: str, position: Position) -> list[Action]:
    ids = [f"{SINCE_ID}{name}", *(f"{SINCE_PARTITION_ID}{n}:{name}" for n in range(1, len(position.offsets)))]
    return [transaction(each, position.offset(partition)) for partition, each in enumerate(ids)]


def _list_files(table: DeltaTable) -> list[LakeFile]:
    actions = table.get_add_actions(flatten=True)
    if not actions.num_rows:
        return []
    names = ("path", "size_bytes", "num_records", f"partition.{DEAD}", f"min.{COMMIT}", f"max.{COMMIT}")
    rows: Iterable[tuple[object, ...]] = zip(*(actions.column(name).to_pylist() for name in names), strict=True)
    return [LakeFile(*row) for row in rows]  # type: ignore[arg-type]


def _lake_file(file: NewFile) -> LakeFile:
    stats = orjson.loads(file.stats)
    first, last = stats["minValues"][COMMIT], stats["maxValues"][COMMIT]
    return LakeFile(file.path, file.size, file.rows, file.dead, first, last)


@dataclass(frozen=True)
class LakeFigures:
    """The size of a stream's lake on disk. Files are small while compaction may still combine them."""

    files: int
    bytes: int
    small: int


def lake_figures(table: LakeTable | None) -> LakeFigures:
    """The figures of a lake; zeros if there is none yet."""
    files = table.all_files() if table else []
    small = sum(file.size < TARGET_BYTES // 2 for file in files)
    return LakeFigures(len(files), sum(file.size for file in files), small)
