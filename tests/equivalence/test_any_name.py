"""No name that a user chooses meets one of ours: keys and outputs of all such names at once, beside every aggregate."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

from headrace.aggregate import REGISTRY
from tests.names import candidates

from .joined import Joined

AGGREGATES = {
    "any_value": "any_value(num)", "approx_count_distinct": "approx_count_distinct(num)",
    "approx_percentile": "approx_percentile(num, 0.5)", "approx_top_k": "approx_top_k(num, 3)", "avg": "avg(num)",
    "bool_and": "bool_and(num > 0)", "bool_or": "bool_or(num > 1)", "collect_list": "collect_list(num)",
    "collect_set": "collect_set(num)", "corr": "corr(num, num * num)", "count": "count(num)",
    "count_distinct": "count(DISTINCT num)", "count_if": "count_if(num > 1)", "covar_pop": "covar_pop(num, 2 * num)",
    "covar_samp": "covar_samp(num, 2 * num)", "first": "first(num)", "histogram": "histogram(num, array(1, 2, 3))",
    "last": "last(num)", "max": "max(num)", "max_by": "max_by(num, num)", "min": "min(num)",
    "min_by": "min_by(num, num)", "sample": "sample(num, 2)", "stddev": "stddev(num)", "stddev_pop": "stddev_pop(num)",
    "stddev_samp": "stddev_samp(num)", "sum": "sum(num)", "unique": "unique(num)", "var_pop": "var_pop(num)",
    "var_samp": "var_samp(num)", "variance": "variance(num)",
}  # fmt: skip
OVER_ROWS = ("count", "sum", "avg", "min", "max", "stddev", "covar_pop", "collect_set", "approx_count_distinct")


REPEATED = [sql for name, sql in AGGREGATES.items() if name != "sample"]
COMPARED = [f"out_{name}" for name in AGGREGATES if name != "sample"]  # which is chosen by the place of an event
KEY = ("rowid", "a")  # of a table


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def definitions(names: list[str], named: list[str]) -> str:
    """A stream, one derived from it, a table and a join, in which fields and keys have these names; outputs `named`."""
    fields = ", ".join(f"{quoted(name)} STRING" for name in names)
    keys = ", ".join(map(quoted, names))
    outputs = ", ".join(f"{sql} AS out_{name}" for name, sql in AGGREGATES.items())
    few = ", ".join(f"{AGGREGATES[name]} AS out_{name}" for name in OVER_ROWS)
    named_outputs = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in zip(named, cycle(REPEATED), strict=False))
    half = len(names) // 2
    joined = ", ".join(f"{'joined' if at < half else 'other'}.{quoted(name)}" for at, name in enumerate(names))
    columns = ", ".join(f"{quoted(name)} STRING" for name in names[half:])
    return f"""
CREATE STREAM base ({fields}, num INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE STREAM derived AS SELECT * FROM base WHERE num < 100;
CREATE TABLE looked_up ({columns}, {quoted(names[0])} STRING PRIMARY KEY);
CREATE TABLE latest_rows PRIMARY KEY ({", ".join(KEY)}) AS SELECT {keys}, num FROM base;
CREATE MATERIALIZED VIEW of_base AS SELECT {keys}, {outputs} FROM base GROUP BY {keys}, window(at, '1 minute');
CREATE MATERIALIZED VIEW of_names AS SELECT {named_outputs} FROM derived GROUP BY window(at, '1 minute');
CREATE MATERIALIZED VIEW of_join AS SELECT {joined}, {few} FROM derived joined
  JOIN looked_up other ON other.{quoted(names[0])} = joined.{quoted(names[0])} GROUP BY {joined};
CREATE MATERIALIZED VIEW of_table AS SELECT {keys}, {few} FROM latest_rows GROUP BY {keys};
"""


def test_keys_of_any_name(spark: Any, tmp_path: Path) -> None:
    assert set(AGGREGATES) == set(REGISTRY)
    names = [name.upper() if at % 3 == 0 and name not in KEY else name for at, name in enumerate(candidates())]
    assert {"a", "b", "rowid"} <= {name.lower() for name in names}
    plain_outputs = [f"output_{at}" for at in range(len(names))]
    plain = compute(spark, tmp_path / "plain", [*KEY, "plain"], plain_outputs, fused=True)
    assert all(plain.values())
    for lane in ("fused", "spark"):
        assert compute(spark, tmp_path / lane, names, names, fused=lane == "fused") == plain


def compute(spark: Any, folder: Path, names: list[str], named: list[str], *, fused: bool) -> dict[str, list[list[Any]]]:
    """The aggregates of all views, in the order of their outputs."""
    folder.mkdir()
    joined = Joined(spark, folder, definitions(names, named), fused=fused)
    try:
        for view in joined.catalog.views:
            joined.register(view)
        log = next(name for name in joined.parts if name != "base")
        joined.parts[log].send(dict.fromkeys(names[len(names) // 2 :], "right") | {names[0]: "v"})
        joined.prepare("of_join")
        for start in (0, 2):
            events = [
                {**dict.fromkeys(names, "v"), "num": start + at, "at": f"2026-03-01T12:00:0{at}Z"} for at in range(2)
            ]
            joined.parts["base"].send(*events)
            joined.maintain()
        joined.store.make_over_tables()
        compared = {"of_names": named} | dict.fromkeys(("of_base", "of_join", "of_table"), COMPARED)
        return {
            view: [[row[name] for name in outputs if name in row] for row in joined.ask(view)]
            for view, outputs in compared.items()
        }
    finally:
        joined.close()
