"""Dead letters of a derived stream: the rows that a function failed for, and those whose key a table does not have.

They are stored nowhere. As the rows of the stream, they are made of the events of its base streams when they are asked
for; what was made is remembered, so that the next time only later events are read.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa

from headrace.define.model import ARRIVED, Stream, View
from headrace.deliver.event_chunks import CHUNK_ROWS, read_chunk
from headrace.deliver.event_page import EventCursor
from headrace.deliver.table_changes import PinnedJoins, TableChanges, in_parts
from headrace.engine.duckdb_relations import KIND, REASON, failures_sql
from headrace.engine.duckdb_session import DuckdbSession
from headrace.errors import DefinitionError, NotFoundError, NotReadyError, QuestionError, UsageError
from headrace.lake.dead_letter_pages import SHOWN_BYTES, make_letter
from headrace.lake.dead_letters import DEFAULT_LIMIT, DeadLetter, DeadLetterPage, DeadLetterReason, ReplayStep
from headrace.lake.delta_table import LakeTable
from headrace.lake.parquet_file import rows_at
from headrace.lake.table_schema import COMMIT, POSITION, TABLES, VALUE
from headrace.language.user_functions import functions_of
from headrace.name_encoding import shell
from headrace.store.version import NOT_PINNED, Pinned

OURS = (COMMIT, POSITION, ARRIVED)
MOST_KEPT = 100_000  # the newest; all of them are counted
JOINED_ROWS = 5 * CHUNK_ROWS  # that are joined at once: each time all changes of a table are looked through
PATIENCE_S = 20.0  # of a request; the next one continues
_VALUES = re.compile(r" \([^()]*:\d+, for .*\)$", re.DOTALL)  # the end of a reason: line and value


@dataclass(frozen=True)
class _Failure:
    stream: str
    commit: int
    position: int
    arrived_us: int
    reason: str
    kind: str  # the reason without its values
    is_missing: bool  # whether a table does not have its key
    number: int  # in the order in which they were found, from 0


def stream_of_view(view: View) -> Stream:
    """The rows that a view aggregates, as a derived stream of its name. Raises QuestionError if none is left out."""
    if view.relation is None or not view.relation.leaves_out:
        raise QuestionError(
            f"view '{view.name}' leaves out no events: it has no inner join, no IN and no function over rows",
            fix=f"`headrace dead-letters {shell(view.streams[0])}` lists the dead letters of a stream that it reads",
        )
    return Stream(view.name, (), relation=view.relation)


class FailedCalls:
    """Reads them. For any thread."""

    def __init__(
        self,
        stream: Stream,
        bases: Mapping[str, tuple[Callable[[], Stream], LakeTable | None]],
        patience_s: float | None = None,
        tables: TableChanges | None = None,
        pinned: Pinned = NOT_PINNED,
        kind: str = "stream",
    ) -> None:
        """`bases` are the base streams with their lakes. Without `patience_s` a request reads as long as it takes.

        `tables` are what the stream is joined to; `pinned` says at which versions, where events do not.
        """
        self._tables = tables
        self.pinned = pinned
        self._kind = kind
        assert stream.relation is not None, "it is derived"
        self.stream = stream
        self._relation = stream.relation
        self._bases = bases
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._cursors = dict.fromkeys(bases, EventCursor(0))
        self._failures: deque[_Failure] = deque(maxlen=MOST_KEPT)
        self._reasons: Counter[str] = Counter()
        self._newest: dict[str, _Failure] = {}
        self._total = 0
        self._missing = 0  # of them, those of missing keys
        self.refill: Callable[[], Mapping[str, int]] | None = None  # builds views anew; only a server can
        self._session = DuckdbSession()

    @property
    def tables(self) -> tuple[LakeTable | None, ...]:
        """The lakes that it reads."""
        return tuple(table for _, table in self._bases.values())

    def count(self, patience_s: float) -> int | None:
        """How many there are; None if they cannot be counted in this time, or somebody else is reading."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            self._catch_up(patience_s)
            return self._total
        except (NotReadyError, QuestionError):
            return None
        finally:
            self._lock.release()

    def page(self, limit: int = DEFAULT_LIMIT, cursor: int | None = None, reason: str | None = None) -> DeadLetterPage:
        """The newest first: those before `cursor`, whose reason has the words of `reason`."""
        with self._read(self._patience_s):
            words = (reason or "").lower()
            candidates = (
                each
                for each in reversed(self._failures)
                if (cursor is None or each.number < cursor) and words in each.reason.lower()
            )
            page = [each for each, _ in zip(candidates, range(limit + 1), strict=False)]
            total = self._total
        letters = self._letters(page[:limit], SHOWN_BYTES)
        next_cursor = page[limit - 1].number if len(page) > limit else None
        return DeadLetterPage(self.stream.name, total, tuple(letters), next_cursor)

    def reasons(self) -> list[DeadLetterReason]:
        """How many there are of each kind, the most frequent first. A kind is a reason without its values."""
        with self._read(self._patience_s):
            counts = sorted(self._reasons.items(), key=lambda each: (-each[1], each[0]))
            newest = self._newest
            return [DeadLetterReason(kind, count, newest[kind].reason, newest[kind].position) for kind, count in counts]

    def show(self, position: int) -> DeadLetter:
        """The newest one of the event at a position, whole."""
        with self._read(self._patience_s):
            failure = next((each for each in reversed(self._failures) if each.position == position), None)
        if failure is None:
            raise NotFoundError(
                f"{self._kind} '{self.stream.name}' has no dead letter at position {position}",
                fix=f"`headrace dead-letters {shell(self.stream.name)}` lists them",
            )
        return self._letters([failure], None)[0]

    def replay(self, cursor: str | None = None, *, dry_run: bool = False) -> ReplayStep:
        """Have rows whose key was missing look for it in the tables of now: views are built anew with them.

        Refused if there are none: rows that a function failed for are made anew whenever it is another one.
        """
        if not self._relation.tables:
            raise UsageError(
                f"{self._kind} '{self.stream.name}' is derived: its dead letters are not replayed",
                fix="change the function, then `headrace apply`: views over it are rebuilt with these events",
            )
        if self.refill is None:
            raise NotReadyError(
                f"the dead letters of {self._kind} '{self.stream.name}' cannot be replayed: the server is not running",
                fix="start `headrace up`, then try again",
            )
        with self._read(None):
            missing = self._missing
            filled = self._filled()
        with filled._read(None):
            still_missing = filled._missing
        # Of a row whose key was found, several may be made: their keys may be missing in another table.
        views = self.refill() if still_missing != missing and not dry_run else {}
        commits = sum(table.state.next_commit for table in self.tables if table)
        return ReplayStep(missing, max(0, missing - still_missing), 0, commits, None, True, views)

    def _filled(self) -> FailedCalls:
        """The same, with missing keys looked for in the tables of now."""
        assert self._tables is not None, "it has joins"
        logs = self._relation.logs
        return FailedCalls(
            self.stream,
            self._bases,
            tables=self._tables,
            pinned=replace(
                self.pinned,
                fill=tuple((log, self._tables.version(log)) for log in logs),
                fill_until=tuple((name, cursor.commit) for name, cursor in self._cursors.items()),
            ),
            kind=self._kind,
        )

    @contextmanager
    def _read(self, patience_s: float | None) -> Iterator[None]:
        """Read the log to its end; what was read stays as it is while the block runs."""
        with self._lock:
            self._catch_up(patience_s)
            yield

    def _catch_up(self, patience_s: float | None) -> None:
        deadline = None if patience_s is None else time.monotonic() + patience_s
        for name, (stream, table) in self._bases.items():
            base = stream()
            joins = PinnedJoins(self._tables, name, self.pinned) if self._tables and self._relation.tables else None
            sql = self._sql(base, joins)
            if table is None or sql is None:
                continue
            reads = [*([TABLES] if joins else []), *(field for field, _ in self._relation.reads_of(name))]
            failing = partial(self._failing, sql=sql, joins=joins, deadline=deadline)
            rows = JOINED_ROWS if joins else CHUNK_ROWS
            while (chunk := read_chunk(table, base, self._cursors[name], rows, reads)) is not None:
                for failure in self._failures_in(name, in_parts(chunk.events.select([*OURS, *reads]), failing)):
                    self._add(failure)
                self._cursors[name] = chunk.until
                is_late = deadline is not None and time.monotonic() > deadline
                if is_late and chunk.until < EventCursor(table.state.next_commit):
                    done = f"{chunk.until.commit:,} of {table.state.next_commit:,} commits of '{name}' are read"
                    raise NotReadyError(
                        f"the dead letters of {self._kind} '{self.stream.name}' are being searched", found=done,
                        fix="retry",
                    )  # fmt: skip

    def _sql(self, base: Stream, joins: PinnedJoins | None) -> str | None:
        try:
            if joins is None:
                return failures_sql(self._relation, base, OURS, "events")
            ours = (*OURS, TABLES)
            return failures_sql(self._relation, base, ours, "events", joins=joins.join, missing=joins.missing)
        except DefinitionError as error:
            raise QuestionError(
                f"the dead letters of {self._kind} '{self.stream.name}' cannot be listed: {error.message}"
            ) from error

    def _failing(self, events: pa.Table, sql: str, joins: PinnedJoins | None, deadline: float | None) -> pa.Table:
        columns = ", ".join([*OURS, REASON, KIND])
        try:
            with self._session.showing(events=events) as connection:
                self._session.give(functions_of(self._relation.calling()))
                with joins.shown(connection, deadline) if joins else nullcontext():
                    rows = connection.sql(f"SELECT {columns} FROM ({sql}) ORDER BY {COMMIT}, {POSITION}")
                    table: pa.Table = rows.to_arrow_table()
                    return table
        except duckdb.Error as error:
            text = str(error).splitlines()[0]
            raise QuestionError(
                f"the dead letters of {self._kind} '{self.stream.name}' cannot be listed: {text}"
            ) from error

    def _failures_in(self, name: str, rows: pa.Table) -> Iterator[_Failure]:
        prefix = f"{name}: " if len(self._bases) > 1 else ""
        arrived = rows.column(ARRIVED).cast(pa.int64()).to_pylist()
        for row, arrived_us in zip(rows.select([COMMIT, POSITION, REASON, KIND]).to_pylist(), arrived, strict=True):
            reason = f"{prefix}{row[REASON]}"
            kind = _VALUES.sub("", reason) if row[KIND] is None else f"{prefix}{row[KIND]}"
            yield _Failure(
                name, row[COMMIT], row[POSITION], arrived_us, reason, kind, row[KIND] is not None, self._total
            )

    def _add(self, failure: _Failure) -> None:
        self._failures.append(failure)
        self._total += 1
        self._missing += failure.is_missing
        self._reasons[failure.kind] += 1
        self._newest[failure.kind] = failure

    def _letters(self, failures: Iterable[_Failure], most_bytes: int | None) -> list[DeadLetter]:
        """These, with the events as they came."""
        letters = []
        for each in failures:
            value = self._value(each)
            letters.append(
                make_letter(each.position, each.commit, each.arrived_us, each.reason, value[:most_bytes], len(value))
            )
        return letters

    def _value(self, failure: _Failure) -> bytes:
        _, table = self._bases[failure.stream]
        assert table is not None, "it was read"
        with table.reading(failure.commit, failure.commit + 1) as files:
            for file in files:
                for rows in rows_at(
                    Path(table.storage.locate(file.path)), [failure.position], [POSITION, COMMIT, VALUE]
                ):
                    for row in rows.to_pylist():
                        if row[COMMIT] == failure.commit:
                            return bytes(row[VALUE] or b"")
        return b""
