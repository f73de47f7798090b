"""The batch tables of a store, a DuckDB file each in one folder: made, compared with speed rows, checked, removed.

Much work is done in a child process: it takes half a second to start, and leaves the lock and memory of this one alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from headrace.define.model import View
from headrace.disk import remove
from headrace.lazy import pa, pq
from headrace.store.duckdb.batch_process import compare_in_child, compare_with_rows_in_child, make_in_child
from headrace.store.duckdb.batch_table import check_batch_table, make_batch_table
from headrace.store.duckdb.database import DAMAGED
from headrace.store.duckdb.layer_audit import compare
from headrace.store.duckdb.table_view_audit import ROWS, compare_with_rows
from headrace.store.partial_columns import own_newest, plain_name
from headrace.store.store_contract import Comparison, never
from headrace.store.version import Base, BatchTable, Version

HERE_ROWS = 10_000  # that are folded or compared in this process; more are in one of their own


def make_table(
    folder: Path,
    version: Version,
    commits: tuple[int, int],
    partials: Sequence[Path],
    earlier: Sequence[BatchTable],
    stopping: Callable[[], bool] = never,
) -> BatchTable:
    """Fold files of partials and earlier batch tables into a new file of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{plain_name(version.view.name)}-{version.home}-{commits[0]}-{commits[1]}-{secrets.token_hex(4)}.duckdb"
    older = [folder / table.file for table in earlier]
    if _rows(partials) + sum(table.rows for table in earlier) > HERE_ROWS:
        content = make_in_child(version.view, folder / name, partials=partials, earlier=older, stopping=stopping)
    else:
        content = make_batch_table(version.view, folder / name, partials=partials, earlier=older)
    return BatchTable(name, *commits, content.rows, content.events, own_newest(partials))


def compare_layers(
    view: View, base: Base, speed: Path, partials: Sequence[Path], stopping: Callable[[], bool] = never
) -> Comparison:
    """Compare a file of the speed rows of one stream with files of partials."""
    same_patience = base.patience_from <= base.horizon
    if _rows(partials) > HERE_ROWS:
        return compare_in_child(view, speed, partials, corrections=same_patience, stopping=stopping)
    return compare(view, speed, partials, corrections=same_patience)


def compare_with_table(view: View, folder: Path, stopping: Callable[[], bool] = never) -> Comparison:
    """Compare files of the cells of a view over a table with those of the table's rows, which then go."""
    if _rows([folder / ROWS]) > HERE_ROWS:
        comparison = compare_with_rows_in_child(view, folder, stopping=stopping)
    else:
        comparison = compare_with_rows(view, folder)
    (folder / ROWS).unlink()
    return comparison


def faults_of(folder: Path, version: Version) -> list[str]:
    """The faults of batch tables of a version."""
    faults = (_fault(folder / table.file, version, table) for table in version.batch)
    return [fault for fault in faults if fault]


def _fault(path: Path, version: Version, table: BatchTable) -> str | None:
    if path.with_name(path.name + DAMAGED).exists():
        return f"batch table '{path}' was found damaged while it was in use"
    return check_batch_table(path, view=version.view.name, rows=table.rows, events=table.events)


def clean(folder: Path, versions: Iterable[Version]) -> None:
    """Remove every file that is no batch table of these versions."""
    tables = {table.file for version in versions for table in version.batch}
    for path in folder.glob("*"):
        if path.name not in tables:
            remove(path)


def _rows(files: Sequence[Path]) -> int:
    rows = 0
    for file in files:
        with suppress(OSError, pa.ArrowException):  # the readers of the file report what is wrong with it
            rows += pq.read_metadata(file).num_rows
    return rows
