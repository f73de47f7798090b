"""Dead letters of a derived stream: the rows that a function of the workspace failed for.

They are stored nowhere. As the rows of the stream, they are made of the events of its base streams when they are asked
for; what was made is remembered, so that the next time only later events are read.
"""

from __future__ import annotations

import re
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from headrace.define.model import ARRIVED, Stream
from headrace.define.own import functions_in
from headrace.define.relation_duckdb import REASON, failures_sql
from headrace.errors import DefinitionError, NotFoundError, NotReadyError, QuestionError, UsageError
from headrace.follow.chunks import CHUNK_ROWS, read_chunk
from headrace.follow.page import EventCursor
from headrace.lake.batches import rows_at
from headrace.lake.dead import SHOWN_BYTES, make_letter
from headrace.lake.letters import DEFAULT_LIMIT, DeadLetter, DeadLetterPage, DeadLetterReason, ReplayStep
from headrace.lake.schema import COMMIT, POSITION, VALUE
from headrace.lake.table import LakeTable
from headrace.maintain.maps import give_outcomes
from headrace.parse.time_patterns import register

OURS = (COMMIT, POSITION, ARRIVED)
MOST_KEPT = 100_000  # the newest; all of them are counted
PATIENCE_S = 20.0  # of a request; the next one continues
_VALUES = re.compile(r" \([^()]*:\d+, for .*\)$", re.DOTALL)  # the end of a reason: line and value


@dataclass(frozen=True)
class _Failure:
    stream: str
    commit: int
    position: int
    arrived_us: int
    reason: str
    number: int  # in the order in which they were found, from 0


class FailedCalls:
    """Reads them. For any thread."""

    def __init__(
        self,
        stream: Stream,
        bases: Mapping[str, tuple[Callable[[], Stream], LakeTable | None]],
        patience_s: float | None = None,
    ) -> None:
        """`bases` are the base streams with their tables. Without `patience_s` a request reads as long as it takes."""
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
        self._duckdb: duckdb.DuckDBPyConnection | None = None
        self._function_names: set[str] = set()  # names of functions that the connection has

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
                f"stream '{self.stream.name}' has no dead letter at position {position}",
                fix=f"`headrace dead-letters {self.stream.name}` lists them",
            )
        return self._letters([failure], None)[0]

    def replay(self, cursor: str | None = None, *, dry_run: bool = False) -> ReplayStep:
        """Refuse it: the rows are made anew whenever the function is another one."""
        raise UsageError(
            f"stream '{self.stream.name}' is derived: its dead letters are not replayed",
            fix="change the function, then `headrace apply`: views over the stream are built anew, with these events",
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
            sql = self._sql(base)
            if table is None or sql is None:
                continue
            reads = [field for field, _ in self._relation.reads_of(name)]
            while (chunk := read_chunk(table, base, self._cursors[name], CHUNK_ROWS, reads)) is not None:
                for failure in self._failing(name, chunk.events.select([*OURS, *reads]), sql):
                    self._add(failure)
                self._cursors[name] = chunk.until
                if deadline is not None and time.monotonic() > deadline:
                    done = f"{chunk.until.commit:,} of {table.state.next_commit:,} commits of '{name}' are read"
                    raise NotReadyError(
                        f"the dead letters of stream '{self.stream.name}' are being looked for", found=done,
                        fix="ask again",
                    )  # fmt: skip

    def _sql(self, base: Stream) -> str | None:
        try:
            return failures_sql(self._relation, base, OURS, "events")
        except DefinitionError as error:
            raise QuestionError(
                f"the dead letters of stream '{self.stream.name}' cannot be listed: {error.message}"
            ) from error

    def _failing(self, name: str, events: pa.Table, sql: str) -> Iterator[_Failure]:
        connection = self._connection(sql)
        connection.register("events", events)
        try:
            rows = connection.sql(f"SELECT * FROM ({sql}) ORDER BY {COMMIT}, {POSITION}").to_arrow_table()
        except duckdb.Error as error:
            text = str(error).splitlines()[0]
            raise QuestionError(f"the dead letters of stream '{self.stream.name}' cannot be listed: {text}") from error
        finally:
            connection.unregister("events")
        prefix = f"{name}: " if len(self._bases) > 1 else ""
        arrived = rows.column(ARRIVED).cast(pa.int64()).to_pylist()
        for row, arrived_us in zip(rows.select([COMMIT, POSITION, REASON]).to_pylist(), arrived, strict=True):
            reason = f"{prefix}{row[REASON]}"
            yield _Failure(name, row[COMMIT], row[POSITION], arrived_us, reason, self._total)

    def _connection(self, sql: str) -> duckdb.DuckDBPyConnection:
        if self._duckdb is None:
            self._duckdb = duckdb.connect(config={"threads": 1, "autoload_known_extensions": False})
            self._duckdb.execute("SET TimeZone = 'UTC'")
            register(self._duckdb)
            weakref.finalize(self, self._duckdb.close)
        for function in functions_in(sql):
            if function.full_name not in self._function_names:
                give_outcomes(self._duckdb, function)
                self._function_names.add(function.full_name)
        return self._duckdb

    def _add(self, failure: _Failure) -> None:
        self._failures.append(failure)
        self._total += 1
        kind = _VALUES.sub("", failure.reason)
        self._reasons[kind] += 1
        self._newest[kind] = failure

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
