"""Real-time analytics on Apache Spark: streams of events and materialized views."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.aggregate import Aggregate
    from headrace.api.connect import Connection as Connection
    from headrace.api.connect import connect as connect
    from headrace.define.python.definition_builder import Stream as Stream
    from headrace.define.python.definition_builder import Table as Table
    from headrace.define.python.definition_builder import View as View
    from headrace.define.python.definition_builder import cumulate as cumulate
    from headrace.define.python.definition_builder import session as session
    from headrace.define.python.definition_builder import window as window
    from headrace.define.python.function_builder import udaf as udaf
    from headrace.define.python.function_builder import udf as udf
    from headrace.define.python.sink_builder import Alert as Alert
    from headrace.define.python.sink_builder import LogicalView as LogicalView
    from headrace.define.python.sink_builder import Sink as Sink
    from headrace.define.python.source_builder import kafka as kafka
    from headrace.errors import HeadraceError as HeadraceError

_HOME = {
    **dict.fromkeys(("connect", "Connection"), "headrace.api.connect"),
    "HeadraceError": "headrace.errors",
    **dict.fromkeys(
        ("Stream", "Table", "View", "cumulate", "session", "window"), "headrace.define.python.definition_builder"
    ),
    "LogicalView": "headrace.define.python.sink_builder",
    **dict.fromkeys(("Sink", "Alert"), "headrace.define.python.sink_builder"),
    **dict.fromkeys(("udaf", "udf"), "headrace.define.python.function_builder"),
    "kafka": "headrace.define.python.source_builder",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: the command line starts quickly because of it."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name == "__all__":
        return __dir__()
    if not name.startswith("_") and name in _aggregates():
        function_of = import_module("headrace.define.python.function_builder").aggregate_function
        return function_of(_aggregates()[name])
    raise AttributeError(f"module 'headrace' has no attribute '{name}'{_instead(name)}")


def __dir__() -> list[str]:
    """The public names, for `dir` and completion: most of them are not loaded yet."""
    return sorted([*_HOME, *_aggregates()])


def _instead(name: str) -> str:
    """Suggest what a missing name was meant to be, as far as that is known."""
    if name.startswith("_"):
        return ""
    ours = next((cls.name for cls in _aggregates().values() if name.lower() in cls.other_names), None)
    hint = f"use hr.{ours}" if ours else import_module("headrace.errors").did_you_mean(name, __dir__())
    return f"; {hint}" if hint else ""


def _aggregates() -> Mapping[str, type[Aggregate]]:
    """The aggregates, each of which is a function of this module."""
    registry: Mapping[str, type[Aggregate]] = import_module("headrace.aggregate").REGISTRY
    return registry
