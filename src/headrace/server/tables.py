"""What is said of tables: each is a log of changes and a view of rows, shown as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.define.definitions import Catalog
from headrace.define.model import Table
from headrace.errors import RequestError, not_a_table
from headrace.server.state import StreamStatus, TableStatus, TypedColumn, ViewStatus


def describe_tables(
    tables: Mapping[str, Table], streams: Sequence[StreamStatus], views: Sequence[ViewStatus]
) -> list[TableStatus]:
    """All tables, from the statuses of their parts."""
    logs = {stream.name: stream for stream in streams}
    rows = {view.name: view for view in views}
    return [_describe(table, logs, rows[name]) for name, table in sorted(tables.items()) if name in rows]


def _describe(table: Table, logs: Mapping[str, StreamStatus], view: ViewStatus) -> TableStatus:
    log = logs.get(table.name)
    return TableStatus(
        name=table.name,
        key=table.key,
        columns=tuple(TypedColumn(field.name, str(field.type)) for field in table.fields),
        latest_by=table.event_time,
        derived_from=table.relation.streams if table.relation else (),
        rows=view.rows,
        version=view.applied_to,
        changes=None if view.rows is None else (view.batch_events or 0) + (view.speed_events or 0),
        dead_letters=log.dead_letters if log else None,
        newest_change=view.newest_event,
        freshness_ms=view.freshness_ms,
        freshness_reason=view.freshness_reason,
        problem=view.stalled or view.alarm or (log.error if log else None),
    )


def find_table(catalog: Catalog, name: str) -> Table:
    """A table by its name; raises NotFoundError."""
    table = catalog.tables.get(name)
    if table is None:
        raise not_a_table(name, catalog.tables, catalog.streams)
    return table


def find_writable(catalog: Catalog, name: str) -> Table:
    """A table whose rows can be sent to it."""
    table = find_table(catalog, name)
    if table.relation is not None:
        raise RequestError(
            f"table '{name}' is made from {_names(table.relation.streams)}: no rows can be sent to it",
            fix=f"send events to {_names(table.relation.streams)}",
        )
    return table


def _names(streams: Iterable[str]) -> str:
    return " and ".join(f"stream '{name}'" for name in streams)
