"""Expressions as Python computes them, a row at a time: over the aggregates of an answer, with Spark's values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from headrace.engine.python_functions import EVALUATED, NULLS
from headrace.engine.python_values import arithmetic, conversion, divide_whole, wrap
from headrace.errors import DefinitionError
from headrace.format import EPOCH
from headrace.language.coercion import as_decimal, common_type
from headrace.language.terms import Expression, Term, render
from headrace.types import BIGINT, DOUBLE, Type

Row = Sequence[Any]
Evaluate = Callable[[Row], Any]
Types = tuple[tuple[str, Type], ...]
ARITHMETIC = ("+", "-", "*", "/", "%", "DIV")
COMPARE = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def refuse_python(expression: Expression, types: Mapping[str, Type]) -> str | None:
    """Return the part of an expression that Python does not evaluate; None if it evaluates all of it."""
    try:
        compile_expression(expression, tuple(types.items()))
    except DefinitionError as error:
        return error.message
    return None


@lru_cache(maxsize=4096)
def compile_expression(expression: Expression, types: Types) -> Evaluate:
    """The expression as a function of rows whose values are those of `types`, in that order."""
    term = expression.over(dict(types))
    places = {name: place for place, (name, _) in enumerate(types)}
    return _converted(term, expression.type, places)


def _evaluate(term: Term, places: Mapping[str, int]) -> Evaluate:
    match term.op:
        case "field":
            return _field(places[term.text], term.type)
        case "literal" | "interval":
            value = _constant(term)
            return lambda row: value
        case "part":
            return _strict(lambda value: value[term.text], [_evaluate(term.args[0], places)])
        case "item":
            return _strict(_item, [_evaluate(arg, places) for arg in term.args])
        case "AND" | "OR":
            return _logic(term.op == "OR", [_evaluate(arg, places) for arg in term.args])
        case "NOT":
            return _strict(lambda value: not value, [_evaluate(term.args[0], places)])
        case "CASE":
            return _case(term, places)
        case "CAST" | "TRY_CAST":
            return _cast(term, places)
        case op if op in COMPARE:
            return _comparison(op, term.args, places)
        case op if op in ARITHMETIC:
            return _arithmetic(term, places)
        case "IN":
            return _negated(term, _is_in(term.args, places))
        case "BETWEEN":
            value, low, high = term.args
            bounds = [_comparison(">=", (value, low), places), _comparison("<=", (value, high), places)]
            return _negated(term, _logic(False, bounds))
        case "LIKE" | "ILIKE":
            pattern = _like(term.args[1].text, ignore_case=term.op == "ILIKE")
            matches = _strict(lambda text: bool(pattern.fullmatch(text)), [_evaluate(term.args[0], places)])
            return _negated(term, matches)
        case "IS NULL" | "IS TRUE" | "IS FALSE":
            expected = {"IS NULL": None, "IS TRUE": True, "IS FALSE": False}[term.op]
            evaluate, negated = _evaluate(term.args[0], places), term.negated
            return lambda row: (evaluate(row) is expected) is not negated
    return _call(term, places)


def _field(place: int, of: Type) -> Evaluate:
    if of != BIGINT:
        return lambda row: row[place]

    def integer(row: Row) -> Any:
        value = row[place]
        # A sum of integers may be larger than Spark's, which would be a wrong number. Where one of a column is, the
        # others of the column are Decimals, too.
        return int(value) if value is not None and -(1 << 63) <= value < 1 << 63 else None

    return integer


def _constant(term: Term) -> Any:
    if term.op == "interval":
        return timedelta(milliseconds=int(term.text))
    match term.type.name:
        case "VOID":
            return None
        case "STRING":
            return term.text
        case "BOOLEAN":
            return term.text.upper() == "TRUE"
        case "INT" | "BIGINT":
            return int(term.text.rstrip("L"))
        case "DOUBLE":
            return float(term.text.rstrip("D"))
        case "DECIMAL":
            return Decimal(term.text.rstrip("BD"))
        case "DATE":
            return date.fromisoformat(term.text)
    return datetime.fromisoformat(term.text).replace(tzinfo=EPOCH.tzinfo)


def _strict(function: Callable[..., Any], arguments: Sequence[Evaluate]) -> Evaluate:
    """A function that is None if one of its arguments is."""
    if len(arguments) == 1:
        (only,) = arguments

        def of_one(row: Row) -> Any:
            value = only(row)
            return None if value is None else function(value)

        return of_one
    if len(arguments) == 2:
        first, second = arguments

        def of_two(row: Row) -> Any:
            a = first(row)
            if a is None:
                return None
            b = second(row)
            return None if b is None else function(a, b)

        return of_two

    def of_many(row: Row) -> Any:
        values = [evaluate(row) for evaluate in arguments]
        return None if None in values else function(*values)

    return of_many


def _item(value: Any, key: Any) -> Any:
    if isinstance(value, Mapping):
        return value.get(key)
    if isinstance(key, str):  # a MAP as Arrow gives it
        return dict(value).get(key)
    return value[key] if 0 <= key < len(value) else None


def _converted(term: Term, to: Type, places: Mapping[str, int]) -> Evaluate:
    """Return the evaluation of a term, its value converted to a type."""
    evaluate = _evaluate(term, places)
    convert = conversion(term.type, to)
    return evaluate if convert is None else _strict(convert, [evaluate])


def _logic(decides: bool, arguments: Sequence[Evaluate]) -> Evaluate:
    """AND, which False decides, or OR, which True decides."""

    def logic(row: Row) -> bool | None:
        unknown = False
        for evaluate in arguments:
            value: bool | None = evaluate(row)
            if value is decides:
                return decides
            unknown = unknown or value is None
        return None if unknown else not decides

    return logic


def _negated(term: Term, evaluate: Evaluate) -> Evaluate:
    return _strict(lambda value: not value, [evaluate]) if term.negated else evaluate


def _case(term: Term, places: Mapping[str, int]) -> Evaluate:
    args = term.args
    whens = [
        (_evaluate(args[at], places), _converted(args[at + 1], term.type, places)) for at in range(0, len(args) - 1, 2)
    ]
    otherwise = _converted(args[-1], term.type, places) if len(args) % 2 else (lambda row: None)

    def case(row: Row) -> Any:
        for condition, value in whens:
            if condition(row):
                return value(row)
        return otherwise(row)

    return case


def _cast(term: Term, places: Mapping[str, int]) -> Evaluate:
    value, to = term.args[0], term.type
    if value.type.name == "STRING" and to.name in ("DATE", "TIMESTAMP"):
        raise DefinitionError(f"{term.op} of a text to {to}")
    evaluate, convert = _evaluate(value, places), conversion(value.type, to, strict=term.op == "TRY_CAST")
    return evaluate if convert is None else _strict(convert, [evaluate])


def _common(args: Sequence[Term]) -> Type:
    of = common_type([arg.type for arg in args])
    assert of is not None, "the checker compares only what can be compared"
    return of


def _comparison(op: str, args: Sequence[Term], places: Mapping[str, int]) -> Evaluate:
    of = _common(args)
    arguments = [_converted(arg, of, places) for arg in args]
    compare = (_COMPARE_DOUBLES if of == DOUBLE else _COMPARE)[op if op != "<=>" else "="]
    if op != "<=>":
        return _strict(compare, arguments)
    left, right = arguments

    def same(row: Row) -> bool:
        a, b = left(row), right(row)
        return a is b if a is None or b is None else bool(compare(a, b))

    return same


def _is_in(args: Sequence[Term], places: Mapping[str, int]) -> Evaluate:
    of = _common(args)
    value, *others = (_converted(arg, of, places) for arg in args)
    equal = (_COMPARE_DOUBLES if of == DOUBLE else _COMPARE)["="]

    def is_in(row: Row) -> bool | None:
        own, unknown = value(row), False
        if own is None:
            return None
        for other in others:
            candidate = other(row)
            if candidate is None:
                unknown = True
            elif equal(own, candidate):
                return True
        return None if unknown else False

    return is_in


def _arithmetic(term: Term, places: Mapping[str, int]) -> Evaluate:
    op, args, of = term.op, term.args, term.type
    if len(args) == 1:
        evaluate = _evaluate(args[0], places)
        return _strict((lambda value: wrap(-value, of)) if of.is_integer else (lambda value: -value), [evaluate])
    if of.name == "TIMESTAMP":
        return _strict(_add_time if op == "+" else _subtract_time, [_evaluate(arg, places) for arg in args])
    if op == "DIV":
        exact = any(arg.type.name == "DECIMAL" for arg in args)
        arguments = [_operand(arg, places) if exact else _evaluate(arg, places) for arg in args]
        return _strict(lambda a, b: _wrapped(divide_whole(a, b)), arguments)
    if of.name == "DECIMAL":
        return _strict(arithmetic(op, of), [_operand(arg, places) for arg in args])
    return _strict(arithmetic(op, of), [_converted(arg, of, places) for arg in args])


def _operand(term: Term, places: Mapping[str, int]) -> Evaluate:
    """A number as DECIMAL, exactly."""
    return _converted(term, as_decimal(term.type), places)


def _wrapped(value: int | None) -> int | None:
    return None if value is None else wrap(value, BIGINT)


def _add_time(time: datetime, span: timedelta) -> datetime | None:
    try:
        return time + span
    except OverflowError:  # outside of the years 1 to 9999
        return None


def _subtract_time(time: datetime, span: timedelta) -> datetime | None:
    return _add_time(time, -span)


def _call(term: Term, places: Mapping[str, int]) -> Evaluate:
    if term.op in NULLS:
        return NULLS[term.op](term, lambda arg, to: _converted(arg, to, places), lambda args: _common(args))
    function = EVALUATED[term.op](term) if term.op in EVALUATED else None
    if function is None:
        raise DefinitionError(render(term) if len(render(term)) <= 80 else f"{term.op}(…)")
    return _strict(function, [_evaluate(arg, places) for arg in term.args])


def _like(pattern: str, *, ignore_case: bool) -> re.Pattern[str]:
    r"""The pattern of LIKE, in which \ escapes %, _ and itself, as a regular expression."""
    wild = {"%": ".*", "_": "."}
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    text = "".join(wild.get(part) or re.escape(part[-1]) for part in parts)
    return re.compile(text, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def _rank(value: float) -> tuple[bool, float]:
    """Doubles in Spark's order: NaN is the largest, and equal to itself."""
    return (True, 0.0) if math.isnan(value) else (False, value)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_COMPARE_DOUBLES: dict[str, Callable[[float, float], bool]] = {
    "=": lambda a, b: _rank(a) == _rank(b),
    "<>": lambda a, b: _rank(a) != _rank(b),
    "<": lambda a, b: _rank(a) < _rank(b),
    "<=": lambda a, b: _rank(a) <= _rank(b),
    ">": lambda a, b: _rank(a) > _rank(b),
    ">=": lambda a, b: _rank(a) >= _rank(b),
}
