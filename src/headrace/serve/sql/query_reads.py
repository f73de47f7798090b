"""What a query reads: the views that it names, and of each the columns and keys that DuckDB's optimizer leaves in its
scans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import duckdb
import orjson

from headrace.define.fingerprint import aggregate_id
from headrace.define.logical_views import MERGES
from headrace.define.model import LogicalView, View
from headrace.define.outgoing_rules import row_types
from headrace.define.outputs import outputs_of
from headrace.define.query_rules import SKETCH
from headrace.engine.duckdb_terms import duckdb_name, duckdb_type
from headrace.errors import NotFoundError, SqlError, did_you_mean
from headrace.serve.evaluate import find_serving
from headrace.serve.sql.load_views import sketch_types
from headrace.store.store_contract import Snapshot
from headrace.store.version import Version
from headrace.types import Type


def find_parts(
    names: Sequence[str], serving: Mapping[str, Version], logical: Mapping[str, LogicalView]
) -> tuple[list[LogicalView], list[str]]:
    """The logical views among these names, each after those that it reads, and the other names of all of them."""
    computed: dict[str, LogicalView] = {}
    others: dict[str, None] = {}

    def add(name: str) -> None:
        own = None if name in serving else resolve(name, logical)
        if own is None:
            others[name] = None
        elif own not in computed:
            for part in logical[own].reads:
                add(part)
            computed[own] = logical[own]

    for name in names:
        add(name)
    return list(computed.values()), list(others)


def find_versions(
    snapshot: Snapshot,
    serving: Mapping[str, Version],
    names: Sequence[str],
    own: Sequence[str],
    logical: Mapping[str, LogicalView],
) -> list[Version]:
    """The serving versions of the views that a query names; names are case-insensitive unless that is ambiguous."""
    versions: dict[str, Version] = {}
    for name in names:
        view = resolve(name, serving)
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


def resolve(name: str, views: Mapping[str, object]) -> str | None:
    """The name of a view as it is declared; None: there is none, or several differ only in case."""
    if name in views:
        return name
    alike = [view for view in views if view.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


MOST_KEYS = 1_000  # of a view that are selected by a query; with more, all rows are read
_DUCKDB_IDS = {"STRING": "VARCHAR", "INT": "INTEGER", "BIGINT": "BIGINT"}  # types of keys that select rows
# It would conclude from the empty tables that there are no rows.
_PLANNED = "SET disabled_optimizers = 'statistics_propagation'"


@dataclass(frozen=True)
class Reads:
    """The columns of a view that a query reads, and the keys that all rows that it uses have: none is any."""

    columns: tuple[str, ...]
    where: tuple[Mapping[str, Any], ...] = ()

    def of(self, version: Version) -> Version:
        """The version, with a view that has no other columns than these and those that its shape needs."""
        view, shape = version.view, version.view.shape
        outputs = tuple(output for output in outputs_of(view) if output.name in self.columns)
        expressions = [output.expression for output in outputs]
        if shape is not None:
            expressions += [*([shape.having] if shape.having else []), *(item.expression for item in shape.order)]
        names = set[str]().union(*(expression.fields() for expression in expressions))
        columns = tuple(column for column in view.columns if aggregate_id(column.aggregate) in names)
        if shape is not None and (shape.outputs or shape.only_keys):
            shape = replace(shape, outputs=outputs, only_keys=not outputs)
        return replace(version, view=replace(view, columns=columns or view.columns[:1], shape=shape))


def table_columns(view: View, *, sketches: bool = False) -> dict[str, str]:
    """The columns of the table that a view is in SQL, with their types in DuckDB."""
    columns = {name: duckdb_type(of) for name, of in row_types(view).items()}
    return columns | (sketch_types(view) if sketches else {})


def find_reads(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    views: Sequence[View],
    logical: Mapping[str, str],
    *,
    sketches: bool = False,
) -> dict[str, Reads]:
    """What a query reads of each view; a view that is not in it is read as a whole.

    `logical` are the queries of logical views. A query that cannot be planned reads everything: it fails when it runs.
    """
    connection.begin()
    try:
        for statement in (_PLANNED, *(MERGES if sketches else ())):  # plans with functions in Python cannot be shown
            connection.execute(statement).fetchall()
        for view in views:
            columns = table_columns(view, sketches=sketches).items()
            declared = ", ".join(f"{duckdb_name(name)} {of}" for name, of in columns)
            connection.execute(f"CREATE TABLE {duckdb_name(view.name)} ({declared})").fetchall()
        for name, text in logical.items():
            connection.execute(f"CREATE VIEW {duckdb_name(name)} AS {text}").fetchall()
        plan = "SELECT json_serialize_plan(?, optimize := true)"
        ((serialized,),) = connection.execute(plan, [query]).fetchall()
        tree = orjson.loads(serialized)
    except (duckdb.Error, ValueError):
        return {}
    finally:
        connection.rollback()
        connection.execute("RESET disabled_optimizers").fetchall()
    if tree.get("error", True):
        return {}
    scans = list(_scans(tree))
    return {view.name: _reads(view, [scan for scan in scans if _table(scan) == view.name]) for view in views}


def _scans(tree: Any) -> Iterator[dict[str, Any]]:
    rest = [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, dict):
            if node.get("type") == "LOGICAL_GET":
                yield node
            rest.extend(node.values())
        elif isinstance(node, list):
            rest.extend(node)


def _table(scan: dict[str, Any]) -> str | None:
    return (scan.get("function_data") or {}).get("table")


def _reads(view: View, scans: Iterable[dict[str, Any]]) -> Reads:
    columns: dict[str, None] = {}
    where: list[Mapping[str, Any]] | None = []
    types = {key.name: key.expression.type for key in view.keys}
    for scan in scans:
        names = [_name(scan, index["index"]) for index in scan["column_indexes"]]
        columns |= dict.fromkeys(name.removesuffix(SKETCH) for name in names if name is not None)
        keys = _keys(scan, names, types)
        where = None if where is None or not keys else [*where, *keys]
    limited = view.shape is not None and view.shape.limit is not None  # it counts all rows, whatever their keys
    if where is None or limited or len(where) > MOST_KEYS:
        where = []
    return Reads(tuple(columns), tuple(where))


def _name(scan: dict[str, Any], index: int) -> str | None:
    names = scan["names"]
    return str(names[index]) if index < len(names) else None  # beyond: the number of the row


def _keys(scan: dict[str, Any], names: Sequence[str | None], types: Mapping[str, Type]) -> list[dict[str, Any]]:
    """The keys of the rows that a scan needs; none: it may need any."""
    if not scan.get("table_filters_by_projection"):
        return []  # filters have other numbers
    values: dict[str, list[Any]] = {}
    for each in scan["table_filters"]["filters"]:
        name = names[each["key"]]
        if name in types and types[name].name in _DUCKDB_IDS:
            equal = _values(each["value"], _DUCKDB_IDS[types[name].name])
            if equal and len(equal) <= MOST_KEYS:
                values[name] = equal
    if not values or _count(values) > MOST_KEYS:
        return []
    return [dict(zip(values, each, strict=True)) for each in product(*values.values())]


def _count(values: Mapping[str, Sequence[Any]]) -> int:
    count = 1
    for each in values.values():
        count *= len(each)
    return count


def _values(condition: dict[str, Any], of: str) -> list[Any]:
    """The values that fulfil a condition; none: it is not one of equality, or of another type."""
    match condition:
        case {"filter_type": "LEGACY_OPTIONAL_FILTER", "child_filter": dict() as inner}:
            return _values(inner, of)  # it follows from the other conditions of the query
        case {"filter_type": "LEGACY_CONJUNCTION_OR", "child_filters": list() as inner}:
            parts = [_values(each, of) for each in inner]
            return [value for part in parts for value in part] if all(parts) else []
        case {"filter_type": "LEGACY_IN_FILTER", "values": list() as constants}:
            parts = [_constant(each, of) for each in constants]
            return [value for part in parts for value in part] if all(parts) else []
        case {"filter_type": "LEGACY_CONSTANT_COMPARISON", "comparison_type": "COMPARE_EQUAL", "constant": constant}:
            return _constant(constant, of)
    return []


def _constant(constant: dict[str, Any], of: str) -> list[Any]:
    return [constant["value"]] if constant["type"]["id"] == of and not constant["is_null"] else []
