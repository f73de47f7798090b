"""Reads dead letters of a stream: a page, their number by reason, one completely; only from the lake's dead files."""

from __future__ import annotations

import base64
import codecs
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.duckdb_connections import open_duckdb
from headrace.errors import NotFoundError, NotReadyError
from headrace.format import iso_us
from headrace.lake.dead_letters import DEFAULT_LIMIT, DeadLetter, DeadLetterPage, DeadLetterReason, ReplayStep
from headrace.lake.delta_table import LakeTable
from headrace.lake.parquet_file import rows_at
from headrace.lake.table_schema import ARRIVED, COMMIT, POSITION, REASON, VALUE
from headrace.name_encoding import shell

MOST_REASONS = 1000
SHOWN_BYTES = 400  # of an event on a page; `show` has all of it
# The parts of a reason that differ between events with the same mistake: the value, and where it is.
_VALUES = r", found .*$| at (byte|character) \d+"
MEMORY = "256MB"
ReplayNext = Callable[[str | None, bool], ReplayStep]  # cursor, whether to count only


class DeadLetters:
    """Reads them. A stream whose table does not exist yet has none."""

    def __init__(self, stream: str, table: LakeTable | None, replay: ReplayNext | None = None) -> None:
        self._stream = stream
        self._table = table
        self._replay = replay

    def page(self, limit: int = DEFAULT_LIMIT, cursor: int | None = None, reason: str | None = None) -> DeadLetterPage:
        """The newest first: those before `cursor`, whose reason has the words of `reason`."""
        total = self._table.rows(dead=True) if self._table else 0
        with self._files() as files:
            places = _find(files, limit + 1, cursor, reason)
            page, more = places[:limit], len(places) > limit
            letters = _read({file for _, file in page}, [position for position, _ in page], SHOWN_BYTES)
        newest_first = sorted(letters, key=lambda letter: -letter.position)
        return DeadLetterPage(self._stream, total, tuple(newest_first), page[-1][0] if more else None)

    def reasons(self) -> list[DeadLetterReason]:
        """The number of letters of each kind, the most frequent first. A kind is a reason without its values."""
        query = f"""
        SELECT regexp_replace({REASON}, $values, '', 'gs') AS kind, count(*), arg_max({REASON}, {POSITION}),
          max({POSITION})
        FROM read_parquet($files) GROUP BY kind ORDER BY count(*) DESC, kind LIMIT {MOST_REASONS}
        """
        with self._files() as files:
            rows = _run(query, files, values=_VALUES)
        return [DeadLetterReason(*row) for row in rows]

    def show(self, position: int) -> DeadLetter:
        """The complete letter at a position."""
        with self._files() as files:
            letters = _read(files, [position], None)
        if not letters:
            raise NotFoundError(
                f"stream '{self._stream}' has no dead letter at position {position}",
                fix=f"`headrace dead-letters {shell(self._stream)}` lists them",
            )
        return letters[0]

    def replay(self, cursor: str | None = None, *, dry_run: bool = False) -> ReplayStep:
        """Read some of them again with the current definition: those that are readable become events, exactly once.

        The `cursor` of the reply is for the next step; None if all were read. `dry_run` only counts.
        """
        if self._replay is None:
            raise NotReadyError(
                f"dead letters of stream '{self._stream}' are replayed by a server, and none runs for this workspace",
                fix="`headrace up` starts one",
            )
        return self._replay(cursor, dry_run)

    @contextmanager
    def _files(self) -> Iterator[list[str]]:
        """The files that hold them, which stay on disk meanwhile."""
        if self._table is None:
            yield []
            return
        with self._table.reading(0, self._table.state.next_commit, dead=True) as files:
            yield [self._table.storage.locate(file.path) for file in files]


def _find(files: Iterable[str], count: int, before: int | None, reason: str | None) -> list[tuple[Any, ...]]:
    """Positions and files, the newest first. Events are not read: they may be large, and most are not shown."""
    query = f"""
    SELECT {POSITION}, filename FROM read_parquet($files, filename = true)
    WHERE {POSITION} < $before AND contains(lower({REASON}), lower($reason))
    ORDER BY {POSITION} DESC LIMIT {int(count)}
    """
    return _run(query, files, before=1 << 62 if before is None else before, reason=reason or "")


def _read(files: Iterable[str], positions: list[int], most_bytes: int | None) -> list[DeadLetter]:
    """Read with pyarrow, row group by row group: DuckDB would hold two thousand events in memory, of any size."""
    letters = []
    for file in files:
        for rows in rows_at(Path(file), positions, [POSITION, COMMIT, ARRIVED, REASON, VALUE]):
            arrived = rows.column(ARRIVED).cast(pa.int64()).to_pylist()
            for index, row in enumerate(rows.drop_columns([ARRIVED, VALUE]).to_pylist()):
                value = rows.column(VALUE)[index].as_py()
                letters.append(
                    make_letter(row[POSITION], row[COMMIT], arrived[index], row[REASON], value[:most_bytes], len(value))
                )
    return letters


def make_letter(position: int, commit: int, arrived_us: int, reason: str, value: bytes, value_bytes: int) -> DeadLetter:
    """A dead letter with the first bytes of its event."""
    whole = len(value) == value_bytes
    text, is_utf8 = decoded(value, whole)
    return DeadLetter(
        position=position,
        commit=commit,
        arrived=iso_us(arrived_us),
        reason=reason,
        value=text,
        bytes=value_bytes,
        whole=whole,
        base64=None if is_utf8 else base64.b64encode(value).decode(),
    )


def decoded(value: bytes, whole: bool) -> tuple[str, bool]:
    """The bytes as text, with other bytes than UTF-8 escaped; and whether all of them are UTF-8."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(value, final=whole), True
    except UnicodeDecodeError:
        return value.decode("utf-8", "backslashreplace"), False


def _run(query: str, files: Iterable[str], **parameters: Any) -> list[tuple[Any, ...]]:
    paths = sorted(files)
    if not paths:
        return []
    with open_duckdb(memory=MEMORY) as connection:
        rows: list[tuple[Any, ...]] = connection.execute(query, {"files": paths, **parameters}).fetchall()
        return rows
