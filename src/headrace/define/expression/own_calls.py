"""Checks calls of functions of the workspace."""

from __future__ import annotations

from headrace.define.expression import hints
from headrace.define.expression.coercion import common_type
from headrace.define.expression.syntax import Call
from headrace.define.expression.terms import Term, render
from headrace.define.own import OwnFunction
from headrace.define.tokens import Source


def own_call(source: Source, node: Call, function: OwnFunction, args: list[Term]) -> Term:
    """The term of a call; arguments of narrower types are cast."""
    if len(args) != len(function.takes):
        raise source.error(
            node.at,
            f"{function.name} does not take {len(args)} argument{'s' * (len(args) != 1)}",
            expected=function.signature,
        )
    if node.distinct or node.where:
        raise source.error(node.at, f"{function.name} is not an aggregate", fix="remove DISTINCT and FILTER")
    for i, (name, of) in enumerate(function.takes):
        if args[i].type == of:
            continue
        if common_type([args[i].type, of]) != of:
            raise source.error(
                node.args[i].at,
                f"{function.name}: '{name}' has an invalid value",
                found=hints.describe(args[i]),
                expected=str(of),
                fix=f"write CAST({render(args[i])} AS {of})",
            )
        args[i] = Term("CAST", of, (args[i],))
    return Term(function.full_name, function.gives, tuple(args))
