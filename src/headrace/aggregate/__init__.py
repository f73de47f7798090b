"""Mergeable summaries, each one class with a Spark face and a Python face."""

from headrace.aggregate.base import MAX, MIN, SUM, Aggregate, Merge, Partial, PartialColumn, Value
from headrace.aggregate.exact import Avg, Count, Max, Min, Sum
from headrace.aggregate.sketch import HLL, ApproxCountDistinct

REGISTRY: dict[str, type[Aggregate]] = {cls.name: cls for cls in (Count, Sum, Avg, Min, Max, ApproxCountDistinct)}

__all__ = [
    "HLL",
    "MAX",
    "MIN",
    "REGISTRY",
    "SUM",
    "Aggregate",
    "ApproxCountDistinct",
    "Avg",
    "Count",
    "Max",
    "Merge",
    "Min",
    "Partial",
    "PartialColumn",
    "Sum",
    "Value",
]
