"""Renders the tables of functions and aggregates for docs/definitions.md.

`python -m headrace.define.expression.reference` prints them.
"""

from __future__ import annotations

import sys
from itertools import groupby

from headrace.aggregate import REGISTRY
from headrace.define.expression.coercion import VOID
from headrace.define.expression.functions import TABLE
from headrace.define.expression.signatures import Function

BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"  # around the table of that name
_RESULTS = {
    "_same": "common type", "_first": "type of x", "_rest": "common type",
    "_whole": "BIGINT; DECIMAL of a DECIMAL", "_round": "type of x", "_mod": "as x % y",
    "_element": "type of the elements", "_elements": "ARRAY of the value type", "_contains": "BOOLEAN",
}  # fmt: skip


def render_functions() -> str:
    """The functions as a markdown table for each group; ✓ marks those for computed fields."""
    lines = []
    for group, functions in groupby(TABLE, key=lambda function: function.group):
        lines += [f"**{group.capitalize()}**", "", "| function | returns | computed | aliases |", "|---|---|---|---|"]
        lines += [_row(function) for function in functions]
        lines.append("")
    return "\n".join(lines).strip()


def render_aggregates() -> str:
    """The aggregates as a markdown table."""
    lines = ["| aggregate | returns | description |", "|---|---|---|"]
    for cls in REGISTRY.values():
        calls = ", ".join(f"`{call}`" for call in cls.signatures())
        error = f" Error: {cls.approximate}." if cls.approximate else ""
        lines.append(f"| {calls} | {cls.gives} | {cls.summary}{error} |")
    return "\n".join(lines)


TABLES = {"aggregates": render_aggregates, "functions": render_functions}


def _row(function: Function) -> str:
    signature = function.signature.replace("|", " or ")
    return f"| `{signature}` | {_result(function)} | {'✓' if function.duckdb else ''} | {', '.join(function.aliases)} |"


def _result(function: Function) -> str:
    if callable(function.result):
        return _RESULTS[function.result.__name__]
    assert function.result != VOID
    return str(function.result)


if __name__ == "__main__":
    for name, render in TABLES.items():
        sys.stdout.write(f"{BEGIN.format(name)}\n{render()}\n{END.format(name)}\n")
