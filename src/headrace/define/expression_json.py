"""Expressions as plain JSON values."""

from __future__ import annotations

from headrace.define.reader import parse_type
from headrace.types import Expression


def expression_to_json(expression: Expression) -> dict[str, str]:
    """An expression as plain JSON values; `expression_from_json` gives an equal one back."""
    return {"sql": expression.sql, "type": str(expression.type)}


def expression_from_json(value: dict[str, str]) -> Expression:
    """The expression that `expression_to_json` wrote."""
    return Expression(value["sql"], parse_type(value["type"]))


def optional_to_json(expression: Expression | None) -> dict[str, str] | None:
    """The same of an expression that may be absent."""
    return expression_to_json(expression) if expression else None


def optional_from_json(value: dict[str, str] | None) -> Expression | None:
    """The expression that `optional_to_json` wrote."""
    return expression_from_json(value) if value else None
