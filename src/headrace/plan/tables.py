"""What a plan says of tables: one step for the log of changes and the view of rows that a table is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headrace.define.definitions import Catalog
from headrace.language.durations import format_duration
from headrace.language.terms import quote
from headrace.define.model import Table
from headrace.define.table_parts import DELETED
from headrace.plan.change import Change, Kind, What
from headrace.plan.sources import describe_source

TABLE: What = "table"


def merge_parts(running: Catalog, target: Catalog, changes: Sequence[Change]) -> Iterator[Change]:
    """The steps of streams and views, those of the two parts of a table as one."""
    names = {*running.tables, *target.tables}
    parts: dict[str, list[Change]] = {}
    for change in changes:
        if change.name in names and change.what in ("stream", "view"):
            parts.setdefault(change.name, []).append(change)
    for change in changes:
        own = parts.get(change.name, [])
        if change not in own:
            yield change
        elif change is own[-1]:
            yield _merged(running.tables.get(change.name), target.tables.get(change.name), own)


def _merged(before: Table | None, after: Table | None, parts: Sequence[Change]) -> Change:
    refused = next((part for part in parts if part.kind == "refuse"), None)
    if refused is not None:
        return replace(refused, what=TABLE)
    last = parts[-1]
    if after is None:
        return replace(last, what=TABLE, reason="its rows are deleted; its log of changes stays on disk")
    if before is None:
        kinds = {part.kind for part in parts}
        kind: Kind = "create" if kinds == {"create"} else "change"
        return replace(last, what=TABLE, kind=kind, details=tuple(describe_table(after)))
    details = dict.fromkeys(detail for part in parts for detail in part.details if DELETED not in detail)
    return replace(last, what=TABLE, details=tuple(details))


def describe_table(table: Table) -> Iterator[str]:
    """The parts of a table, a line each."""
    for field in table.fields:
        yield f"{quote(field.name)} {field.type}"
    yield f"primary key: {', '.join(map(quote, table.key))}"
    if table.event_time:
        yield f"latest by: {table.event_time}"
        yield f"patience: {format_duration(table.patience_ms)}"
    else:
        yield "latest by: arrival"
    if table.relation:
        yield f"made from: {', '.join(table.relation.streams)}"
    if table.source:
        yield from describe_source(table.source)
