"""The log of touched cells: which rows of a followed view have changed since when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb

from headrace.duckdb_connections import run
from headrace.lazy import pa
from headrace.store.duckdb.folds import TableSource, sessions_near
from headrace.store.partial_columns import KEY_ID, PANE
from headrace.store.step_changes import Follower, TouchedTicks
from headrace.store.version import Version

MOST_OF_STEP = 200_000  # cells; a step that touches more of them is not logged: reading all rows costs less
MOST_CELLS = 1_000_000  # of a version
TRIM_EVERY_CELLS, TRIM_EVERY_US = 50_000, 60_000_000
KEPT_US = 600_000_000  # for so long entries stay after all followers have passed them: a reader that returns continues
OLDEST_US = 86_400_000_000  # what a follower has not passed by then is dropped

OF_VERSION = "view = $view AND number = $number"


def read_followers(connection: duckdb.DuckDBPyConnection) -> list[Follower]:
    """The followers of a view."""
    return [Follower(*row) for row in run(connection, "SELECT view, name, number, tick, cursor FROM followers")]


def read_log(connection: duckdb.DuckDBPyConnection, version: Version) -> TouchedTicks | None:
    """The logged ticks of a version."""
    rows = run(connection, f"SELECT from_tick, to_tick FROM logs WHERE {OF_VERSION}", _id(version))
    return TouchedTicks(*rows[0]) if rows else None


def read_ticks(connection: duckdb.DuckDBPyConnection, version: Version, after: int) -> list[tuple[int, int]]:
    """The ticks after one at which cells were touched, and how many each time."""
    query = f"SELECT tick, count(*) FROM touched WHERE {OF_VERSION} AND tick > $after GROUP BY tick ORDER BY tick"
    return run(connection, query, {**_id(version), "after": after})


def read_cells(connection: duckdb.DuckDBPyConnection, version: Version, after: int, upto: int) -> pa.Table:
    """The cells that were touched at the ticks (after, upto], each once."""
    return _read_cells(connection, version, "tick > $after AND tick <= $upto", after, upto)


def read_cells_again(connection: duckdb.DuckDBPyConnection, version: Version, after: int, upto: int) -> pa.Table:
    """Of the keys that were touched at the ticks (after, upto], the cells that were touched after `upto`."""
    keys = f"SELECT key_id FROM touched WHERE {OF_VERSION} AND tick > $after AND tick <= $upto"
    return _read_cells(connection, version, f"tick > $upto AND key_id IN ({keys})", after, upto)


def read_sessions(
    connection: duckdb.DuckDBPyConnection, version: Version, after: int, upto: int
) -> list[tuple[str, int, int]]:
    """The bounds that the sessions which were touched at the ticks (after, upto] had before."""
    query = (
        "SELECT CAST(key_id AS VARCHAR), first_us, min(until_us) FROM touched_sessions "
        f"WHERE {OF_VERSION} AND tick > $after AND tick <= $upto GROUP BY ALL"
    )
    return run(connection, query, {**_id(version), "after": after, "upto": upto})


def _read_cells(connection: duckdb.DuckDBPyConnection, version: Version, where: str, after: int, upto: int) -> pa.Table:
    query = (
        f"SELECT DISTINCT CAST(key_id AS VARCHAR) AS {KEY_ID}, pane AS {PANE} FROM touched "
        f"WHERE {OF_VERSION} AND {where}"
    )
    parameters = {**_id(version), "after": after, "upto": upto}
    table: pa.Table = connection.sql(query, params=parameters).to_arrow_table()
    return table


class LogWriter:
    """The followers of views, as the one process that writes knows them, and what was logged since the last trim."""

    def __init__(self, followed: Sequence[str] = ()) -> None:
        self.followed = frozenset(followed)
        self._since: dict[tuple[str, int], tuple[int, int]] = {}  # cells and time, per version

    def note(
        self,
        connection: duckdb.DuckDBPyConnection,
        version: Version,
        ticks: tuple[int, int],
        at_us: int,
        sources: Sequence[TableSource],
        cells: str | None,
    ) -> None:
        """Log the cells of a step, which are rows of `cells`, and the sessions that these change; None: no cells.

        It is called before the step is merged into `sources`, the tables of the version.
        """
        before, tick = ticks
        _continue(connection, version, before)
        values = {**_id(version), "tick": tick, "at": at_us}
        logged = 0
        if cells:
            insert = (
                f"INSERT INTO touched SELECT DISTINCT $view, $number, $tick, $at, CAST({KEY_ID} AS UUID), {PANE} FROM "
            )
            ((logged,),) = run(connection, insert + cells, values)
        if cells and version.view.has_sessions and logged <= MOST_OF_STEP:
            sessions = sessions_near(version.view, sources, cells)
            insert = f"INSERT INTO touched_sessions SELECT $view, $number, $tick, $at, * FROM ({sessions})"
            run(connection, insert, values)
        if logged > MOST_OF_STEP:
            _restart(connection, version, tick)
            return
        run(connection, f"UPDATE logs SET to_tick = $tick WHERE {OF_VERSION}", {**_id(version), "tick": tick})
        self._trim(connection, version, logged, at_us)

    def _trim(self, connection: duckdb.DuckDBPyConnection, version: Version, logged: int, now_us: int) -> None:
        cells, since_us = self._since.get(version.id, (0, 0))
        cells += logged
        if cells >= TRIM_EVERY_CELLS or now_us - since_us >= TRIM_EVERY_US:
            trim(connection, version, now_us)
            cells, since_us = 0, now_us
        self._since[version.id] = cells, since_us


def trim(connection: duckdb.DuckDBPyConnection, version: Version, now_us: int) -> None:
    """Drop what all followers have passed, and what is too old or too much."""
    passed = [each.tick for each in read_followers(connection) if (each.view, each.version) == version.id]
    query = f"SELECT tick, count(*), any_value(at_us) FROM touched WHERE {OF_VERSION} GROUP BY tick ORDER BY tick DESC"
    kept = 0
    for tick, cells, at_us in run(connection, query, _id(version)):
        kept += cells
        needed = any(each is not None and each < tick for each in passed)
        if kept > MOST_CELLS or at_us < now_us - (OLDEST_US if needed else KEPT_US):
            values = {**_id(version), "tick": tick}
            for table in ("touched", "touched_sessions"):
                run(connection, f"DELETE FROM {table} WHERE {OF_VERSION} AND tick <= $tick", values)
            run(connection, f"UPDATE logs SET from_tick = $tick WHERE {OF_VERSION}", values)
            return


def forget_log(connection: duckdb.DuckDBPyConnection, view: str, number: int | None = None) -> None:
    """Drop the log of a version, or of all versions of a view."""
    for table in ("logs", "touched", "touched_sessions"):
        run(connection, f"DELETE FROM {table} WHERE view = ? AND (? IS NULL OR number = ?)", [view, number, number])


def _continue(connection: duckdb.DuckDBPyConnection, version: Version, tick: int) -> None:
    """Continue the log where it ended; if the version has advanced without it, begin it again."""
    log = read_log(connection, version)
    if log is None or log.to_tick != tick:
        _restart(connection, version, tick)


def _restart(connection: duckdb.DuckDBPyConnection, version: Version, tick: int) -> None:
    forget_log(connection, *version.id)
    run(connection, "INSERT INTO logs VALUES ($view, $number, $tick, $tick)", {**_id(version), "tick": tick})


def _id(version: Version) -> dict[str, Any]:
    return {"view": version.view.name, "number": version.number}
