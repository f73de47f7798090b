"""Makes the versions in the store those that a catalog asks for, each view by the cheapest way that gives its rows.

Each step is one transaction, chosen anew from what the store says: stopped anywhere, it comes to the same end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext

import structlog

from headrace.define.catalog import Catalog
from headrace.define.fingerprint import fingerprint
from headrace.define.model import View
from headrace.errors import ConflictError
from headrace.lake.delta_table import LakeState
from headrace.lake.table_schema import Pins
from headrace.plan.cost import Way
from headrace.plan.edits import choose_way
from headrace.store.store_contract import Store
from headrace.store.version import NOT_PINNED, Base, Pinned, Point, Version

STEPS = 8  # of a view: go back to a kept version, take it over with another patience, choose again, …

log = structlog.get_logger("headrace.store")


Between = Callable[[str], AbstractContextManager[None]]


def reconcile_views(
    store: Store,
    catalog: Catalog,
    lakes: Mapping[str, LakeState],
    between_steps: Between = lambda stream: nullcontext(),
    go_on: Callable[[], None] = lambda: None,
    tables: Pins | None = None,
) -> None:
    """Give each view of the catalog its version, drop the views that it does not name.

    A version that is ahead of its lake has commits that the log has lost: it is dropped and computed anew.
    `go_on` is called before each step, and raises if no more are to be taken. `tables` are the present versions of
    tables, by the streams that hold their changes.
    """
    versions = store.versions()
    unbacked = {version.view.name for version in versions if _is_ahead(version, lakes)}
    for name in sorted(unbacked & set(catalog.views)):
        log.error("the lake has lost commits that this view had; it is recomputed from the lake", view=name)
    for name in sorted({v.view.name for v in versions} - set(catalog.views) | unbacked):
        go_on()
        store.drop(name)
    for view in catalog.views.values():
        patience_ms = catalog.patience_ms(view)
        for _ in range(STEPS):
            go_on()
            way = choose_way(store.versions(), view, patience_ms)
            try:
                if way is None or not _go(store, way, view, patience_ms, lakes, between_steps, tables or {}):
                    break
            except ConflictError as error:  # the batch layer has moved the version on since it was read
                log.info("an edit chooses its way again", view=view.name, reason=str(error))
        else:
            raise ConflictError(f"view '{view.name}' changed during each step of the edit", fix="apply again")
    store.make_over_tables()


def point_of(lake: LakeState) -> Point:
    """Where the log stands, in the store's words."""
    return Point(lake.next_commit, lake.position, lake.newest_us, lake.idle_us)


def pin_tables(view: View, versions: Iterable[Version], now: Pins) -> Pinned:
    """Which versions of its tables a new version of a view uses for commits that recorded none.

    They are those of the version before it, so that an edit and a rebuild give the same rows; the first one uses the
    present versions.
    """
    logs = view.relation.logs if view.relation else ()
    if not logs:
        return NOT_PINNED
    own = [version for version in versions if version.view.name == view.name and version.live]
    before = max(own, key=lambda version: (version.serving, version.number)).pinned if own else NOT_PINNED
    known = dict(before.versions)
    until = tuple(each for each in before.until if each[0] in view.streams)
    return Pinned(
        tuple((log, known.get(log, now.get(log, 0))) for log in logs),
        until,
        tuple(each for each in before.fill if each[0] in logs),
        tuple(each for each in before.fill_until if each[0] in view.streams),
    )


def _go(
    store: Store,
    way: Way,
    view: View,
    patience_ms: Mapping[str, int],
    lakes: Mapping[str, LakeState],
    between_steps: Between,
    tables: Pins,
) -> bool:
    """One step; whether there may be one more to take."""
    name = view.name
    match way:
        case Way("stop", int(number)):
            store.forget(name, number)
        case Way("adopt", int(number)):
            with ExitStack() as steps:
                for stream in view.streams:
                    steps.enter_context(between_steps(stream))
                store.adopt(view, fingerprint(view), patience_ms, number)
        case Way("revive", int(number)):
            store.revive(name, number)
        case _ if all(stream in lakes for stream in view.streams):
            at = {stream: point_of(lakes[stream]) for stream in view.streams}
            pinned = pin_tables(view, store.versions(), tables)
            version = store.register(view, fingerprint(view), patience_ms, at, pinned)
            if version.state == "ready":
                store.promote(name, version.number)  # over no events, the one before has nothing that this has not
            return False
        case _:
            return False  # a log cannot be read: there is nothing to compute it from
    log.info("edited", view=name, by=way.kind, version=way.number)
    return True


def _is_ahead(version: Version, lakes: Mapping[str, LakeState]) -> bool:
    return any(_is_base_ahead(base, lakes[base.stream]) for base in version.bases if base.stream in lakes)


def _is_base_ahead(base: Base, lake: LakeState) -> bool:
    lost = base.position is not None and not lake.position.covers(base.position)
    return lost or base.applied_to > lake.next_commit
