"""Keeps views over tables up to date: after each step of their table, and when another version of it serves.

Each is brought on in a transaction of its own, after that of the table. So a view that cannot be computed stalls alone,
and one that a crash left behind is made anew from the rows of its table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

import duckdb
import pyarrow as pa
import structlog

from headrace.errors import FencedError, HeadraceError
from headrace.faults import fault_point
from headrace.store.base import KEY_ID, Base, Partials, Step, Version
from headrace.store.duckdb.database import Database, run
from headrace.store.duckdb.derived import drop_rows, fill, follow, functions_of, is_made_of
from headrace.store.duckdb.levels import PANES
from headrace.store.duckdb.snapshot import find_serving, speed_tables
from headrace.store.duckdb.tables import create_speed
from headrace.store.duckdb.versions import change, change_base, insert_version, now_us, position_text, read_versions

RETRY_S = 30.0  # until a view that failed is tried again

Connection = duckdb.DuckDBPyConnection
log = structlog.get_logger("headrace.store")


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

    def follow(self, versions: Sequence[Version], step: Step, id: tuple[str, int], partials: Partials) -> None:
        """After a step of a table: bring on the views over it."""
        table = next((version for version in versions if version.id == id and version.serving), None)
        for view in _over(versions, id[0]) if table else ():
            fault_point("table.before_views")
            self._try(view, partial(self._follow, view, step, partials))

    def make(self, versions: Sequence[Version], table: str | None = None) -> None:
        """Make the views over a table, or over every table, that are not made of its present rows."""
        for view in _over(versions, table):
            self._try(view, partial(self._make, view), always=table is None)

    def _try(self, view: Version, work: Callable[[], None], *, always: bool = False) -> None:
        name = view.view.name
        if self._retry_at.get(name, 0.0) > time.monotonic() and not always:
            return
        try:
            with self._database.use():
                self._database.give(functions_of(view.view))
            work()
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

    def _follow(self, view: Version, step: Step, partials: Partials) -> None:
        with self._transaction() as connection:
            pair = _find(connection, view)
            if pair is None:
                return
            view, table = pair
            base = view.base(step.stream)
            if view.serving and base.applied_to >= step.to_commit and is_made_of(connection, view, table):
                return  # it was made anew meanwhile
            if not view.serving or base.applied_to != step.from_commit or not is_made_of(connection, view, table):
                self._make_anew(connection, view, table)
                return
            note = self._note(connection, view, step)
            sources = self._sources(table)
            cells = follow(connection, view, speed_tables(view)[0], table, sources, _touched(partials))
            self._move(connection, view, [table.base(step.stream)], to=step.to_commit)
            if note:
                note(cells)

    def _make(self, view: Version) -> None:
        with self._transaction() as connection:
            pair = _find(connection, view)
            if pair is None:
                return
            view, table = pair
            same = [base.applied_to for base in view.bases] == [base.applied_to for base in table.bases]
            if not (view.serving and same and is_made_of(connection, view, table)):
                self._make_anew(connection, view, table)

    def _make_anew(self, connection: Connection, view: Version, table: Version) -> None:
        """Make a version of all rows of its table, and let it serve; one that serves is replaced, for its followers."""
        versions = [each for each in read_versions(connection) if each.view.name == view.view.name]
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
    """The versions of views over a table that serve, or will; of a view the one that is coming, if there is one."""
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
    if table is None or not table.whole or now.view.streams != table.view.streams:
        return None
    shape = table.view.shape
    types = {key.name: key.expression.type for key in table.view.keys}
    types |= {output.name: output.expression.type for output in shape.outputs} if shape else {}
    return (now, table) if all(types.get(name) == of for name, of in now.view.reads) else None


def _touched(partials: Partials) -> pa.Table | list[str]:
    """The ids of the keys in the partials of a step."""
    tables = [part.select([KEY_ID]) for part in partials if isinstance(part, pa.Table)]
    files = [str(part) for part in partials if not isinstance(part, pa.Table)]
    return files or (pa.concat_tables(tables) if tables else pa.table({KEY_ID: pa.array([], pa.string())}))
