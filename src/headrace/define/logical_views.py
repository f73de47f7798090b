"""Logical views: a SELECT over other views, checked by DuckDB over empty tables with the columns of these views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.define.logical_errors import as_definition_error, reads_stream
from headrace.define.model import LogicalView, Stream, View
from headrace.define.outgoing_rules import row_types
from headrace.define.query_rules import (
    SKETCH,
    QueryError,
    check,
    read_tree,
    references,
    rewrite,
    select_columns,
    sketch_columns,
)
from headrace.duckdb_connections import open_duckdb
from headrace.engine.duckdb_terms import duckdb_name, duckdb_type
from headrace.errors import DefinitionError, nearest
from headrace.language.identifiers import check_distinct
from headrace.language.source_text import FollowUpError, SourceText, each, join, located
from headrace.language.statements.create_view import LogicalStatement
from headrace.lazy import duckdb
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type, array, decimal, map_of, struct

PLAIN, SKETCHED = "main", "sketched"  # schemas: tables without and with the columns that functions merge
# The functions that merge sketches, as far as types and columns go.
MERGES = (
    "CREATE MACRO approx_count_distinct_merge(sketches) AS len(sketches)",
    "CREATE MACRO unique_merge(sketches) AS len(sketches)",
    "CREATE MACRO approx_percentile_merge(sketches, share) AS CAST(len(sketches) * share AS DOUBLE)",
)
_PREFIX = "DESCRIBE "
_TYPES = {
    **dict.fromkeys(("varchar", "json"), STRING),
    "boolean": BOOLEAN,
    **dict.fromkeys(("tinyint", "smallint", "integer", "utinyint", "usmallint"), INT),
    **dict.fromkeys(("bigint", "uinteger", "hugeint", "ubigint", "uhugeint"), BIGINT),
    **dict.fromkeys(("float", "double"), DOUBLE),
    "date": DATE,
    **dict.fromkeys(
        ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone"), TIMESTAMP
    ),
}  # by the id of DuckDB's type


def build_logical_views(
    statements: Iterable[LogicalStatement],
    views: Mapping[str, View | LogicalView],
    streams: Mapping[str, Stream],
    broken: set[str | None],
) -> tuple[dict[str, LogicalView], list[DefinitionError]]:
    """The logical views over these views and over each other, and all mistakes. None in `broken`: it may be any."""
    statements = list(statements)
    if not statements:
        return {}, []
    builder = _Builder(statements, views, streams, broken)
    for statement in statements:
        builder.build(statement)
    builder.connection.close()
    return builder.built, builder.errors


def check_again(logical: Iterable[LogicalView], views: Mapping[str, View]) -> dict[str, LogicalView]:
    """The logical views over other forms of the views that they read; raises if one cannot be computed any more."""
    statements = [LogicalStatement(SourceText(view.sql), 0, view.name, view.sql, 0) for view in logical]
    built, errors = build_logical_views(statements, views, {}, set())
    if errors:
        raise join(errors)
    return built


class _Builder:
    def __init__(
        self,
        statements: Iterable[LogicalStatement],
        views: Mapping[str, View | LogicalView],
        streams: Mapping[str, Stream],
        broken: set[str | None],
    ) -> None:
        self.views = {name.lower(): view for name, view in views.items()}
        # The changes of a table are a stream with its name, and its rows a view: that is what is meant.
        self.streams = {name.lower(): each for name, each in streams.items() if name.lower() not in self.views}
        self.broken = broken
        self.failure = duckdb.Error
        self.built: dict[str, LogicalView] = {}
        self.errors: list[DefinitionError] = []
        self.connection = open_duckdb(enable_external_access=False)
        for statement in ("SET errors_as_json = true", f"CREATE SCHEMA {SKETCHED}", *MERGES):
            self.connection.execute(statement)
        self._waiting = {statement.name.lower(): statement for statement in statements}
        self._path: list[str] = []  # the views that are being built, each read by the one before it

    def build(self, statement: LogicalStatement) -> None:
        """Build a view, after those that it reads; its mistakes are collected."""
        if self._waiting.pop(statement.name.lower(), None) is None:
            return
        self._path.append(statement.name)
        try:
            self._declare(self._view(statement))
        except DefinitionError as error:
            self.broken.add(statement.name.lower())
            self.errors += each(error)
        self._path.pop()

    def _view(self, statement: LogicalStatement) -> LogicalView:
        if statement.mistakes:
            self.errors += statement.mistakes
        tree = self._parse(statement)
        names = references(tree)
        if not names:
            refusal = reads_stream(statement, self.streams)
            raise refusal or statement.source.error(
                statement.sql_at, f"view '{statement.name}' reads no view", expected="FROM and the name of a view"
            )
        raw = statement.sql.encode()
        by_place = sorted(names.items(), key=lambda item: item[1])
        reads = [self._read(statement, name, len(raw[:at].decode(errors="ignore"))) for name, at in by_place]
        columns = self._columns(statement, reads)
        modifiers = ((tree.get("statements") or [{}])[0].get("node") or {}).get("modifiers") or ()
        ordered = any(modifier.get("type") == "ORDER_MODIFIER" for modifier in modifiers)
        return LogicalView(statement.name, statement.sql, columns, tuple(dict.fromkeys(reads)), ordered)

    def _parse(self, statement: LogicalStatement) -> dict[str, Any]:
        """The parsed SELECT, all of which may be in a definition."""
        try:
            check(self.connection, statement.sql)
            return read_tree(self.connection, statement.sql)
        except QueryError as error:
            raise self._as_mistake(statement, error) from None
        except self.failure as error:
            # The words of other dialects, such as window(at, '1 minute'), belong to queries over streams.
            refusal = reads_stream(statement, self.streams)
            raise refusal or as_definition_error(statement, error, 0) from None
        except RecursionError:
            raise statement.source.error(statement.at, f"view '{statement.name}' is nested too deeply") from None

    def _as_mistake(self, statement: LogicalStatement, error: QueryError) -> DefinitionError:
        fields, source = error.fields, statement.source
        message = f"view '{statement.name}': {fields['message']}"
        return source.error(
            statement.sql_at, message, found=fields["found"], expected=fields["expected"], fix=fields["fix"]
        )

    def _read(self, statement: LogicalStatement, name: str, at: int) -> str:
        """The name of a view that the SELECT reads, built if it is a logical one that waits."""
        lower = name.lower()
        if lower in map(str.lower, self._path):
            path = [*self._path[list(map(str.lower, self._path)).index(lower) :], name]
            raise self._error(
                statement, at, f"view '{statement.name}' reads itself: {' → '.join(path)}", fix="break the cycle"
            )
        if lower in self._waiting:
            self.build(self._waiting[lower])
        if lower in self.views:
            self._declare(self.views[lower])
            return self.views[lower].name
        if self.broken & {None, lower}:
            raise FollowUpError(f"view '{statement.name}' reads '{name}', which has an error")
        refusal = reads_stream(statement, self.streams)
        if refusal:
            raise refusal
        names = [view.name for view in self.views.values()]
        near, start = nearest(name, names), statement.sql_at + at
        raise statement.source.error(
            start,
            f"view '{statement.name}' reads '{name}', which does not exist",
            fix=f"did you mean '{near}'?" if near else f"there are: {', '.join(sorted(names)) or 'no views'}",
            write=near,
            end=start + len(name) if statement.source.text.startswith(name, start) else None,
        )

    def _error(self, statement: LogicalStatement, at: int, message: str, **fields: Any) -> DefinitionError:
        return statement.source.error(statement.sql_at + at, message, **fields)

    def _columns(self, statement: LogicalStatement, reads: list[str]) -> tuple[tuple[str, Type], ...]:
        try:
            merging = rewrite(self.connection, statement.sql)
        except QueryError as error:
            raise self._as_mistake(statement, error) from None
        text = merging or statement.sql
        self._search(SKETCHED if merging else PLAIN)
        try:
            self.connection.execute(_PREFIX + text)
            result = self.connection.sql(text)
            columns = list(zip(result.columns, result.types, strict=True))
        except self.failure as error:
            names = [column for name in reads for column in columns_of(self.views[name.lower()])]
            raise as_definition_error(statement, error, len(_PREFIX) if merging is None else None, names) from None
        finally:
            self._search(PLAIN)
        typed = tuple((name, self._type(statement, name, of)) for name, of in columns if not name.endswith(SKETCH))
        with located(statement.source, statement.at):
            check_distinct([name for name, _ in typed], "the column")
        return typed

    def _search(self, schema: str) -> None:
        self.connection.execute(f"SET search_path = '{schema},{PLAIN}'")

    def _type(self, statement: LogicalStatement, column: str, of: duckdb.sqltypes.DuckDBPyType) -> Type:
        known = type_of(of)
        if known is None:
            raise statement.source.error(
                statement.sql_at,
                f"view '{statement.name}': the column '{column}' is of type {of}, which rows of a view cannot contain",
                fix="write CAST(… AS STRING)",
            )
        return known

    def _declare(self, view: View | LogicalView) -> None:
        """Make a view known to DuckDB: an empty table, or the SELECT of a logical one."""
        if isinstance(view, LogicalView):
            if view.name in self.built:
                return
            self.built[view.name] = self.views[view.name.lower()] = view
        for schema in (PLAIN, SKETCHED):
            self._search(schema)
            name = f"{schema}.{duckdb_name(view.name)}"
            if isinstance(view, LogicalView) and rewrite(self.connection, view.sql) is None:
                self.connection.execute(
                    f"CREATE VIEW IF NOT EXISTS {name} AS {select_columns(view.sql, dict(view.columns))}"
                )
                continue
            columns = [f"{duckdb_name(column)} {duckdb_type(of)}" for column, of in columns_of(view).items()]
            sketches = sketch_columns(view) if schema == SKETCHED and isinstance(view, View) else []
            columns += [f"{duckdb_name(column)} BLOB" for column in sketches]
            self.connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(columns)})")
        self._search(PLAIN)


def columns_of(view: View | LogicalView) -> dict[str, Type]:
    """The columns of the table that a view is in SQL."""
    return dict(view.columns) if isinstance(view, LogicalView) else row_types(view)


def type_of(of: duckdb.sqltypes.DuckDBPyType) -> Type | None:
    """The type of values of a DuckDB type in answers; None if answers have no such values."""
    if of.id not in ("decimal", "list", "array", "map", "struct"):
        return INT if of.id == "null" else _TYPES.get(of.id)
    children: list[tuple[str, Any]] = list(of.children)
    if of.id == "decimal":
        digits = dict(children)
        return decimal(int(digits["precision"]), int(digits["scale"]))
    parts = {name: type_of(part) for name, part in children if name != "size"}
    if of.id == "struct":
        known = [(name, part) for name, part in parts.items() if part is not None and name.isidentifier()]
        return struct(*known) if len(known) == len(children) else None
    inner = parts.get("child") or parts.get("value")
    if of.id == "map":
        return map_of(inner) if parts["key"] == STRING and inner else None
    return array(inner) if inner else None
