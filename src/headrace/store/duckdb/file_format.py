"""Older formats of the store's file: how each becomes the next one, and how one is read as it is. Text only."""

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
