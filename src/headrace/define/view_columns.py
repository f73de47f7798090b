"""The aggregates of a view: from a call in SELECT, or from the same call in Python, to a named Column."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.aggregate import REGISTRY, Aggregate, Constant, Parameter
from headrace.aggregate.udaf import find_user_aggregate
from headrace.define.model import Column
from headrace.define.view_windows import END_CALLS, START_CALLS, WINDOW_CALLS
from headrace.errors import DefinitionError
from headrace.language.check import Scope, check, check_condition
from headrace.language.functions import ALIASES, FUNCTIONS
from headrace.language.hints import part_hint
from headrace.language.identifiers import check_name
from headrace.language.source_text import Mistakes, SourceText, located
from headrace.language.statements.select_rows import GENERATORS
from headrace.language.syntax import (
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
from headrace.language.terms import Expression
from headrace.language.user_functions import plain
from headrace.lazy import later

foreign_functions = later("headrace.language.foreign.foreign_functions")  # for names that are not ours
_SCALAR = frozenset((*FUNCTIONS, *ALIASES, *WINDOW_CALLS, *START_CALLS, *END_CALLS, *GENERATORS))
_NOT_YET = "is not available yet"
_REFUSED = {
    **dict.fromkeys(
        (
            "skewness", "kurtosis", "histogram_numeric", "sum_distinct",
        ),
        (_NOT_YET, "there are " + ", ".join(REGISTRY)),
    ),
}  # fmt: skip


def _refusals() -> dict[str, tuple[str, str]]:
    """Names of aggregates that are not supported: why, and what to write. Names in the registry take precedence."""
    others = {
        name: (f"is called {cls.name} here", f"write {cls.signature()}")
        for cls in REGISTRY.values()
        for name in cls.other_names
    }
    return {**_REFUSED, **others}


def is_aggregate_name(name: str) -> bool:
    """Return True for the name of an aggregate, available or not."""
    lower = name.lower()
    if lower in REGISTRY or lower in _SCALAR:
        return lower in REGISTRY
    return find_user_aggregate(lower) is not None or _is_aggregate_elsewhere(lower)


def _is_aggregate_elsewhere(name: str) -> bool:
    return name in _refusals() or foreign_functions.is_aggregate_elsewhere(name)


def is_aggregate(node: Node) -> bool:
    """Return True if an expression is an aggregate, available or not, and nothing more."""
    return isinstance(node, Call) and is_aggregate_name(node.name)


def contains_aggregate(node: Node) -> bool:
    """Return True if an aggregate, available or not, is somewhere in the expression."""
    match node:
        case Call():
            return is_aggregate_name(node.name) or _any(node.args)
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


def make_column(source: SourceText, scope: Scope, node: Node, alias: str | None) -> Column:
    """The column of a selected aggregate."""
    assert isinstance(node, Call), "an aggregate is a call"
    aggregate = read_aggregate(source, scope, node)
    name = alias or _default_name(source, node)
    with located(source, node.at):
        check_name(name, "column")
    return Column(name, aggregate)


def make_aggregate(
    cls: type[Aggregate],
    arguments: tuple[Expression, ...],
    parameters: tuple[Constant, ...],
    where: Expression | None,
) -> Aggregate:
    """The aggregate with these arguments, or an error without a place."""
    for argument, expression in zip(cls.arguments_of(len(arguments)), arguments, strict=False):
        if expression.type.is_nested and not argument.kind.nested:
            raise DefinitionError(
                f"{cls.name} takes a single value",
                found=f"{expression.type} ({expression.sql})",
                fix=part_hint(expression),
            )
    reason = cls.refuse(arguments, parameters)
    if reason:
        raise DefinitionError(plain(reason))
    return cls(arguments, where, parameters)


def read_arguments(
    cls: type[Aggregate], nodes: Sequence[tuple[SourceText, Node]], scope: Scope
) -> tuple[Expression, ...]:
    """The arguments of an aggregate, each with its source; none where `*` or a constant means all events."""
    if cls.is_of_all_events() and nodes and _means_all_events(nodes[0][1]):
        nodes = nodes[1:]
    mistakes, arguments = Mistakes(), []
    for source, node in nodes:
        with mistakes.collect():
            if contains_aggregate(node):
                raise source.error(node.at, "nested aggregates are not supported", fix="remove one")
            arguments.append(check(source, node, scope))
    mistakes.check()
    return tuple(arguments)


def make_parameter(cls: type[Aggregate], parameter: Parameter, value: object) -> Constant:
    """The value as the constant that this parameter stores, or an error without a place."""
    constant = parameter.convert(value)
    if constant is None:
        text = None if value is None else str(value).upper() if isinstance(value, bool) else repr(value)
        raise DefinitionError(
            f"{cls.name} takes a constant as '{parameter.name}'", found=text, expected=parameter.words
        )
    return constant


def read_aggregate(source: SourceText, scope: Scope, call: Call) -> Aggregate:
    """The aggregate of a call."""
    name = call.name.lower()
    cls = REGISTRY.get(name) or find_user_aggregate(name)
    if cls is None:
        raise _refusal(source, call)
    cls = _class_of(source, call, cls)
    if name in ("first", "last") and len(call.args) == 2:
        _refuse_second_argument(source, call)
    most = cls.most_arguments()
    if most is not None and len(call.args) > most + len(cls.constants):
        at = call.args[most + len(cls.constants)].at
        write = foreign_functions.instead_of_more(call, most + len(cls.constants))
        raise source.error(at, f"{name} takes {cls.arity()}", found=str(len(call.args)), write=write, span=call.span)
    where = check_condition(source, call.where, scope, "FILTER") if call.where else None
    arguments = read_arguments(cls, [(source, node) for node in call.args[:most]], scope)
    parameters = []
    for parameter, node in zip(cls.constants, call.args[most:] if most is not None else (), strict=False):
        with located(source, node.at):
            parameters.append(make_parameter(cls, parameter, _constant(node)))
    with located(source, call.at):
        return make_aggregate(cls, arguments, tuple(parameters), where)


def _refuse_second_argument(source: SourceText, call: Call) -> None:
    """Refuse last(x, true) of Spark, which skips NULL, and last(price, at) of TimescaleDB."""
    name = call.name.lower()
    if by_flag := foreign_functions.instead_of_flag(call):
        raise source.error(call.at, f"{name} takes no flag for NULL", write=by_flag, span=call.span)
    if by_order := foreign_functions.instead_of_order(call):
        raise source.error(call.at, f"{name} takes events in the order of event time", write=by_order, span=call.span)


def _refusal(source: SourceText, call: Call) -> DefinitionError:
    """Return the error of an aggregate that is not supported, with what to write."""
    name, write = call.name.lower(), foreign_functions.instead_of_aggregate(call)
    reason, fix = _refusals().get(name, ("is not available", "docs/aggregates.md lists those that are"))
    if name in foreign_functions.ORDER_STATISTICS:
        reason = "cannot be merged from partials without keeping every value"
    if write is None:
        return source.error(call.at, f"the aggregate {call.name} {reason}", fix=fix)
    end = call.written.end if call.written else None
    return source.error(call.at, f"the aggregate {call.name} {reason}", write=write, end=end)


def _class_of(source: SourceText, call: Call, cls: type[Aggregate]) -> type[Aggregate]:
    """The aggregate that a call of this one means: another one with DISTINCT, where that means something."""
    if not call.distinct:
        return cls
    if cls.distinct is None:
        argument = ", ".join(call.written.arguments) if call.written else "x"
        fix = f"write {cls.instead_of_distinct(argument)}"
        raise source.error(call.at, f"{cls.name}(DISTINCT …) would have to store every value", fix=fix)
    return REGISTRY[cls.distinct]


def _means_all_events(node: Node) -> bool:
    """Return True if count of this counts every event: *, or a constant such as 1."""
    return isinstance(node, Star) or (isinstance(node, Literal) and node.type is not None)


def _constant(node: Node) -> object:
    """The value of a number, a text, TRUE, FALSE, or of an array of such; None for all else."""
    if isinstance(node, Call) and node.name.lower() == "array":
        return [_constant(each) for each in node.args]
    if not isinstance(node, Literal) or node.type is None:
        return None
    match node.type.name:
        case "INT" | "BIGINT":
            return int(node.text.rstrip("L"))
        case "DECIMAL" | "DOUBLE":
            return float(node.text.rstrip("BD"))
        case "BOOLEAN":
            return node.text.upper() == "TRUE"
        case "STRING":
            return node.text
    return None


def _default_name(source: SourceText, call: Call) -> str:
    called = REGISTRY.get(call.name.lower()) or find_user_aggregate(call.name.lower())
    cls = _class_of(source, call, called) if called else None
    name = cls.name if cls else call.name.lower()
    if not call.args or (cls and cls.is_of_all_events() and _means_all_events(call.args[0])):
        return name
    if isinstance(call.args[0], Name | Part):
        return f"{name}_{call.args[0].name.lower().lstrip('_')}"
    raise source.error(call.at, f"this {name}(…) has no name", fix=f"write {name}(…) AS total, or another name")


def _any(nodes: tuple[Node, ...]) -> bool:
    return any(contains_aggregate(node) for node in nodes)
