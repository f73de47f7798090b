"""The format of the store's file: its tables, how an older one is upgraded, and how one is read without an upgrade."""

from __future__ import annotations

from pathlib import Path

import duckdb

from headrace.disk import refuse_newer
from headrace.duckdb_connections import run
from headrace.errors import CorruptionError, FencedError

FORMAT = 6  # of the file and of the batch tables that it speaks of; a newer one is refused
TABLES = (
    """CREATE TABLE IF NOT EXISTS versions (
  view VARCHAR NOT NULL, number BIGINT NOT NULL, definition VARCHAR NOT NULL, fingerprint VARCHAR NOT NULL,
  state VARCHAR NOT NULL, changed_at_us BIGINT NOT NULL, home BIGINT, replaces BIGINT, fence BIGINT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS bases (
  view VARCHAR NOT NULL, number BIGINT NOT NULL, ordinal BIGINT NOT NULL, stream VARCHAR NOT NULL,
  patience_ms BIGINT NOT NULL, horizon BIGINT NOT NULL, next_horizon BIGINT, built_to BIGINT NOT NULL,
  applied_to BIGINT NOT NULL, position VARCHAR NOT NULL, newest_us BIGINT, applied_at_us BIGINT NOT NULL,
  stalled VARCHAR, quarantined BOOLEAN, alarm VARCHAR, patience_from BIGINT NOT NULL, batch VARCHAR NOT NULL,
  idle_us BIGINT)""",
    """CREATE TABLE IF NOT EXISTS audits (
  view VARCHAR NOT NULL, number BIGINT NOT NULL, stream VARCHAR NOT NULL, from_commit BIGINT NOT NULL,
  to_commit BIGINT NOT NULL, at_us BIGINT NOT NULL, took_ms BIGINT NOT NULL, events BIGINT NOT NULL,
  rows BIGINT NOT NULL, drift VARCHAR NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS numbers (view VARCHAR NOT NULL, last BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS store_format (version BIGINT NOT NULL)",
)
# The log of touched cells, and the versions of tables that are joined. An older Headrace that opens the file leaves
# them alone, and then the log begins again: so they were added without a new format.
LOG_TABLES = {
    "pinned": "view VARCHAR NOT NULL, number BIGINT NOT NULL, tables VARCHAR NOT NULL",
    "followers": "view VARCHAR NOT NULL, name VARCHAR NOT NULL, number BIGINT, tick BIGINT, cursor VARCHAR",
    "logs": "view VARCHAR NOT NULL, number BIGINT NOT NULL, from_tick BIGINT NOT NULL, to_tick BIGINT NOT NULL",
    "touched": "view VARCHAR NOT NULL, number BIGINT NOT NULL, tick BIGINT NOT NULL, at_us BIGINT NOT NULL, "
    "key_id UUID NOT NULL, pane BIGINT NOT NULL",
    "touched_sessions": "view VARCHAR NOT NULL, number BIGINT NOT NULL, tick BIGINT NOT NULL, at_us BIGINT NOT NULL, "
    "key_id UUID NOT NULL, first_us BIGINT NOT NULL, until_us BIGINT NOT NULL",
}
READABLE = 3  # the oldest format that is read as it is, without an upgrade
# What a version has per stream. Up to format 4 it had one stream, and these were columns of its own row.
_BASE = (
    "patience_ms, horizon, next_horizon, built_to, applied_to, position, newest_us, applied_at_us, stalled, "
    "quarantined, alarm, patience_from, batch"
)
_STREAM = "definition ->> '$.stream'"
BASES_OF_4 = f"SELECT view, number, 0 AS ordinal, {_STREAM} AS stream, {_BASE} FROM {{versions}}"
BASES_OF_5 = "SELECT *, CAST(NULL AS BIGINT) AS idle_us FROM ({bases})"
AUDITS_OF_4 = (
    f"SELECT *, coalesce((SELECT min({_STREAM}) FROM {{versions}} AS v WHERE v.view = a.view), '') AS stream "
    "FROM {audits} AS a"
)
UPGRADES = {  # what makes the next format of one
    2: (
        "ALTER TABLE versions ADD COLUMN replaces BIGINT",
        "ALTER TABLE versions ADD COLUMN quarantined BOOLEAN DEFAULT false",
    ),
    3: ("ALTER TABLE versions ALTER COLUMN position TYPE VARCHAR",),  # JSON: a number is one partition's offset
    4: (
        f"INSERT INTO bases BY NAME {BASES_OF_4.format(versions='versions')}",
        f"CREATE TABLE audits_5 AS {AUDITS_OF_4.format(versions='versions', audits='audits')}",
        "DROP TABLE audits",
        "ALTER TABLE audits_5 RENAME TO audits",
        f"CREATE TABLE versions_5 AS SELECT * EXCLUDE ({_BASE}) FROM versions",
        "DROP TABLE versions",
        "ALTER TABLE versions_5 RENAME TO versions",
    ),
    5: ("ALTER TABLE bases ADD COLUMN IF NOT EXISTS idle_us BIGINT",),
}
REBUILD = "or move the file away: views are then computed again from the lake"


class OutdatedError(CorruptionError):
    """The file was written by an older Headrace. Nothing in it is needed: the lake has it all."""


def stored_format(connection: duckdb.DuckDBPyConnection) -> int | None:
    """The format version of an open file; None of an empty one."""
    there = run(connection, "SELECT 1 FROM duckdb_tables() WHERE table_name = 'store_format'")
    return run(connection, "SELECT max(version) FROM store_format")[0][0] if there else None


def check_format(connection: duckdb.DuckDBPyConnection, path: Path, read_only: bool) -> None:
    """Raise OutdatedError or NewerFormatError unless this code reads the file."""
    version = stored_format(connection)
    if version is not None and version < (READABLE if read_only else min(UPGRADES)):
        raise OutdatedError(
            f"store {path} has format {version}; this Headrace writes format {FORMAT}",
            fix="`headrace up` upgrades it, or computes the views again from the lake",
        )
    if version is not None and version > FORMAT:
        run(connection, "PRAGMA disable_checkpoint_on_shutdown")  # else closing it would write to it
        refuse_newer(f"store {path}", version, FORMAT, otherwise=REBUILD)


def show_as_current(connection: duckdb.DuckDBPyConnection) -> None:
    """Let a connection that cannot upgrade the file read an older format as if it were this one."""
    version = stored_format(connection) or FORMAT
    there = {name for (name,) in run(connection, "SELECT table_name FROM duckdb_tables()")}
    for name in LOG_TABLES.keys() - there:
        run(connection, f"CREATE TEMP TABLE {name} ({LOG_TABLES[name]})")
    if version > 5:
        return
    ((database,),) = run(connection, "SELECT current_database()")
    tables = {name: f'"{database}".main.{name}' for name in ("versions", "audits", "bases")}
    bases = BASES_OF_4.format(**tables) if version <= 4 else f"FROM {tables['bases']}"
    run(connection, f"CREATE TEMP VIEW bases AS {BASES_OF_5.format(bases=bases)}")
    if version > 4:
        return
    run(connection, f"CREATE TEMP VIEW audits AS {AUDITS_OF_4.format(**tables)}")


def take_over(connection: duckdb.DuckDBPyConnection, fence: int) -> None:
    """Create what is missing, upgrade an older format, and take over from writers with a lower fence."""
    for table in (*TABLES, *(f"CREATE TABLE IF NOT EXISTS {name} ({of})" for name, of in LOG_TABLES.items())):
        run(connection, table)
    run(connection, f"INSERT INTO store_format SELECT {FORMAT} WHERE NOT EXISTS (FROM store_format)")
    ((highest,),) = run(connection, "SELECT max(fence) FROM versions")
    if highest is not None and highest > fence:
        raise FencedError(
            "the store was taken over by a later process",
            found=f"fence {highest}",
            expected=f"at most {fence}, the fence of this process",
            fix="nothing was changed; stop this process",
        )
    _upgrade(connection)
    run(connection, "UPDATE versions SET fence = ?", [fence])


def _upgrade(connection: duckdb.DuckDBPyConnection) -> None:
    """Upgrade a file of an older format, in one transaction."""
    older = stored_format(connection)
    if older is None or older == FORMAT:
        return
    connection.begin()
    for version in range(older, FORMAT):
        for statement in UPGRADES[version]:
            run(connection, statement)
    run(connection, "UPDATE store_format SET version = ?", [FORMAT])
    connection.commit()
