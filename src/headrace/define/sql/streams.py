"""Reads CREATE STREAM: fields, computed fields, WATERMARK, UNIQUE; `sources` reads what stands around them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.define.definition_rules import (
    check_distinct,
    check_event_time,
    check_format,
    check_name,
    located,
    part_hint,
)
from headrace.define.expression.check import Checker, Scope, check
from headrace.define.kafka_record import check_record_fields, check_type
from headrace.define.model import JSON, Field, Stream
from headrace.define.own import functions_in
from headrace.define.sql.unique import UniqueReader
from headrace.engine.duckdb_terms import refuse_computed
from headrace.errors import DefinitionError
from headrace.language.paths import format_path, parse_path
from headrace.language.source_text import END, STRING, SYMBOL, SourceText, Token, each
from headrace.language.syntax import Interval, Name, Node, Operation
from headrace.language.terms import quote
from headrace.language.token_cursor import DECIMALS, TYPES
from headrace.types import Type


@dataclass(frozen=True)
class _Column:
    """A field as it was written."""

    name: Token
    type: Type | None
    nullable: bool
    computed: Node | None
    path: str | None = None
    record: str | None = None


def read_fields(source: SourceText) -> tuple[Field, ...]:
    """The fields that a text such as "page STRING, status INT NOT NULL" declares, as in CREATE STREAM."""
    reader = StreamReader(source)
    fields, watermark = reader.fields("the stream")
    if watermark:
        raise reader.error(
            watermark[0].start, "WATERMARK is not used in Python", fix='event_time="at", patience="1 minute"'
        )
    if reader.unique:
        raise reader.error(reader.unique.at, "UNIQUE is not used in Python", fix='unique=("id",), within="1 day"')
    return fields


class StreamReader(UniqueReader):
    """Reads what follows CREATE STREAM."""

    def __init__(self, source: SourceText, unreadable: list[DefinitionError] | None = None) -> None:
        super().__init__(source, unreadable)
        self._record_spans: dict[str, tuple[int, int]] = {}  # of fields that are parts of records
        self._starts: dict[str, int] = {}  # where the fields of the statement are declared
        self._primary_key: list[Token] | None = None  # the columns of a table's primary key; None: it is no table

    def stream(self) -> Stream:
        """The stream, up to the end of its statement."""
        self._idle_timeout_ms, self._source, self.unique = None, None, None  # not those of the statement before
        self._record_spans.clear()
        kind = "stream" if self._primary_key is None else "table"
        name = self.read_declared_name(kind)
        format_before = self.read_format()
        if not self.sees_symbol("("):
            raise self.error(
                self.next.start, f"{kind} '{name.text}' has no fields", found=self.next.describe(),
                expected=f"CREATE {kind.upper()} {quote(name.text)} (page STRING, …)",
                fix="declare the fields of the events; WITH (connector = 'kafka', topic = '…') follows them",
            )  # fmt: skip
        self.take()
        fields, watermark = self._fields(f"{kind} '{name.text}'", closing=")")
        format_after, event_time, patience_ms, source_is_known = None, None, 0, False
        self._types = {field.name.lower(): field.type for field in fields}
        self._fields_end = self.tokens[self.index - 1].start
        with self.mistakes.collect():
            format_after = self.read_format()
            source_is_known = True
        if watermark:
            time_field, patience_ms = watermark
            with self.mistakes.collect(), located(self.source, time_field.start):
                event_time = check_event_time(time_field.text, fields, name.text, complete=not self.mistakes, of=kind)
        for field in fields if source_is_known else ():
            self._check_record(field, name.text)
        unique = self.check_unique(fields, name.text)
        self.mistakes.check()
        word, format_ = format_after or format_before, JSON
        if word:
            with located(self.source, word.at):
                format_ = check_format(word.text, fields, name.text, self._source)
        options = (format_, self._idle_timeout_ms, self._source)
        return Stream(name.text, fields, event_time, patience_ms, *options, unique=unique)

    def fields(self, owner: str) -> tuple[tuple[Field, ...], tuple[Token, int] | None]:
        """Fields up to the end of the text, and the WATERMARK among them."""
        fields, watermark = self._fields(owner, closing=END)
        self.mistakes.check()
        return fields, watermark

    def _fields(self, owner: str, closing: str) -> tuple[tuple[Field, ...], tuple[Token, int] | None]:
        """The valid fields; the mistakes of others are collected."""
        columns: list[_Column] = []
        broken: list[str] = []
        watermark = None
        while True:
            start, errors_before = self.index, len(self.mistakes.errors)
            with self.mistakes.collect():
                if self._primary_key is not None and self._accept_primary_key():
                    self._refuse_second_key(owner)
                    self._primary_key += self._key_columns()
                elif self._sees_constraint():
                    raise self._constraint(owner)
                elif self.sees_unique():
                    self.read_unique(owner)
                elif self.sees("WATERMARK") and self.ahead(1).upper not in ("FOR", *TYPES, *DECIMALS):
                    raise self.error(
                        self.next.start, "a WATERMARK names the event time first",
                        expected="WATERMARK FOR at AS at - INTERVAL 1 MINUTE",
                    )  # fmt: skip
                elif not self.sees("WATERMARK", "FOR"):
                    columns.append(self._column(owner))
                elif watermark:
                    raise self.error(self.next.start, f"{owner} has two WATERMARKs", fix="keep one")
                else:
                    watermark = self.read_watermark()
            if len(self.mistakes.errors) > errors_before:
                broken.append(self.tokens[start].text)
                self._skip_field(start)
            if not self.accept_symbol(","):
                break
        with self.mistakes.collect():
            if closing == END and self.next.kind != END:
                raise self.unexpected("',' or the end after a field")
            if closing != END and not (self.mistakes and self.at_end()):
                self.expect_symbol(closing, f"the fields of {owner}")
        return self._check_fields(columns, owner, broken), watermark

    def _skip_field(self, start: int) -> None:
        """Continue after the field that begins at this token."""
        self.index, self.depth = start, 0
        nesting = 0
        while not self.at_end():
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
        if self.sees("PRIMARY", "KEY"):
            raise self.error(
                self.next.start, f"{owner}: the column '{name.text}' has no type",
                fix=f"write it before PRIMARY KEY, as in {name.text} STRING PRIMARY KEY",
            )  # fmt: skip
        type_ = None if self.sees("AS") else self.read_type()
        nullable, expression, path, record = True, None, None, None
        while True:
            if self.accept("NOT", "NULL"):
                nullable = False
            elif self.accept("NULL"):
                nullable = True
            elif expression is None and (self.accept("GENERATED", "ALWAYS", "AS") or self.accept("AS")):
                expression = self.expression()
            elif record is None and self.sees_record():
                start, record = self.index, self.read_record(name.text)
                self._record_spans[name.text] = self.span_since(start)
            elif path is None and self.sees("FROM"):
                path = self._path(name.text)
            elif self._primary_key is not None and self.accept("PRIMARY", "KEY"):
                self._refuse_second_key(owner)
                self._primary_key.append(name)
                self.accept("NOT", "ENFORCED")
            elif self.sees("UNIQUE"):
                at = self.take().start
                self.remember(at, (name,), owner)
            elif self.sees("PRIMARY") or self.sees("KEY"):
                at, start = self.next.start, self.index
                self.take()
                self.accept("KEY")
                self.accept("NOT", "ENFORCED")
                raise self.error(
                    at, f"{owner} is a log of events, which keeps them all: it has no key",
                    fix=f"remove {self.text_since(start)}", write=" ", end=self.tokens[self.index - 1].end,
                )  # fmt: skip
            elif self.sees("DEFAULT"):
                at, start = self.take().start, self.index
                self.expression()
                coalesce = f"coalesce({name.text}, {self.text_since(start)})"
                raise self.error(
                    at, "DEFAULT is not supported", fix=f"remove it, and write {coalesce} where it is used",
                    write=" ", end=self.tokens[self.index - 1].end,
                )  # fmt: skip
            elif self.sees("CODEC") and self.ahead(1).text == "(":  # of ClickHouse
                at = self.take().start
                self.skip_parentheses()
                raise self.error(
                    at, "a field has no CODEC: the log is compressed", fix="remove it", write=" ",
                    end=self.tokens[self.index - 1].end,
                )  # fmt: skip
            elif self.accept("COMMENT"):
                self.read_comment()
            else:
                return self._checked_column(_Column(name, type_, nullable, expression, path, record))

    def _check_record(self, field: Field, stream: str) -> None:
        """Report a part of a Kafka record in another stream; it could be left out."""
        span = self._record_spans.get(field.name)
        if span is None:
            return
        with self.mistakes.collect(), located(self.source, span[0]):
            try:
                check_record_fields([field], self._source, stream)
            except DefinitionError as error:
                error.write, error.replaces = " ", span
                raise

    def _path(self, name: str) -> str:
        """What follows FROM; the path of the field's own name is the field without FROM."""
        at = self.take().start
        if self.next.kind != STRING:
            raise self.unexpected("a text after FROM, as in FROM 'log.level' or FROM '$.service.name'")
        text = self.take().text
        with located(self.source, at):
            return format_path(parse_path(text))

    def _checked_column(self, column: _Column) -> _Column:
        if [column.path, column.record, column.computed].count(None) < 2:
            both = "FROM twice" if column.computed is None else "both FROM and AS"
            raise self.error(
                column.name.start,
                f"the field '{column.name.text}' has {both}",
                fix="declare a field with FROM, and one with AS that is computed from it",
            )
        return replace(column, path=None) if column.path == column.name.text else column

    def _accept_primary_key(self) -> bool:
        """Read PRIMARY KEY of a table, which may have a name; its columns follow."""
        if self.sees("CONSTRAINT") and self.ahead(2).upper == "PRIMARY":
            self.take()
            self.take()
        return self.accept("PRIMARY", "KEY")

    def _refuse_second_key(self, owner: str) -> None:
        if self._primary_key:
            fix = f"keep one; a key of several columns is PRIMARY KEY ({self._primary_key[0].text}, …)"
            raise self.error(self.tokens[self.index - 2].start, f"{owner} has two PRIMARY KEYs", fix=fix)

    def _key_columns(self) -> list[Token]:
        """The columns of PRIMARY KEY (a, b) NOT ENFORCED."""
        self.expect_symbol("(", "PRIMARY KEY")
        columns = [self.expect_name("a column of the key")]
        while self.accept_symbol(","):
            columns.append(self.expect_name("a column of the key"))
        self.expect_symbol(")", "the columns of the key")
        self.accept("NOT", "ENFORCED")
        return columns

    def _sees_constraint(self) -> bool:
        return not self.sees_unique() and (self.sees("PRIMARY", "KEY") or self.sees("CONSTRAINT"))

    def _constraint(self, owner: str) -> DefinitionError:
        """PRIMARY KEY (a, b) NOT ENFORCED: it would make a table of the events, where a later one replaces another."""
        start = self.index
        at = self.tokens[start - 1].start if self.tokens[start - 1].text == "," else self.next.start
        while not self.at_end() and self.next.text != "(":
            self.take()
        while not self.at_end() and not self.accept_symbol(")"):
            self.take()
        self.accept("NOT", "ENFORCED")
        text = self.text_since(start)
        error = self.error(
            self.tokens[start].start, f"{owner} is a log of events, which keeps them all: it has no key",
            fix=f"remove {text}; the latest x of a key is last(x), and UNIQUE (id) WITHIN INTERVAL 1 DAY "
            "counts repeats once",
        )  # fmt: skip
        error.write, error.replaces = " ", (at, self.tokens[self.index - 1].end)
        return error

    def _check_fields(self, columns: list[_Column], owner: str, broken: list[str]) -> tuple[Field, ...]:
        for i, column in enumerate(columns):
            with self.mistakes.collect(), located(self.source, column.name.start):
                same = [c.name.text for c in columns[:i] if c.name.text.lower() == column.name.text.lower()]
                check_distinct([*same[:1], column.name.text], f"{owner}: the field")
        types = {c.name.text: c.type for c in columns if c.type and c.computed is None}
        plain = Scope(types, owner, broken=broken)
        computed_names = {c.name.text.lower() for c in columns if c.computed is not None}
        unsent = [c for c in columns if c.computed is not None or c.record is not None]
        if len(unsent) == len(columns) and not broken:
            raise self.error(
                columns[0].name.start if columns else 0,
                f"{owner} has no field of the events themselves",
                fix="declare the fields of the events",
            )
        fields: list[Field] = []
        self._starts = {column.name.text: column.name.start for column in columns}
        for column in columns:
            with self.mistakes.collect():
                fields.append(self._field(column, plain, computed_names))
        return tuple(fields)

    def _field(self, column: _Column, plain: Scope, computed_names: set[str]) -> Field:
        name, node = column.name.text, column.computed
        if node is None:
            assert column.type is not None, "a field without AS needs a type"
            field = Field(name, column.type, column.nullable, path=column.path, record=column.record)
            if field.record is not None:
                with located(self.source, column.name.start):
                    check_type(field)
            return field
        try:
            expression = check(self.source, node, plain)
        except DefinitionError as e:
            for one in each(e):
                if any(f"no field '{other}'" in one.message.lower() for other in computed_names):
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
        if functions_in(expression.sql):
            raise self.error(
                node.at, f"the computed field '{name}' calls a function of a definition file",
                fix="call it in the views instead",
            )  # fmt: skip
        error = refuse_computed(Checker(self.source, plain).term(node))
        if error:
            raise self.error(node.at, error.message, found=error.found, expected=error.expected, fix=error.fix)
        return Field(name, expression.type, column.nullable, expression)

    def read_watermark(self) -> tuple[Token, int]:
        """WATERMARK FOR at AS at - INTERVAL 1 MINUTE: the event time, and the patience in milliseconds."""
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
            expected=f"WATERMARK FOR {quote(name.text)} AS {quote(name.text)} - INTERVAL 1 MINUTE",
            write=f"{quote(name.text)} - INTERVAL 1 MINUTE",
            span=node.span,
        )
