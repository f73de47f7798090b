"""Loads a view into the child's database as a table, presented as in an answer, batch by batch, and merges its
sketches for queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import duckdb
import pyarrow as pa

from headrace.aggregate import REGISTRY, Aggregate, Partial
from headrace.define.fingerprint import aggregate_id, from_json, to_json
from headrace.define.model import View
from headrace.define.outputs import outputs_of
from headrace.define.query_rules import COUNTS, PERCENTILE, SKETCH, SUFFIX, QueryError
from headrace.duckdb_connections import add_function
from headrace.language.terms import Expression
from headrace.serve.present_columns import order_column, present_columns, shape_columns
from headrace.serve.question import Question
from headrace.serve.read_plan import ReadPlan, plan
from headrace.serve.shaping import Shaping, estimated_rows, find_shaping
from headrace.serve.sql.as_of_queries import quoted
from headrace.serve.windows import BUCKET_COUNTS, compose
from headrace.store.partial_columns import COUNTED
from headrace.store.version import Base, Version
from headrace.types import DOUBLE


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Give the connection these functions, which take lists of sketches."""
    import datasketches  # noqa: F401 - only for such queries; and before files can no longer be opened

    # DuckDB would read annotations, some of which only type checkers can resolve: so it gets functions without any.
    for name, aggregate in COUNTS.items():
        count = _counting(aggregate)
        add_function(connection, name, _plain(count), [f"{_type(aggregate)}[]"], "BIGINT", of_null=True)
    percentile: Any = lambda lists, shares: _percentile(lists, shares)  # noqa: E731 - as above
    add_function(connection, PERCENTILE, percentile, ["BLOB[]", "DOUBLE"], "DOUBLE", of_null=True)


def _plain(run: Callable[[pa.Array], pa.Array]) -> Any:
    return lambda lists: run(lists)


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


def sketch_types(view: View) -> dict[str, str]:
    """The additional columns of a view, with their types in DuckDB."""
    by_id = {aggregate_id(column.aggregate): column.aggregate for column in view.columns}
    columns = {}
    for output in outputs_of(view):
        aggregate = by_id.get(output.expression.sql)
        if aggregate is not None and f"{aggregate.name}{SUFFIX}" in COUNTS:
            columns[f"{output.name}{SKETCH}"] = _type(aggregate)
        elif aggregate is not None and f"{aggregate.name}{SUFFIX}" == PERCENTILE:
            columns[f"{output.name}{SKETCH}"] = "BLOB"
    return columns


def _type(aggregate: Aggregate) -> str:
    return f"STRUCT({', '.join(f'{part} BLOB' for part in _names(aggregate))})"


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
        aggregate = REGISTRY["approx_percentile"]((Expression.field("x", DOUBLE),), None, (share,))
        values.append(aggregate.present((aggregate.columns[0].merge.merge(sketches),)))
    return pa.array(values, pa.float64())


MOST_ROWS = 5_000_000  # of a view
ROWS_AT_ONCE = 20_000  # composed windows that become one piece
FITS = "coalesce(min({0}) >= -9223372036854775808 AND max({0}) <= 9223372036854775807, true)"


@dataclass(frozen=True)
class Loaded:
    """What a table of a view holds: rows, and of columns how many cells have no value, and how many are estimates."""

    rows: int
    errors: dict[str, int]
    estimates: dict[str, int]


def describe_version(version: Version) -> dict[str, Any]:
    """The parts of a version that a child needs, as JSON."""
    bases = [(base.stream, base.patience_ms, base.time_us) for base in version.bases]
    return {"view": to_json(version.view), "bases": bases}


def default_plan(version: Version, where: Sequence[Mapping[str, Any]] = ()) -> ReadPlan:
    """The default question of a view: all of its own windows, of all keys or of these."""
    return plan(Question(version.view.name, where=tuple(where)), version)


def load_view(
    connection: duckdb.DuckDBPyConnection,
    description: dict[str, Any],
    pieces: Iterator[pa.RecordBatch],
    most_rows: int = MOST_ROWS,
    *,
    sketches: bool = False,
    columns: Mapping[str, str] | None = None,
) -> Loaded:
    """Create the table of a view from the batches of a snapshot, the first of which is empty.

    With `sketches` it has more columns: those that functions merge. `columns` are all that it has, with their types;
    those that no query reads were not sent, and are NULL.
    """
    version = _read_version(description)
    read_plan = default_plan(version)
    shaping = find_shaping(Question(version.view.name), version, read_plan.by)
    table, rows = quoted(version.view.name), 0
    statement = f"CREATE TABLE {table} AS"
    failing = [column.name for column in version.view.columns if column.aggregate.failure]
    errors, estimates = dict.fromkeys(failing, 0), Counter[str]()
    for piece in _windows(version, read_plan, pieces):
        rows += piece.num_rows
        if rows > most_rows:
            raise QueryError(
                f"view '{version.view.name}' is too large for SQL",
                found=f"more than {most_rows:,} rows",
                fix="ask it by key and time (`headrace ask`), or its events (`headrace sql --events`)",
            )
        presented = present_columns(version, read_plan, piece)
        for name in failing:
            errors[name] += presented.column(name).null_count
        partials = _partials(version, read_plan, piece)
        for name, places in estimated_rows(version.view, _estimates(partials)).items():
            estimates[name] += len(places)
        if sketches:
            for name, array in sketches_of(version.view, partials).items():
                presented = presented.append_column(name, array)
        shaped = presented if shaping is None else shape_columns(shaping, presented, connection)
        connection.register("_piece", pa.Table.from_batches([shaped]))
        connection.execute(f"{statement} SELECT {_selected(shaped.schema.names, columns or {})} FROM _piece").fetchall()
        connection.unregister("_piece")
        statement = f"INSERT INTO {table}"
    _narrow(connection, version.view)
    if shaping is not None:
        _order(connection, version.view, shaping)
    return Loaded(rows, errors, dict(estimates))


def _selected(names: Sequence[str], columns: Mapping[str, str]) -> str:
    """The columns of a table, from those of a piece."""
    missing = {name: f"CAST(NULL AS {of}) AS {quoted(name)}" for name, of in columns.items()}
    return ", ".join((missing | {name: quoted(name) for name in names}).values())


def _partials(version: Version, read_plan: ReadPlan, piece: pa.RecordBatch) -> dict[Aggregate, list[pa.Array]]:
    """The columns of partials of each aggregate."""
    at, partials = 1 + len(read_plan.by) + len(COUNTED), {}
    for column in version.view.columns:
        width = len(column.aggregate.columns)
        partials[column.aggregate] = piece.columns[at : at + width]
        at += width
    return partials


def _estimates(partials: dict[Aggregate, list[pa.Array]]) -> dict[Aggregate, list[int]]:
    """Of aggregates that may be exact, the rows in which they are not."""
    estimates = {}
    for aggregate, columns in partials.items():
        if aggregate.may_be_exact:
            rows = zip(*(column.to_pylist() for column in columns), strict=True)
            estimates[aggregate] = [place for place, partial in enumerate(rows) if not aggregate.is_exact(partial)]
    return estimates


def _order(connection: duckdb.DuckDBPyConnection, view: View, shaping: Shaping) -> None:
    """Put the rows in the order of the default question, and keep as many as it has."""
    limit = view.shape.limit if view.shape else None
    if not shaping.order and limit is None:
        return
    own = [quoted(order_column(at)) for at in range(len(shaping.order))]
    order = [f"{name} {item.direction}" for name, item in zip(own, shaping.order, strict=True)]
    order += [f"{quoted(name)} NULLS FIRST" for name in ("window_start", *(key.name for key in view.keys))]
    table, ordered = quoted(view.name), quoted("_ordered")
    columns = f"* EXCLUDE ({', '.join(own)})" if own else "*"
    most = f" LIMIT {limit}" if limit is not None else ""
    for statement in (
        f"CREATE TABLE {ordered} AS SELECT {columns} FROM {table} ORDER BY {', '.join(order)}{most}",
        f"DROP TABLE {table}",
        f"ALTER TABLE {ordered} RENAME TO {table}",
    ):
        connection.execute(statement).fetchall()


def read_view(content: dict[str, Any]) -> View:
    """A view from its JSON."""
    view = from_json(content)
    assert isinstance(view, View), "only views are tables"
    return view


def _read_version(description: dict[str, Any]) -> Version:
    view = read_view(description["view"])
    bases = (Base(stream, patience, newest_us=newest) for stream, patience, newest in description["bases"])
    return Version(view, 0, "", "serving", tuple(bases))


def _windows(version: Version, read_plan: ReadPlan, pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The pieces by window: as they come, or composed where windows overlap."""
    if not read_plan.overlapping:
        yield from pieces
        return
    assert read_plan.windows is not None, "only windows overlap"
    empty = next(pieces)
    yield empty
    pairs = [part.merge.pair for column in version.view.columns for part in column.aggregate.columns]
    buckets = (row for piece in pieces for row in zip(*(c.to_pylist() for c in piece.columns), strict=True))
    rows = compose(buckets, read_plan.windows, len(read_plan.by), [*BUCKET_COUNTS, *pairs], None)
    while batch := list(islice(rows, ROWS_AT_ONCE)):
        columns = zip(*batch, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, empty.schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=empty.schema)


def _narrow(connection: duckdb.DuckDBPyConnection, view: View) -> None:
    """Convert each sum of integers that fits to BIGINT, as in an answer."""
    table = quoted(view.name)
    narrow = {aggregate_id(c.aggregate) for c in view.columns if c.aggregate.narrow_type is not None}
    for output in outputs_of(view):
        if output.expression.sql in narrow:
            name = quoted(output.name)
            if connection.execute(f"SELECT {FITS.format(name)} FROM {table}").fetchall() == [(True,)]:
                connection.execute(f"ALTER TABLE {table} ALTER {name} TYPE BIGINT").fetchall()
