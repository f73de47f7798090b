"""Builds derived rows step by step, for SQL and Python alike: a relation in the making, and the names that its
expressions may use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from headrace.define.model import ARRIVED, Field, Stream
from headrace.define.relation import (
    Branch,
    Explode,
    Filter,
    Project,
    Relation,
    RowStep,
)
from headrace.define.relation_rewrites import number_of_calls, prune, with_calls
from headrace.define.sampling import make_sample
from headrace.errors import DefinitionError
from headrace.format import plural
from headrace.language import hints
from headrace.language.check import Scope
from headrace.language.coercion import VOID, common_type
from headrace.language.identifiers import check_distinct, check_name
from headrace.language.source_text import SourceText
from headrace.language.syntax import Name, Node
from headrace.language.terms import Expression, Term
from headrace.types import BOOLEAN, INT, TIMESTAMP, Type


@dataclass(frozen=True)
class RowColumn:
    """A column of the rows: the name that expressions use, and the column of the relation that it is."""

    name: str
    column: str
    type: Type
    of: tuple[str, ...] = ()  # what may stand before it, as in clicks.url: in lower case
    carried: bool = False  # the event time, which the query did not select

    @property
    def expression(self) -> Expression:
        """Its value."""
        return Expression.field(self.column, self.type)


class RowScope(Scope):
    """The names of rows. One that several inputs have needs a qualifier."""

    def __init__(self, entries: Sequence[RowColumn], owner: str, *, of_events: bool = True) -> None:
        """`of_events`: the rows are made of events, so that they have the time of arrival of these."""
        qualifiers = tuple(dict.fromkeys(of for entry in entries for of in entry.of))
        super().__init__({ARRIVED: TIMESTAMP} if of_events else {}, owner, qualifiers)
        self.entries = tuple(entries)
        self.generated: dict[Node, Term] = {}  # calls of explode in SELECT: the columns that they are
        self.fields |= {entry.name.lower(): (entry.column, entry.type) for entry in entries}

    def resolve(self, source: SourceText, node: Node) -> Term | None:
        """The column of a qualified name or an explode; raises where a name is ambiguous or no column."""
        if self.generated and node in self.generated:
            return self.generated[node]
        if not isinstance(node, Name):
            return None
        of, name = (node.of or "").lower(), node.name.lower()
        if of not in self.qualifiers:
            self._check_ambiguous(source, node, of or name)
            self._check_qualifier(source, node)
            return None
        matches = [entry for entry in self.entries if of in entry.of and entry.name.lower() == name]
        # A table that is joined twice: its name means the one without an alias.
        matches = [entry for entry in matches if entry.of[-1] == of] or matches
        if not matches:
            if name in self.fields and name == ARRIVED and of in self.entries[0].of:  # the first input is the stream
                return Term("field", TIMESTAMP, text=ARRIVED)
            if of in self.fields:
                return None  # a part of the column that has this name
            known = {entry.name: entry.type for entry in self.entries if of in entry.of}
            raise _unknown_column(source, node, known)
        if len(matches) > 1:
            aliases = dict.fromkeys(f"{entry.of[-1]}.{entry.name}" for entry in matches)
            raise source.error(
                node.at, f"'{node.of}.{node.name}' is ambiguous: '{node.of}' has two columns of that name",
                fix=f"write {' or '.join(aliases)}" if len(aliases) > 1 else "rename one with AS", span=node.span,
            )  # fmt: skip
        return Term("field", matches[0].type, text=matches[0].column)

    def _check_qualifier(self, source: SourceText, node: Name) -> None:
        """Where FROM has several inputs, the name of one of them, or of a column, stands before the dot."""
        inputs = list(dict.fromkeys(entry.of[-1] for entry in self.entries if entry.of))
        if node.of and node.of.lower() not in self.fields and len(inputs) > 1:
            raise source.error(
                node.at, f"'{node.of}.{node.name}' is not defined here", found=node.of,
                expected=f"{', '.join(inputs[:-1])} or {inputs[-1]}, which FROM names", span=node.span,
            )  # fmt: skip

    def label(self, column: str) -> str:
        """The name of a column in the text of the query."""
        return next((entry.name for entry in self.entries if entry.column == column), column)

    def _check_ambiguous(self, source: SourceText, node: Name, name: str) -> None:
        matches = [entry for entry in self.entries if entry.name.lower() == name]
        if len(matches) > 1:
            spellings = [f"{entry.of[-1]}.{entry.name}" for entry in matches if entry.of]
            raise source.error(
                node.at,
                f"'{name if node.of else node.name}' is ambiguous: several inputs have it",
                fix=f"write {' or '.join(dict.fromkeys(spellings))}" if spellings else "rename one with AS",
                span=node.span,
            )


def _unknown_column(source: SourceText, node: Name, known: dict[str, Type]) -> DefinitionError:
    spellings = {name.lower(): name for name in known}
    fix = hints.similar_name(node.name.lower(), spellings) if spellings else None
    return source.error(node.at, f"'{node.of}' has no field '{node.name}'", fix=fix, span=node.span)


EVENT_TIME = "_event_time"  # where the event time is carried when another column has its name
_FIRST_TIME = Term("literal", TIMESTAMP, text="1970-01-01 00:00:00")

NamedExpressions = Sequence[tuple[str, Expression]]


@dataclass(frozen=True)
class DerivedRows:
    """Rows in the making: branches that all have the columns of `entries`. Each method gives new rows."""

    branches: tuple[Branch, ...]
    entries: tuple[RowColumn, ...]
    event_time: str | None  # the column that holds it; None: the time of arrival
    owner: str  # in messages
    patience_ms: int = 0

    @staticmethod
    def of(stream: Stream, alias: str | None = None) -> DerivedRows:
        """The events of a stream, base or derived; its fields may be qualified by its name and by the alias."""
        of = tuple(dict.fromkeys(name.lower() for name in (stream.name, alias) if name))
        entries = tuple(RowColumn(each.name, each.name, each.type, of) for each in stream.fields)
        owner = f"stream '{stream.name}'"
        if stream.relation is None:
            reads = tuple((each.name, each.type) for each in stream.fields)
            return DerivedRows((Branch(stream.name, reads, ()),), entries, stream.event_time, owner, stream.patience_ms)
        return DerivedRows(stream.relation.branches, entries, stream.event_time, owner, stream.patience_ms)

    def scope(self) -> RowScope:
        """Return the names that an expression over these rows may use."""
        return RowScope(self.entries, self.owner)

    def star(self, of: str | None = None) -> tuple[RowColumn, ...]:
        """The columns of `*`, or of `of.*`: all that have a name of their own."""
        return tuple(
            entry for entry in self.entries if not entry.name.startswith("_") and (of is None or of.lower() in entry.of)
        )

    def named(self, alias: str) -> DerivedRows:
        """Return these rows as a subquery or CTE with this name: its columns may be qualified by it."""
        entries = tuple(replace(entry, of=(alias.lower(),)) for entry in self.entries)
        return replace(self, entries=entries, owner=f"'{alias}'")

    def then(self, step: RowStep, added: Iterable[RowColumn] = ()) -> DerivedRows:
        """These rows after a step that keeps their columns, and adds some."""
        types = {ARRIVED: TIMESTAMP, **{entry.column: entry.type for entry in self.entries}}
        steps = with_calls(step, types, number_of_calls([branch.steps for branch in self.branches]))
        branches = tuple(replace(branch, steps=(*branch.steps, *steps)) for branch in self.branches)
        return replace(self, branches=branches, entries=(*self.entries, *added))

    def columns_for(self, names: Iterable[str]) -> tuple[str, ...]:
        """A column of the relation for each name that is added: the name itself, unless the rows have it."""
        known_names = {entry.column.lower() for entry in self.entries}
        columns: list[str] = []
        for name in names:
            column, number = name, 1
            while column.lower() in known_names:
                number += 1
                column = f"_{name}_{number}"
            known_names.add(column.lower())
            columns.append(column)
        return tuple(columns)

    def where(self, condition: Expression) -> DerivedRows:
        """The rows for which a condition is true."""
        return self.then(Filter(condition))

    def select(self, columns: NamedExpressions) -> DerivedRows:
        """Rows of these columns, and of the event time: if it is not one of them, it is carried through."""
        for name, _ in columns:
            if name != EVENT_TIME:
                check_name(name, "field")
        check_distinct((name for name, _ in columns), "the column")
        columns, time, carried = self._with_event_time(columns)
        entries = tuple(RowColumn(name, name, of.type, carried=carried and name == time) for name, of in columns)
        selected = replace(self, entries=entries, event_time=time)
        same = [(entry.column, entry.expression) for entry in self.entries]
        if list(columns) == same:
            return selected
        return replace(selected, branches=self.then(Project(tuple(columns))).branches)

    def extend(self, columns: NamedExpressions, of: str | None = None) -> DerivedRows:
        """These rows with further columns; `of` qualifies them."""
        names = [name for name, _ in columns]
        for name in names:
            check_name(name, "field")
        qualifiers = (of.lower(),) if of else ()
        pairs = list(zip(self.columns_for(names), columns, strict=True))
        added = [RowColumn(name, column, value.type, qualifiers) for column, (name, value) in pairs]
        before = [(entry.column, entry.expression) for entry in self.entries]
        return self.then(Project((*before, *((column, value) for column, (_, value) in pairs))), added)

    def _with_event_time(self, columns: NamedExpressions) -> tuple[NamedExpressions, str | None, bool]:
        if self.event_time is None:
            return columns, None, False
        time = next(entry for entry in self.entries if entry.column == self.event_time)
        selected = next((name for name, of in columns if of == time.expression), None)
        if selected is not None:
            return columns, selected, False
        known_names = {name.lower() for name, _ in columns}
        name = EVENT_TIME if time.name.lower() in known_names else time.name
        return (*columns, (name, time.expression)), name, True

    def explode(
        self,
        values: Expression,
        names: Sequence[str] = (),
        *,
        outer: bool = False,
        position: str | None = None,
        of: str | None = None,
    ) -> DerivedRows:
        """A row for each element of an array or map; `of` qualifies the new columns, as the t of `t AS i`."""
        if values.type.name not in ("ARRAY", "MAP"):
            raise DefinitionError(
                f"{values.sql} has no elements", found=str(values.type), expected="an ARRAY or a MAP",
                fix=f"as in split({values.sql}, ' ')" if values.type.name == "STRING" else None,
            )  # fmt: skip
        types = tuple(type_ for _, type_ in values.type.parts)
        defaults = ("key", "value") if values.type.name == "MAP" else ("col",)
        names = tuple(names) or defaults
        if len(names) != len(types):
            raise DefinitionError(
                f"explode of {values.type} makes {len(types)} column{'s' * (len(types) > 1)}",
                found=", ".join(names), expected="the key and the value" if len(types) > 1 else "one name",
            )  # fmt: skip
        all_names = (*names, position) if position else names
        for name in all_names:
            check_name(name, "field")
        check_distinct(all_names, "the column")
        columns = self.columns_for(all_names)
        step = Explode(values, columns[: len(names)], types, outer, columns[-1] if position else None)
        qualifiers = (of.lower(),) if of else ()
        types = (*types, INT) if position else types
        added = zip(all_names, columns, types, strict=True)
        return self.then(step, (RowColumn(name, column, type_, qualifiers) for name, column, type_ in added))

    def sample(self, percent: float, keys: Sequence[Expression] = (), seed: int | None = None) -> DerivedRows:
        """A share of the rows, chosen by a hash of the keys, or of the position of the event."""
        before = [step for branch in self.branches for step in branch.steps]
        return self.then(make_sample(percent, seed, keys, before))

    def union(self, *others: DerivedRows) -> DerivedRows:
        """The rows of all of these, columns matched by their place; types are cast to the common one."""
        parts = (self, *others)
        selected = [[entry for entry in part.entries if not entry.carried] for part in parts]
        for number, entries in enumerate(selected[1:], start=2):
            if len(entries) != len(selected[0]):
                raise DefinitionError(
                    f"UNION ALL: query {number} has {plural(len(entries), 'column')} "
                    f"and the first has {len(selected[0])}",
                    found=", ".join(entry.name for entry in entries),
                    expected=", ".join(entry.name for entry in selected[0]),
                )
        columns: list[list[tuple[str, Expression]]] = [[] for _ in parts]
        for place in zip(*selected, strict=True):
            for part, column in zip(columns, _reconciled(place), strict=True):
                part.append(column)
        time = _event_time_of_union(parts, columns)
        return replace(
            self,
            branches=tuple(
                branch for part, of in zip(parts, columns, strict=True) for branch in part._projected(of).branches
            ),
            entries=tuple(
                RowColumn(name, name, of.type, carried=i >= len(selected[0])) for i, (name, of) in enumerate(columns[0])
            ),
            event_time=time,
            owner="the union",
            patience_ms=max(part.patience_ms for part in parts),
        )

    def _projected(self, columns: NamedExpressions) -> DerivedRows:
        """Exactly these columns, each one of the rows or a cast of one."""
        if list(columns) == [(entry.column, entry.expression) for entry in self.entries]:
            return self
        return replace(self, branches=tuple(_with_projection(branch, columns) for branch in self.branches))

    def watermark(self, event_time: str, patience_ms: int | None = None) -> DerivedRows:
        """These rows with another event time, another patience, or both. Rows without that time are left out."""
        time = next((entry for entry in self.entries if entry.name.lower() == event_time.lower()), None)
        if time is None:
            raise DefinitionError(
                f"{self.owner} has no column '{event_time}' to be its event time", fix="select it, or name another"
            )
        if time.type != TIMESTAMP:
            raise DefinitionError(
                f"the event time '{time.name}' is a {time.type}", expected="a TIMESTAMP",
                fix=f"select to_timestamp({time.name}) or the like AS event_time, and write WATERMARK FOR event_time",
            )  # fmt: skip
        same = time.column == self.event_time
        if patience_ms is None and same:
            return self
        branches = tuple(
            replace(branch, patience_ms=patience_ms or 0, own_time=branch.own_time or not same)
            for branch in self.branches
        )
        rows = replace(self, branches=branches, patience_ms=patience_ms or 0)
        if same:
            return rows
        # As for events of base streams: a time that cannot be has no pane.
        rows = rows.where(Expression(Term(">=", BOOLEAN, (time.expression.term, _FIRST_TIME))))
        entries = tuple(entry for entry in rows.entries if not entry.carried)
        return replace(rows, entries=entries, event_time=time.column)

    def relation(self) -> Relation:
        """The relation of all columns."""
        fields = tuple((entry.column, entry.type) for entry in self.entries)
        return prune(Relation(self.branches, fields, self.event_time), (name for name, _ in fields))

    def stream(self, name: str) -> Stream:
        """These rows as a derived stream."""
        relation = self.relation()
        fields = tuple(Field(column, of) for column, of in relation.fields)
        return Stream(name, fields, relation.event_time, self.patience_ms, relation=relation)


def _with_projection(branch: Branch, columns: NamedExpressions) -> Branch:
    """The branch with this projection, which is merged into one before it."""
    last = branch.steps[-1] if branch.steps else None
    if isinstance(last, Project):
        values = {name: of.term for name, of in last.columns}
        columns = [(name, Expression(of.term.substitute(values), of.type)) for name, of in columns]
        return replace(branch, steps=(*branch.steps[:-1], Project(tuple(columns))))
    return replace(branch, steps=(*branch.steps, Project(tuple(columns))))


def _reconciled(entries: Sequence[RowColumn]) -> list[tuple[str, Expression]]:
    """The columns of one place of a union, with the name of the first and the type of all."""
    name, type_ = entries[0].name, common_type([entry.type for entry in entries])
    if type_ is None:
        types = ", ".join(f"{entry.name} {entry.type}" for entry in entries)
        raise DefinitionError(
            f"UNION ALL: the types of column '{name}' are not compatible", found=types,
            fix=f"cast one, as in CAST({entries[-1].name} AS {entries[0].type})",
        )  # fmt: skip
    if type_ == VOID:
        raise DefinitionError(
            f"UNION ALL: the column '{name}' is NULL in every query, so that it has no type",
            fix="give it one in the first, as in CAST(NULL AS STRING)",
        )
    return [
        (
            name,
            entry.expression if entry.type == type_ else entry.expression.cast(type_),
        )
        for entry in entries
    ]


def _event_time_of_union(parts: Sequence[DerivedRows], columns: list[list[tuple[str, Expression]]]) -> str | None:
    """The column that holds the event time in every part; it is added to `columns` if it has no place in common."""
    if all(part.event_time is None for part in parts):
        return None
    times = [Expression.field(part.event_time or ARRIVED, TIMESTAMP) for part in parts]
    for place, (name, _) in enumerate(columns[0]):
        if all(column[place][1] == time for column, time in zip(columns, times, strict=True)):
            return name
    own = next(e.name for part in parts for e in part.entries if e.column == part.event_time)
    known_names = {name.lower() for name, _ in columns[0]}
    name = EVENT_TIME if own.lower() in known_names else own
    for column, time in zip(columns, times, strict=True):
        column.append((name, time))
    return name
