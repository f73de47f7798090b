"""The Delta table of one stream: the only truth. A commit is compare-and-set."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from headrace.define.model import Stream
from headrace.errors import CorruptionError, FencedError
from headrace.lake.schema import COMMIT, DEAD, table_schema

# Application transactions outlive checkpoints, log clean-up and vacuum; commit metadata does not.
COMMIT_ID = "headrace:commit"
FENCE_ID = "headrace:fence"
NEWEST_ID = "headrace:newest"
POSITION_ID = "journal:0"
RECENT = 10_000  # commits whose end is kept in memory


@dataclass(frozen=True)
class LakeState:
    """Where the log stands: commits [0, next_commit) hold the transport up to `position`."""

    next_commit: int
    position: int
    newest_us: int | None


@dataclass(frozen=True)
class LakeFile:
    """A Parquet file of the table; it holds rows of commits [first_commit, last_commit]."""

    path: str
    size: int
    rows: int
    dead: bool
    first_commit: int
    last_commit: int


@dataclass(frozen=True)
class NewFile:
    """A file that a worker has written and the next commit may add."""

    path: str  # below the table's folder
    size: int
    rows: int
    dead: bool
    stats: str


class LakeTable:
    """Opens, appends to and lists one stream's table. Safe for one appender and many readers."""

    def __init__(self, folder: Path, stream: Stream, fence: int | None) -> None:
        self.folder = folder
        self._schema = table_schema(stream)
        self._fence = fence
        self._lock = threading.Lock()
        self._table = self._open()
        if fence is not None:
            self._raise_fence(fence)
        self.state = self._read_state()
        self._files: list[LakeFile] = []
        self._rows = {False: 0, True: 0}  # by whether they are dead letters
        self._note(self._list_files())
        self._ends: dict[int, LakeState] = {}  # next_commit -> state there, for recent commits

    def commit(self, at: LakeState, position: int, newest_us: int | None, files: Sequence[NewFile]) -> LakeState:
        """Append commit `at.next_commit`, which takes the log from `at` to `position`.

        Raises FencedError, with nothing written, if the table is not at `at` or another process
        has raised the fence: both are read from the very handle that then commits, so delta-rs
        refuses a writer that came between.
        """
        with self._lock:
            self._table.update_incremental()
            self._check_fence()
            if self._read_state() != at:
                raise FencedError(
                    f"lake '{self.folder.name}' has moved on without this process",
                    found=f"{self._read_state()}",
                    expected=f"{at}",
                    fix="this process stops; the other one goes on",
                )
            after = LakeState(at.next_commit + 1, position, newest_us)
            self._write([_add_action(file) for file in files], self._transactions(after))
            self._note([_lake_file(file, at.next_commit) for file in files])
            self.state = after
            self._ends[after.next_commit] = after
            self._ends.pop(after.next_commit - RECENT, None)
            return after

    def state_at(self, next_commit: int) -> LakeState | None:
        """The state behind a commit, if it is recent."""
        return self.state if next_commit == self.state.next_commit else self._ends.get(next_commit)

    def files(self, from_commit: int, to_commit: int, *, dead: bool = False) -> list[LakeFile]:
        """The files with rows of commits [from_commit, to_commit), oldest first."""
        found = []
        with self._lock:
            for file in reversed(self._files):  # in the order of their commits: the newest are asked for most
                if file.last_commit < from_commit:
                    break
                if file.dead == dead and file.first_commit < to_commit:
                    found.append(file)
        return found[::-1]

    def rows(self, *, dead: bool = False) -> int:
        """How many events, or dead letters, the log holds."""
        return self._rows[dead]

    # The table behind it

    def _open(self) -> DeltaTable:
        try:
            return DeltaTable(self.folder)
        except TableNotFoundError:
            if self._fence is None:
                raise
            self.folder.mkdir(parents=True, exist_ok=True)
            return DeltaTable.create(
                self.folder,
                schema=self._schema,
                partition_by=[DEAD],
                configuration={
                    "delta.logRetentionDuration": "interval 10 minutes",
                    "delta.checkpointInterval": "100",
                    "delta.enableExpiredLogCleanup": "true",
                },
            )
        except DeltaError as error:
            raise CorruptionError(
                f"lake '{self.folder}' cannot be read: {str(error).splitlines()[0]}",
                fix="restore its _delta_log folder; nothing was changed",
            ) from error

    def _raise_fence(self, fence: int) -> None:
        """From here on a process with a lower fence cannot commit."""
        found = self._table.transaction_version(FENCE_ID)
        if found is not None and found >= fence:
            raise FencedError(f"lake '{self.folder.name}' was taken over", found=f"fence {found}", expected=f"{fence}")
        self._write([], [Transaction(FENCE_ID, fence)])

    def _check_fence(self) -> None:
        found = self._table.transaction_version(FENCE_ID)
        if self._fence is None or found != self._fence:
            raise FencedError(
                f"lake '{self.folder.name}' was taken over by another process",
                found=f"fence {found}",
                expected=f"fence {self._fence}",
                fix="this process stops; the other one goes on",
            )

    def _transactions(self, after: LakeState) -> list[Transaction]:
        values = {
            COMMIT_ID: after.next_commit - 1,
            POSITION_ID: after.position,
            NEWEST_ID: after.newest_us,
            FENCE_ID: self._fence,
        }
        return [Transaction(name, value) for name, value in values.items() if value is not None]

    def _write(self, actions: list[AddAction], transactions: list[Transaction]) -> None:
        try:
            self._table.create_write_transaction(
                actions,
                "append",
                self._schema,
                [DEAD],
                commit_properties=CommitProperties(app_transactions=transactions, max_commit_retries=0),
                post_commithook_properties=PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=True),
            )
        except CommitFailedError as error:
            raise FencedError(
                f"lake '{self.folder.name}' was written by another process at the same moment",
                fix="this process stops; nothing of this commit was kept",
            ) from error
        self._table.update_incremental()

    def _read_state(self) -> LakeState:
        last = self._table.transaction_version(COMMIT_ID)
        return LakeState(
            0 if last is None else last + 1,
            self._table.transaction_version(POSITION_ID) or 0,
            self._table.transaction_version(NEWEST_ID),
        )

    def _note(self, files: list[LakeFile]) -> None:
        self._files += files
        for file in files:
            self._rows[file.dead] += file.rows

    def _list_files(self) -> list[LakeFile]:
        actions = pa.RecordBatchReader.from_stream(self._table.get_add_actions(flatten=True)).read_all()
        if not len(actions):
            return []
        names = ("path", "size_bytes", "num_records", f"partition.{DEAD}", f"min.{COMMIT}", f"max.{COMMIT}")
        rows: Iterable[tuple[object, ...]] = zip(*(actions[name].to_pylist() for name in names), strict=True)
        files = [LakeFile(*row) for row in rows]  # type: ignore[arg-type]
        return sorted(files, key=lambda file: (file.first_commit, file.path))


def _add_action(file: NewFile) -> AddAction:
    dead = "true" if file.dead else "false"
    return AddAction(file.path, file.size, {DEAD: dead}, int(time.time() * 1000), True, file.stats)


def _lake_file(file: NewFile, commit: int) -> LakeFile:
    return LakeFile(file.path, file.size, file.rows, file.dead, commit, commit)
