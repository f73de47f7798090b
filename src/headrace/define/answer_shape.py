"""Reads what shapes the answers of a view: expressions over aggregates, HAVING, ORDER BY and LIMIT.

In such an expression an aggregate is a name, its id: an expression means the same whatever outputs are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace.aggregate import Aggregate
from headrace.define.fingerprint import aggregate_id, shape_types
from headrace.define.model import BOUNDS, Column, Key, Order, Output, Shape, Window
from headrace.define.outputs import with_calls
from headrace.define.view_columns import contains_aggregate, is_aggregate, read_aggregate
from headrace.define.view_windows import window_bound
from headrace.engine.python_evaluation import refuse_python
from headrace.errors import DefinitionError
from headrace.language.check import Checker, Scope, check, check_condition
from headrace.language.source_text import FollowUpError, SourceText, each
from headrace.language.syntax import Call, Interval, Literal, Name, Node, OrderItem, Part, Star
from headrace.language.terms import Expression, Term
from headrace.language.user_functions import plain
from headrace.types import INT, TIMESTAMP


class NotGroupedError(DefinitionError):
    """A field outside of an aggregate that is not in GROUP BY."""


class ShapeScope(Scope):
    """The names for expressions over the rows of a view: aggregates, keys, bounds of the window, outputs.

    As in Spark, an expression equal to a key is that key, wherever it occurs.
    """

    def __init__(
        self,
        events: Scope,
        keys: Sequence[Key],
        window: Window | None,
        columns: list[Column],
        owner: str,
        *,
        may_add: bool,
        starts_window: Callable[[Node], bool] = lambda node: False,
    ) -> None:
        """`starts_window` says whether an expression such as date_trunc is the start of the window."""
        super().__init__({}, owner)
        self.starts_window = starts_window
        self.events = events
        self.keys = keys
        self.window = window
        self.columns = columns
        self.may_add = may_add  # whether an aggregate that is not there becomes a hidden column
        self.outputs_first = False  # as in HAVING and ORDER BY: an output precedes a field of the same name
        self.terms: dict[str, Term] = {key.name.lower(): _key_term(key) for key in keys}
        names = zip((window.start_name, window.end_name), BOUNDS, strict=True) if window else ()
        self.terms |= {name.lower(): _bound_term(bound) for name, bound in names if name}
        self.fields |= {key.name.lower(): (key.name, key.expression.type) for key in keys}  # for suggestions
        for column in columns:
            if column.name != column.aggregate.sql:  # else it is hidden
                self.name(column.name, _aggregate_term(column.aggregate))

    def name(self, name: str, term: Term) -> None:
        """Let later expressions use an output by its name."""
        self.terms[name.lower()] = term
        self.broken -= {name.lower()}
        self.fields[name.lower()] = (name, term.type)  # for suggestions

    def resolve(self, source: SourceText, node: Node) -> Term | None:
        if isinstance(node, Literal | Interval | Star):
            return None
        if is_aggregate(node):
            assert isinstance(node, Call), "an aggregate is a call"
            return self._aggregate(source, node)
        bound = "start" if self.starts_window(node) else window_bound(source, node)
        if bound:
            return self._bound(source, node, "start" if bound == "both" else bound)
        output = self._output(source, node)
        if output and self.outputs_first:
            return output
        key = None if contains_aggregate(node) else self._key(source, node)
        if key or output:
            return key or output
        if isinstance(node, Name) and self._is_field(node):
            sql = f"{node.of}.{node.name}" if node.of else node.name
            raise NotGroupedError(
                f"{sql} is neither an aggregate nor in GROUP BY",
                fix=f"add it to GROUP BY, or write max({sql})",
                where=source.locate(node.at),
            )
        return None

    def _output(self, source: SourceText, node: Node) -> Term | None:
        """The output that a name means, or its part."""
        if not isinstance(node, Name):
            return None
        if node.of and node.of.lower() in self.terms and node.of.lower() not in self.events.qualifiers:
            return Checker(source, self).term(Part(node.at, Name(node.at, node.of), node.name))
        return None if node.of else self.terms.get(node.name.lower())

    def _aggregate(self, source: SourceText, call: Call) -> Term:
        aggregate = read_aggregate(source, self.events, call)
        if all(column.aggregate != aggregate for column in self.columns):
            if not self.may_add:
                known = ", ".join(dict.fromkeys(column.aggregate.sql for column in self.columns))
                raise source.error(
                    call.at, f"{self.owner} does not store {aggregate.sql}", expected=f"one of {known}",
                    fix="add it to SELECT or HAVING of the view",
                )  # fmt: skip
            self.columns.append(Column(aggregate.sql, aggregate))
        return _aggregate_term(aggregate)

    def _bound(self, source: SourceText, node: Node, bound: str) -> Term:
        if self.window is None:
            raise source.error(node.at, f"{self.owner} has no window", fix="remove it, or add window(…) to GROUP BY")
        return _bound_term(f"window_{bound}")

    def _key(self, source: SourceText, node: Node) -> Term | None:
        try:
            expression = check(source, node, self.events)
        except DefinitionError:
            return None
        return next((_key_term(key) for key in self.keys if key.expression == expression), None)

    def _is_field(self, node: Name) -> bool:
        return (node.of or node.name).lower() in (*self.events.fields, *self.events.qualifiers)


@dataclass
class ShapeReader:
    """Checks the parts of a shape, one after the other."""

    scope: ShapeScope
    outputs: list[Output] = field(default_factory=list)
    items: list[Term | None] = field(default_factory=list)  # of SELECT, for ORDER BY 1; None: it has a mistake

    def add(self, source: SourceText, node: Node, name: str) -> None:
        """Add an output; its name can be used from now on."""
        expression = self.check(source, node)
        self.outputs.append(Output(name, expression))
        self.scope.name(name, Checker(source, self.scope).term(node))

    def add_column(self, column: Column) -> None:
        """Add an output that is an aggregate."""
        aggregate = column.aggregate
        self.outputs.append(Output(column.name, Expression.field(aggregate_id(aggregate), aggregate.spark_type)))

    def having(self, source: SourceText, node: Node) -> Expression:
        """The condition of HAVING."""
        self.scope.outputs_first = True
        with self._readable():
            condition = check_condition(source, node, self.scope, "HAVING")
            _refuse(source, node, condition, self.scope)
            return condition

    def order(self, source: SourceText, item: OrderItem) -> Order:
        """An item of ORDER BY: an expression, the name of an output, or its position."""
        self.scope.outputs_first = True
        node = item.node
        if isinstance(node, Literal) and node.type == INT:
            if not 1 <= int(node.text) <= len(self.items):
                expected = f"1 to {len(self.items)}, a position in SELECT" if self.items else "the name of a column"
                raise source.error(node.at, f"ORDER BY {node.text} names no column", expected=expected)
            term = self.items[int(node.text) - 1]
            if term is None:
                raise FollowUpError(f"item {node.text} of SELECT has an error", where=source.locate(node.at))
            expression = Expression(term)
        else:
            expression = self.check(source, node)
        if expression.type.is_nested:
            raise source.error(node.at, "ORDER BY takes single values", found=str(expression.type), fix="take a part")
        return Order(expression, item.descending, item.nulls_first)

    def shape(self, having: Expression | None, order: Sequence[Order], limit: int | None) -> Shape | None:
        """The shape of all that was read; None if answers are the columns of the view as they are."""
        plain = all(
            output.name == column.name and output.expression.sql == aggregate_id(column.aggregate)
            for output, column in zip(self.outputs, self.scope.columns, strict=False)
        )
        outputs = () if plain and len(self.outputs) == len(self.scope.columns) else tuple(self.outputs)
        return Shape(outputs, having, tuple(order), limit) if outputs or having or order or limit else None

    def check(self, source: SourceText, node: Node) -> Expression:
        """The expression of a node."""
        with self._readable():
            expression = check(source, node, self.scope)
            _refuse(source, node, expression, self.scope)
            return expression

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Write the aggregates of errors as calls."""
        try:
            yield
        except DefinitionError as error:
            for one in each(error):
                for part in ("message", "found", "fix", "write"):
                    text = getattr(one, part)
                    setattr(one, part, text and plain(with_calls(text, self.scope.columns)))
            raise


def _refuse(source: SourceText, node: Node, expression: Expression, scope: ShapeScope) -> None:
    reason = refuse_python(expression, shape_types(scope.keys, scope.columns))
    if reason:
        raise source.error(
            node.at, f"{reason} is not available over aggregates", fix="use it inside an aggregate or in a key"
        )


def _aggregate_term(aggregate: Aggregate) -> Term:
    return Term("field", aggregate.spark_type, text=aggregate_id(aggregate))


def _key_term(key: Key) -> Term:
    return Term("field", key.expression.type, text=key.name)


def _bound_term(bound: str) -> Term:
    return Term("field", TIMESTAMP, text=bound)
