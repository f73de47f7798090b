"""The functions hr.count, hr.sum and so on: one for each aggregate of the registry, and of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import Parameter, Signature
from typing import Any

from headrace.aggregate import Aggregate, Argument
from headrace.define.python.query import Aggregation, caller, source_of
from headrace.errors import DefinitionError

_WHERE = Parameter("where", Parameter.KEYWORD_ONLY, default=None, annotation="str | None")


@cache
def aggregate_function(cls: type[Aggregate]) -> Callable[..., Aggregation]:
    """The function `hr.<name>`: its arguments as texts, its parameters as values, and `where`."""
    signature = _signature(cls)

    def function(*args: Any, **kwargs: Any) -> Aggregation:
        try:
            values = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            message = f"hr.{cls.name} is called wrongly: {error}"
            raise DefinitionError(message, expected=f"hr.{cls.signature()}", where=caller()) from None
        arguments = [text for each in cls.takes for text in _texts(each, values.get(each.name))]
        return Aggregation(
            cls,
            tuple(source_of(argument, f"the argument of {cls.name}") for argument in arguments),
            tuple(values[each.name] for each in cls.constants if values.get(each.name) is not None),
            None if values.get("where") is None else source_of(values["where"], "a condition"),
            caller(),
        )

    function.__name__ = function.__qualname__ = cls.name
    function.__doc__ = cls.summary
    function.__signature__ = signature  # type: ignore[attr-defined]  # what inspect and help show
    return function


def _texts(argument: Argument, value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if argument.repeats else (value,)


def _signature(cls: type[Aggregate]) -> Signature:
    kind = Parameter.POSITIONAL_OR_KEYWORD
    takes = [
        Parameter(each.name, Parameter.VAR_POSITIONAL, annotation="str")
        if each.repeats
        else Parameter(each.name, kind, default=None, annotation="str | None")
        if each.optional
        else Parameter(each.name, kind, annotation="str")
        for each in cls.takes
    ]
    constants = [
        Parameter(each.name, kind, default=None, annotation=each.annotation)
        if each.optional
        else Parameter(each.name, kind, annotation=each.annotation)
        for each in cls.constants
    ]
    return Signature([*takes, *constants, _WHERE], return_annotation="Aggregation")
