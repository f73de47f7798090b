"""Reads CREATE STREAM: its fields with WATERMARK and UNIQUE, or its query; and the fields of a table."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.errors import DefinitionError, nearest
from headrace.language.expressions import read_expression
from headrace.language.identifiers import check_name, read_declared_name
from headrace.language.literals import DECIMALS, TYPES, read_duration, read_type
from headrace.language.outline import NO_OUTLINE, Outline
from headrace.language.paths import format_path, parse_path
from headrace.language.source_text import END, STRING, SYMBOL, SourceText, Token, located
from headrace.language.statements.select_rows import read_query
from headrace.language.statements.with_options import FormatClause, read_comment, read_format
from headrace.language.syntax import (
    Interval,
    Name,
    Node,
    Operation,
    RowQuery,
    StreamRead,
    joined_in_query,
    streams_of_query,
)
from headrace.language.terms import quote
from headrace.language.token_cursor import TokenCursor, read_text
from headrace.types import Type

Watermark = tuple[Token, int]  # the event time, and the patience in milliseconds
RECORD_PARTS = ("key", "headers", "timestamp", "partition", "offset", "topic")  # of Kafka; and single headers
_RECORD_WORDS = ("KEY", "HEADER", "HEADERS", "TIMESTAMP", "PARTITION", "OFFSET", "TOPIC")


@dataclass
class WrittenField:
    """A field as it was written."""

    name: Token
    type: Type | None
    nullable: bool = True
    computed: Node | None = None
    path: str | None = None
    record: str | None = None  # the part of a Kafka record
    record_span: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class WrittenUnique:
    """UNIQUE (a, b) WITHIN INTERVAL 1 DAY."""

    at: int
    columns: tuple[Token, ...]
    within_ms: int


@dataclass
class FieldList:
    """The fields of a stream or table, and what is declared among them."""

    owner: str  # as messages name it
    is_table: bool = False
    fields: list[WrittenField] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # the first words of those that could not be read
    watermark: Watermark | None = None
    unique: WrittenUnique | None = None
    primary_key: list[Token] = field(default_factory=list)
    end: int = 0  # the offset of what closes them
    mistakes: list[DefinitionError] = field(default_factory=list)  # of a text that is nothing else


@dataclass(frozen=True)
class StreamStatement:
    """CREATE STREAM or CREATE TABLE with fields, as it was written."""

    source: SourceText
    at: int  # of the name
    name: str
    created: Token  # the word STREAM or TABLE
    columns: FieldList
    before: FormatClause  # the fields
    after: FormatClause
    mistakes: tuple[DefinitionError, ...] = ()

    @property
    def kind(self) -> str:
        """The word for it in messages."""
        return "table" if self.columns.is_table else "stream"


@dataclass(frozen=True)
class DerivedStatement:
    """CREATE STREAM … AS SELECT as it was written."""

    source: SourceText
    at: int
    name: str
    query: RowQuery
    watermark: Watermark | None = None
    mistakes: tuple[DefinitionError, ...] = ()
    outline: Outline = NO_OUTLINE

    @property
    def reads(self) -> tuple[StreamRead, ...]:
        """The streams that it names."""
        return tuple(dict.fromkeys(streams_of_query(self.query)))

    @property
    def joined(self) -> tuple[StreamRead, ...]:
        """The tables that it joins."""
        return tuple(dict.fromkeys(joined_in_query(self.query)))


def read_stream(cursor: TokenCursor, start: int) -> StreamStatement | DerivedStatement:
    """Read what follows CREATE STREAM."""
    created = cursor.tokens[cursor.index - 1]
    return _read_derived(cursor, start, created) if _is_derived(cursor) else read_declared(cursor, created, "stream")


def read_declared(cursor: TokenCursor, created: Token, kind: str) -> StreamStatement:
    """Read a stream or table with fields; `created` is the word of its kind."""
    name = read_declared_name(cursor, kind)
    before = FormatClause() if cursor.sees_symbol("(") else read_format(cursor)
    if not cursor.sees_symbol("("):
        raise cursor.error(
            cursor.next.start, f"{kind} '{name.text}' has no fields", found=cursor.next.describe(),
            expected=f"CREATE {kind.upper()} {quote(name.text)} (page STRING, …)",
            fix="declare the fields of the events; WITH (connector = 'kafka', topic = '…') follows them",
        )  # fmt: skip
    cursor.take()
    columns = FieldList(f"{kind} '{name.text}'", kind == "table")
    _read_fields(cursor, columns, closing=")")
    after = FormatClause()
    with cursor.mistakes.collect():
        after = after if cursor.at_end() else read_format(cursor)
    return StreamStatement(
        cursor.source, name.start, name.text, created, columns, before, after, tuple(cursor.mistakes.errors)
    )


def read_field_list(source: SourceText) -> FieldList:
    """Read the fields of a text such as "page STRING, status INT NOT NULL"."""

    def read(cursor: TokenCursor) -> FieldList:
        columns = FieldList("the stream")
        _read_fields(cursor, columns, closing=END)
        if cursor.foreign is None:
            cursor.mistakes.check()
        columns.mistakes += cursor.mistakes.errors
        return columns

    return read_text(source, read)


def _read_fields(cursor: TokenCursor, columns: FieldList, closing: str) -> None:
    """Read fields up to a closing symbol; mistakes are collected, and the fields that have them are left out."""
    while True:
        start, errors_before = cursor.index, len(cursor.mistakes.errors)
        with cursor.mistakes.collect():
            _read_part(cursor, columns)
        if len(cursor.mistakes.errors) > errors_before:
            columns.broken.append(cursor.tokens[start].text)
            _skip_field(cursor, start)
        if not cursor.accept_symbol(","):
            break
    with cursor.mistakes.collect():
        if closing == END and cursor.next.kind != END:
            raise cursor.unexpected("',' or the end after a field")
        if closing != END and not (cursor.mistakes and cursor.at_end()):
            cursor.expect_symbol(closing, f"the fields of {columns.owner}")
    columns.end = cursor.tokens[cursor.index - 1].start


def _read_part(cursor: TokenCursor, columns: FieldList) -> None:
    """Read a field, or a clause among the fields."""
    owner = columns.owner
    if columns.is_table and _accept_primary_key(cursor):
        _refuse_second_key(cursor, columns)
        columns.primary_key += read_key_columns(cursor)
    elif _sees_unique(cursor):
        _read_unique(cursor, columns)
    elif cursor.foreign and (cursor.sees("PRIMARY", "KEY") or cursor.sees("CONSTRAINT")):
        raise cursor.foreign.constraint(cursor, owner)
    elif cursor.sees("WATERMARK") and cursor.ahead(1).upper not in ("FOR", *TYPES, *DECIMALS):
        raise cursor.error(
            cursor.next.start, "a WATERMARK names the event time first",
            expected="WATERMARK FOR at AS at - INTERVAL 1 MINUTE",
        )  # fmt: skip
    elif not cursor.sees("WATERMARK", "FOR"):
        columns.fields.append(_read_field(cursor, columns))
    elif columns.watermark:
        raise cursor.error(cursor.next.start, f"{owner} has two WATERMARKs", fix="keep one")
    else:
        columns.watermark = read_watermark(cursor)


def _skip_field(cursor: TokenCursor, start: int) -> None:
    """Continue after the field that begins at this token."""
    cursor.reset(start)
    nesting = 0
    while not cursor.at_end():
        if nesting == 0 and cursor.sees_symbol(",", ")"):
            return
        token = cursor.take()
        opens = cursor.sees_symbol("<") and token.upper in ("ARRAY", "MAP", "STRUCT")
        if opens or (token.kind == SYMBOL and token.text in "(["):
            nesting += 1
        elif token.kind == SYMBOL and token.text in ")]>":
            nesting = max(0, nesting - 1)


def _read_field(cursor: TokenCursor, columns: FieldList) -> WrittenField:
    name = cursor.expect_name("a field")
    with cursor.mistakes.collect(), located(cursor.source, name.start):
        check_name(name.text, "field")
    if cursor.foreign:
        cursor.foreign.refuse_field_without_type(cursor, columns.owner, name)
    of = WrittenField(name, None if cursor.sees("AS") else read_type(cursor))
    while _read_clause(cursor, of, columns):
        pass
    if [of.path, of.record, of.computed].count(None) < 2:
        both = "FROM twice" if of.computed is None else "both FROM and AS"
        raise cursor.error(
            name.start, f"the field '{name.text}' has {both}",
            fix="declare a field with FROM, and one with AS that is computed from it",
        )  # fmt: skip
    of.path = None if of.path == name.text else of.path  # the path of its own name is the field without FROM
    return of


def _read_clause(cursor: TokenCursor, of: WrittenField, columns: FieldList) -> bool:
    """Read one of the clauses that follow the type of a field, in any order; return False if there is none."""
    if cursor.accept("NOT", "NULL"):
        of.nullable = False
    elif cursor.accept("NULL"):
        of.nullable = True
    elif of.computed is None and (cursor.accept("GENERATED", "ALWAYS", "AS") or cursor.accept("AS")):
        of.computed = read_expression(cursor)
    elif of.record is None and _sees_record(cursor):
        start, of.record = cursor.index, _read_record(cursor, of.name.text)
        of.record_span = cursor.span_since(start)
    elif of.path is None and cursor.sees("FROM"):
        of.path = _read_path(cursor)
    elif columns.is_table and cursor.accept("PRIMARY", "KEY"):
        _refuse_second_key(cursor, columns)
        columns.primary_key.append(of.name)
        cursor.accept("NOT", "ENFORCED")
    elif cursor.sees("UNIQUE"):
        _read_within(cursor, cursor.take().start, (of.name,), columns)
    elif cursor.accept("COMMENT"):
        read_comment(cursor)
    elif cursor.foreign:
        cursor.foreign.refuse_field_clause(cursor, columns.owner, of.name)
        return False
    else:
        return False
    return True


def _read_path(cursor: TokenCursor) -> str:
    at = cursor.take().start
    if cursor.next.kind != STRING:
        raise cursor.unexpected("a text after FROM, as in FROM 'log.level' or FROM '$.service.name'")
    text = cursor.take().text
    with located(cursor.source, at):
        return format_path(parse_path(text))


def _sees_record(cursor: TokenCursor) -> bool:
    """Return True if a part of the Kafka record comes next, after the type of a field."""
    words = (cursor.next.upper, cursor.ahead(1).upper)
    return words[0] in ("METADATA", *_RECORD_WORDS) or (words[0] == "FROM" and words[1] in _RECORD_WORDS)


def _read_record(cursor: TokenCursor, name: str) -> str:
    """Read FROM KEY, FROM HEADER 'x'; KEY and HEADER('x') of ksqlDB; METADATA [FROM 'x'] [VIRTUAL] of Flink."""
    if cursor.accept("METADATA"):
        part = _read_metadata(cursor, name)
        cursor.accept("VIRTUAL")
        return part
    cursor.accept("FROM")
    word = cursor.take().upper
    if word != "HEADER":
        return word.lower()
    closes = cursor.accept_symbol("(")
    if cursor.next.kind != STRING:
        raise cursor.unexpected("the name of a header in quotes, as in FROM HEADER 'trace'")
    header = cursor.take().text
    if closes:
        cursor.expect_symbol(")", "the name of the header")
    return f"header:{header}"


def _read_metadata(cursor: TokenCursor, name: str) -> str:
    at = cursor.tokens[cursor.index - 1].start
    if cursor.accept("FROM"):
        at = cursor.next.start
        if cursor.next.kind != STRING:
            raise cursor.unexpected("a text after METADATA FROM, as in METADATA FROM 'timestamp'")
        name = cursor.take().text
    if name.lower() not in RECORD_PARTS:
        near = nearest(name, RECORD_PARTS)
        raise cursor.error(
            at, f"a record has no metadata '{name}'", expected=f"one of {', '.join(RECORD_PARTS)}",
            fix=f"did you mean '{near}'?" if near else "one header is FROM HEADER 'name'",
        )  # fmt: skip
    return name.lower()


def _accept_primary_key(cursor: TokenCursor) -> bool:
    """Read PRIMARY KEY of a table, which may have a name; its columns follow."""
    if cursor.sees("CONSTRAINT") and cursor.ahead(2).upper == "PRIMARY":
        cursor.take()
        cursor.take()
    return cursor.accept("PRIMARY", "KEY")


def _refuse_second_key(cursor: TokenCursor, columns: FieldList) -> None:
    if columns.primary_key:
        fix = f"keep one; a key of several columns is PRIMARY KEY ({columns.primary_key[0].text}, …)"
        raise cursor.error(cursor.tokens[cursor.index - 2].start, f"{columns.owner} has two PRIMARY KEYs", fix=fix)


def read_key_columns(cursor: TokenCursor) -> list[Token]:
    """Read the columns of PRIMARY KEY (a, b) NOT ENFORCED."""
    cursor.expect_symbol("(", "PRIMARY KEY")
    columns = [cursor.expect_name("a column of the key")]
    while cursor.accept_symbol(","):
        columns.append(cursor.expect_name("a column of the key"))
    cursor.expect_symbol(")", "the columns of the key")
    cursor.accept("NOT", "ENFORCED")
    return columns


def _sees_unique(cursor: TokenCursor) -> bool:
    """Return True before UNIQUE (a, b), perhaps as a constraint with a name."""
    first = 2 if cursor.sees("CONSTRAINT") else 0
    return cursor.ahead(first).upper == "UNIQUE" and cursor.ahead(first + 1).text == "("


def _read_unique(cursor: TokenCursor, columns: FieldList) -> None:
    if cursor.accept("CONSTRAINT"):
        cursor.expect_name("the constraint")
    at = cursor.take().start
    cursor.expect_symbol("(", "UNIQUE")
    names = [cursor.expect_name("a field")]
    while cursor.accept_symbol(","):
        names.append(cursor.expect_name("a field"))
    cursor.expect_symbol(")", "the fields of UNIQUE")
    _read_within(cursor, at, tuple(names), columns)


def _read_within(cursor: TokenCursor, at: int, names: tuple[Token, ...], columns: FieldList) -> None:
    """Read what follows UNIQUE and its columns: WITHIN and a duration, as ksqlDB also writes it for joins."""
    owner, written = columns.owner, cursor.source.text[at : cursor.last_end]
    if not cursor.accept("WITHIN"):
        cursor.accept("NOT", "ENFORCED")
        if columns.is_table:
            raise cursor.error(
                at, f"{owner} enforces no UNIQUE: it has one row for each PRIMARY KEY", fix=f"remove {written}",
                write=" ", end=cursor.last_end,
            )  # fmt: skip
        raise cursor.error(
            at, f"{owner}: UNIQUE has no interval within which events are compared",
            expected="WITHIN and a time", write=f"{written} WITHIN INTERVAL 1 DAY", end=cursor.last_end,
        )  # fmt: skip
    in_parentheses = cursor.accept_symbol("(")
    within_ms = read_duration(cursor)
    if in_parentheses:
        cursor.expect_symbol(")", "WITHIN")
    if columns.unique:
        raise cursor.error(
            at, f"{owner} has two UNIQUE clauses", fix="keep one; UNIQUE (a, b) compares several fields together"
        )
    columns.unique = WrittenUnique(at, names, within_ms)


def read_watermark(cursor: TokenCursor) -> Watermark:
    """Read WATERMARK FOR at AS at - INTERVAL 1 MINUTE."""
    cursor.accept("WATERMARK", "FOR")
    name = cursor.expect_name("the event time")
    if not cursor.accept("AS"):
        return name, 0
    node = read_expression(cursor)
    match node:
        case Name() if node.name.lower() == name.text.lower():
            return name, 0
        case Operation(op="-", args=(Name() as time, Interval() as patience)):
            if time.name.lower() == name.text.lower():
                return name, patience.ms
    raise cursor.error(
        node.at, "this WATERMARK is not supported",
        expected=f"WATERMARK FOR {quote(name.text)} AS {quote(name.text)} - INTERVAL 1 MINUTE",
        write=f"{quote(name.text)} - INTERVAL 1 MINUTE", span=node.span,
    )  # fmt: skip


def _is_derived(cursor: TokenCursor) -> bool:
    """Return True if AS follows the name, and what may stand between them."""
    index = cursor.index
    while not cursor.at_end() and not cursor.sees("AS") and not cursor.sees("INCLUDE"):  # that one may have an AS, too
        if cursor.sees_symbol("("):
            cursor.skip_parentheses()
        else:
            cursor.take()
    derived = cursor.sees("AS")
    cursor.reset(index)
    return derived


def _read_derived(cursor: TokenCursor, start: int, created: Token) -> DerivedStatement:
    name = read_declared_name(cursor, "stream")
    is_constraint = cursor.ahead(1).upper == "CONSTRAINT"
    watermark = read_only_watermark(cursor, name) if cursor.sees_symbol("(") and not is_constraint else None
    query = read_defining_query(cursor, created, "stream", f"CREATE STREAM {name.text}")
    mistakes = tuple(cursor.mistakes.errors)
    outline = cursor.outline(start)
    return DerivedStatement(cursor.source, name.start, name.text, query, watermark, mistakes, outline)


def read_defining_query(cursor: TokenCursor, created: Token, kind: str, after: str) -> RowQuery:
    """Read AS and the query that a stream or table is made of; `created` is the word STREAM or TABLE."""
    if cursor.foreign:
        cursor.foreign.read_properties(cursor, "stream")
    cursor.expect("AS", after)
    query = read_query(cursor, created)
    if cursor.foreign:
        cursor.foreign.read_after_query(cursor, kind)
    return query


def read_only_watermark(cursor: TokenCursor, name: Token) -> Watermark:
    """Read (WATERMARK FOR at …) of a derived stream, whose columns are those of its query."""
    cursor.take()
    _refuse_unique(cursor, name)
    if not cursor.sees("WATERMARK", "FOR"):
        raise cursor.error(
            cursor.next.start, f"the columns of stream '{name.text}' are those of its query",
            found=cursor.next.describe(), expected="WATERMARK FOR at AS at - INTERVAL 1 MINUTE, or nothing",
            fix="name columns in SELECT, with AS, and cast them there",
        )  # fmt: skip
    watermark = read_watermark(cursor)
    if cursor.accept_symbol(","):
        _refuse_unique(cursor, name)
        raise cursor.unexpected("')' after the WATERMARK of a derived stream")
    if not cursor.accept_symbol(")"):
        raise cursor.unexpected("')' after the WATERMARK of a derived stream")
    return watermark


def _refuse_unique(cursor: TokenCursor, name: Token) -> None:
    if cursor.sees("UNIQUE"):
        raise cursor.error(
            cursor.next.start, f"stream '{name.text}' is made from others: it has no UNIQUE of its own",
            fix="write it into the CREATE STREAM of the stream that events are sent to",
        )  # fmt: skip
