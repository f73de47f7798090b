"""Functions of SQL over views that merge the sketches of many rows, such as approx_count_distinct_merge(visitors).

A table of rows holds numbers, which cannot be merged. Where a query calls one of these functions, each column that
comes from a sketch gets a second one with the sketches, and the function is applied to a list of those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import orjson
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from headrace.aggregate import REGISTRY, Aggregate, Partial
from headrace.define.fingerprint import aggregate_id
from headrace.define.model import View
from headrace.define.shape import outputs_of
from headrace.sql.check import QueryError
from headrace.types import DOUBLE, STRING, Expression

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


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Give the connection these functions, which take lists of sketches."""
    import datasketches  # noqa: F401 - only for such queries; and before files can no longer be opened

    # DuckDB would read annotations, some of which only type checkers can resolve: so it gets functions without any.
    for name, aggregate in COUNTS.items():
        count = _counting(aggregate)
        of = f"STRUCT({', '.join(f'{part} BLOB' for part in _names(aggregate))})[]"
        connection.create_function(name, _plain(count), [of], "BIGINT", type=ARROW, null_handling=SPECIAL)
    percentile: Any = lambda lists, shares: _percentile(lists, shares)  # noqa: E731 - as above
    takes: list[Any] = ["BLOB[]", "DOUBLE"]
    connection.create_function(PERCENTILE, percentile, takes, "DOUBLE", type=ARROW, null_handling=SPECIAL)


def _plain(run: Callable[[pa.Array], pa.Array]) -> Any:
    return lambda lists: run(lists)


def no_sketch(error: Exception) -> QueryError:
    """The error of a column that has no sketch, from DuckDB's."""
    column = str(error).partition('"')[2].partition(SKETCH)[0]
    return QueryError(
        f"column '{column}' has no sketches that can be merged here",
        expected=f"a column of a view, {EXAMPLE}",
        fix="call the function where the view is read, or select * in the query inside",
    )


def sketches_of(view: View, partials: dict[Aggregate, list[pa.Array]]) -> dict[str, pa.Array]:
    """The additional columns of a view: the partials of each output that is presented from a sketch."""
    by_id = {aggregate_id(aggregate): (aggregate, columns) for aggregate, columns in partials.items()}
    columns = {}
    for output in outputs_of(view):
        if output.expression.sql in by_id:
            aggregate, parts = by_id[output.expression.sql]
            if f"{aggregate.name}{SUFFIX}" in COUNTS:
                columns[f"{output.name}{SKETCH}"] = pa.StructArray.from_arrays(parts, _names(aggregate))
            elif f"{aggregate.name}{SUFFIX}" == PERCENTILE:
                columns[f"{output.name}{SKETCH}"] = parts[0]
    return columns


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
    names = [*column["column_names"][:-1], column["column_names"][-1] + SKETCH]
    sketches = {**column, "column_names": names}
    gathered = {
        **call, "alias": "", "function_name": "list", "qualified_name": {"path": ["list"]},
        "arguments": [{"name": "", "expression": sketches}],
    }  # fmt: skip
    call.update(arguments=[{"name": "", "expression": gathered}, *arguments[1:]], filter=None, distinct=False)


def _names(aggregate: Aggregate) -> list[str]:
    """Names of the columns of its partials, as parts of one column."""
    return [f"part{at}" for at, _ in enumerate(aggregate.columns)]


def _lists(array: pa.Array | pa.ChunkedArray) -> Iterator[list[Any]]:
    """The sketches of each list, without NULL."""
    for sketches in array.to_pylist():
        yield [sketch for sketch in sketches or () if sketch is not None]


def _counting(aggregate: Aggregate) -> Callable[[pa.Array], pa.Array]:
    merges = [(name, column.merge) for name, column in zip(_names(aggregate), aggregate.columns, strict=True)]

    def merged(partials: list[dict[str, bytes | None]]) -> Partial:
        parts = [(merge, [each[name] for each in partials if each[name] is not None]) for name, merge in merges]
        return tuple(merge.merge(values) if values else None for merge, values in parts)

    def count(lists: pa.Array) -> pa.Array:
        return pa.array((aggregate.present(merged(partials)) for partials in _lists(lists)), pa.int64())

    return count


def _percentile(lists: pa.Array, shares: pa.Array) -> pa.Array:
    values: list[float | None] = []
    for sketches, share in zip(_lists(lists), shares.to_pylist(), strict=True):
        if not sketches or share is None or not 0 <= share <= 1:
            values.append(None)
            continue
        aggregate = REGISTRY["approx_percentile"]((Expression("x", DOUBLE),), None, (share,))
        values.append(aggregate.present((aggregate.columns[0].merge.merge(sketches),)))
    return pa.array(values, pa.float64())
