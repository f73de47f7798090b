"""Makes batch tables: partials and earlier batch tables folded into one immutable DuckDB file, sorted by key.

It reads no lake and knows no version: what goes into which file is decided elsewhere.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import orjson

from headrace.define.model import View
from headrace.disk import disk_full, is_disk_full, remove, sync
from headrace.duckdb_connections import literal, open_duckdb, run
from headrace.engine.duckdb_terms import duckdb_name
from headrace.errors import CorruptionError, HeadraceError, UnavailableError
from headrace.faults import fault_point
from headrace.store.duckdb.key_ranges import KeyRange, cut, cut_by, range_bytes, stage
from headrace.store.duckdb.levels import PANES, floor_to, levels_of
from headrace.store.duckdb.merge_functions import register_functions
from headrace.store.duckdb.table_sql import batch_only_columns, folded_columns, row_columns, stored_columns
from headrace.store.partial_columns import EVENTS, KEY_ID, PANE

FORMAT = 1  # of a batch table's file
UNFINISHED = ".making"  # suffix of the name of a file that is not yet in place
HEADER_BYTES = 3 * 4096  # of a DuckDB file, before its blocks
MEMORY_MB = 512


@dataclass(frozen=True)
class Made:
    """The contents of a batch table: rows of (key, pane), and the events in them."""

    rows: int
    events: int


def make_batch_table(
    view: View,
    target: Path,
    *,
    partials: Sequence[Path],
    earlier: Sequence[Path],
    memory_mb: int = MEMORY_MB,
    threads: int = 1,
    most_bytes: int | None = None,  # of a range; None: by the memory
) -> Made:
    """Fold Parquet files of partials and earlier batch tables into the file `target`, completely or not at all."""
    content = write_unfinished(
        view,
        target,
        partials=partials,
        earlier=earlier,
        memory_mb=memory_mb,
        threads=threads,
        most_bytes=most_bytes,
    )
    put_in_place(view, target)
    return content


def write_unfinished(
    view: View,
    target: Path,
    *,
    partials: Sequence[Path],
    earlier: Sequence[Path],
    memory_mb: int,
    threads: int,
    most_bytes: int | None = None,
) -> Made:
    """Write the table under a name that says that it is not in place; on disk when this returns."""
    unfinished, spill = _unfinished(target), target.with_name(f"{target.name}.spill{UNFINISHED}")
    _remove(unfinished, spill)
    try:
        with (
            explained(_failing(view, target), target, [*partials, *earlier]),
            closing(connect(spill, memory_mb, threads)) as connection,
        ):
            run(connection, f"ATTACH {literal(unfinished)} AS made (TYPE duckdb)")
            source = _source(connection, view, partials, earlier)
            most = most_bytes or range_bytes(memory_mb)
            key_ranges = cut(connection, view, source, most) if source else []
            if len(key_ranges) > 1 or any(part.size > most for part in key_ranges):
                source = _stage(connection, view, source, spill / "staged")
            content = _fill(connection, view, source, key_ranges, most)
            _sign(connection, view, content)
            run(connection, "DETACH made")  # writes all of it into the file
        sync(unfinished)
    except BaseException:
        _remove(unfinished)
        raise
    finally:
        shutil.rmtree(spill, ignore_errors=True)
    return content


def put_in_place(view: View, target: Path) -> None:
    """Give what `write_unfinished` wrote its name; it has it for good when this returns."""
    with explained(_failing(view, target), target, []):
        fault_point("load.before_rename")
        _unfinished(target).replace(target)
        sync(target.parent)
        fault_point("load.after_rename")


def check_batch_table(
    path: Path, *, view: str | None = None, rows: int | None = None, events: int | None = None
) -> str | None:
    """The faults of a batch table's file, as far as a quick check shows; None if it has none."""
    if not path.is_file():
        return f"batch table '{path}' is missing"
    try:
        with closing(open_duckdb(path, read_only=True)) as connection:
            about = orjson.loads(run(connection, "SELECT said FROM about")[0][0])
            ((counted,),) = run(connection, f"SELECT count(*) FROM {PANES}")
            ((block, blocks),) = run(connection, "SELECT block_size, total_blocks FROM pragma_database_size()")
    except (duckdb.Error, OSError, ValueError, IndexError) as error:
        return f"batch table '{path}' cannot be read: {str(error).splitlines()[0]}"
    if path.stat().st_size < HEADER_BYTES + block * blocks:
        return f"batch table '{path}' is cut short: {path.stat().st_size:,} bytes"
    if about["format"] != FORMAT:
        return f"batch table '{path}' has format {about['format']}, not {FORMAT}"
    expected = {"view": view, "rows": rows, "events": events}
    wrong = [
        f"{name} {about[name]}, not {value}" for name, value in expected.items() if value not in (None, about[name])
    ]
    if counted != about["rows"]:
        wrong.append(f"{counted} rows, though it says {about['rows']}")
    return f"batch table '{path}' has {', '.join(wrong)}" if wrong else None


def connect(spill: Path, memory_mb: int, threads: int) -> duckdb.DuckDBPyConnection:
    """A database in memory; what is too much for it goes to the folder `spill`."""
    connection = open_duckdb(threads=threads, memory=f"{memory_mb}MB", spill=spill)
    register_functions(connection)
    return connection


def read_files(view: View, files: Sequence[Path], *, complete: bool = True) -> str:
    """A query that gives every row of Parquet files of partials; unless `complete`, without columns of one layer."""
    return f"SELECT {stored_columns(view, complete=complete)} FROM read_parquet([{', '.join(map(literal, files))}])"


def _source(
    connection: duckdb.DuckDBPyConnection, view: View, partials: Sequence[Path], earlier: Sequence[Path]
) -> str:
    """A query that gives every row to fold."""
    parts = [read_files(view, partials)] if partials else []
    for i, path in enumerate(earlier):
        run(connection, f"ATTACH {literal(path)} AS earlier_{i} (TYPE duckdb, READ_ONLY)")
        parts.append(f"SELECT {stored_columns(view)} FROM earlier_{i}.{PANES}")
    return " UNION ALL ".join(parts)


def _stage(connection: duckdb.DuckDBPyConnection, view: View, source: str, file: Path) -> str:
    """The source sorted; as it is, if its rows are too large for that: then each range reads all rows."""
    try:
        return stage(connection, source, file)
    except duckdb.OutOfMemoryException:
        if not batch_only_columns(view):
            raise
        return source


def _fill(
    connection: duckdb.DuckDBPyConnection, view: View, source: str, key_ranges: Sequence[KeyRange], most: int
) -> Made:
    """The tables, range by range of (key, pane), so that neither sketches nor sorting need all rows at once.

    A range with more than `most` bytes is cut again, for each table between the rows of that table.
    """
    tables = [(PANES, 1), *levels_of(view)]
    for name, _ in tables:
        run(connection, _create(view, name))
    for part in key_ranges:
        below = f"SELECT * FROM ({source})"
        for name, ms in tables:
            pieces = [part] if part.size <= most else cut_by(connection, view, below, part, ms, most)
            for piece in pieces:
                _insert(connection, view, name, f"({below})", floor_to(ms) if ms > 1 else PANE, piece)
            below = f"SELECT * FROM made.{name}"
    rows, events = run(connection, f"SELECT count(*), coalesce(sum({EVENTS}), 0) FROM made.{PANES}")[0]
    return Made(int(rows), int(events))


def _create(view: View, table: str) -> str:
    # Compressed, all values of 2,048 rows would be read for one of them; hashes do not become smaller by it anyway.
    plain = {duckdb_name(name) for name, _ in batch_only_columns(view)}
    columns = [f"{name} {of}{' USING COMPRESSION uncompressed' * (name in plain)}" for name, of in row_columns(view)]
    return f"CREATE TABLE made.{table} ({', '.join(columns)})"


def _insert(
    connection: duckdb.DuckDBPyConnection, view: View, table: str, source: str, pane: str, part: KeyRange
) -> None:
    """Fold a range of the source and append it to the table, which is sorted."""
    into = f"INSERT INTO made.{table} SELECT {folded_columns(view, pane)} FROM"
    which = f"WHERE {part.condition} GROUP BY {KEY_ID}, {pane} ORDER BY {KEY_ID}, {PANE}"
    try:
        run(connection, f"{into} {source} {which}")
    except duckdb.OutOfMemoryException:
        if not batch_only_columns(view):
            raise
        run(connection, f"{into} (SELECT {stored_columns(view, complete=False)} FROM {source}) {which}")


def _sign(connection: duckdb.DuckDBPyConnection, view: View, content: Made) -> None:
    about = {
        "format": FORMAT,
        "view": view.name,
        "duckdb": duckdb.__version__,
        "rows": content.rows,
        "events": content.events,
        "levels": [name for name, _ in levels_of(view)],
    }
    run(connection, "CREATE TABLE made.about AS SELECT ? AS said", [orjson.dumps(about).decode()])


@contextmanager
def explained(what: str, place: Path, inputs: Sequence[Path]) -> Iterator[None]:
    """Failures of reading those files or of writing at that place come out as sentences that begin so."""
    try:
        yield
    except (duckdb.Error, MemoryError, OSError) as error:
        raise _explain(error, what, place, inputs) from error


def _explain(error: Exception, what: str, place: Path, inputs: Sequence[Path]) -> HeadraceError:
    message = str(error).splitlines()[0] if str(error) else type(error).__name__
    if is_disk_full(error):
        return disk_full(what, place.parent, "nothing was changed; free space there; it is then retried automatically")
    if isinstance(error, (duckdb.OutOfMemoryException, MemoryError)):
        return UnavailableError(what, found=message, expected="enough memory", fix="Headrace retries automatically")
    broken = next((path for path in inputs if str(path) in str(error)), None)
    if broken is None:
        return HeadraceError(what, found=message)
    return CorruptionError(
        f"{what}: file '{broken}' cannot be read", found=message, fix="move it away: it is computed again from the lake"
    )


def _failing(view: View, target: Path) -> str:
    return f"view '{view.name}': batch table '{target}' cannot be made"


def _unfinished(target: Path) -> Path:
    return target.with_name(target.name + UNFINISHED)


def _remove(*paths: Path) -> None:
    for path in paths:
        remove(path)
        remove(path.with_name(path.name + ".wal"))
