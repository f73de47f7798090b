"""Renders the tables of docs/aggregates.md, docs/functions.md and docs/other-systems.md.

`python -m headrace.define.function_reference` prints them.
"""

from __future__ import annotations

import sys
from itertools import groupby

from headrace.aggregate import REGISTRY
from headrace.language.coercion import VOID
from headrace.language.foreign.foreign_functions import AGGREGATES, FUNCTIONS, Instead
from headrace.language.functions import TABLE
from headrace.language.signatures import ScalarFunction

BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"  # around the table of that name
_RESULTS = {
    "_same": "common type", "_first": "type of x", "_rest": "common type",
    "_whole": "BIGINT; DECIMAL of a DECIMAL", "_round": "type of x", "_mod": "as x % y",
    "_element": "type of the elements", "_elements": "ARRAY of the value type", "_contains": "BOOLEAN",
}  # fmt: skip
# Arguments for the functions that say what to write.
PEER_EXAMPLES = {
    "_share": ["x", "0.9"], "_any": ["x"], "_size_first": ["x", "'1 hour'"],
    "_top": ["x", "10"], "_largest": ["x", "3"], "_path": ["x", "'a'", "'b'"],
    "_truncated": ["x", "HOUR"], "_period": ["x", "'PT5M'"], "_formatted": ["x", "'YYYY-MM-DD'"],
    "_difference": ["SECOND", "x", "y"], "_shifted": ["HOUR", "1", "x"], "_epoch": ["x", "3"], "_case": ["c", "x", "y"],
    "_whole_of_path": ["x", "'a'"], "_double_of_path": ["x", "'a'"],
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


def render_peers() -> str:
    """Aggregates and functions of other systems, by what to write here, as a markdown table."""
    names: dict[str, list[str]] = {}
    for table in (AGGREGATES, FUNCTIONS):
        for name, instead in table.items():
            example = instead.__doc__ if callable(instead) else instead
            if name.isidentifier() and "…" not in str(example):
                names.setdefault(_example(instead), []).append(f"`{name}`")
    lines = ["| there | here |", "|---|---|"]
    return "\n".join([*lines, *(f"| {', '.join(there)} | `{here}` |" for here, there in names.items())])


def _example(instead: Instead) -> str:
    """The call that is written, of x, y and z."""
    if not callable(instead):
        return instead.replace("{0}", "x").replace("{1}", "y").replace("{*}", "x, y")
    arguments = PEER_EXAMPLES[instead.__name__]
    return instead(arguments) or ""


TABLES = {"aggregates": render_aggregates, "functions": render_functions, "peers": render_peers}


def _row(function: ScalarFunction) -> str:
    signature = function.signature.replace("|", " or ")
    return f"| `{signature}` | {_result(function)} | {'✓' if function.duckdb else ''} | {', '.join(function.aliases)} |"


def _result(function: ScalarFunction) -> str:
    if callable(function.result):
        return _RESULTS[function.result.__name__]
    assert function.result != VOID
    return str(function.result)


if __name__ == "__main__":
    for name, render in TABLES.items():
        sys.stdout.write(f"{BEGIN.format(name)}\n{render()}\n{END.format(name)}\n")
