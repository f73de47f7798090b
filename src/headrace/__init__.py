"""Real-time analytics on Apache Spark: streams of events and materialized views."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.client.connect import Connection, connect
    from headrace.define.python.fluent import Stream, View, approx_count_distinct, avg, count, max, min, sum, window
    from headrace.errors import HeadraceError

_HOME = {
    **dict.fromkeys(("connect", "Connection"), "headrace.client.connect"),
    "HeadraceError": "headrace.errors",
    **dict.fromkeys(
        ("Stream", "View", "window", "count", "sum", "avg", "min", "max", "approx_count_distinct"),
        "headrace.define.python.fluent",
    ),
}

__all__ = [
    "Connection",
    "HeadraceError",
    "Stream",
    "View",
    "approx_count_distinct",
    "avg",
    "connect",
    "count",
    "max",
    "min",
    "sum",
    "window",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: the command line starts quickly because of it."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'headrace' has no attribute '{name}'")


def __dir__() -> list[str]:
    """The public names, for `dir` and completion: most of them are not loaded yet."""
    return sorted(__all__)
