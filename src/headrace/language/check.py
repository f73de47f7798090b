"""Checks an expression against the fields of a stream and gives it its type and its canonical Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from headrace.errors import DefinitionError
from headrace.language import hints
from headrace.language.coercion import (
    CASTS,
    INTERVAL,
    VOID,
    arithmetic_type,
    common_type,
    is_text,
    time_constant,
    time_of,
)
from headrace.language.expressions import parse_tree
from headrace.language.functions import ALIASES, FUNCTIONS, UNSTABLE, WHY_UNSTABLE, operand_types
from headrace.language.patterns import refuse_pattern
from headrace.language.signatures import UNITS, ScalarFunction
from headrace.language.source_text import FollowUpError, Mistakes, SourceText, escape
from headrace.language.syntax import (
    Call,
    Case,
    Cast,
    Interval,
    Item,
    Literal,
    Logic,
    Name,
    Node,
    Operation,
    Part,
    Star,
    TableQuery,
    Test,
)
from headrace.language.terms import Expression, Term, render
from headrace.language.user_functions import UserFunction, find_function
from headrace.types import BOOLEAN, INT, STRING, TIMESTAMP, Type


def user_call(source: SourceText, node: Call, function: UserFunction, args: list[Term]) -> Term:
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


COMPARE = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def parse_expression(text: str, types: Mapping[str, Type]) -> Expression:
    """The expression of a text over fields of these types."""
    source = SourceText(text)
    return check(source, parse_tree(source), Scope(types))


def parse_stored(sql: str, types: Mapping[str, Type], *, is_applied: bool = False) -> Term:
    """The tree of a stored expression; with `is_applied`, its patterns were checked when it was applied."""
    source = SourceText(sql)
    checker = AppliedChecker if is_applied else Checker
    return checker(source, Scope(types)).term(parse_tree(source))


class Scope:
    """The fields that an expression may name; the case of letters does not matter."""

    def __init__(
        self,
        types: Mapping[str, Type],
        owner: str = "the stream",
        qualifiers: tuple[str, ...] = (),
        *,
        broken: Iterable[str] = (),
    ) -> None:
        self.fields = {name.lower(): (name, type_) for name, type_ in types.items()}
        self.owner = owner
        self.qualifiers = tuple(name.lower() for name in qualifiers)
        self.broken = frozenset(name.lower() for name in broken)  # fields whose declaration has a mistake

    def label(self, column: str) -> str:
        """The name of a field in the text of a query."""
        return column

    def resolve(self, source: SourceText, node: Node) -> Term | None:
        """The term of a node that has a meaning of its own here, as an aggregate has in HAVING; None for the others."""
        return None


def check(source: SourceText, node: Node, scope: Scope, *, may_be_null: bool = False) -> Expression:
    """The typed, canonical expression of a tree; with `may_be_null` also NULL, whose type is VOID."""
    try:
        term = Checker(source, scope).term(node)
        expression = Expression(term)
        assert expression.sql  # rendered here, where a tree that is too deep has a place
    except RecursionError:
        raise source.error(node.at, "the expression is too long", fix="split it") from None
    if term.type == VOID and not (may_be_null and term.is_literal):
        raise source.error(node.at, "NULL alone has no type", fix="give it one, as in CAST(NULL AS STRING)")
    if term.type == INTERVAL:
        raise source.error(
            node.at, "an INTERVAL is allowed only next to a TIMESTAMP", fix="as in at - INTERVAL 1 MINUTE"
        )
    return expression


def check_condition(source: SourceText, node: Node, scope: Scope, what: str) -> Expression:
    """The expression of a condition, for WHERE and FILTER."""
    expression = check(source, node, scope)
    if expression.type != BOOLEAN:
        raise source.error(
            node.at, f"{what} takes a condition", found=f"{expression.type} ({expression.sql})", expected="BOOLEAN"
        )
    return expression


class Checker:
    """Turns a tree into a term over the fields of one stream."""

    def __init__(self, source: SourceText, scope: Scope) -> None:
        self.source = source
        self.scope = scope

    def term(self, node: Node) -> Term:
        """The term of a node."""
        own = self.scope.resolve(self.source, node)
        if own is not None:
            return own
        match node:
            case Name():
                return self._field(node)
            case Part():
                return self._part(node, self.term(node.value), node.name)
            case Item():
                return self._item(node)
            case Literal():
                return Term("literal", node.type or VOID, text=node.text)
            case Interval():
                return Term("interval", INTERVAL, text=str(node.ms))
            case Call():
                return self._call(node)
            case Operation():
                return self._operation(node)
            case Logic():
                return Term(
                    node.op, BOOLEAN, tuple(self._each(partial(self._condition, arg, node.op) for arg in node.args))
                )
            case Test():
                return self._test(node)
            case Case():
                return self._case(node)
            case Cast():
                return self._cast(node)
            case TableQuery():
                raise self.source.error(
                    node.at, f"{'EXISTS' if node.operand is None else 'IN'} (SELECT …) is not supported here",
                    fix="write it as a condition of WHERE, connected by AND with the others",
                )  # fmt: skip
            case Star():
                raise self.source.error(node.at, "* is allowed only in count(*)", fix="name the field")
        raise AssertionError(f"no rule for {node}")

    def _terms(self, nodes: Sequence[Node], mistakes: Mistakes | None = None) -> list[Term]:
        """The term of each node; raises all their mistakes at once, with those collected before."""
        return self._each((partial(self.term, node) for node in nodes), mistakes)

    def _each(self, checks: Iterable[Callable[[], Term]], mistakes: Mistakes | None = None) -> list[Term]:
        mistakes, terms = mistakes or Mistakes(), []
        for make_term in checks:
            with mistakes.collect():
                terms.append(make_term())
        mistakes.check()
        return terms

    def _error(self, node: Node, message: str, **more: Any) -> DefinitionError:
        return self.source.error(node.at, message, span=node.span, **more)

    def _field(self, node: Name) -> Term:
        name, scope = node.name.lower(), self.scope
        if (of := (node.of or "").lower()) in scope.fields and not (of in scope.qualifiers and name in scope.fields):
            return self._part(node, Term("field", scope.fields[of][1], text=scope.fields[of][0]), node.name)
        if of and of not in scope.qualifiers:
            raise self._error(
                node, f"'{node.of}.{node.name}' is not defined here", expected=f"a field of {scope.owner}"
            )
        if name in scope.fields:
            return Term("field", scope.fields[name][1], text=scope.fields[name][0])
        if name in scope.broken:
            raise FollowUpError(f"the declaration of '{node.name}' has an error", where=self.source.locate(node.at))
        if name in UNSTABLE:
            raise self._error(node, f"{name} {WHY_UNSTABLE}", fix=hints.USE_EVENT_TIME)
        spellings = {lower: spelling for lower, (spelling, _) in scope.fields.items()}
        advice = hints.instead_of_name(self.source, node, spellings)
        raise self._error(node, f"{scope.owner} has no field '{node.name}'", **advice)

    def name(self, node: Node) -> str | None:
        """The default name of a field or part."""
        term = self.term(node)
        if term.op == "field":
            return self.scope.label(term.text)
        return term.text if term.op == "part" else None

    def _part(self, node: Node, value: Term, name: str) -> Term:
        if value.type.name != "STRUCT":
            raise self._error(
                node,
                f"{render(value)} is not a STRUCT, so it has no '{name}'",
                found=str(value.type),
                expected="a STRUCT",
                fix=hints.part_of_other_type(value, name),
            )
        parts = {part.lower(): (part, of) for part, of in value.type.parts}
        if name.lower() not in parts:
            spellings = {lower: spelling for lower, (spelling, _) in parts.items()}
            raise self._error(
                node, f"{render(value)} has no part '{name}'", fix=hints.similar_name(name.lower(), spellings)
            )
        part, of = parts[name.lower()]
        return Term("part", of, (value,), text=part)

    def _item(self, node: Item) -> Term:
        value, key = self._terms((node.value, node.key))
        key_type = {"ARRAY": INT, "MAP": STRING}.get(value.type.name)
        if key_type is None:
            raise self._error(
                node, f"{render(value)} has no elements", found=str(value.type), expected="an ARRAY or a MAP"
            )
        if key.type != key_type:
            raise self._error(
                node.key,
                f"[ ] of {value.type} takes {'an index, from 0' if key_type == INT else 'a key'}",
                found=hints.describe(key),
                expected=str(key_type),
            )
        return Term("item", value.type.inner, (value, key))

    def _condition(self, node: Node, of: str) -> Term:
        term = self.term(node)
        if term.type not in (BOOLEAN, VOID):
            raise self._error(node, f"{of} takes conditions", found=hints.describe(term), expected="BOOLEAN")
        return term

    def _call(self, node: Call) -> Term:
        own = find_function(node.name.lower())
        if own:
            return user_call(self.source, node, own, self._terms(node.args))
        mistakes = Mistakes()
        with mistakes.collect():
            function = self._function(node)
        # An unknown function may be a misspelled count(*) or a timestampdiff(MINUTE, a, b): * and MINUTE are no further
        # mistakes.
        args = self._terms([arg for arg in node.args if not (mistakes and _may_be_known(arg))], mistakes)
        if node.distinct or node.where:
            extra = "DISTINCT" if node.distinct else "FILTER"
            raise self._error(node, f"{function.name} is not an aggregate, so it takes no {extra}", fix="remove it")
        parameters = function.pair(len(args))
        if parameters is None:
            raise self._error(
                node,
                f"{function.name} does not take {len(args)} argument{'s' * (len(args) != 1)}",
                expected=function.signature,
            )
        for i, (parameter, arg) in enumerate(zip(parameters, args, strict=True)):
            expected = parameter.refuse(arg)
            if expected:
                raise self._error(
                    node.args[i],
                    f"{function.name}: '{parameter.name}' has an invalid value",
                    found=hints.describe(arg),
                    expected=expected,
                    **hints.instead_of_argument(function, parameter, arg, expected),
                )
            if parameter.kind == "REGEX":
                self.check_regex(node.args[i], function.name, arg.text)
        type_ = function.result_type(args)
        if type_ is None or not self._agree(function, args):
            raise self._no_common(node, function.name, args)
        if function.name in ("to_date", "to_timestamp") and len(args) == 1 and isinstance(type_, Type):
            constant = time_constant(self.source, node, args[0], type_)
            if constant:
                return constant
        reason = function.refuse(args) if function.refuse else None
        if reason:
            raise self._error(node, f"{function.name}: {reason}")
        return Term(function.name, type_, tuple(args))

    def _agree(self, function: ScalarFunction, args: list[Term]) -> bool:
        pairs = zip(function.pair(len(args)) or [], args, strict=True)
        return common_type([arg.type for parameter, arg in pairs if parameter.kind == "SAME"]) is not None

    def _function(self, node: Call) -> ScalarFunction:
        name = node.name.lower()
        name = ALIASES.get(name, name)
        if name in FUNCTIONS and not (name in UNSTABLE and not node.args):
            return FUNCTIONS[name]
        raise hints.unknown_function(self.source, node)

    def _no_common(self, node: Node, of: str, args: list[Term]) -> DefinitionError:
        types = ", ".join(hints.describe(arg) for arg in args)
        return self._error(node, f"{of}: the types are not compatible", found=types, fix=hints.common_type_of(args))

    def _operation(self, node: Operation) -> Term:
        if node.op == "NOT":
            return Term("NOT", BOOLEAN, (self._condition(node.args[0], "NOT"),))
        args = self._terms(node.args)
        if node.op in COMPARE:
            args = self._comparison(node, args)
            return Term(node.op, BOOLEAN, tuple(args))
        if node.op == "||":
            return self._call(Call(node.at, "concat", node.args))
        return self._arithmetic(node, args)

    def _comparison(self, node: Node, args: list[Term]) -> list[Term]:
        types = [arg.type for arg in args]
        nested = next((arg for arg in args if arg.type.is_nested), None)
        if nested:
            hint = hints.part_hint(Expression(nested))
            raise self._error(node, "only single values are compared", found=str(nested.type), fix=hint)
        if INTERVAL in types:
            raise self._error(node, "an INTERVAL cannot be compared", fix="as in a < b - INTERVAL 1 HOUR")
        times = [type_ for type_ in types if type_.name in ("DATE", "TIMESTAMP")]
        if times and all(arg.type.name in ("DATE", "TIMESTAMP", "VOID") or is_text(arg) for arg in args):
            args = [time_of(self.source, node, arg, times) if is_text(arg) else arg for arg in args]
        if common_type([arg.type for arg in args]) is None:
            raise self._no_common(node, "a comparison", args)
        return args

    def _arithmetic(self, node: Operation, args: list[Term]) -> Term:
        types = [arg.type for arg in args]
        if INTERVAL in types:
            good = node.op in ("+", "-") and len(args) == 2 and types[0] in (TIMESTAMP, VOID) and types[1] == INTERVAL
            if not good:
                raise self._error(
                    node, "an INTERVAL can only be added to or subtracted from a TIMESTAMP on its left",
                    found=f" {node.op} ".join(str(t) for t in types), fix="as in at - INTERVAL 1 MINUTE",
                )  # fmt: skip
            return Term(node.op, TIMESTAMP, tuple(args))
        for arg, child in zip(args, node.args, strict=True):
            if arg.type == VOID and arg.is_literal:
                raise self._error(child, f"{node.op} with NULL is NULL", fix="leave it out, or CAST(NULL AS DOUBLE)")
            if node.op == "DIV" and arg.type.name == "DOUBLE":
                raise self._error(child, "DIV takes whole numbers", found=hints.describe(arg), fix=hints.whole(args))
            if not arg.type.is_numeric and arg.type != VOID:
                raise self._error(
                    child, f"{node.op} takes numbers", found=hints.describe(arg), **hints.as_number(arg, args, node.op)
                )
        if len(args) == 1:
            return Term("-", types[0], tuple(args))
        return Term(node.op, arithmetic_type(node.op, *operand_types(args)), tuple(args))

    def _test(self, node: Test) -> Term:
        args = self._terms(node.args)
        if node.op in ("IN", "BETWEEN"):
            args = self._comparison(node, args)
        elif node.op in ("LIKE", "ILIKE", "RLIKE"):
            self._check_pattern(node, args)
        elif node.op != "IS NULL" and args[0].type not in (BOOLEAN, VOID):
            raise self._error(node, f"{node.op} takes a condition", found=str(args[0].type), expected="BOOLEAN")
        return Term(node.op, BOOLEAN, tuple(args), negated=node.negated)

    def _check_pattern(self, node: Test, args: list[Term]) -> None:
        if args[0].type not in (STRING, VOID):
            value = hints.describe(args[0])
            raise self._error(node.args[0], f"{node.op} takes a text", found=value, write=hints.cast(args[0], "STRING"))
        if not is_text(args[1]):
            raise self._error(node.args[1], f"the pattern of {node.op} must be a constant text", found=render(args[1]))
        if node.op == "RLIKE":
            self.check_regex(node.args[1], node.op, args[1].text)
        elif "\\" in args[1].text.replace("\\\\", "").replace("\\%", "").replace("\\_", ""):
            expected = r"after \ only %, _ or \ again"
            raise self._error(
                node.args[1], f"the pattern of {node.op} is not valid", found=render(args[1]), expected=expected
            )

    def check_regex(self, node: Node, of: str, pattern: str) -> None:
        """Raise where a pattern cannot be used."""
        refusal = refuse_pattern(pattern)
        if refusal:
            reason, fix = refusal
            raise self._error(node, f"the pattern of {of} cannot be used: {reason}", found=escape(pattern), fix=fix)

    def _case(self, node: Case) -> Term:
        checks: list[Callable[[], Term]] = []
        for condition, value in node.whens:
            checks += [partial(self._condition, condition, "WHEN"), partial(self.term, value)]
        if node.otherwise is not None:
            checks.append(partial(self.term, node.otherwise))
        args = self._each(checks)
        values = args[1::2] if node.otherwise is None else [*args[1::2], args[-1]]
        type_ = common_type([value.type for value in values])
        if type_ is None:
            raise self._no_common(node, "CASE", values)
        return Term("CASE", type_, tuple(args))

    def _cast(self, node: Cast) -> Term:
        value = self.term(node.value)
        if value.type != VOID and node.to.name not in CASTS.get(value.type.name, ()):
            raise self._error(
                node,
                f"{node.function} of {value.type} to {node.to} is not supported",
                **hints.instead_of_cast(value, node.to),
            )
        return time_constant(self.source, node, value, node.to) or Term(node.function, node.to, (value,))


class AppliedChecker(Checker):
    """Accepts every pattern that RE2 accepts: the release that applied the definition has checked it."""

    def check_regex(self, node: Node, of: str, pattern: str) -> None:
        """Leave it to RE2."""


def _may_be_known(arg: Node) -> bool:
    """Return True if an argument may have a meaning for a function that is not known."""
    return isinstance(arg, Star) or (isinstance(arg, Name) and not arg.of and arg.name.lower() in UNITS)
