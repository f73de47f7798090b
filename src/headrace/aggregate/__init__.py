"""Mergeable summaries: each aggregate is one class, which the registry finds."""

from headrace.aggregate.aggregate import Aggregate, ArrowFunction, BatchOnly, Example, Partial, PartialColumn, Value
from headrace.aggregate.merges import MAX, MIN, SUM, Merge
from headrace.aggregate.registry import INTERNAL, REGISTRY
from headrace.aggregate.signature import Argument, Constant, Parameter

__all__ = [
    "INTERNAL",
    "MAX",
    "MIN",
    "REGISTRY",
    "SUM",
    "Aggregate",
    "Argument",
    "ArrowFunction",
    "BatchOnly",
    "Constant",
    "Example",
    "Merge",
    "Parameter",
    "Partial",
    "PartialColumn",
    "Value",
]
