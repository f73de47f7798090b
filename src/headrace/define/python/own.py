"""`hr.udf` and `hr.udaf`: functions and aggregates of a definition file that definitions may call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, TypeVar

from headrace.aggregate import REGISTRY
from headrace.aggregate.udaf import UdafDefinition, declare_aggregate
from headrace.define.expression.functions import ALIASES, FUNCTIONS
from headrace.define.mistakes import placed
from headrace.define.own import DIGITS, OwnFunction, declare, digest_of
from headrace.define.python.aggregates import aggregate_function
from headrace.define.python.query import Aggregation, caller, source_of
from headrace.define.reader import Reader
from headrace.define.rules import check_name
from headrace.define.sql.streams import read_fields
from headrace.define.tokens import END, WORD
from headrace.errors import DefinitionError
from headrace.types import Type, struct

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
            declare(OwnFunction(name, types, _read_result(gives), _digest(Path(at.file), code), code))
        return run

    return declared


def udaf(takes: str, *, partial: str, gives: str) -> Callable[[type], Callable[..., Aggregation]]:
    """A decorator of a class: definitions may call the aggregate by its name.

    `takes` are names and types of its arguments, `partial` is the type of its partials and `gives` that of its result.
    The class has three methods over Arrow arrays: `lift` gives the partial of each event, of an array for each
    argument; `merge` that of each pair of partials, of two arrays; `present` the result of each partial. A NULL partial
    has no events: it is not given to `merge`. `merge` must be associative and commutative. A method `agrees(a, b)` may
    say whether two results are equal but for rounding.
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
            declare(own)
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
    reader = Reader(source_of(text, "the type of the result"))
    second = reader.ahead(1)
    is_column = second.kind == WORD and second.upper not in ("WITH", "WITHOUT")  # else a zone: TIMESTAMP WITH …
    return struct(*_read_arguments(text)) if is_column else _read_type(text)


def _read_type(text: str) -> Type:
    reader = Reader(source_of(text, "the type of the result"))
    of = reader.read_type()
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
