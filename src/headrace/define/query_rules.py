"""Checks SQL: one SELECT over tables by name, without functions that access anything else; and the functions that
merge sketches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from headrace.aggregate import REGISTRY
from headrace.define.fingerprint import aggregate_id
from headrace.define.model import View
from headrace.define.outputs import outputs_of
from headrace.engine.duckdb_terms import duckdb_name
from headrace.language.terms import Expression
from headrace.types import STRING

if TYPE_CHECKING:
    import duckdb


LONGEST_BYTES = 100_000
# Table functions that only use their arguments. All others read files, settings or the catalog, or run SQL
# from text, which would not be checked.
TABLE_FUNCTIONS = {"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree"}
# DuckDB reports a statement as SELECT even if a part in WITH deletes, inserts or copies to a file.
READING_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
REFUSED = {"current_setting", "getenv", "getvariable", "json_serialize_plan", "write_log", "query", "query_table"}
REFUSED_PREFIXES = (
    "__internal",
    "pg_",
    "inet_",
    "has_",
    "duckdb_",
    "pragma_",
    "read_",
    "parquet_",
    "arrow_",
    "python_",
)
HARMLESS = {"pg_typeof", "pg_size_pretty", "pg_sleep"}
EXAMPLE = "such as SELECT page, sum(hits) FROM traffic GROUP BY page"


class QueryError(Exception):
    """The query is refused; `fields` are those of the error that the user sees."""

    def __init__(self, message: str, *, found: str | None = None, expected: str | None = None, fix: str | None = None):
        super().__init__(message)
        self.fields = {"message": message, "found": found, "expected": expected, "fix": fix}


@dataclass(frozen=True)
class Tables:
    """The names in a query: of tables, and of its own common table expressions."""

    names: list[str]
    own: list[str]


def check(connection: duckdb.DuckDBPyConnection, query: str) -> Tables:
    """The tables that the query names; raises QueryError unless it is one SELECT, and DuckDB's own errors."""
    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise QueryError("one statement at a time", found=f"{len(statements)} statements", expected=EXAMPLE)
    kind = statements[0].type.name
    if kind != "SELECT":
        raise QueryError("only SELECT is supported: views change only by events", found=kind, expected=EXAMPLE)
    tree = read_tree(connection, query)
    names: dict[str, None] = {}
    own: dict[str, None] = {}
    for node in _nodes(tree):
        _check_function(node)
        kind = str(node.get("type"))
        if kind.endswith("_NODE") and kind not in READING_NODES:
            raise QueryError("only SELECT is supported, also in WITH", found=kind.split("_")[0], expected=EXAMPLE)
        if kind == "BASE_TABLE":
            names[_table(node)] = None
        elif kind == "SHOW_REF" and node.get("query") is None:
            raise QueryError("catalog tables cannot be queried", found="SHOW", fix="`headrace views` lists the views")
        for entry in (node.get("cte_map") or {}).get("map", ()):
            own[entry["key"]] = None
    return Tables(list(names), list(own))


def read_tree(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, Any]:
    """The parsed SELECT as JSON; raises QueryError for anything else."""
    ((serialized,),) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    try:
        tree = orjson.loads(serialized)
    except orjson.JSONDecodeError as error:  # the depth of JSON is limited; handwritten queries do not reach it
        raise QueryError("the query is nested too deeply", fix="give parts of it names, in WITH") from error
    if tree.get("error", True):
        raise QueryError("only a plain SELECT is supported", found=str(tree.get("error_message")), expected=EXAMPLE)
    return dict(tree)


def references(tree: Any, own: frozenset[str] = frozenset()) -> dict[str, int]:
    """The tables that a parsed query names and that are not common table expressions of it, each with its first place.

    Places are offsets in bytes.
    """
    places: dict[str, int] = {}
    if isinstance(tree, list):
        for item in tree:
            places = references(item, own) | places
    if not isinstance(tree, dict):
        return places
    if tree.get("type") == "BASE_TABLE" and str(tree.get("table_name")).lower() not in own:
        return {str(tree["table_name"]): int(tree.get("query_location") or 0)}
    for entry in (tree.get("cte_map") or {}).get("map", ()):
        inner = entry["value"].get("query_node") or {}
        recursive = isinstance(inner, dict) and (inner.get("node") or inner).get("type") == "RECURSIVE_CTE_NODE"
        name = frozenset((str(entry["key"]).lower(),))
        places = references(entry["value"], own | name if recursive else own) | places
        own |= name
    rest = [part for key, part in tree.items() if key != "cte_map"]
    return references(rest, own) | places


def select_columns(query: str, columns: Iterable[str]) -> str:
    """The query with these of its columns: a table that it reads may have more while sketches are merged."""
    return f"SELECT {', '.join(map(duckdb_name, columns))} FROM (\n{query}\n)"


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object in the parsed query, without recursion, since queries may be nested deeply."""
    rest = [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, dict):
            yield node
            rest.extend(node.values())
        elif isinstance(node, list):
            rest.extend(node)


def _check_function(node: dict[str, Any]) -> None:
    name = node.get("function_name")
    if isinstance(name, str):
        lower = name.lower()
        if lower in REFUSED or (lower.startswith(REFUSED_PREFIXES) and lower not in HARMLESS):
            raise _refused_function(name)
    if node.get("type") == "TABLE_FUNCTION":
        name = str((node.get("function") or {}).get("function_name"))
        if name.lower() not in TABLE_FUNCTIONS:
            raise _refused_function(name)


def _refused_function(name: str) -> QueryError:
    return QueryError(
        f"function '{name}' is not allowed here",
        expected="functions of values; tables are the views, and what " + ", ".join(sorted(TABLE_FUNCTIONS)) + " make",
    )


def _table(node: dict[str, Any]) -> str:
    """The name of a view; a schema or database in front of it would refer to the catalog."""
    path = (node.get("qualified_name") or {}).get("path") or [node.get("table_name")]
    if len(path) != 1 or node.get("schema_name") or node.get("catalog_name"):
        raise QueryError(
            f"table '{'.'.join(map(str, path))}' does not exist",
            expected="the name of a view, without a schema in front of it",
            fix="`headrace views` lists them; a name with a dot in it needs double quotes",
        )
    return str(path[0])


SUFFIX = "_merge"
SKETCH = " sketch"  # follows the name of a column
COUNTS = {
    f"{name}{SUFFIX}": REGISTRY[name]((Expression.field("x", STRING),)) for name in ("approx_count_distinct", "unique")
}
PERCENTILE = f"approx_percentile{SUFFIX}"
MERGE_EXAMPLE = f"such as {PERCENTILE}(p95, 0.95), where p95 is a column made by approx_percentile"


def rewrite(connection: duckdb.DuckDBPyConnection, query: str) -> str | None:
    """The query with lists of sketches as the arguments of these functions; None if it calls none of them."""
    ((serialized,),) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    tree = orjson.loads(serialized)
    calls = list(_calls(tree))
    if not calls:
        return None
    for item in _selected(tree):
        if item in calls and not item.get("alias"):
            item["alias"] = item["function_name"]
    for call in calls:
        _use_sketches(call)
    ((text,),) = connection.execute("SELECT json_deserialize_sql(?::JSON)", [orjson.dumps(tree).decode()]).fetchall()
    return str(text)


def clarify(error: Exception) -> QueryError | None:
    """Return what DuckDB's error says of a column with other sketches or none; None if it is about something else."""
    text = str(error)
    if f'{SKETCH}" not found' in text:
        column = text.partition('"')[2].partition(SKETCH)[0]
        return QueryError(
            f"column '{column}' has no sketches that can be merged here",
            expected=f"a column of a view, {MERGE_EXAMPLE}",
            fix="call the function where the view is read, or select * in the query inside",
        )
    for name in (*COUNTS, PERCENTILE):
        if f"argument types '{name}(" in text:
            return QueryError(
                f"{name} takes a column made by {name.removesuffix(SUFFIX)}; this one has other sketches",
                fix=f"call AGGREGATE{SUFFIX}, where AGGREGATE is what made the column, as in {PERCENTILE}(p95, 0.95)",
            )
    return None


def sketch_columns(view: View) -> list[str]:
    """The names of the additional columns of a view: one for each output that is presented from a sketch."""
    merged = {name.removesuffix(SUFFIX) for name in (*COUNTS, PERCENTILE)}
    sketches = {aggregate_id(c.aggregate) for c in view.columns if c.aggregate.name in merged}
    return [f"{output.name}{SKETCH}" for output in outputs_of(view) if output.expression.sql in sketches]


def _calls(tree: Any) -> Iterator[dict[str, Any]]:
    rest = [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, dict):
            if str(node.get("function_name")).lower() in (*COUNTS, PERCENTILE):
                yield node
            rest.extend(node.values())
        elif isinstance(node, list):
            rest.extend(node)


def _selected(tree: Any) -> Iterator[dict[str, Any]]:
    rest = [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, dict):
            yield from node.get("select_list") or ()
            rest.extend(node.values())
        elif isinstance(node, list):
            rest.extend(node)


def _use_sketches(call: dict[str, Any]) -> None:
    name, arguments = call["function_name"], call["arguments"]
    column = arguments[0]["expression"] if arguments else {}
    count = 2 if name.lower() == PERCENTILE else 1
    if column.get("type") != "COLUMN_REF" or len(arguments) != count:
        raise QueryError(
            f"{name} takes a column of a view" + (" and a percentage" if count > 1 else ""), expected=MERGE_EXAMPLE
        )
    if count > 1:
        _check_share(name, arguments[1]["expression"])
    names = [*column["column_names"][:-1], column["column_names"][-1] + SKETCH]
    sketches = {**column, "column_names": names}
    gathered = {
        **call, "alias": "", "function_name": "list", "qualified_name": {"path": ["list"]},
        "arguments": [{"name": "", "expression": sketches}],
    }  # fmt: skip
    call.update(arguments=[{"name": "", "expression": gathered}, *arguments[1:]], filter=None, distinct=False)


def _check_share(name: str, share: dict[str, Any]) -> None:
    """Refuse a constant that is no percentage; of other values outside 0 to 1 the result is NULL."""
    literal = share.get("literal") or {}
    if literal.get("kind") not in ("INTEGER", "NUMERIC") or 0 <= (value := float(literal["text"])) <= 1:
        return
    fix = f"for {literal['text']} % write {value / 100:g}" if 1 < value <= 100 else None
    raise QueryError(f"{name} takes a percentage from 0 to 1", found=literal["text"], fix=fix)
