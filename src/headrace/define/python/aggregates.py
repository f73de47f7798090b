"""The functions that write an aggregate in Python: hr.count, hr.sum and the others, made from their classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import Parameter, Signature
from typing import Any

from headrace.aggregate import Aggregate
from headrace.define.python.query import Aggregation, caller, written
from headrace.errors import DefinitionError

WHERE = Parameter("where", Parameter.KEYWORD_ONLY, default=None, annotation="str | None")


@cache
def aggregate_function(cls: type[Aggregate]) -> Callable[..., Aggregation]:
    """The function `hr.<name>`: its arguments as texts, its parameters as values, and `where`."""
    signature = _signature(cls)

    def function(*given: Any, **named: Any) -> Aggregation:
        try:
            values = signature.bind(*given, **named).arguments
        except TypeError as error:
            message = f"hr.{cls.name} is called wrongly: {error}"
            raise DefinitionError(message, expected=f"hr.{cls.signature()}", where=caller()) from None
        arguments = [values[each.name] for each in cls.takes if values.get(each.name) is not None]
        return Aggregation(
            cls,
            tuple(written(argument, f"the argument of {cls.name}") for argument in arguments),
            tuple(values[each.name] for each in cls.constants),
            None if values.get("where") is None else written(values["where"], "a condition"),
            caller(),
        )

    function.__name__ = function.__qualname__ = cls.name
    function.__doc__ = cls.summary
    function.__signature__ = signature  # type: ignore[attr-defined]  # what inspect and help show
    return function


def _signature(cls: type[Aggregate]) -> Signature:
    kind = Parameter.POSITIONAL_OR_KEYWORD
    takes = [
        Parameter(each.name, kind, default=None, annotation="str | None")
        if each.optional
        else Parameter(each.name, kind, annotation="str")
        for each in cls.takes
    ]
    constants = [Parameter(each.name, kind, annotation=each.type.__name__) for each in cls.constants]
    return Signature([*takes, *constants, WHERE], return_annotation="Aggregation")
