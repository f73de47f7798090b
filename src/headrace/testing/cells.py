"""Whether a cell of an answer is what a test says, by value: times in any zone, numbers within a tolerance."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from headrace.errors import QuestionError
from headrace.serve.json_values import key_value
from headrace.testing.document import Fields, Items, Node, Text
from headrace.testing.model import Tolerance
from headrace.types import Type

ROUNDING = Tolerance(Decimal("1e-9"), relative=True)  # of a DOUBLE: sums depend on the order of events
_STATED = re.compile(r"within ([0-9.]+) %")


def stated_error(text: str | None) -> Tolerance | None:
    """The error that an approximate column states, where it is a share of the value."""
    match = _STATED.match(text or "")
    return Tolerance(Decimal(match[1]) / 100, relative=True) if match else None


def expected_value(node: Node, of: Type) -> Any:
    """The value that a cell of this type should have. Raises BadTestError for one that it can never have."""
    if isinstance(node, Text) and node.is_null:
        return None
    if of.name == "ARRAY" and isinstance(node, Items):
        return [expected_value(item, of.inner) for item in node.items]
    if of.name == "STRUCT" and isinstance(node, Fields):
        parts = dict(of.parts)
        node.check_names("the STRUCT", list(parts))
        return {name: expected_value(value, parts[name]) for name, value in node.values.items()}
    if of.name == "MAP" and isinstance(node, Fields):
        return {name: expected_value(value, of.inner) for name, value in node.values.items()}
    if of.is_nested or not isinstance(node, Text):
        raise node.error(f"the column has the type {of}", found=f"a {node.kind}")
    if of.name == "BINARY":
        return node.value.lower()  # in hexadecimal
    if of.is_numeric:
        return _number(node, of)
    try:
        return key_value("", of, node.value)
    except QuestionError as error:
        raise node.error(f"the column has the type {of}", found=repr(node.value), expected=error.expected) from None


def _number(node: Text, of: Type) -> Decimal:
    """With all its digits, whatever the type: a value that the column cannot have differs from each that it can."""
    text = node.value.strip().lower()
    try:
        return Decimal(text.replace(".nan", "nan").replace(".inf", "infinity"))
    except InvalidOperation:
        raise node.error(f"the column has the type {of}", found=repr(node.value), expected="a number") from None


def equal(found: Any, expected: Any, tolerance: Tolerance | None) -> bool:
    """Whether a value is the expected one. What is expected of a STRUCT says nothing of parts that it does not name."""
    if found is None or expected is None:
        return found is None and expected is None
    if isinstance(expected, dict):
        is_map = isinstance(found, list)  # a MAP is a list of pairs, as in Arrow
        pairs = dict(found) if is_map else found
        whole = not is_map or len(pairs) == len(expected)
        return whole and all(name in pairs and equal(pairs[name], value, tolerance) for name, value in expected.items())
    if isinstance(expected, list):
        return len(found) == len(expected) and all(equal(a, b, tolerance) for a, b in zip(found, expected, strict=True))
    if isinstance(found, bytes):
        return bool(found.hex() == expected)
    if isinstance(found, bool | str | date | datetime) or not isinstance(found, int | float | Decimal):
        return bool(found == expected)
    return _near(found, expected, tolerance)


def _near(found: float | Decimal, expected: Decimal, tolerance: Tolerance | None) -> bool:
    value = Decimal(repr(found)) if isinstance(found, float) else Decimal(found)
    if not value.is_finite() or not expected.is_finite():
        return value == expected or (value.is_nan() and expected.is_nan())
    if value == expected:
        return True
    if tolerance is None:
        if not isinstance(found, float):
            return False
        tolerance = ROUNDING
    return abs(value - expected) <= (tolerance.amount * abs(expected) if tolerance.relative else tolerance.amount)
