"""Reads the statements of a definition file: CREATE STREAM and CREATE MATERIALIZED VIEW; others are refused by name."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.define.durations import SECOND_MS
from headrace.define.expression.check import Checker, Scope, check
from headrace.define.expression.computed import refuse_computed
from headrace.define.expression.parser import ExpressionParser
from headrace.define.expression.syntax import Call, Interval, Name, Node, Operation
from headrace.define.mistakes import Mistakes, each
from headrace.define.model import JSON, Field, Stream
from headrace.define.rules import check_distinct, check_event_time, check_format, check_name, located, part_hint
from headrace.define.sql.select import Item, Select
from headrace.define.tokens import END, STRING, SYMBOL, Source, Token
from headrace.errors import DefinitionError, Location
from headrace.types import Type

_NOT_IN_VIEWS = {
    "HAVING": "filter the answer, or use WHERE and FILTER",
    "ORDER": "order the answer, as in `headrace sql`",
    "SORT": "order the answer, as in `headrace sql`",
    "LIMIT": "limit the answer, as in `headrace ask --limit`",
    "UNION": "make two views",
    "EXCEPT": "make two views",
    "INTERSECT": "make two views",
    "QUALIFY": "filter the answer",
    "EMIT": "a view is always up to date; `settled` says which rows are final",
}
_SECOND_QUERY = ("UNION", "EXCEPT", "INTERSECT")
_JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "LATERAL", "ANTI", "SEMI")
_JOIN_FIX = "send events that contain all fields; joins of streams are not available yet"


@dataclass(frozen=True)
class Declared:
    """A definition and its place; a view in SQL is a Select until its stream is known."""

    definition: Stream | Select
    where: Location


def read_statements(source: Source) -> tuple[list[Declared], list[DefinitionError]]:
    """All statements of a text, and all mistakes: a mistake ends its statement, not the reading."""
    declared: list[Declared] = []
    errors: list[DefinitionError] = []
    try:
        statements = Statements(source)
    except DefinitionError as e:
        return [], [e]
    while statements.next.kind != END:
        if statements.accept_symbol(";"):
            continue
        try:
            declared.append(statements.statement())
        except DefinitionError as e:
            errors += [*statements.mistakes.errors, *each(e)]
            statements.skip()
    return declared, errors


@dataclass(frozen=True)
class _Column:
    """A field as it was written."""

    name: Token
    type: Type | None
    nullable: bool
    computed: Node | None


def read_fields(source: Source) -> tuple[Field, ...]:
    """The fields that a text such as "page STRING, status INT NOT NULL" declares, as in CREATE STREAM."""
    statements = Statements(source)
    fields, watermark = statements.fields("the stream")
    if watermark:
        raise statements.error(
            watermark[0].start, "WATERMARK is not used in Python", fix='event_time="at", patience="1 minute"'
        )
    return fields


class Statements(ExpressionParser):
    """A parser that also reads statements."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.mistakes = Mistakes()  # of the statement that is being read

    def skip(self) -> None:
        """Go on after the next semicolon."""
        self.depth = 0
        while self.next.kind != END and not self.accept_symbol(";"):
            self.take()

    def statement(self) -> Declared:
        """One statement, up to its semicolon or the end."""
        start, self.mistakes = self.next, Mistakes()
        if not self.accept("CREATE"):
            raise self.error(
                start.start,
                "a definition file contains only CREATE STREAM and CREATE MATERIALIZED VIEW",
                found=start.describe(),
                fix="for queries use `headrace ask` or `headrace sql`; to drop a stream or view, delete its definition",
            )
        if self.accept("OR") and not (self.accept("REPLACE") or self.accept("REFRESH")):
            raise self.unexpected("REPLACE or REFRESH after CREATE OR")
        if self.accept("STREAM") or self.accept("STREAMING", "TABLE"):
            definition: Stream | Select = self._stream()
        elif self.accept("MATERIALIZED", "VIEW"):
            definition = self._view()
        else:
            raise self._unknown_statement()
        if self.next.kind != END:
            self.expect_symbol(";", "the statement")
        return Declared(definition, self.source.locate(start.start))

    def _unknown_statement(self) -> DefinitionError:
        token = self.next
        if token.upper == "VIEW":
            return self.error(
                token.start,
                "plain CREATE VIEW is not available",
                fix="write CREATE MATERIALIZED VIEW, which is kept up to date",
            )
        fix = "a table of events is a stream: write CREATE STREAM" if token.upper in ("TABLE", "SOURCE") else None
        return self.error(
            token.start,
            "this cannot be created",
            found=token.describe(),
            expected="STREAM or MATERIALIZED VIEW",
            fix=fix,
        )

    def _refuse(self, at: int, message: str, fix: str) -> None:
        """A mistake behind which the statement reads on."""
        self.mistakes.errors.append(self.error(at, message, fix=fix))

    def _name(self, what: str) -> Token:
        at = self.next.start
        if self.accept("IF", "NOT", "EXISTS"):
            self._refuse(at, "IF NOT EXISTS is not allowed here", "remove it: definitions are declarative")
        token = self.expect_name(f"the {what}")
        with self.mistakes.collect(), located(self.source, token.start):
            check_name(token.text, what)
        return token

    def _stream(self) -> Stream:
        name = self._name("stream")
        if self.sees("AS"):
            raise self.error(
                self.next.start,
                f"stream '{name.text}': a stream made from another one is not available yet",
                fix="put the condition into the WHERE of each view",
            )
        before = self._format()
        self.expect_symbol("(", f"CREATE STREAM {name.text}")
        fields, watermark = self._fields(f"stream '{name.text}'", closing=")")
        after, event_time, patience_ms = None, None, 0
        with self.mistakes.collect():
            after = self._format()
        if watermark:
            token, patience_ms = watermark
            with self.mistakes.collect(), located(self.source, token.start):
                event_time = check_event_time(token.text, fields, name.text, complete=not self.mistakes)
        self.mistakes.check()
        written, format_ = after or before, JSON
        if written:
            with located(self.source, written.start):
                format_ = check_format(written.text, fields, name.text)
        return Stream(name.text, fields, event_time, patience_ms, format_)

    def _format(self) -> Token | None:
        """The word after FORMAT, which stands after the fields or before them."""
        if self.sees("WITH") or self.sees("USING") or self.sees("ROW", "FORMAT"):
            raise self.error(
                self.next.start, f"a stream has no {self.next.upper}", fix="write FORMAT TEXT or FORMAT JSON"
            )
        return self.expect_name("a format") if self.accept("FORMAT") else None

    def fields(self, owner: str) -> tuple[tuple[Field, ...], tuple[Token, int] | None]:
        """Fields up to the end of the text, and the WATERMARK among them."""
        fields, watermark = self._fields(owner, closing=END)
        self.mistakes.check()
        return fields, watermark

    def _fields(self, owner: str, closing: str) -> tuple[tuple[Field, ...], tuple[Token, int] | None]:
        """The fields without those that have a mistake, which is collected."""
        columns: list[_Column] = []
        broken: list[str] = []
        watermark = None
        while True:
            start, known = self.index, len(self.mistakes.errors)
            with self.mistakes.collect():
                if not self.sees("WATERMARK", "FOR"):
                    columns.append(self._column(owner))
                elif watermark:
                    raise self.error(self.next.start, f"{owner} has two WATERMARKs", fix="keep one")
                else:
                    watermark = self._watermark()
            if len(self.mistakes.errors) > known:
                broken.append(self.tokens[start].text)
                self._skip_field(start)
            if not self.accept_symbol(","):
                break
        with self.mistakes.collect():
            if closing == END and self.next.kind != END:
                raise self.unexpected("',' or the end after a field")
            if closing != END and not (self.mistakes and self._at_end()):
                self.expect_symbol(closing, f"the fields of {owner}")
        return self._checked_fields(columns, owner, broken), watermark

    def _at_end(self) -> bool:
        """Whether the statement ends here."""
        return self.next.kind == END or self.sees_symbol(";")

    def _skip_field(self, start: int) -> None:
        """Go on behind the field that begins at this token."""
        self.index, self.depth = start, 0
        nesting = 0
        while not self._at_end():
            if nesting == 0 and self.sees_symbol(",", ")"):
                return
            token = self.take()
            opens = self.sees_symbol("<") and token.upper in ("ARRAY", "MAP", "STRUCT")
            if opens or (token.kind == SYMBOL and token.text in "(["):
                nesting += 1
            elif token.kind == SYMBOL and token.text in ")]>":
                nesting = max(0, nesting - 1)

    def _column(self, owner: str) -> _Column:
        name = self.expect_name("a field")
        with self.mistakes.collect(), located(self.source, name.start):
            check_name(name.text, "field")
        type_ = None if self.sees("AS") else self.read_type()
        nullable, computed = True, None
        while True:
            if self.accept("NOT", "NULL"):
                nullable = False
            elif self.accept("NULL"):
                nullable = True
            elif computed is None and (self.accept("GENERATED", "ALWAYS", "AS") or self.accept("AS")):
                computed = self.expression()
            elif self.sees("PRIMARY") or self.sees("UNIQUE"):
                raise self.error(
                    self.next.start, f"{owner} is a log of events: it has no {self.next.upper} key", fix="remove it"
                )
            elif self.sees("DEFAULT"):
                raise self.error(
                    self.next.start, "DEFAULT is not supported", fix=f"write coalesce({name.text}, …) where it is used"
                )
            elif self.accept("COMMENT"):
                if self.next.kind != STRING:
                    raise self.unexpected("a text after COMMENT")
                self.take()
            else:
                return _Column(name, type_, nullable, computed)

    def _checked_fields(self, columns: list[_Column], owner: str, broken: list[str]) -> tuple[Field, ...]:
        for i, column in enumerate(columns):
            with self.mistakes.collect(), located(self.source, column.name.start):
                same = [c.name.text for c in columns[:i] if c.name.text.lower() == column.name.text.lower()]
                check_distinct([*same[:1], column.name.text], f"{owner}: the field")
        types = {c.name.text: c.type for c in columns if c.type and c.computed is None}
        plain = Scope(types, owner, broken=broken)
        computed = {c.name.text.lower() for c in columns if c.computed is not None}
        if len(computed) == len(columns) and not broken:
            raise self.error(
                columns[0].name.start if columns else 0,
                f"{owner} has only computed fields",
                fix="declare the fields of the events",
            )
        fields: list[Field] = []
        for column in columns:
            with self.mistakes.collect():
                fields.append(self._field(column, plain, computed))
        return tuple(fields)

    def _field(self, column: _Column, plain: Scope, computed: set[str]) -> Field:
        name, node = column.name.text, column.computed
        if node is None:
            assert column.type is not None, "a field without AS needs a type"
            return Field(name, column.type, column.nullable)
        try:
            expression = check(self.source, node, plain)
        except DefinitionError as e:
            for one in each(e):
                if any(f"no field '{other}'" in one.message.lower() for other in computed):
                    one.fix = "a computed field reads declared fields only, not other computed ones"
            raise
        if column.type and column.type != expression.type:
            raise self.error(
                node.at,
                f"the computed field '{name}' is declared {column.type}",
                found=f"{expression.type} ({expression.sql})",
                fix=f"write CAST(… AS {column.type}) or declare it {expression.type}",
            )
        if expression.type.is_nested:
            raise self.error(
                node.at,
                f"the computed field '{name}' is not a single value",
                found=str(expression.type),
                fix=part_hint(expression),
            )
        refused = refuse_computed(Checker(self.source, plain).term(node))
        if refused:
            raise self.error(node.at, refused.message, found=refused.found, expected=refused.expected, fix=refused.fix)
        return Field(name, expression.type, column.nullable, expression)

    def _watermark(self) -> tuple[Token, int]:
        self.accept("WATERMARK", "FOR")
        name = self.expect_name("the event time")
        if not self.accept("AS"):
            return name, 0
        node = self.expression()
        match node:
            case Name() if node.name.lower() == name.text.lower():
                return name, 0
            case Operation(op="-", args=(Name() as field, Interval() as patience)):
                if field.name.lower() == name.text.lower():
                    return name, patience.ms
        raise self.error(
            node.at,
            "this WATERMARK is not supported",
            expected=f"WATERMARK FOR {name.text} AS {name.text} - INTERVAL 1 MINUTE",
        )

    def _view(self) -> Select:
        name = self._name("view")
        schedule_ms = self._schedule() if self.accept("SCHEDULE") else None
        self.expect("AS", f"CREATE MATERIALIZED VIEW {name.text}")
        if self.sees("WITH"):
            raise self.error(self.next.start, "WITH is not supported in a view", fix="write one SELECT over one stream")
        self.expect("SELECT", "AS")
        if self.sees("DISTINCT"):
            raise self.error(
                self.next.start, "SELECT DISTINCT is not supported in a view", fix="GROUP BY gives each key once"
            )
        items = [self.item()]
        while self.accept_symbol(","):
            items.append(self.item())
        self.expect("FROM", "the columns")
        stream, alias, table_window = self._from()
        where = self.expression() if self.accept("WHERE") else None
        groups = self._group_by() if self.accept("GROUP", "BY") else []
        self._refuse_clauses()
        return Select(
            self.source, name.start, name.text, schedule_ms, tuple(items), stream.text, stream.start, alias, where,
            tuple(groups), table_window, tuple(self.mistakes.errors),
        )  # fmt: skip

    def _schedule(self) -> int:
        at = self.next.start
        self.accept("REFRESH")
        if not self.accept("EVERY"):
            raise self.error(at, "a schedule is a fixed duration", expected="SCHEDULE EVERY 1 HOUR")
        at = self.next.start
        ms = self.read_duration()
        if ms < SECOND_MS:
            raise self.error(at, "a schedule is at least 1 second", fix="for example SCHEDULE EVERY 1 HOUR")
        return ms

    def item(self) -> Item:
        """An expression, with a name if AS or a bare word follows."""
        node = self.expression()
        if self.accept("AS"):
            return Item(node, self.expect_name("a column").text)
        if self.next.kind in ("word", "name") and not self.sees("FROM"):
            return Item(node, self.expect_name("a column").text)
        return Item(node, None)

    def _from(self) -> tuple[Token, str | None, Call | None]:
        if self.sees_symbol("("):
            raise self.error(self.next.start, "a query inside FROM is not supported", fix="name a stream")
        wrapped = self.accept("TABLE")
        if wrapped:
            self.expect_symbol("(", "TABLE")
        table_window = None
        if self.next.upper in ("TUMBLE", "HOP") and self.ahead(1).text == "(":
            stream, table_window = self._window_table()
        else:
            stream = self.expect_name("a stream")
        if wrapped:
            self.expect_symbol(")", "TABLE(…")
        self._refuse_joins()
        alias = None
        if self.accept("AS") or (self.next.kind in ("word", "name") and not self._at_clause()):
            alias = self.expect_name("the alias of the stream").text
        self._refuse_joins()
        return stream, alias, table_window

    def _window_table(self) -> tuple[Token, Call]:
        call = self.take()
        self.take()
        self.accept("TABLE")
        stream = self.expect_name("a stream")
        self.expect_symbol(",", "the stream")
        args: list[Node] = []
        if self.accept("DESCRIPTOR"):
            self.expect_symbol("(", "DESCRIPTOR")
            column = self.expect_name("the event time")
            args.append(Name(column.start, column.text))
            self.expect_symbol(")", "DESCRIPTOR(…")
            self.expect_symbol(",", "DESCRIPTOR(…)")
            args.append(self.expression())
            while self.accept_symbol(","):
                args.append(self.expression())
            self.expect_symbol(")", f"{call.upper}(…")
        else:
            args = self._list(f"the arguments of {call.upper}")
        return stream, Call(call.start, call.text, tuple(args))

    def _at_clause(self) -> bool:
        return self.next.upper in ("WHERE", "GROUP", *_NOT_IN_VIEWS)

    def _refuse_joins(self) -> None:
        if self.next.upper in _JOINS or self.sees_symbol(","):
            raise self.error(self.next.start, "a view reads one stream", fix=_JOIN_FIX)

    def _group_by(self) -> list[Node]:
        for word in ("ALL", "CUBE", "ROLLUP", "GROUPING"):
            if self.sees(word) and not self.ahead(1).text == ",":
                raise self.error(
                    self.next.start,
                    f"GROUP BY {word} is not supported",
                    fix="name the keys; a question can merge any of them with by=",
                )
        groups = [self.expression()]
        while self.accept_symbol(","):
            groups.append(self.expression())
        return groups

    def _refuse_clauses(self) -> None:
        while self.next.upper in _NOT_IN_VIEWS:
            word, at = self.next.upper, self.next.start
            shown = f"{word} BY" if word in ("ORDER", "SORT") else word
            self._refuse(at, f"{shown} is not supported in a view", _NOT_IN_VIEWS[word])
            self.take()
            while not self._at_end() and (word in _SECOND_QUERY or self.next.upper not in _NOT_IN_VIEWS):
                self.take()
