"""From row-wise queries, as they were written, to rows: streams are known here, and names get types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from headrace.define.derived_rows import DerivedRows, RowScope
from headrace.define.model import Stream, Table
from headrace.define.table_joins import TableScope, apply_join, apply_queries
from headrace.errors import DefinitionError
from headrace.language import hints
from headrace.language.check import Checker, check, check_condition
from headrace.language.identifiers import check_name
from headrace.language.source_text import Mistakes, SourceText, located
from headrace.language.statements.select_rows import is_generator
from headrace.language.syntax import (
    Call,
    ExplodeStep,
    FromClause,
    FromItem,
    FromStep,
    JoinItem,
    Node,
    RowItem,
    RowQuery,
    RowSelect,
    SampleClause,
    StarItem,
    walk,
)
from headrace.language.terms import Expression, Term, quote
from headrace.types import INT

NO_TABLES: Mapping[str, Table] = MappingProxyType({})


@dataclass(frozen=True)
class Inputs:
    """The names that FROM can have: streams, and the queries of WITH before them; by name in lower case."""

    source: SourceText
    streams: Mapping[str, Stream]
    queries: Mapping[str, DerivedRows] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    where: Node | None = None  # of the query whose FROM is read

    @property
    def table_scope(self) -> TableScope:
        """The names that joins can have."""
        return TableScope(self.source, self.tables, self.streams, self.where)

    def with_queries(self, queries: Iterable[tuple[FromItem, RowQuery]]) -> Inputs:
        """Add the queries of WITH, each of which may name those before it."""
        inputs = self
        for item, query in queries:
            rows = _renamed(rows_of_query(query, inputs), item, self.source)
            inputs = replace(inputs, queries={**inputs.queries, (item.name or "").lower(): rows})
        return inputs


def rows_of_query(query: RowQuery, inputs: Inputs, *, in_union: bool = False) -> DerivedRows:
    """The rows of a query; raises all of its mistakes at once. In a union a column may be NULL, without a type."""
    inputs = replace(inputs, where=None).with_queries(query.queries)
    in_union = in_union or len(query.parts) > 1
    mistakes, parts = Mistakes(), []
    for part in query.parts:
        with mistakes.collect():
            if isinstance(part, RowQuery):
                parts.append(rows_of_query(part, inputs, in_union=in_union))
            else:
                names = [entry.name for entry in parts[0].entries if not entry.carried] if parts else ()
                parts.append(_rows_of_select(part, inputs, names, in_union=in_union))
    mistakes.check()
    with located(inputs.source, query.parts[-1].at):
        return parts[0].union(*parts[1:]) if len(parts) > 1 else parts[0]


def rows_of_from(source: FromClause, inputs: Inputs) -> DerivedRows:
    """The rows of FROM."""
    rows = _rows_of_input(source.input, inputs)
    for step in source.steps:
        with located(inputs.source, step.at):
            rows = apply(step, rows, inputs)
    return rows


def apply(step: FromStep, rows: DerivedRows, inputs: Inputs) -> DerivedRows:
    """The rows after a step of FROM."""
    if isinstance(step, SampleClause):
        return _sample(step, rows, inputs.source)
    if isinstance(step, JoinItem):
        return apply_join(step, rows, inputs.table_scope)
    assert isinstance(step, ExplodeStep), f"no rule for {step}"
    return _explode(step, rows, inputs.source)


def _sample(step: SampleClause, rows: DerivedRows, source: SourceText) -> DerivedRows:
    rows = rows.named(step.alias) if step.alias else rows
    keys = [check(source, key, rows.scope()) for key in step.keys]
    with located(source, step.at):
        return rows.sample(step.percent, keys, step.seed)


def _rows_of_input(item: FromItem, inputs: Inputs) -> DerivedRows:
    if item.query:
        rows = replace(rows_of_query(item.query, inputs), owner="the query in FROM")
        rows = rows.named(item.alias) if item.alias else rows
    elif item.name and item.name.lower() in inputs.queries:
        rows = inputs.queries[item.name.lower()].named(item.name)
        rows = rows.named(item.alias) if item.alias else rows
    else:
        assert item.name is not None, "a query or a name"
        rows = DerivedRows.of(inputs.streams[item.name.lower()], item.alias)
    return _renamed(rows, item, inputs.source)


def _renamed(rows: DerivedRows, item: FromItem, source: SourceText) -> DerivedRows:
    """The rows with other names of their columns, as in AS t(a, b)."""
    if not item.columns:
        return rows
    entries = [entry for entry in rows.entries if not entry.carried]
    with located(source, item.at):
        if len(item.columns) != len(entries):
            raise DefinitionError(
                f"{len(item.columns)} names are given to {len(entries)} columns", found=", ".join(item.columns),
                expected=", ".join(entry.name for entry in entries),
            )  # fmt: skip
        pairs = zip(item.columns, entries, strict=True)
        rows = rows.select([(name, entry.expression) for name, entry in pairs])
    return rows.named(item.alias or item.name or "") if item.alias or item.name else rows


def _explode(step: ExplodeStep, rows: DerivedRows, source: SourceText) -> DerivedRows:
    if contains_generator(step.values):
        raise source.error(step.values.at, "explode of an explode is not supported", fix="write two LATERAL VIEWs")
    values = check(source, step.values, rows.scope())
    element = values.type.inner if values.type.name == "ARRAY" else None
    parts = element.parts if element and element.name == "STRUCT" else ()
    of_parts = len(parts) > 1 and len(step.names) == len(parts)  # UNNEST(items) AS t(sku, qty)
    names = ("element",) if of_parts else step.names
    exploded = rows.explode(values, names, outer=step.outer, position=step.position, of=step.alias)
    if not of_parts and not step.first_position:
        return exploded
    *elements, last = exploded.entries[len(rows.entries) :]
    elements = elements if step.position else [last]
    columns = [(entry.name, entry.expression) for entry in elements]
    if of_parts:
        value = elements[0].expression
        columns = [(n, value.part(p, of)) for n, (p, of) in zip(step.names, parts, strict=True)]
    if step.position:
        number = last.expression
        if step.first_position:
            first = Term("literal", INT, text=str(step.first_position))
            number = Expression(Term("+", INT, (number.term, first)))
        columns.append((step.position, number))
    return replace(exploded, entries=rows.entries).extend(columns, of=step.alias)


def contains_generator(node: Node) -> bool:
    """Return True if explode or one of its like is in an expression."""
    return any(is_generator(part) for part in walk(node))


def _rows_of_select(
    select: RowSelect, inputs: Inputs, defaults: Sequence[str] = (), *, in_union: bool = False
) -> DerivedRows:
    """The rows of one SELECT. Columns without a name have that of the same place in the first part of a union."""
    source, mistakes = inputs.source, Mistakes()
    rows = rows_of_from(select.source, replace(inputs, where=select.where))
    if select.where is not None:
        with mistakes.collect():
            rows, where = apply_queries(select.where, rows, inputs.table_scope)
            if where is not None:
                rows = rows.where(check_condition(source, where, rows.scope(), "WHERE"))
    nodes = [(item.node, item.names) for item in select.items if isinstance(item, RowItem)]
    scope, exploded = rows.scope(), False
    with mistakes.collect():
        rows, scope = hoist(source, rows, nodes)
        exploded = True
    columns: list[tuple[str, Expression]] = []
    for item in select.items:
        if not exploded and isinstance(item, RowItem) and contains_generator(item.node):
            continue  # its mistake is known
        with mistakes.collect():
            default = defaults[len(columns)] if len(columns) < len(defaults) else None
            new_columns = (
                _star(item, scope, source)
                if isinstance(item, StarItem)
                else _columns(item, rows, scope, source, default, in_union)
            )
            at = item.at if isinstance(item, StarItem) else item.node.at
            try:
                _check_repeats(new_columns, columns, source, at)
            except DefinitionError as error:
                if isinstance(item, StarItem) and item == StarItem(item.at) and not columns:
                    error.write, error.replaces = _stars(scope), (at, at + 1)
                    error.fix = f"write {error.write}"
                raise
            columns += new_columns
    mistakes.check()
    with located(source, select.at):
        return rows.select(columns)


def hoist(
    source: SourceText, rows: DerivedRows, items: Sequence[tuple[Node, Sequence[str]]]
) -> tuple[DerivedRows, RowScope]:
    """The rows that an explode in SELECT makes, and a scope in which that call is the exploded column."""
    scope = rows.scope()
    calls = [
        (part, node, names)
        for node, names in items
        for part in walk(node)
        if isinstance(part, Call) and is_generator(part)
    ]
    if not calls:
        return rows, scope
    call, node, names = calls[0]
    if len(calls) > 1:
        raise source.error(
            calls[1][0].at, "SELECT has two explodes", fix="write the second as LATERAL VIEW explode(…) t AS x"
        )
    if len(call.args) != 1:
        raise source.error(call.at, f"{call.name} takes one array or map", found=str(len(call.args)))
    name = call.name.lower()
    own_names = list(names) if node is call else []
    position = None
    if name.startswith("pos"):
        if node is not call:
            raise source.error(call.at, f"{call.name} makes two columns", fix="write it alone, or explode")
        position = own_names.pop(0) if own_names else "pos"
    values = check(source, call.args[0], scope)
    with located(source, call.at):
        exploded = rows.explode(values, own_names, outer=name.endswith("_outer"), position=position)
    new = exploded.entries[len(rows.entries) :]
    if node is not call and len(new) > 1:
        raise source.error(call.at, f"{call.name} of a MAP makes two columns", fix="write it alone: AS (k, v)")
    scope.generated[call] = Term("field", new[0].type, text=new[0].column)
    return exploded, scope


def _columns(
    item: RowItem, rows: DerivedRows, scope: RowScope, source: SourceText, default: str | None, in_union: bool
) -> list[tuple[str, Expression]]:
    if item.node in scope.generated:
        new = rows.entries[len(scope.entries) :]
        has_position = isinstance(item.node, Call) and item.node.name.lower().startswith("pos")
        return [(e.name, e.expression) for e in ((new[-1], *new[:-1]) if has_position else new)]
    if len(item.names) > 1:
        raise source.error(item.node.at, "one value has one name", found=", ".join(item.names), fix="AS name")
    expression = check(source, item.node, scope, may_be_null=in_union)
    name = item.names[0] if item.names else Checker(source, scope).name(item.node) or default
    if name is None:
        raise source.error(item.node.at, "this expression has no name", fix="add one: AS total, or another name")
    return [(name, expression)]


def _star(item: StarItem, scope: RowScope, source: SourceText) -> list[tuple[str, Expression]]:
    columns = _starred(item, scope, source)
    known = {name.lower(): name for name, _ in columns}
    for name, at in item.without:
        if name.lower() not in known:
            raise source.error(
                at, f"EXCEPT names '{name}', which is no column of {'*' if item.of is None else f'{item.of}.*'}",
                fix=hints.similar_name(name.lower(), known),
            )  # fmt: skip
    without = {name.lower() for name, _ in item.without}
    replaced = {name.lower(): check(source, node, scope) for name, node in item.replaced}
    for name, node in item.replaced:
        if name.lower() not in known:
            raise source.error(
                node.at, f"REPLACE names '{name}', which is no column", fix=hints.similar_name(name.lower(), known)
            )
    return [(name, replaced.get(name.lower(), of)) for name, of in columns if name.lower() not in without]


def _starred(item: StarItem, scope: RowScope, source: SourceText) -> list[tuple[str, Expression]]:
    """The columns of *, of t.*, or the parts of a STRUCT for x.*."""
    of = item.of and item.of.lower()
    entries = [entry for entry in scope.entries if not entry.name.startswith("_")]
    if of is None:
        return [(entry.name, entry.expression) for entry in entries]
    if of in scope.qualifiers:
        return [(entry.name, entry.expression) for entry in entries if of in entry.of]
    struct = next((e for e in entries if e.name.lower() == of and e.type.name == "STRUCT"), None)
    if struct is None:
        expected = ", ".join(f"{name}.*" for name in scope.qualifiers) or "*"
        raise source.error(item.at, f"'{item.of}.*' is not defined here", expected=expected)
    return [(name, struct.expression.part(name, type_)) for name, type_ in struct.type.parts]


def _stars(scope: RowScope) -> str:
    """All columns of a join, each name once: c.*, u.* EXCEPT (id), u.id AS u_id."""
    inputs: dict[str, list[str]] = {}
    for entry in scope.entries:
        if not entry.name.startswith("_"):
            inputs.setdefault(entry.of[-1], []).append(entry.name)
    names: set[str] = set()
    items: list[str] = []
    for of, columns in inputs.items():
        repeated = [name for name in columns if name.lower() in names]
        names |= {name.lower() for name in columns}
        if len(repeated) < len(columns):
            items.append(f"{quote(of)}.*" + (f" EXCEPT ({', '.join(map(quote, repeated))})" if repeated else ""))
        items += [f"{quote(of)}.{quote(name)} AS {quote(f'{of}_{name}')}" for name in repeated]
    return ", ".join(items)


def _check_repeats(
    new_columns: Sequence[tuple[str, Expression]], before: Sequence[tuple[str, Expression]], source: SourceText, at: int
) -> None:
    names = {name.lower() for name, _ in before}
    for name, _ in new_columns:
        with located(source, at):
            check_name(name, "field")
        if name.lower() in names:
            raise source.error(
                at, f"the column '{name}' is selected twice",
                fix=f"rename one with AS, or leave one out: * EXCEPT ({quote(name)})",
            )  # fmt: skip
        names.add(name.lower())
