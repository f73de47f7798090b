"""SQL over views: reads the views of a query in one snapshot, runs it in a child process, adds freshness."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from headrace.define.model import LogicalView, View
from headrace.define.queries import EXAMPLE, LONGEST_BYTES
from headrace.errors import HeadraceError, NotFoundError, SqlError, did_you_mean
from headrace.format import Shown, iso, iso_us
from headrace.serve.answer import state_error
from headrace.serve.as_of import AsOf, read_as_of
from headrace.serve.evaluate import Freshness, find_serving
from headrace.serve.shape import stated_errors
from headrace.sql.answer import ALL_ROWS, SqlAnswer, SqlLimit, make_table
from headrace.sql.children import MOST_BYTES, Child, Children
from headrace.sql.load import Loaded, default_plan, describe_version
from headrace.sql.wire import END, FORGET, JSON, RUN, SCHEMA, BrokenFrameError, Frame, Wire
from headrace.store.base import Snapshot, Store, Version

DEFAULT_LIMIT, HIGHEST_LIMIT = 1_000, 100_000
NO_LOGICAL: Mapping[str, LogicalView] = MappingProxyType({})

# Finds the store with a version as of an earlier commit, and the text that names the commit.
FindAsOf = Callable[[Version, AsOf], AbstractContextManager[tuple[Store, str]]]


@dataclass(frozen=True)
class _ViewState(Shown):
    """What an answer tells of a view that was read."""

    version: int
    commits: Mapping[str, int]
    newest_event: str | None
    freshness_ms: int | None
    freshness_reason: str | None
    approximate: Mapping[str, str]
    stalled: str | None
    settled_until: str | None
    errors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by column: rows without a value, reason


@dataclass(frozen=True)
class _AsOfView:
    """A view as of an earlier commit or time that a query names."""

    store: Store
    version: Version
    state: _ViewState


def check_text(query: Any, limit: Any) -> tuple[str, int | None]:
    """The query and its limit (None is all rows), checked without parsing the SQL."""
    if not isinstance(query, str) or not query.strip():
        raise SqlError("the query is empty", expected=EXAMPLE)
    size = len(query.encode(errors="replace"))
    if size > LONGEST_BYTES:
        raise SqlError("the query is too long", found=f"{size:,} bytes", expected=f"at most {LONGEST_BYTES:,}")
    if "\0" in query:
        raise SqlError("the query holds a NUL character", fix="leave it out")
    if limit is None:
        return query, DEFAULT_LIMIT
    if limit == ALL_ROWS:
        return query, None
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= HIGHEST_LIMIT:
        raise SqlError(
            "limit does not fit", found=repr(limit)[:40], expected=f"a number from 1 to {HIGHEST_LIMIT:,}, or all"
        )
    return query, limit


def run_sql(
    store: Store,
    children: Children,
    query: str,
    limit: SqlLimit,
    freshness: Freshness,
    now: datetime,
    find_as_of: FindAsOf,
    logical: Mapping[str, LogicalView] = NO_LOGICAL,
) -> SqlAnswer:
    """The answer to a SELECT over views. This process never parses the SQL: a child process does, and may crash.

    Views AS OF may take long to compute, and no child waits for that: the query is started again afterwards.
    """
    query, most = check_text(query, limit)
    start = time.monotonic()
    as_of_views: dict[str, _AsOfView] = {}
    with ExitStack() as stores:
        while True:
            with children.lend() as child:
                reply = _begin(child, children, query, most)
                if all(as_of_table["table"] in as_of_views for as_of_table in reply["as_of"]):
                    versions = _ship_all(child, store, reply, as_of_views, logical)
                    table, types, counts = _finish(child, children)
                    break
                _forget(child)
            for as_of_table in reply["as_of"]:
                as_of_views[as_of_table["table"]] = stores.enter_context(_find(store, as_of_table, find_as_of))
    states = {version.view.name: _describe(version, freshness) for version in versions}
    states |= {name: view.state for name, view in as_of_views.items()}
    views = {version.view.name: version.view for version in versions}
    views |= {name: view.version.view for name, view in as_of_views.items()}
    states = {
        name: _with_counts(state, views[name], counts["views"][name]) if name in counts["views"] else state
        for name, state in states.items()
    }
    versions += [view.version for view in as_of_views.values()]
    fresh_ms, reason = _least_fresh(states.values())
    return SqlAnswer(
        columns=tuple(zip(table.column_names, types, strict=True)),
        table=table,
        truncated=counts["truncated"],
        more_rows=counts["more_rows"],
        views={name: state.as_dict() for name, state in states.items()},
        commits=_commits(versions),
        at=iso(now),
        freshness_ms=fresh_ms,
        freshness_reason=reason,
        took_ms=round((time.monotonic() - start) * 1000),
    )


def _begin(child: Child, children: Children, query: str, most: int | None) -> dict[str, Any]:
    """Let a child parse the query; its reply lists the tables."""
    bounds = {"most_bytes": MOST_BYTES, "memory_mb": children.memory_mb, "timeout_s": children.timeout_s}
    child.wire.send_json({"query": query, "limit": most, **bounds})
    return _receive(child, children)


def _forget(child: Child) -> None:
    """Do not run the query, so that the child can be used again."""
    child.wire.send_json(FORGET)
    child.again = True


def _ship_all(
    child: Child,
    store: Store,
    reply: dict[str, Any],
    as_of_views: Mapping[str, _AsOfView],
    logical: Mapping[str, LogicalView],
) -> list[Version]:
    """Send all tables of a query, logical views first; returns the current versions of its views."""
    names = [name for name in reply["tables"] if name not in as_of_views]
    with store.snapshot() as snapshot:
        serving = {version.view.name: version for version in snapshot.versions() if version.serving}
        computed, names = _parts(names, serving, logical)
        try:
            versions = _find_versions(snapshot, serving, names, reply["own"], logical)
        except HeadraceError:
            _forget(child)
            raise
        for view in computed:
            columns = [name for name, _ in view.columns]
            child.wire.send_json({"logical": view.name, "sql": view.sql, "columns": columns})
        for version in versions:
            _ship(child.wire, snapshot, version, version.view.name)
    for name, as_of_view in as_of_views.items():
        with as_of_view.store.snapshot() as snapshot:
            _ship(child.wire, snapshot, as_of_view.version, name)
    return versions


def _parts(
    names: Sequence[str], serving: Mapping[str, Version], logical: Mapping[str, LogicalView]
) -> tuple[list[LogicalView], list[str]]:
    """The logical views among these names, each after those that it reads, and the other names of all of them."""
    computed: dict[str, LogicalView] = {}
    others: dict[str, None] = {}

    def add(name: str) -> None:
        own = None if name in serving else _resolve(name, logical)
        if own is None:
            others[name] = None
        elif own not in computed:
            for part in logical[own].reads:
                add(part)
            computed[own] = logical[own]

    for name in names:
        add(name)
    return list(computed.values()), list(others)


def _finish(child: Child, children: Children) -> tuple[pa.Table, list[str], dict[str, Any]]:
    """Let the child run the query: the result, its SQL types, and how many rows are omitted."""
    child.wire.send_json(RUN)
    sql_types = _receive(child, children)["types"]
    table, types = _read_result(child, sql_types, children)
    counts = _receive(child, children)
    more = counts["more_rows"]
    row_counts = {"truncated": bool(counts["truncated"]), "more_rows": None if more is None else int(more)}
    return table, types, {**row_counts, "views": {name: Loaded(**fields) for name, fields in counts["views"].items()}}


def _with_counts(state: _ViewState, view: View, loaded: Loaded) -> _ViewState:
    """The state with the columns that have cells without a value, and with what is exact, as the child counted."""
    reasons = {column.name: column.aggregate.failure for column in view.columns if loaded.errors.get(column.name)}
    # Those that are approximate in every row.
    always = stated_errors(view, {c.aggregate: () for c in view.columns if c.aggregate.may_be_exact})
    counts = {name: loaded.rows if name in always else loaded.estimates.get(name, 0) for name in state.approximate}
    return replace(
        state,
        errors={name: {"rows": int(loaded.errors[name]), "reason": reason} for name, reason in reasons.items()},
        approximate={
            name: state_error(error, counts[name], loaded.rows)
            for name, error in state.approximate.items()
            if counts[name] or name in always
        },
    )


@contextmanager
def _find(store: Store, table: dict[str, Any], find_as_of: FindAsOf) -> Iterator[_AsOfView]:
    """A view AS OF, computed from the lake."""
    as_of = read_as_of(table["version"], table["timestamp"])
    if as_of is None:
        raise SqlError(f"'{table['table']}' names no commit or time")
    with store.snapshot() as snapshot:
        by_name = {version.view.name: version for version in snapshot.versions() if version.serving}
        (serving,) = _find_versions(snapshot, by_name, [table["view"]], [])
    with find_as_of(serving, as_of) as (as_of_store, reason):
        with as_of_store.snapshot() as snapshot:
            version = find_serving(snapshot, serving.view.name)
        state = _describe(version, lambda version: (None, reason))
        yield _AsOfView(as_of_store, version, replace(state, version=serving.number))


def _receive(child: Child, children: Children) -> dict[str, Any]:
    """The next reply of the child; raises the error if it is one."""
    return _read_reply(child, child.wire.expect(JSON), children)


def _read_reply(child: Child, frame: Frame, children: Children) -> dict[str, Any]:
    reply = frame.json()
    if not isinstance(reply, dict):
        raise BrokenFrameError("not an object")
    child.again = bool(reply.get("again"))
    if "limit" in reply:
        raise children.out_of_memory()
    if "error" in reply:
        raise SqlError(**{name: reply["error"].get(name) for name in ("message", "found", "expected", "fix")})
    return reply


def _find_versions(
    snapshot: Snapshot,
    serving: Mapping[str, Version],
    names: Sequence[str],
    own: Sequence[str],
    logical: Mapping[str, LogicalView] = NO_LOGICAL,
) -> list[Version]:
    """The serving versions of the views that a query names; names are case-insensitive unless that is ambiguous."""
    versions: dict[str, Version] = {}
    for name in names:
        view = _resolve(name, serving)
        if view is None:
            if name.lower() in map(str.lower, own):
                continue  # a common table expression of the query
            if any(version.view.name == name and version.live for version in snapshot.versions()):
                find_serving(snapshot, name)  # raises: it is being built
            known = sorted({*serving, *logical})
            hint = did_you_mean(name, known) or f"there are: {', '.join(known) or 'none yet'}"
            raise NotFoundError(
                f"view '{name}' does not exist",
                fix=f"{hint}; query the events of a stream with `headrace sql --events`",
            )
        other = versions.setdefault(view.lower(), serving[view])
        if other.view.name != view:
            raise SqlError(
                f"views '{other.view.name}' and '{view}' differ only in case, which SQL does not distinguish",
                fix="use them in two queries",
            )
    return list(versions.values())


def _resolve(name: str, views: Mapping[str, object]) -> str | None:
    if name in views:
        return name
    alike = [view for view in views if view.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _ship(wire: Wire, snapshot: Snapshot, version: Version, name: str) -> None:
    """Send a view's partials by window, or by the buckets that its windows are composed of."""
    read_plan = default_plan(version)
    wire.send_json(describe_version(replace(version, view=replace(version.view, name=name))))
    pieces = snapshot.pieces(version, read_plan.selection(None), ordered=read_plan.overlapping)
    try:
        wire.send_schema(pieces.schema)
        for piece in pieces:
            wire.send_rows(piece)
    finally:
        pieces.close()
    wire.send_end()


def _read_result(child: Child, types: Sequence[str], children: Children) -> tuple[pa.Table, list[str]]:
    wire = child.wire
    schema = wire.expect(SCHEMA).schema()
    pieces, size = [], 0
    while (frame := wire.receive()).kind != END:
        if frame.kind == JSON:
            _read_reply(child, frame, children)  # a query can fail after the first rows were sent
        size += frame.payload.size
        if size > 4 * MOST_BYTES:
            raise BrokenFrameError("more rows than were asked for")
        pieces.append(frame.rows(schema))
    return make_table(pieces, schema, types)


def _describe(version: Version, freshness: Freshness) -> _ViewState:
    freshness_ms, reason = freshness(version)
    return _ViewState(
        version=version.number,
        commits=version.commits,
        newest_event=iso_us(version.newest_us),
        freshness_ms=freshness_ms,
        freshness_reason=reason,
        approximate=stated_errors(version.view),
        stalled=version.stalled,
        settled_until=iso_us(version.settled_us) if version.view.window else None,
    )


def _least_fresh(states: Iterable[_ViewState]) -> tuple[int | None, str | None]:
    ages_ms = []
    for state in states:
        if state.freshness_ms is None:
            return None, state.freshness_reason
        ages_ms.append(state.freshness_ms)
    return max(ages_ms, default=0), None


def _commits(versions: Sequence[Version]) -> dict[str, int]:
    commits: dict[str, int] = {}
    for version in versions:
        for stream, applied_to in version.commits.items():
            commits[stream] = min(applied_to, commits.get(stream, applied_to))
    return commits
