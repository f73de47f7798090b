"""Reads CREATE ALERT: a SELECT over a view with its condition, or the absence of events."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.define.definition_rules import check_distinct, check_name, located
from headrace.define.expression.check import Checker, check, check_condition
from headrace.define.model import Alert, Output, Stream, View
from headrace.define.outgoing_rules import make_absence, make_alert, row_scope
from headrace.define.sql.options import OptionsReader, WrittenOption, at_option, canonical
from headrace.define.sql.select import SelectItem
from headrace.errors import DefinitionError
from headrace.language.source_text import QUOTED, WORD, Mistakes, SourceText
from headrace.language.syntax import Node, Star

_NOT_IN_ALERTS = ("GROUP", "HAVING", "ORDER", "LIMIT", "JOIN")


@dataclass(frozen=True)
class AlertStatement:
    """CREATE ALERT as it was written; `where` and `items` of one for absence are not there."""

    source: SourceText
    at: int
    name: str
    reads: str
    reads_at: int
    items: tuple[SelectItem, ...]
    where: Node | None
    for_ms: int
    absent_ms: int | None
    options: tuple[WrittenOption, ...]
    on_close: bool
    mistakes: tuple[DefinitionError, ...] = ()


def build_alert(statement: AlertStatement, reads: Stream | View) -> Alert:
    """The alert over what it reads; raises all mistakes of the statement at once."""
    source, options = statement.source, canonical(list(statement.options))
    mistakes = Mistakes(statement.mistakes)
    with located(source, statement.at), at_option(source, statement.options):
        if statement.absent_ms is not None:
            mistakes.check()
            return make_absence(statement.name, reads, statement.absent_ms, options)
        scope = row_scope(reads)
        outputs: list[Output] = []
        for item in statement.items:
            with mistakes.collect():
                expression = check(source, item.node, scope)
                name = item.alias or Checker(source, scope).name(item.node)
                if name is None:
                    raise source.error(item.node.at, "this expression has no name", fix="add one: AS total, or another")
                with located(source, item.node.at):
                    check_name(name, "field")
                outputs.append(Output(name, expression))
        with mistakes.collect():
            check_distinct([output.name for output in outputs], "the column")
        where = None
        with mistakes.collect():
            assert statement.where is not None, "only an alert for absence has no condition"
            where = check_condition(source, statement.where, scope, "WHERE")
        mistakes.check()
        assert where is not None, "without a mistake there is a condition"
        return make_alert(
            statement.name, reads, tuple(outputs), where, statement.for_ms, options, on_close=statement.on_close
        )


class AlertReader(OptionsReader):
    """Reads what follows CREATE ALERT."""

    def alert(self) -> AlertStatement:
        """The alert, up to the end of its statement."""
        name = self.read_declared_name("alert")
        items: list[SelectItem] = []
        where: Node | None = None
        absent_ms: int | None = None
        if self.accept("ON"):
            if not (self.accept("STREAM") or self.accept("VIEW")):
                self.accept("MATERIALIZED", "VIEW")
            reads = self.expect_name("a stream or a view")
            self.expect("WHEN", "the name")
            if not self.accept("ABSENT") and not self.accept("NO", "EVENTS"):
                raise self.unexpected("NO EVENTS or ABSENT after WHEN")
            self.expect("FOR", "WHEN NO EVENTS")
            absent_ms = self.read_duration()
        else:
            self.expect("AS", f"CREATE ALERT {name.text}")
            self.expect("SELECT", "AS")
            items = self._alert_items()
            self.expect("FROM", "the columns")
            reads = self.expect_name("a view")
            where = self._alert_condition(name.text)
        for_ms, options, on_close = self._alert_clauses(name.text, absent=absent_ms is not None)
        return AlertStatement(
            self.source, name.start, name.text, reads.text, reads.start, tuple(items), where, for_ms, absent_ms,
            tuple(options), on_close, tuple(self.mistakes.errors),
        )  # fmt: skip

    def _alert_clauses(self, name: str, *, absent: bool) -> tuple[int, list[WrittenOption], bool]:
        """FOR, WITH and EMIT, in any order."""
        for_ms, on_close = 0, False
        options: list[WrittenOption] = []
        clauses: set[str] = set()
        while not self.at_end():
            word, at = self.next.upper, self.next.start
            if word in clauses:
                raise self.error(at, f"alert '{name}' has two {word} clauses", fix="keep one")
            clauses.add(word)
            if self.sees_options():
                options = self.read_options()
            elif not absent and self.accept("FOR"):
                for_ms = self.read_duration()
            elif not absent and self.accept("EMIT", "ON", "WINDOW", "CLOSE"):
                on_close = True
            elif absent or not self.accept("EMIT", "CHANGES"):
                raise self.unexpected("WITH (…) or ';'" if absent else "FOR, WITH (…), EMIT ON WINDOW CLOSE or ';'")
        return for_ms, options, on_close

    def _alert_items(self) -> list[SelectItem]:
        """The items of SELECT; none for `*`."""
        if self.accept_symbol("*"):
            return []
        items = [self._alert_item()]
        while self.accept_symbol(","):
            items.append(self._alert_item())
        return [] if len(items) == 1 and isinstance(items[0].node, Star) else items

    def _alert_item(self) -> SelectItem:
        node = self.expression()
        if self.accept("AS") or (self.next.kind in (WORD, QUOTED) and not self.sees("FROM")):
            return SelectItem(node, self.expect_name("a column").text)
        return SelectItem(node, None)

    def _alert_condition(self, name: str) -> Node:
        if self.next.upper in _NOT_IN_ALERTS:
            raise self.error(
                self.next.start,
                f"alert '{name}': {self.next.upper} belongs to a view",
                fix="make a materialized view of the query; an alert has WHERE over its columns",
            )
        self.expect("WHERE", "the view")
        return self.expression()
