"""The aggregates of a view: from a call in SELECT, or the same said in Python, to a named Column."""

from __future__ import annotations

from headrace.aggregate import REGISTRY, Aggregate
from headrace.define.expression.check import Scope, check, check_condition
from headrace.define.expression.syntax import (
    Call,
    Case,
    Cast,
    Item,
    Literal,
    Logic,
    Name,
    Node,
    Operation,
    Part,
    Star,
    Test,
)
from headrace.define.model import Column
from headrace.define.rules import check_name, located, part_hint
from headrace.define.tokens import Source
from headrace.errors import DefinitionError
from headrace.types import Expression

_EXACT_ORDER = "cannot be merged from partials without keeping every value"
_NOT_YET = "is not available yet"
REFUSED = {
    "median": (_EXACT_ORDER, "min, max and avg are available"),
    "percentile": (_EXACT_ORDER, "min, max and avg are available"),
    "percentile_cont": (_EXACT_ORDER, "min, max and avg are available"),
    "percentile_disc": (_EXACT_ORDER, "min, max and avg are available"),
    "mode": (_EXACT_ORDER, "make the value a key and count"),
    "approx_percentile": (_NOT_YET, "min, max and avg are available"),
    "percentile_approx": (_NOT_YET, "min, max and avg are available"),
    "approx_distinct": ("has another name here", "write approx_count_distinct(x)"),
    "count_if": (_NOT_YET, "write count(*) FILTER (WHERE …)"),
    "mean": ("has another name here", "write avg(x)"),
    **dict.fromkeys(
        (
            "stddev", "stddev_pop", "stddev_samp", "std", "variance", "var_pop", "var_samp", "corr", "covar_pop",
            "covar_samp", "first", "last", "first_value", "last_value", "any_value", "min_by", "max_by", "collect_list",
            "collect_set", "array_agg", "string_agg", "listagg", "bool_and", "bool_or", "every", "some", "any",
            "skewness", "kurtosis", "approx_top_k", "histogram_numeric", "sum_distinct",
        ),
        (_NOT_YET, "there are " + ", ".join(REGISTRY)),
    ),
}  # fmt: skip


def contains_aggregate(node: Node) -> bool:
    """Whether an aggregate, available or not, is somewhere in the expression."""
    match node:
        case Call():
            return node.name.lower() in REGISTRY or node.name.lower() in REFUSED or _any(node.args)
        case Operation() | Logic() | Test():
            return _any(node.args)
        case Item():
            return _any((node.value, node.key))
        case Cast() | Part():
            return contains_aggregate(node.value)
        case Case():
            inner = [part for pair in node.whens for part in pair]
            return _any((*inner, *([node.otherwise] if node.otherwise else [])))
    return False


def make_column(source: Source, scope: Scope, node: Node, alias: str | None) -> Column:
    """The column of a selected aggregate."""
    if not isinstance(node, Call) or node.name.lower() not in {**REGISTRY, **REFUSED}:
        raise source.error(
            node.at,
            "an expression over aggregates cannot be merged from partials",
            fix="make each aggregate a separate column and compute the expression from the answer",
        )
    aggregate = _aggregate(source, scope, node)
    name = alias or _default_name(source, node)
    with located(source, node.at):
        check_name(name, "column")
    return Column(name, aggregate)


def make_aggregate(name: str, expression: Expression | None, where: Expression | None) -> Aggregate:
    """The aggregate of that name, or an error without a place."""
    cls = REGISTRY[name]
    if expression and expression.type.is_nested and name != "count":
        raise DefinitionError(
            f"{name} takes a single value", found=f"{expression.type} ({expression.sql})", fix=part_hint(expression)
        )
    reason = cls.refuse(expression)
    if reason:
        raise DefinitionError(reason)
    return cls(expression, where)


def _aggregate(source: Source, scope: Scope, call: Call) -> Aggregate:
    name = call.name.lower()
    if name in REFUSED:
        reason, fix = REFUSED[name]
        raise source.error(call.at, f"the aggregate {name} {reason}", fix=fix)
    if call.distinct:
        instead = "approx_count_distinct(x)" if name == "count" else f"{name}(x) without DISTINCT"
        raise source.error(call.at, f"{name}(DISTINCT …) would have to store every value", fix=f"write {instead}")
    where = check_condition(source, call.where, scope, "FILTER") if call.where else None
    with located(source, call.at):
        return make_aggregate(name, _argument(source, scope, call), where)


def counts_all(node: Node) -> bool:
    """Whether count of this counts every event: *, or a constant such as 1."""
    return isinstance(node, Star) or (isinstance(node, Literal) and node.type is not None)


def _argument(source: Source, scope: Scope, call: Call) -> Expression | None:
    if len(call.args) > 1:
        raise source.error(call.args[1].at, f"{call.name.lower()} takes one argument", found=str(len(call.args)))
    if call.name.lower() == "count" and (not call.args or counts_all(call.args[0])):
        return None
    if call.args and contains_aggregate(call.args[0]):
        raise source.error(call.args[0].at, "nested aggregates are not supported", fix="remove one")
    return check(source, call.args[0], scope) if call.args else None


def _default_name(source: Source, call: Call) -> str:
    name = call.name.lower()
    if not call.args or (name == "count" and counts_all(call.args[0])):
        return name
    if isinstance(call.args[0], Name | Part):
        return f"{name}_{call.args[0].name.lower().lstrip('_')}"
    raise source.error(call.at, f"this {name}(…) has no name", fix=f"write {name}(…) AS total, or another name")


def _any(nodes: tuple[Node, ...]) -> bool:
    return any(contains_aggregate(node) for node in nodes)
