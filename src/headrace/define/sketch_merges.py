"""Functions of SQL over views that merge the sketches of many rows, such as approx_count_distinct_merge(visitors).

A table of rows holds numbers, which cannot be merged. Where a query calls one of these functions, each column that
comes from a sketch gets a second one with the sketches, and the function is applied to a list of those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

from headrace.aggregate import REGISTRY
from headrace.define.fingerprint import aggregate_id
from headrace.define.model import View
from headrace.define.outputs import outputs_of
from headrace.define.queries import QueryError
from headrace.types import STRING, Expression

if TYPE_CHECKING:
    import duckdb

SUFFIX = "_merge"
SKETCH = " sketch"  # follows the name of a column
COUNTS = {f"{name}{SUFFIX}": REGISTRY[name]((Expression("x", STRING),)) for name in ("approx_count_distinct", "unique")}
PERCENTILE = f"approx_percentile{SUFFIX}"
EXAMPLE = f"such as {PERCENTILE}(p95, 0.95), where p95 is a column made by approx_percentile"


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
    """What DuckDB's error says of a column with other sketches or none; None if it is about something else."""
    text = str(error)
    if f'{SKETCH}" not found' in text:
        column = text.partition('"')[2].partition(SKETCH)[0]
        return QueryError(
            f"column '{column}' has no sketches that can be merged here",
            expected=f"a column of a view, {EXAMPLE}",
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
            f"{name} takes a column of a view" + (" and a percentage" if count > 1 else ""), expected=EXAMPLE
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
