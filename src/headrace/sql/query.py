"""SQL over views: reads what the query names in one snapshot, has a child run it, says how fresh it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from headrace.errors import HeadraceError, NotFoundError, SqlError, did_you_mean
from headrace.format import iso, iso_us
from headrace.serve.as_of import AsOf, read_as_of
from headrace.serve.evaluate import Freshness, find_serving
from headrace.sql.answer import ALL_ROWS, SqlAnswer, SqlLimit, make_table
from headrace.sql.check import EXAMPLE, LONGEST_BYTES
from headrace.sql.children import MOST_BYTES, Child, Children
from headrace.sql.load import default_plan, describe_version
from headrace.sql.wire import END, FORGET, RUN, SAY, SCHEMA, BrokenFrameError, Frame, Wire
from headrace.store.base import Snapshot, Store, Version

DEFAULT_LIMIT, HIGHEST_LIMIT = 1_000, 100_000

# Finds the store of a version as of an earlier commit, and which commit that is, in words.
FindAsOf = Callable[[Version, AsOf], AbstractContextManager[tuple[Store, str]]]


@dataclass(frozen=True)
class _AsOfView:
    """A view as of an earlier commit or time that a query names."""

    store: Store
    version: Version
    described: dict[str, Any]


def check_text(query: Any, limit: Any) -> tuple[str, int | None]:
    """The query and its limit, None for all rows, if they are such; no SQL is read here."""
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
) -> SqlAnswer:
    """The answer to a SELECT. This process never reads the SQL: a child does, and may break over it.

    Views AS OF take long to compute, and no child waits for that: the query is started again when they are there.
    """
    query, most = check_text(query, limit)
    began = time.monotonic()
    as_of_views: dict[str, _AsOfView] = {}
    with ExitStack() as stores:
        while True:
            with children.lend() as child:
                reply = _begin(child, children, query, most)
                if all(named["table"] in as_of_views for named in reply["as_of"]):
                    versions = _ship_all(child, store, reply, as_of_views)
                    table, shown, rest = _finish(child, children)
                    break
                _forget(child)
            for named in reply["as_of"]:
                as_of_views[named["table"]] = stores.enter_context(_find(store, named, find_as_of))
    described = {version.view.name: _describe(version, freshness) for version in versions}
    described |= {name: view.described for name, view in as_of_views.items()}
    versions += [view.version for view in as_of_views.values()]
    fresh_ms, reason = _least_fresh(described)
    return SqlAnswer(
        columns=tuple(zip(table.column_names, shown, strict=True)),
        table=table,
        truncated=rest["truncated"],
        more_rows=rest["more_rows"],
        views=described,
        commits=_commits(versions),
        at=iso(now),
        freshness_ms=fresh_ms,
        freshness_reason=reason,
        took_ms=round((time.monotonic() - began) * 1000),
    )


def _begin(child: Child, children: Children, query: str, most: int | None) -> dict[str, Any]:
    """Let a child read the query: what it names."""
    bounds = {"most_bytes": MOST_BYTES, "memory_mb": children.memory_mb, "timeout_s": children.timeout_s}
    child.wire.say({"query": query, "limit": most, **bounds})
    return _hear(child, children)


def _forget(child: Child) -> None:
    """The query is not run: the child is as good as new."""
    child.wire.say(FORGET)
    child.again = True


def _ship_all(child: Child, store: Store, reply: dict[str, Any], as_of_views: Mapping[str, _AsOfView]) -> list[Version]:
    """Send all that a query names; the versions of views as they are now."""
    with store.snapshot() as snapshot:
        try:
            versions = _named(snapshot, [name for name in reply["tables"] if name not in as_of_views], reply["own"])
        except HeadraceError:
            _forget(child)
            raise
        for version in versions:
            _ship(child.wire, snapshot, version, version.view.name)
    for name, view in as_of_views.items():
        with view.store.snapshot() as snapshot:
            _ship(child.wire, snapshot, view.version, name)
    return versions


def _finish(child: Child, children: Children) -> tuple[pa.Table, list[str], dict[str, Any]]:
    """Let the child run the query: the result, its types as SQL says them, and what is left out of it."""
    child.wire.say(RUN)
    types = _hear(child, children)["types"]
    table, shown = _read_result(child, types, children)
    rest = _hear(child, children)
    more = rest["more_rows"]
    return table, shown, {"truncated": bool(rest["truncated"]), "more_rows": None if more is None else int(more)}


@contextmanager
def _find(store: Store, reply: dict[str, Any], find_as_of: FindAsOf) -> Iterator[_AsOfView]:
    """A view AS OF, computed from the lake."""
    as_of = read_as_of(reply["version"], reply["timestamp"])
    if as_of is None:
        raise SqlError(f"'{reply['table']}' names no commit or time")
    with store.snapshot() as snapshot:
        (serving,) = _named(snapshot, [reply["view"]], [])
    with find_as_of(serving, as_of) as (as_of_store, reason):
        with as_of_store.snapshot() as snapshot:
            version = find_serving(snapshot, serving.view.name)
        described = _describe(version, lambda version: (None, reason))
        yield _AsOfView(as_of_store, version, {**described, "version": serving.number})


def _hear(child: Child, children: Children) -> dict[str, Any]:
    """What the child says next; raises the failure that it says."""
    return _understand(child, child.wire.expect(SAY), children)


def _understand(child: Child, frame: Frame, children: Children) -> dict[str, Any]:
    reply = frame.json()
    if not isinstance(reply, dict):
        raise BrokenFrameError("not an object")
    child.again = bool(reply.get("again"))
    if "limit" in reply:
        raise children.out_of_memory()
    if "error" in reply:
        raise SqlError(**{name: reply["error"].get(name) for name in ("message", "found", "expected", "fix")})
    return reply


def _named(snapshot: Snapshot, names: Sequence[str], own: Sequence[str]) -> list[Version]:
    """The serving versions of the views that a query names; as in SQL, case counts only where it must."""
    serving = {version.view.name: version for version in snapshot.versions() if version.serving}
    found: dict[str, Version] = {}
    for name in names:
        view = _resolve(name, serving)
        if view is None:
            if name.lower() in map(str.lower, own):
                continue  # a name that the query gives itself
            hint = did_you_mean(name, serving) or f"there are: {', '.join(sorted(serving)) or 'none yet'}"
            raise NotFoundError(
                f"view '{name}' does not exist",
                fix=f"{hint}; query the events of a stream with `headrace sql --events`",
            )
        other = found.setdefault(view.lower(), serving[view])
        if other.view.name != view:
            raise SqlError(
                f"views '{other.view.name}' and '{view}' differ only in case, which SQL does not distinguish",
                fix="use them in two queries",
            )
    return list(found.values())


def _resolve(name: str, serving: Mapping[str, Version]) -> str | None:
    if name in serving:
        return name
    alike = [view for view in serving if view.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _ship(wire: Wire, snapshot: Snapshot, version: Version, name: str) -> None:
    """Send a view's partials by window, or by the buckets that its windows are composed of."""
    planned = default_plan(version)
    wire.say(describe_version(replace(version, view=replace(version.view, name=name))))
    pieces = snapshot.pieces(version, planned.selection(None), ordered=planned.overlapping)
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
        if frame.kind == SAY:
            _understand(child, frame, children)  # a query can fail when rows are on their way already
        size += frame.payload.size
        if size > 4 * MOST_BYTES:
            raise BrokenFrameError("more rows than were asked for")
        pieces.append(frame.rows(schema))
    return make_table(pieces, schema, types)


def _describe(version: Version, freshness: Freshness) -> dict[str, Any]:
    freshness_ms, reason = freshness(version)
    columns = version.view.columns
    return {
        "version": version.number,
        "commits": version.commits,
        "newest_event": iso_us(version.newest_us),
        "freshness_ms": freshness_ms,
        "freshness_reason": reason,
        "approximate": {c.name: c.aggregate.approximate for c in columns if c.aggregate.approximate},
        "stalled": version.stalled,
    }


def _least_fresh(views: Mapping[str, Mapping[str, Any]]) -> tuple[int | None, str | None]:
    for view in views.values():
        if view["freshness_ms"] is None:
            return None, view["freshness_reason"]
    return max((view["freshness_ms"] for view in views.values()), default=0), None


def _commits(versions: Sequence[Version]) -> dict[str, int]:
    commits: dict[str, int] = {}
    for version in versions:
        for stream, applied_to in version.commits.items():
            commits[stream] = min(applied_to, commits.get(stream, applied_to))
    return commits
