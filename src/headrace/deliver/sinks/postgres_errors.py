"""Errors of PostgreSQL as one sentence each: what failed, and what to do. No password, no statement, no row in them."""

from __future__ import annotations

import re

import psycopg

from headrace.deliver.sinks.sink_writer import DestinationError
from headrace.secrets import without_passwords

# By SQLSTATE or its first two characters; what a retry may heal without a change of definitions or tables.
UNAVAILABLE = {
    "08": "the connection was lost",
    "53100": "the disk of the database is full",
    "53200": "the database is out of memory",
    "53300": "the database has no connection left",
    "57P01": "the database is shutting down",
    "57P02": "the database has crashed and restarts",
    "57P03": "the database is starting or stopping",
    "57P05": "the database closed the idle connection",
    "40": "a concurrent transaction of the database interfered",
    "55P03": "the table is locked by another transaction",
    "58": "the database has an error of its system",
    "25006": "the database is read-only",
}
FIXES = {
    "53100": "free space there",
    "53300": "raise max_connections, or close other clients",
    "55P03": "end that transaction",
    "25006": "give the URL of the primary server",
}
_PREFIX = re.compile(r"^(?:connection failed: )?(?:connection to server at .*? failed: )?(?:FATAL:\s+)?", re.DOTALL)


def explained(error: psycopg.Error, sink: str, table: str, place: str) -> DestinationError:
    """The error as a user sees it; an DestinationError where waiting may help."""
    state = error.sqlstate or ""
    message = _message(error)
    title = f"sink '{sink}': table {table} in {place}"
    if state in ("28P01", "28000"):
        return DestinationError(
            f"sink '{sink}': PostgreSQL at {place} refuses the login: {message}",
            fix="check user and password of the option 'url'",
        )
    if state == "3D000":
        return DestinationError(f"sink '{sink}': PostgreSQL at {place}: {message}", fix="create it, or correct the URL")
    if state in UNAVAILABLE or state[:2] in UNAVAILABLE:
        reason = UNAVAILABLE.get(state) or UNAVAILABLE[state[:2]]
        fix = FIXES.get(state, "Headrace retries automatically")
        return DestinationError(f"{title} cannot be written: {reason} ({message})", fix=fix)
    if not state:
        return _connecting(message, sink, place)
    return _refused(error, state, message, title)


def _connecting(message: str, sink: str, place: str) -> DestinationError:
    """Errors that libpq itself finds: most come from connecting."""
    lower = message.lower()
    if "password authentication failed" in lower or "no password supplied" in lower or "pg_hba" in lower:
        return DestinationError(
            f"sink '{sink}': PostgreSQL at {place} refuses the login: {message}",
            fix="check user and password of the option 'url'",
        )
    if "does not exist" in lower:
        return DestinationError(f"sink '{sink}': PostgreSQL at {place}: {message}", fix="create it, or correct the URL")
    return DestinationError(
        f"sink '{sink}': PostgreSQL at {place} cannot be reached: {message}",
        fix="start it, or correct the option 'url'; Headrace retries automatically",
    )


def _refused(error: psycopg.Error, state: str, message: str, title: str) -> DestinationError:
    column = f" (column '{error.diag.column_name}')" if error.diag.column_name else ""
    if state == "42501":
        return DestinationError(
            f"{title} cannot be written: {message}",
            fix="GRANT SELECT, INSERT, UPDATE, DELETE on it and on headrace_sinks, and CREATE on the schema"
            " where they do not exist",
        )
    if state == "3F000":
        return DestinationError(
            f"{title} cannot be created: {message}", fix="write CREATE SCHEMA, or name another schema"
        )
    if state == "22003":
        return DestinationError(
            f"{title}: a value is too large for its column: {message}",
            fix="write ALTER TABLE … ALTER COLUMN … TYPE numeric for the column of the sum",
        )
    if state[:2] == "22":
        return DestinationError(
            f"{title}: a value is not valid for its column: {message}", fix="give the column a wider type"
        )
    if state[:2] == "23":
        constraint = f" '{error.diag.constraint_name}'" if error.diag.constraint_name else ""
        return DestinationError(
            f"{title}: a row violates a constraint{constraint}{column}: {message}",
            fix="drop the constraint, or keep such rows out by WHERE in the sink",
        )
    if state == "54000":
        return DestinationError(
            f"{title}: a value is too long for an index: {message}",
            fix="drop the index; the sink's own key has 16 bytes whatever the length of the keys",
        )
    return DestinationError(f"{title} cannot be written: {message} (SQLSTATE {state})")


def _message(error: psycopg.Error) -> str:
    """PostgreSQL's own sentence, on one line."""
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    text = _PREFIX.sub("", text)  # libpq names the server again
    return without_passwords(re.sub(r"\s*\n\s*", "; ", text).rstrip("?."))
