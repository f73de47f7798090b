"""Computed fields: which expressions they may hold, and how DuckDB evaluates them once, at append."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.define.syntax import Node
from headrace.define.tokens import Source
from headrace.types import Expression, Type


def check_computed(source: Source, node: Node, field: str) -> None:
    """Refuse what DuckDB would not evaluate as Spark does."""


def duckdb_sql(expression: Expression, types: Mapping[str, Type] | None = None) -> str:
    """The expression for DuckDB; NULL where it cannot be evaluated. `types` are those of the stream's fields."""
    raise NotImplementedError
