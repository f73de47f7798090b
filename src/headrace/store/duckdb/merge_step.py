"""A step of the speed layer in the store: versions move on, and their partials are merged, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import duckdb

from headrace.duckdb_connections import run
from headrace.errors import FencedError
from headrace.lazy import pa
from headrace.store.duckdb.snapshot import speed_tables_of
from headrace.store.duckdb.table_sql import ROWS, STAGED, merge_few, merge_many
from headrace.store.duckdb.version_rows import FENCED, gone, position_text
from headrace.store.partial_columns import own_newest
from headrace.store.store_contract import Partials, Step
from headrace.store.version import Version
from headrace.timing import later

FEW_ROWS = 2_000  # of partials: one MERGE takes less time than statements that are faster for many
MOVE = """
UPDATE bases SET applied_to = $to, position = $position, newest_us = $newest, idle_us = $idle, applied_at_us = $at
WHERE stream = $stream AND applied_to = $from AND list_contains($ids, {'view': view, 'number': number}) AND EXISTS (
    FROM versions AS v WHERE v.view = bases.view AND v.number = bases.number AND fence = $fence AND state <> 'retired')
"""


OWN_TIME = "UPDATE bases SET newest_us = ?, idle_us = NULL WHERE view = ? AND number = ? AND stream = ?"


def move(connection: duckdb.DuckDBPyConnection, step: Step, versions: Sequence[Version], fence: int) -> None:
    """Move versions over the commits of a step: compare and set, all at once.

    Raises ConflictError if one is retired; FencedError if one is not where the step starts, or if another writer has
    fenced this one.
    """
    values = {
        "to": step.to_commit,
        "position": position_text(step.position),
        "newest": step.newest_us,
        "idle": step.idle_us,
        "at": step.at_us,
        "ids": [{"view": view, "number": number} for view, number in (version.id for version in versions)],
        "stream": step.stream,
        "from": step.from_commit,
        "fence": fence,
    }
    if run(connection, MOVE, values) == [(len(versions),)]:
        return
    for version in versions:
        if not version.live:
            raise gone(*version.id, "an edit took its rows, or another version serves")
    at = {version.id: version.base(step.stream).applied_to for version in versions}
    view, number = next((id for id, commit in at.items() if commit != step.from_commit), versions[0].id)
    ((owner,),) = run(connection, "SELECT fence FROM versions WHERE view = ? AND number = ?", [view, number])
    raise FencedError(
        f"view '{view}' version {number}: commits [{step.from_commit}, {step.to_commit}) of stream "
        f"'{step.stream}' were not merged",
        found=f"commit {at[view, number]} and fence {owner} in the store",
        expected=f"commit {step.from_commit} and fence {fence}",
        fix=FENCED,
    )


def merge(
    connection: duckdb.DuckDBPyConnection,
    version: Version,
    stream: str,
    parts: Partials,
    notes: Sequence[Callable[[str | None], None]] = (),
) -> None:
    """Merge partials of commits of a stream into a version's speed table.

    Each of `notes` gets the name of a table with the cells that are about to be merged, or None if there are none.
    """
    if version.view.has_own_time(stream):
        newest_us = later(version.base(stream).newest_us, own_newest(parts))
        run(connection, OWN_TIME, [newest_us, *version.id, stream])
    source, writes = None, list[str]()
    view, table = version.view, speed_tables_of(version, stream)[-1]
    files = [str(part) for part in parts if not isinstance(part, pa.Table)]
    tables = [part for part in parts if isinstance(part, pa.Table) and len(part)]
    if files:
        stage, *writes = merge_many(view, table, "read_parquet($files)")
        run(connection, stage, {"files": files})
        source = STAGED
    elif tables:
        rows = pa.concat_tables(tables)
        connection.register(ROWS, rows)
        few = merge_few(view, table, ROWS, once=len(tables) == 1)
        writes = [few] if len(rows) <= FEW_ROWS else merge_many(view, table, ROWS)
        source = ROWS
    for note in notes:
        note(source)
    for write in writes:
        run(connection, write)
    if source == ROWS:
        connection.unregister(ROWS)
