"""DuckDB's translated of each aggregate equals its Python evaluation, over all types, NULLs and filters."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import duckdb
import pyarrow as pa

from headrace.aggregate import REGISTRY, Aggregate
from headrace.engine.duckdb_session import register_function
from headrace.language.terms import Expression
from headrace.types import BIGINT, BOOLEAN, INT, arrow_type
from tests.aggregates import column

from ..laws.cases import TYPES
from .aggregate_rows import cases, generated_rows

NAMES = ["grp", "keep", *map(column, TYPES), "time", "position"]


def test_every_aggregate_of_the_product_has_a_duckdb_face() -> None:
    assert [name for name, aggregate in REGISTRY.items() if not aggregate.runs_in_duckdb] == []


def test_both_translations_agree() -> None:
    rows = [(*row, row[0] % 3, position) for position, row in enumerate(generated_rows())]
    types = [INT, BOOLEAN, *TYPES, BIGINT, BIGINT]
    arrays = [pa.array(values, arrow_type(of)) for values, of in zip(zip(*rows, strict=True), types, strict=True)]
    every = {name: aggregate for name, aggregate in cases().items() if aggregate.runs_in_duckdb}
    database = duckdb.connect(config={"threads": 1})
    database.execute("SET TimeZone = 'UTC'")
    database.register("events", pa.table(arrays, names=NAMES))
    functions = [function for aggregate in every.values() for function in (*aggregate.lifts, aggregate.prepares)]
    for function in {function.name: function for function in functions if function is not None}.values():
        register_function(database, function)
    columns = [
        f'{sql} AS "{name}_{at}"'
        for name, aggregate in every.items()
        for at, sql in enumerate(_prepared(aggregate).duckdb_sql("time", "position"))
    ]
    groups = database.sql(f"SELECT grp, {', '.join(columns)} FROM events GROUP BY grp").to_arrow_table().to_pylist()
    assert len(groups) == len({row[0] for row in rows})
    for group in groups:
        own = [dict(zip(NAMES, row, strict=True)) for row in rows if row[0] == group["grp"]]
        for name, aggregate in every.items():
            ours = tuple(group[f"{name}_{at}"] for at in range(len(aggregate.columns)))
            inputs = [argument.sql for argument in aggregate.arguments] + ["time", "position"] * aggregate.ordered
            passing = [row for row in own if row["keep"] or aggregate.where is None]
            partials = (aggregate.lift(*(row[field] for field in inputs)) for row in passing)
            theirs = reduce(aggregate.merge, partials, aggregate.zero)
            assert aggregate.agrees(ours, theirs), (aggregate, aggregate.present(ours), aggregate.present(theirs))


def _prepared(aggregate: Aggregate) -> Aggregate:
    function = aggregate.prepares
    if function is None:
        return aggregate
    return replace(aggregate, arguments=(Expression.stored(f"{function.name}({aggregate.argument.sql})", BIGINT),))
