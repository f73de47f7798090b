"""Keeps views over tables up to date: after each step of their table, and when another version of it serves.

Each advances in its own transaction, after that of the table. So a view that cannot be computed stalls alone,
and one that lags after a crash is rebuilt from the rows of its table.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

import duckdb

from headrace.duckdb_connections import run
from headrace.engine.duckdb_session import register_function
from headrace.engine.time_functions import register as register_times
from headrace.errors import FencedError, HeadraceError
from headrace.faults import fault_point
from headrace.lazy import Logger
from headrace.store.duckdb.database import Database
from headrace.store.duckdb.levels import PANES
from headrace.store.duckdb.snapshot import find_serving, speed_tables
from headrace.store.duckdb.stored_rows import stage_changes, types_of
from headrace.store.duckdb.table_sql import create_speed
from headrace.store.duckdb.table_view_cells import drop_rows, fill, follow, functions_of, is_made_of
from headrace.store.duckdb.version_rows import change, change_base, insert_version, now_us, position_text, read_versions
from headrace.store.store_contract import Partials, Step
from headrace.store.version import Base, Version

RETRY_S = 30.0  # until a view that failed is tried again

Connection = duckdb.DuckDBPyConnection
log = Logger("headrace.store")


class TableViews:
    """The views over tables of one store, whose transactions and numbers of versions it uses."""

    def __init__(
        self,
        database: Database,
        fence: int,
        transaction: Callable[[], AbstractContextManager[Connection]],
        next_number: Callable[[Connection, str], int],
        note: Callable[[Connection, Version, Step], Callable[[str | None], None] | None],
    ) -> None:
        self._database = database
        self._fence = fence
        self._transaction = transaction
        self._next_number = next_number
        self._note = note
        self._retry_at: dict[str, float] = {}  # by view
        self._staged: dict[str, tuple[Connection, bool]] = {}  # of tables in a step: where, and whether it has rows
        self.in_order = threading.RLock()  # views advance in the order of the steps of their table

    def stage(self, connection: Connection, versions: Sequence[Version], table: Version, partials: Partials) -> None:
        """Note the rows that a step of a table changes, for views over it; in its transaction, before the merge."""
        views = list(_over(versions, table.view.name)) if table.serving else []
        if not views:
            return
        if partials:
            reads = {name for each in views for name, _ in each.view.reads}
            known = [name for name in types_of(table.view) if name in reads]
            stage_changes(connection, table, known, self._sources(table), partials)
        self._staged[table.view.name] = connection, bool(partials)

    def follow(self, versions: Sequence[Version], step: Step, tables: Sequence[str]) -> None:
        """After a step of tables, advance the views over them, in one transaction unless one of them fails."""
        views = [view for table in tables for view in _over(versions, table) if not self._waits(view)]
        if views:
            fault_point("table.before_views")
            if len(views) == 1 or not self._follow_together(views, step):
                for view in views:
                    self._try(view, partial(self._follow, view=view, step=step))
        for table in tables:
            self._staged.pop(table, None)

    def _follow_together(self, views: Sequence[Version], step: Step) -> bool:
        try:
            self._give_functions(views)
            with self._transaction() as connection:
                for view in views:
                    self._follow(connection, view, step)
        except FencedError:
            raise
        except (duckdb.Error, HeadraceError):
            return False
        for view in views:
            self._retry_at.pop(view.view.name, None)
        return True

    def make(self, versions: Sequence[Version], table: str | None = None) -> None:
        """Make the views over a table, or over every table, that are not made of its present rows."""
        for view in _over(versions, table):
            if table is None or not self._waits(view):
                self._try(view, partial(self._make, view=view))

    def _waits(self, view: Version) -> bool:
        return self._retry_at.get(view.view.name, 0.0) > time.monotonic()

    def _give_functions(self, views: Sequence[Version]) -> None:
        with self._database.use():
            for view in views:
                functions = {each.name: partial(register_function, function=each) for each in functions_of(view.view)}
                self._database.give({"times": register_times, **functions})

    def _try(self, view: Version, work: Callable[[Connection], None]) -> None:
        name = view.view.name
        try:
            self._give_functions([view])
            with self._transaction() as connection:
                work(connection)
            self._retry_at.pop(name, None)
        except FencedError:
            raise
        except (duckdb.Error, HeadraceError) as error:
            self._retry_at[name] = time.monotonic() + RETRY_S
            reason = str(error).splitlines()[0]
            log.error("a view over a table cannot be updated", view=name, error=reason)
            with self._transaction() as connection:
                for version in read_versions(connection):
                    if version.view.name == name and version.live:
                        stream = version.bases[0].stream
                        change_base(connection, self._fence, version, stream, stalled=reason)

    def _follow(self, connection: Connection, view: Version, step: Step) -> None:
        pair = _find(connection, view)
        if pair is None:
            return
        view, table = pair
        base = view.base(step.stream)
        of_table = is_made_of(connection, view, table)
        if view.serving and base.applied_to >= step.to_commit and of_table:
            return  # it was rebuilt meanwhile
        # A database that was opened again has no temporary tables.
        where, changes = self._staged.get(table.view.name, (None, False))
        if not (view.serving and base.applied_to == step.from_commit and of_table and where is connection):
            self._make_anew(connection, view, table)
            return
        note, cells = self._note(connection, view, step), None
        if changes:
            cells = follow(connection, view, speed_tables(view)[0], table, keep_empty=note is not None)
            if cells is None:
                log.error("a view is not what the rows of its table give; it is rebuilt", view=view.view.name)
                self._make_anew(connection, view, table)
                return
        self._move(connection, view, [table.base(step.stream)], to=step.to_commit)
        if note:
            note(cells)

    def _make(self, connection: Connection, view: Version) -> None:
        pair = _find(connection, view)
        if pair is None:
            return
        view, table = pair
        if not (view.serving and view.at_commits_of(table) and is_made_of(connection, view, table)):
            self._make_anew(connection, view, table)

    def _make_anew(self, connection: Connection, view: Version, table: Version) -> None:
        """Make a version of all rows of its table, and let it serve; one that serves is replaced, for its followers."""
        versions = read_versions(connection, view.view.name)
        old = find_serving(versions, view.view.name)
        if view.serving:
            number = self._next_number(connection, view.view.name)
            view = replace(view, number=number, home=number, state="ready", replaces=view.number)
            for name in speed_tables(view):
                run(connection, create_speed(view.view, name))
            insert_version(connection, view, self._fence)
        drop_rows(connection, view)
        fill(connection, view, speed_tables(view)[0], table, self._sources(table))
        self._move(connection, view, table.bases)
        change_base(connection, self._fence, view, view.bases[0].stream, alarm=None)
        if old is not None and old.number != view.number:
            change(connection, self._fence, old, state="retired")
            drop_rows(connection, old)
        change(connection, self._fence, view, state="serving", replaces=old and old.number, changed_at_us=now_us())

    def _move(self, connection: Connection, view: Version, bases: Sequence[Base], to: int | None = None) -> None:
        for base in bases:
            change_base(
                connection,
                self._fence,
                view,
                base.stream,
                applied_to=base.applied_to if to is None else to,
                position=position_text(base.position),
                newest_us=base.newest_us,
                idle_us=base.idle_us,
                applied_at_us=base.applied_at_us,
                stalled=None,
            )

    def _sources(self, table: Version) -> list[str]:
        batch = [f"{self._database.attach(each.file)}.{PANES}" for each in table.batch]
        return [*batch, *(f'"{name}"' for name in speed_tables(table))]


def _over(versions: Sequence[Version], table: str | None) -> Iterator[Version]:
    """The versions of views over a table that serve, or will; of a view the next one, if there is one."""
    live = [each for each in versions if each.live and each.view.over is not None]
    by_view = {each.view.name: each for each in sorted(live, key=lambda each: (not each.serving, each.number))}
    for each in by_view.values():
        if each.view.over is not None and table in (None, each.view.over.table):
            yield each


def _find(connection: Connection, view: Version) -> tuple[Version, Version] | None:
    """The version and that of its table, as they are now; None if it cannot be made yet."""
    versions = read_versions(connection)
    now = next((each for each in _over(versions, None) if each.view.name == view.view.name), None)
    if now is None or now.view.over is None:
        return None
    table = find_serving(versions, now.view.over.table)
    if table is None or not table.complete or now.view.streams != table.view.streams:
        return None
    types = types_of(table.view)
    return (now, table) if all(types.get(name) == of for name, of in now.view.reads) else None
