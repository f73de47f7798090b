"""The names that expressions over derived rows may use: columns of several inputs, with or without a qualifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.define.expression import hints
from headrace.define.expression.check import Scope
from headrace.define.expression.syntax import Name, Node
from headrace.define.expression.terms import Term, quote
from headrace.define.model import ARRIVED
from headrace.define.tokens import Source
from headrace.errors import DefinitionError
from headrace.types import TIMESTAMP, Expression, Type


@dataclass(frozen=True)
class Entry:
    """A column of the rows: the name that expressions use, and the column of the relation that it is."""

    name: str
    column: str
    type: Type
    of: tuple[str, ...] = ()  # what may stand before it, as in clicks.url: in lower case
    carried: bool = False  # the event time, which the query did not select

    @property
    def expression(self) -> Expression:
        """Its value."""
        return Expression(quote(self.column), self.type)


class RowScope(Scope):
    """The names of rows. One that several inputs have needs a qualifier."""

    def __init__(self, entries: Sequence[Entry], owner: str, *, of_events: bool = True) -> None:
        """`of_events`: the rows are made of events, so that they have the time of arrival of these."""
        qualifiers = tuple(dict.fromkeys(of for entry in entries for of in entry.of))
        super().__init__({ARRIVED: TIMESTAMP} if of_events else {}, owner, qualifiers)
        self.entries = tuple(entries)
        self.generated: dict[Node, Term] = {}  # calls of explode in SELECT: the columns that they are
        self.fields |= {entry.name.lower(): (entry.column, entry.type) for entry in entries}

    def resolve(self, source: Source, node: Node) -> Term | None:
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

    def _check_qualifier(self, source: Source, node: Name) -> None:
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

    def _check_ambiguous(self, source: Source, node: Name, name: str) -> None:
        matches = [entry for entry in self.entries if entry.name.lower() == name]
        if len(matches) > 1:
            spellings = [f"{entry.of[-1]}.{entry.name}" for entry in matches if entry.of]
            raise source.error(
                node.at,
                f"'{name if node.of else node.name}' is ambiguous: several inputs have it",
                fix=f"write {' or '.join(dict.fromkeys(spellings))}" if spellings else "rename one with AS",
                span=node.span,
            )


def _unknown_column(source: Source, node: Name, known: dict[str, Type]) -> DefinitionError:
    spellings = {name.lower(): name for name in known}
    fix = hints.similar_name(node.name.lower(), spellings) if spellings else None
    return source.error(node.at, f"'{node.of}' has no field '{node.name}'", fix=fix, span=node.span)
