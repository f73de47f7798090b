"""Renders the table of functions for docs/definitions.md: `python -m headrace.define.expression.reference`."""

from __future__ import annotations

import sys
from itertools import groupby

from headrace.define.expression.coercion import VOID
from headrace.define.expression.functions import TABLE
from headrace.define.expression.signatures import Function

BEGIN, END = "<!-- functions: begin -->", "<!-- functions: end -->"
_RESULTS = {
    "_same": "common type", "_first": "type of x", "_rest": "common type",
    "_whole": "BIGINT; DECIMAL of a DECIMAL", "_round": "type of x", "_mod": "as x % y",
    "_element": "type of the elements", "_elements": "ARRAY of the value type", "_contains": "BOOLEAN",
}  # fmt: skip


def render_table() -> str:
    """The functions as a markdown table for each group; ✓ marks those for computed fields."""
    lines = []
    for group, functions in groupby(TABLE, key=lambda function: function.group):
        lines += [f"**{group.capitalize()}**", "", "| function | returns | computed | aliases |", "|---|---|---|---|"]
        lines += [_row(function) for function in functions]
        lines.append("")
    return "\n".join(lines).strip()


def _row(function: Function) -> str:
    signature = function.signature.replace("|", " or ")
    return f"| `{signature}` | {_result(function)} | {'✓' if function.duckdb else ''} | {', '.join(function.aliases)} |"


def _result(function: Function) -> str:
    if callable(function.result):
        return _RESULTS[function.result.__name__]
    assert function.result != VOID
    return str(function.result)


if __name__ == "__main__":
    sys.stdout.write(f"{BEGIN}\n{render_table()}\n{END}\n")
