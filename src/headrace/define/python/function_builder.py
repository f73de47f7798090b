"""Functions of definitions in Python: `hr.count`, `hr.sum` and so on, and `hr.udf` and `hr.udaf` of a user's own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, TypeVar

from headrace.aggregate import REGISTRY, Aggregate, Argument
from headrace.aggregate.udaf import UdafDefinition, declare_aggregate
from headrace.define.python.query_builder import Aggregation, caller, source_of
from headrace.define.sql_definitions import read_fields
from headrace.errors import DefinitionError
from headrace.language.functions import ALIASES, FUNCTIONS
from headrace.language.identifiers import check_name
from headrace.language.literals import read_type
from headrace.language.source_text import END, WORD, placed
from headrace.language.token_cursor import TokenCursor
from headrace.language.user_functions import DIGITS, UserFunction, declare, digest_of
from headrace.types import Type, struct

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


F = TypeVar("F", bound=Callable[..., Any])
METHODS = ("lift", "merge", "present")


def udf(takes: str, *, gives: str) -> Callable[[F], F]:
    """A decorator: expressions of definitions may call the function by its name.

    `takes` are names and types of its arguments, as in "celsius DOUBLE, scale STRING", `gives` is the type of its
    result. It is called with an Arrow array for each argument and returns one with a value for each event. It must
    return the same value for the same arguments, whatever other events are in the arrays. With several columns in
    `gives`, as in "lang STRING, score DOUBLE", it returns a table with them, and its result is a STRUCT.
    """
    at = caller()

    def declared(run: F) -> F:
        with placed(at):
            name, types = _check_name(run), _read_arguments(takes)
            _check_arity(run, len(types))
            code = _pickle(run)
            declare(UserFunction(name, types, _read_result(gives), _digest(Path(at.file), code), code))
        return run

    return declared


def udaf(takes: str, *, partial: str, gives: str) -> Callable[[type], Callable[..., Aggregation]]:
    """A decorator of a class: definitions may call the aggregate by its name.

    `takes` are names and types of its arguments, `partial` is the type of its partials and `gives` that of its result.
    The class has three methods over Arrow arrays: `lift` takes an array for each argument and returns the partial of
    each event; `merge` takes two arrays of partials and returns the merged partial of each pair; `present` returns the
    result of each partial. A NULL partial has no events and is not passed to `merge`. `merge` must be associative and
    commutative. A method `agrees(a, b)` may define when two results are equal except for rounding.
    """
    at = caller()

    def declared(cls: type) -> Callable[..., Aggregation]:
        with placed(at):
            name, types = _check_name(cls), _read_arguments(takes)
            missing = [method for method in METHODS if not callable(getattr(cls, method, None))]
            if missing:
                raise DefinitionError(f"aggregate '{name}' has no method {missing[0]}", expected=", ".join(METHODS))
            code = _pickle(cls)
            digest = _digest(Path(at.file), code)
            own = UdafDefinition(name, types, _read_type(gives), digest, code, _read_type(partial))
            return aggregate_function(declare_aggregate(own))

    return declared


def _check_name(what: Callable[..., Any]) -> str:
    name = what.__name__.lower()
    check_name(name, "function")
    if name in FUNCTIONS or name in ALIASES or name in REGISTRY:
        raise DefinitionError(f"there is a function {name} already", fix="choose another name")
    return name


def _read_arguments(takes: str) -> tuple[tuple[str, Type], ...]:
    fields = read_fields(source_of(takes, "the list of arguments"))
    return tuple((each.name, each.type) for each in fields)


def _read_result(text: str) -> Type:
    """A type, or a list of columns, which is a STRUCT."""
    reader = TokenCursor(source_of(text, "the type of the result"))
    second = reader.ahead(1)
    is_column = second.kind == WORD and second.upper not in ("WITH", "WITHOUT")  # else a zone: TIMESTAMP WITH …
    return struct(*_read_arguments(text)) if is_column else _read_type(text)


def _read_type(text: str) -> Type:
    reader = TokenCursor(source_of(text, "the type of the result"))
    of = read_type(reader)
    if reader.next.kind != END:
        raise reader.unexpected("the end of the type")
    return of


def _check_arity(run: Callable[..., Any], count: int) -> None:
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    parameters = signature(run).parameters.values()
    names = [each.name for each in parameters if each.kind in kinds]
    least = sum(each.default is Parameter.empty for each in parameters if each.kind in kinds)
    if not any(each.kind == Parameter.VAR_POSITIONAL for each in parameters) and not least <= count <= len(names):
        raise DefinitionError(
            f"function '{run.__name__}' is declared with {count} argument{'s' * (count != 1)}",
            found=f"def {run.__name__}({', '.join(names)})",
            fix="declare each of its arguments with a type",
        )


def _pickle(run: Callable[..., Any]) -> bytes:
    from pyspark import cloudpickle  # takes a second to import: only for definitions with functions

    try:
        return bytes(cloudpickle.dumps(run))  # type: ignore[no-untyped-call]
    except Exception as error:
        raise DefinitionError(
            f"function '{run.__name__}' cannot be sent to workers: {error}",
            fix="let it use only modules, functions and plain values",
        ) from None


def _digest(file: Path, code: bytes) -> str:
    if file.is_file() and file.suffix == ".py":
        return digest_of(file.parent)
    return hashlib.sha256(code).hexdigest()[:DIGITS]  # not in a file: a console or a notebook
