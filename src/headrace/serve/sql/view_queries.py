"""SQL over views: reads the views of a query in one snapshot, runs it in a child process, adds freshness."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa

from headrace.define.fingerprint import to_json
from headrace.define.model import LogicalView, View
from headrace.define.query_rules import EXAMPLE, LONGEST_BYTES
from headrace.errors import HeadraceError, SqlError
from headrace.format import Shown, iso, iso_us
from headrace.name_encoding import shell
from headrace.serve.answer import state_error
from headrace.serve.evaluate import Freshness, find_serving
from headrace.serve.freshness import Fresh
from headrace.serve.question_times import AsOf, read_as_of
from headrace.serve.shaping import stated_errors
from headrace.serve.sql.child_wire import END, FORGET, JSON, RUN, SCHEMA, BrokenFrameError, Frame, Wire
from headrace.serve.sql.children import MOST_BYTES, Child, Children
from headrace.serve.sql.load_views import Loaded, default_plan, describe_version
from headrace.serve.sql.query_reads import Reads, find_parts, find_versions, resolve
from headrace.serve.sql.sql_answer import ALL_ROWS, SqlAnswer, SqlLimit, make_table
from headrace.store.store_contract import Snapshot, StoreReader
from headrace.store.version import Version

DEFAULT_LIMIT, HIGHEST_LIMIT = 1_000, 100_000
NO_LOGICAL: Mapping[str, LogicalView] = MappingProxyType({})


class FindAsOf(Protocol):
    """Finds the store with a version as of an earlier commit, and the text that names the commit."""

    def __call__(
        self, version: Version, as_of: AsOf, *, streams: Sequence[str] = ()
    ) -> AbstractContextManager[tuple[StoreReader, str]]:
        """`streams` are those of all views that are computed as of the same moment."""


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

    store: StoreReader
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
        raise SqlError("the query contains a NUL character", fix="leave it out")
    if limit is None:
        return query, DEFAULT_LIMIT
    if limit == ALL_ROWS:
        return query, None
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= HIGHEST_LIMIT:
        raise SqlError(
            "limit is out of range", found=repr(limit)[:40], expected=f"a number from 1 to {HIGHEST_LIMIT:,}, or all"
        )
    return query, limit


def run_sql(
    store: StoreReader,
    children: Children,
    query: str,
    limit: SqlLimit,
    freshness: Freshness,
    now: datetime,
    find_as_of: FindAsOf,
    logical: Mapping[str, LogicalView] = NO_LOGICAL,
    as_of: AsOf | None = None,
) -> SqlAnswer:
    """The answer to a SELECT over views. This process never parses the SQL: a child process does, and may crash.

    Views AS OF may take long to compute, and no child waits for that: the query is started again afterwards. With
    `as_of`, all views of the query are as of that commit or time.
    """
    query, most = check_text(query, limit)
    start = time.monotonic()
    as_of_views: dict[str, _AsOfView] = {}  # by the name of their table
    with ExitStack() as stores:
        while True:
            with children.lend() as child:
                reply = _begin(child, children, query, most)
                with ExitStack() as snapshots:
                    tables, computed = _find_tables(child, snapshots, store, reply, as_of_views, logical)
                    missing = _missing(tables, reply, as_of_views, as_of)
                    if not missing:
                        _ship_all(child, children, tables, computed)
                        table, types, counts = _finish(child, children)
                        break
                _forget(child)
            streams = tuple(dict.fromkeys(stream for each in tables for stream in each.version.view.streams))
            for name, view, moment in missing:
                opened = _find(store, view, moment, find_as_of, logical, streams if as_of else ())
                as_of_views[name] = stores.enter_context(opened)
    states = {
        each.name: as_of_views[each.name].state if each.name in as_of_views else _describe(each.version, freshness)
        for each in tables
    }
    states = {
        each.name: _with_counts(states[each.name], each.version.view, counts["views"][each.name])
        if each.name in counts["views"]
        else states[each.name]
        for each in tables
    }
    fresh_ms, reason = _least_fresh(states.values())
    return SqlAnswer(
        columns=tuple(zip(table.column_names, types, strict=True)),
        table=table,
        truncated=counts["truncated"],
        more_rows=counts["more_rows"],
        views={name: state.as_dict() for name, state in states.items()},
        commits=_commits([each.version for each in tables]),
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


@dataclass(frozen=True)
class _Table:
    """A table of a query: a version of a view, in a snapshot."""

    name: str
    version: Version
    snapshot: Snapshot


def _find_tables(
    child: Child,
    snapshots: ExitStack,
    store: StoreReader,
    reply: dict[str, Any],
    as_of_views: Mapping[str, _AsOfView],
    logical: Mapping[str, LogicalView],
) -> tuple[list[_Table], list[LogicalView]]:
    """All tables of a query, and the logical views that it names, each after those that it reads."""
    extracted = {each["table"] for each in reply["as_of"]}
    names = [name for name in reply["tables"] if name not in extracted]
    snapshot = snapshots.enter_context(store.snapshot())
    serving = {version.view.name: version for version in snapshot.versions() if version.serving}
    computed, names = find_parts(names, serving, logical)
    try:
        versions = find_versions(snapshot, serving, names, reply["own"], logical)
    except HeadraceError:
        _forget(child)
        raise
    tables = {version.view.name: _Table(version.view.name, version, snapshot) for version in versions}
    for name, view in as_of_views.items():
        tables[name] = _Table(name, view.version, snapshots.enter_context(view.store.snapshot()))
    return list(tables.values()), computed


def _missing(
    tables: Sequence[_Table], reply: dict[str, Any], known: Mapping[str, _AsOfView], as_of: AsOf | None
) -> list[tuple[str, str, AsOf]]:
    """The tables AS OF that are not computed yet: name, view, and commit or time."""
    moments = [(each["table"], each["view"], _as_of(each)) for each in reply["as_of"]]
    if as_of is not None:
        moments += [(each.name, each.version.view.name, as_of) for each in tables]
    return [each for each in moments if each[0] not in known]


def _as_of(table: dict[str, Any]) -> AsOf:
    as_of = read_as_of(table["version"], table["timestamp"])
    if as_of is None:
        raise SqlError(f"'{table['table']}' names no commit or time")
    return as_of


def _ship_all(child: Child, children: Children, tables: Sequence[_Table], computed: Sequence[LogicalView]) -> None:
    """Send all tables of a query, of each what the child says that the query reads."""
    logical = [{"name": view.name, "sql": view.sql, "columns": [n for n, _ in view.columns]} for view in computed]
    views = [to_json(replace(each.version.view, name=each.name)) for each in tables]
    child.wire.send_json({"logical": logical, "views": views})
    reads = _receive(child, children)["reads"]
    for each in tables:
        _ship(child.wire, each, Reads(**reads[each.name]) if each.name in reads else None)


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
def _find(
    store: StoreReader,
    view: str,
    as_of: AsOf,
    find_as_of: FindAsOf,
    logical: Mapping[str, LogicalView],
    streams: Sequence[str],
) -> Iterator[_AsOfView]:
    """A view AS OF, computed from the lake."""
    with store.snapshot() as snapshot:
        by_name = {version.view.name: version for version in snapshot.versions() if version.serving}
        if view not in by_name and resolve(view, logical) is not None:
            raise SqlError(
                f"view '{view}' is logical, and AS OF in a query is of a materialized view or a table",
                fix=f"`headrace ask {shell(view)}` takes --version-as-of and --timestamp-as-of",
            )
        (serving,) = find_versions(snapshot, by_name, [view], [], logical)
    with find_as_of(serving, as_of, streams=streams) as (as_of_store, reason):
        with as_of_store.snapshot() as snapshot:
            version = find_serving(snapshot, serving.view.name)
        state = _describe(version, lambda version: Fresh(None, reason))
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


def _ship(wire: Wire, table: _Table, reads: Reads | None) -> None:
    """Send a view's partials by window, or by the buckets that its windows are composed of."""
    version = table.version if reads is None else reads.of(table.version)
    read_plan = default_plan(version, reads.where if reads else ())
    wire.send_json(describe_version(replace(version, view=replace(version.view, name=table.name))))
    pieces = table.snapshot.pieces(version, read_plan.selection(None), ordered=read_plan.overlapping)
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
    fresh = freshness(version)
    return _ViewState(
        version=version.number,
        commits=version.commits,
        newest_event=iso_us(version.newest_us),
        freshness_ms=fresh.ms,
        freshness_reason=fresh.reason,
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
