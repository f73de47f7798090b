"""Tests of definitions whose streams, fields, views and columns have names that SQL of ours could meet."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.engine.duckdb_terms import duckdb_name
from headrace.language.terms import quote
from tests.names import candidates
from tests.unit.tools.testing.shop import messages, run

STREAM, COUNTED, TOP = 'web "events"', "per `name`; --", "top. é 日 'x'"


def test_names_of_fields_columns_and_logical_views(tmp_path: Path) -> None:
    names = candidates()
    fields = ", ".join(f"{quote(name)} STRING" for name in names)
    keys = ", ".join(map(quote, names))
    counts = [f"n {name}" for name in names]
    counted = ", ".join(f"count({quote(name)}) AS {quote(to)}" for name, to in zip(names, counts, strict=True))
    selected = ", ".join(map(duckdb_name, names))
    summed = ", ".join(f"sum({duckdb_name(to)}) AS {duckdb_name(to)}" for to in counts)
    definitions = f"""
CREATE STREAM {quote(STREAM)} ({fields});
CREATE MATERIALIZED VIEW {quote(COUNTED)} AS SELECT {keys}, {counted} FROM {quote(STREAM)} GROUP BY {keys};
CREATE VIEW {quote(TOP)} AS SELECT {selected}, {summed} FROM {duckdb_name(COUNTED)} GROUP BY {selected};
"""
    events = [{name: f"{name}!" for name in names}] * 2
    row = {**events[0], **dict.fromkeys(counts, 2)}
    tests = [
        {"name": name, "given": {STREAM: events}, "ask": name, "expect": {"rows": [row]}} for name in (COUNTED, TOP)
    ]
    results = run(tmp_path, json.dumps(tests), definitions)
    assert [(result.state, result.error, messages(result)) for result in results] == [("passed", None, [])] * 2
