"""The rows of the store's `versions` and `audits`: read, inserted, and changed under the writer's fence."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, TypeAlias

import duckdb
import orjson

from headrace.define.fingerprint import from_json, to_json
from headrace.define.model import View
from headrace.duckdb_connections import run
from headrace.errors import ConflictError, FencedError
from headrace.store.store_contract import Audit, Drift
from headrace.store.version import NOT_PINNED, Base, BatchTable, Pinned, Point, Version
from headrace.transport.position import Position

FIELDS = ("definition", "number", "fingerprint", "state", "changed_at_us", "home", "replaces")
BASE_FIELDS = tuple(field.name for field in fields(Base))
AUDIT_FIELDS = "view, number, stream, from_commit, to_commit, at_us, took_ms, events, rows, drift"
AUDITS_KEPT = 100  # per view
UNKNOWN = -1  # as a position: it is not known
MOST_VERSIONS = 16_384  # that are parsed once; of more, each read would parse all
FENCED = "nothing was changed; another process has taken over, so stop this one"

Connection: TypeAlias = duckdb.DuckDBPyConnection


@lru_cache(maxsize=MOST_VERSIONS)
def _view(definition: str) -> View:
    view = from_json(orjson.loads(definition))
    assert isinstance(view, View), "only views are stored"
    return view


@lru_cache(maxsize=MOST_VERSIONS)
def _tables(text: str) -> tuple[BatchTable, ...]:
    return tuple(BatchTable(**table) for table in orjson.loads(text))


@lru_cache(maxsize=MOST_VERSIONS)
def _pinned(text: str | None) -> Pinned:
    if text is None:
        return NOT_PINNED
    parts = orjson.loads(text)
    return Pinned(*(tuple(parts.get(field.name, {}).items()) for field in fields(Pinned)))


def read_versions(connection: Connection, view: str | None = None) -> list[Version]:
    """All of them, or those of a view, by view and number."""
    rows = run(connection, _READ.format(where="" if view is None else "WHERE v.view = ?"), [view] if view else [])
    return [_version(list(group)) for _, group in groupby(rows, key=lambda row: row[: len(FIELDS)])]


# A version has a row for each of its streams.
_READ = (
    f"SELECT {', '.join(f'v.{name}' for name in FIELDS)}, p.tables, {', '.join(f'b.{name}' for name in BASE_FIELDS)} "
    "FROM versions AS v JOIN bases AS b ON b.view = v.view AND b.number = v.number "
    "LEFT JOIN pinned AS p ON p.view = v.view AND p.number = v.number {where} ORDER BY v.view, v.number, b.ordinal"
)


def _version(rows: Sequence[tuple[Any, ...]]) -> Version:
    definition, number, fingerprint, state, changed_at_us, home, replaces = rows[0][: len(FIELDS)]
    pinned = _pinned(rows[0][len(FIELDS)])
    bases = tuple(_base(**dict(zip(BASE_FIELDS, row[len(FIELDS) + 1 :], strict=True))) for row in rows)
    return Version(_view(definition), number, fingerprint, state, bases, changed_at_us, home, replaces, pinned)


def _base(*, position: str, batch: str, **values: Any) -> Base:
    return Base(position=_position(position), batch=_tables(batch), **values)


def read_version(connection: Connection, view: str, number: int) -> Version:
    """One of them; ConflictError if it is there no more."""
    for version in read_versions(connection, view):
        if version.id == (view, number):
            return version
    raise gone(view, number)


def gone(view: str, number: int, reason: str = "no such version") -> ConflictError:
    """The error for a version that is not what it was taken for."""
    return ConflictError(
        f"view '{view}' version {number} has changed meanwhile", found=reason, fix="nothing was changed; try again"
    )


def commits_text(version: Version) -> str:
    """The number of commits of a version, for an error."""
    return " and ".join(f"{commits} commits of {stream}" for stream, commits in version.commits.items())


def starting_base(stream: str, patience_ms: int, at: Point, *, own_time: bool = False) -> Base:
    """A stream that a version reads from here on; what comes before is for a build.

    With an event time of its own, the version learns the newest one from the rows of the build.
    """
    return Base(
        stream,
        patience_ms,
        horizon=at.commit,
        applied_to=at.commit,
        position=at.position,
        newest_us=None if own_time else at.newest_us,
        idle_us=None if own_time else at.idle_us,
        applied_at_us=now_us(),
    )


def adopted_base(base: Base, patience_ms: int) -> Base:
    """The values that a free edit takes over. A stall ends: the edit may have corrected its cause."""
    since = base.patience_from if patience_ms == base.patience_ms else base.applied_to
    return replace(base, patience_ms=patience_ms, patience_from=since, stalled=None, quarantined=False)


def next_number(connection: Connection, view: str, above: int = 0) -> int:
    """A number that no version of the view has had; a higher one than `above`."""
    ((last,),) = run(connection, "SELECT max(last) FROM numbers WHERE view = ?", [view])
    number = max(int(last or 0), above) + 1
    run(connection, "DELETE FROM numbers WHERE view = ?", [view])
    run(connection, "INSERT INTO numbers VALUES (?, ?)", [view, number])
    return number


def insert_version(connection: Connection, version: Version, fence: int) -> None:
    """A row for a version, if this writer may."""
    ((highest,),) = run(connection, "SELECT max(fence) FROM versions")
    if highest is not None and highest > fence:
        raise FencedError(
            f"view '{version.view.name}' version {version.number} was not added",
            found=f"fence {highest} in the store",
            expected=f"fence {fence}",
            fix=FENCED,
        )
    definition = orjson.dumps(to_json(version.view), option=orjson.OPT_SORT_KEYS).decode()
    row = {"view": version.view.name, "fence": fence, "definition": definition}
    _insert(connection, "versions", row | {name: getattr(version, name) for name in FIELDS[1:]})
    _insert_pinned(connection, version)
    for ordinal, base in enumerate(version.bases):
        values = {name: getattr(base, name) for name in BASE_FIELDS}
        values |= {"position": position_text(base.position), "batch": batch_text(base.batch)}
        _insert(connection, "bases", {"view": version.view.name, "number": version.number, "ordinal": ordinal} | values)


def _insert_pinned(connection: Connection, version: Version) -> None:
    if version.pinned != NOT_PINNED:
        parts = {name: dict(pairs) for name, pairs in vars(version.pinned).items()}
        text = orjson.dumps({name: part for name, part in parts.items() if part}).decode()
        _insert(connection, "pinned", {"view": version.view.name, "number": version.number, "tables": text})


def _insert(connection: Connection, table: str, row: Mapping[str, Any]) -> None:
    marks = ", ".join("?" * len(row))
    run(connection, f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))


def delete_version(connection: Connection, version: Version) -> None:
    """Delete the rows of a version."""
    for table in ("versions", "bases", "pinned"):
        run(connection, f"DELETE FROM {table} WHERE view = ? AND number = ?", list(version.id))


@lru_cache(maxsize=MOST_VERSIONS)
def _position(value: str | int) -> Position | None:
    """The position in a column; a number in a file of format 3."""
    offsets = orjson.loads(value) if isinstance(value, str) else value
    return None if offsets == UNKNOWN else Position.from_json(offsets)


def position_text(position: Position | None) -> str:
    """A position as the store writes it: JSON."""
    return orjson.dumps(UNKNOWN if position is None else position.to_json()).decode()


def batch_text(tables: Sequence[BatchTable]) -> str:
    """Batch tables as the store writes them."""
    values = (asdict(table) for table in tables)
    return orjson.dumps([{name: of for name, of in table.items() if of is not None} for table in values]).decode()


def change_base(connection: Connection, fence: int, version: Version, stream: str, **values: Any) -> None:
    """Set columns of the row that a version has for one of its streams, if this writer may."""
    change(connection, fence, version)
    assignments = ", ".join(f"{name} = ?" for name in values)
    parameters = [*values.values(), *version.id, stream]
    of_base = "WHERE view = ? AND number = ? AND stream = ?"
    if run(connection, f"UPDATE bases SET {assignments} {of_base}", parameters) != [(1,)]:
        raise gone(*version.id, f"it does not read stream '{stream}'")


def change(connection: Connection, fence: int, version: Version, **values: Any) -> None:
    """Set columns of one version's row, if this writer may; a new state is dated."""
    values = values or {"fence": fence}  # nothing to set: only the check
    if "state" in values:
        values["changed_at_us"] = now_us()
    assignments = ", ".join(f"{name} = ?" for name in values)
    of_version = "WHERE view = ? AND number = ? AND fence = ?"
    parameters = [*values.values(), version.view.name, version.number, fence]
    if run(connection, f"UPDATE versions SET {assignments} {of_version}", parameters) != [(1,)]:
        raise FencedError(
            f"view '{version.view.name}' version {version.number} was not changed",
            found="no such version with this fence in the store",
            expected=f"fence {fence}",
            fix=FENCED,
        )


def read_audits(connection: Connection, view: str, limit: int | None = None) -> list[Audit]:
    """Newest first."""
    query = f"SELECT {AUDIT_FIELDS} FROM audits WHERE view = ? ORDER BY at_us DESC, to_commit DESC LIMIT ?"
    rows = run(connection, query, [view, limit])
    return [Audit(*(*row[:-1], tuple(Drift(**drift) for drift in orjson.loads(row[-1])))) for row in rows]


def insert_audit(connection: Connection, audit: Audit) -> None:
    """Keep an audit, and no more than the last ones of its view."""
    drift = orjson.dumps([asdict(drift) for drift in audit.drift]).decode()
    values = [
        audit.view,
        audit.number,
        audit.stream,
        audit.from_commit,
        audit.to_commit,
        audit.at_us,
        audit.took_ms,
        audit.events,
        audit.rows,
        drift,
    ]
    run(connection, f"INSERT INTO audits ({AUDIT_FIELDS}) VALUES ({', '.join('?' * len(values))})", values)
    oldest = "SELECT at_us FROM audits WHERE view = ? ORDER BY at_us DESC LIMIT 1 OFFSET ?"
    for (at_us,) in run(connection, oldest, [audit.view, AUDITS_KEPT]):
        run(connection, "DELETE FROM audits WHERE view = ? AND at_us <= ?", [audit.view, at_us])


def now_us() -> int:
    """The time of a change of state."""
    return time.time_ns() // 1000
