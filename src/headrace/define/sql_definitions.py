"""Reads the definitions of a text in SQL, and builds streams and tables of their fields."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.define.definition_rules import (
    check_event_time,
    check_format,
    check_idle_timeout,
    check_unique_column,
    make_unique,
)
from headrace.define.kafka_record import check_record_fields, check_type
from headrace.define.model import JSON, Field, Source, Stream, Table, UniqueEvents
from headrace.define.stream_source import IDLE_TIMEOUT, read_source
from headrace.define.table_parts import check_column, make_table
from headrace.define.view_columns import is_aggregate_name
from headrace.engine.duckdb_terms import refuse_computed
from headrace.errors import DefinitionError
from headrace.language.check import Checker, Scope, check
from headrace.language.durations import parse_duration
from headrace.language.hints import part_hint
from headrace.language.identifiers import check_distinct
from headrace.language.source_text import STRING, Mistakes, SourceText, each, located
from headrace.language.statements import Declared, WrittenStatement, read_statements
from headrace.language.statements.create_alert import AlertStatement
from headrace.language.statements.create_sink import SinkStatement
from headrace.language.statements.create_stream import (
    DerivedStatement,
    FieldList,
    StreamStatement,
    WrittenField,
    read_field_list,
)
from headrace.language.statements.create_view import LogicalStatement, ViewStatement
from headrace.language.statements.with_options import (
    CONNECTOR,
    FORMAT_OPTIONS,
    FormatClause,
    FormatWord,
    WrittenOption,
    refuse_later_format,
)
from headrace.language.terms import quote
from headrace.language.user_functions import functions_of
from headrace.types import Type

# What is declared; of what reads others the statement, until these are known.
Declaration = Stream | Table | DerivedStatement | ViewStatement | LogicalStatement | SinkStatement | AlertStatement


def read_definitions(source: SourceText) -> tuple[list[Declared[Declaration]], list[DefinitionError]]:
    """Read all definitions of a text, and all mistakes."""
    return read_statements(source, _define, is_aggregate_name)


def _define(statement: WrittenStatement) -> Declaration:
    return build_stream(statement) if isinstance(statement, StreamStatement) else statement


def read_fields(source: SourceText) -> tuple[Field, ...]:
    """Return the fields that a text such as "page STRING, status INT NOT NULL" declares, as in CREATE STREAM."""
    columns = read_field_list(source)
    mistakes = Mistakes(columns.mistakes)
    fields, _ = _make_fields(source, columns, mistakes)
    mistakes.check()
    if columns.watermark:
        raise source.error(
            columns.watermark[0].start, "WATERMARK is not used in Python", fix='event_time="at", patience="1 minute"'
        )
    if columns.unique:
        raise source.error(columns.unique.at, "UNIQUE is not used in Python", fix='unique=("id",), within="1 day"')
    return fields


@dataclass
class _Settings:
    """The settings in FORMAT and WITH (…)."""

    word: FormatWord | None = None
    idle_timeout_ms: int | None = None
    source: Source | None = None


def build_stream(statement: StreamStatement) -> Stream | Table:
    """Return the stream, or the table, of a statement."""
    stream = _make_stream(statement)
    return stream if not statement.columns.is_table else _as_table(statement, stream)


def _make_stream(statement: StreamStatement) -> Stream:
    source, columns, name = statement.source, statement.columns, statement.name
    mistakes, settings = Mistakes(statement.mistakes), _Settings()
    _read_clause(statement, statement.before, settings, {})
    fields, types = _make_fields(source, columns, mistakes)
    before, settings.word = settings.word, None
    source_is_known = False
    with mistakes.collect():
        _read_clause(statement, statement.after, settings, types)
        source_is_known = True
    event_time, patience_ms = None, 0
    if columns.watermark:
        time, patience_ms = columns.watermark
        with mistakes.collect(), located(source, time.start):
            event_time = check_event_time(time.text, fields, name, complete=not mistakes, of=statement.kind)
    for field in fields if source_is_known else ():
        _check_record(statement, field, settings.source, mistakes)
    unique = _make_unique(statement, fields, mistakes)
    mistakes.check()
    word, format_ = settings.word or before, JSON
    if word:
        with located(source, word.at):
            format_ = check_format(word.text, fields, name, settings.source)
    return Stream(
        name, fields, event_time, patience_ms, format_, settings.idle_timeout_ms, settings.source, unique=unique
    )


def _as_table(statement: StreamStatement, stream: Stream) -> Stream | Table:
    """Return a table if it has a primary key; without one it is a stream, which has a WATERMARK or a connector."""
    source, created, primary = statement.source, statement.created, statement.columns.primary_key
    if not primary:
        if stream.event_time is None and stream.source is None:
            raise source.error(
                created.start, f"CREATE TABLE {stream.name} has neither a PRIMARY KEY nor a WATERMARK",
                fix=f"a table of events is a stream: write CREATE STREAM {quote(stream.name)} (…); "
                "a table of the latest row of each key needs PRIMARY KEY (…)",
                write="STREAM", end=created.end,
            )  # fmt: skip
        return stream
    if statement.columns.unique:
        raise source.error(
            statement.columns.unique.at,
            f"table '{stream.name}': a table has one row for each key, so that it has no UNIQUE",
            fix="remove it; a repeated change of a row changes nothing",
        )
    if stream.idle_timeout_ms is not None:
        raise source.error(created.start, f"table '{stream.name}': a table has no idle time-out", fix="remove it")
    key = {each.text.lower() for each in primary}
    starts = {written.name.text: written.name.start for written in statement.columns.fields}
    for field in stream.fields:
        if field.name.lower() not in key:
            with located(source, starts[field.name]):
                check_column(stream.name, field, (), stream.event_time)
    with located(source, primary[0].start):
        return make_table(
            stream.name, stream.fields, [each.text for each in primary], stream.event_time, stream.patience_ms,
            source=stream.source, format_=stream.format,
        )  # fmt: skip


# Fields


def _make_fields(
    source: SourceText, columns: FieldList, mistakes: Mistakes
) -> tuple[tuple[Field, ...], dict[str, Type]]:
    """Return the valid fields, and their types by name in lower case; the mistakes of others are collected."""
    written = columns.fields
    for i, column in enumerate(written):
        with mistakes.collect(), located(source, column.name.start):
            same = [c.name.text for c in written[:i] if c.name.text.lower() == column.name.text.lower()]
            check_distinct([*same[:1], column.name.text], f"{columns.owner}: the field")
    types = {c.name.text: c.type for c in written if c.type and c.computed is None}
    plain = Scope(types, columns.owner, broken=columns.broken)
    computed_names = {c.name.text.lower() for c in written if c.computed is not None}
    if not columns.broken and all(c.computed is not None or c.record is not None for c in written):
        raise source.error(
            written[0].name.start if written else 0, f"{columns.owner} has no field of the events themselves",
            fix="declare the fields of the events",
        )  # fmt: skip
    fields: list[Field] = []
    for column in written:
        with mistakes.collect():
            fields.append(_make_field(source, column, plain, computed_names))
    return tuple(fields), {field.name.lower(): field.type for field in fields}


def _make_field(source: SourceText, column: WrittenField, plain: Scope, computed_names: set[str]) -> Field:
    name, node = column.name.text, column.computed
    if node is None:
        assert column.type is not None, "a field without AS needs a type"
        field = Field(name, column.type, column.nullable, path=column.path, record=column.record)
        if field.record is not None:
            with located(source, column.name.start):
                check_type(field)
        return field
    try:
        expression = check(source, node, plain)
    except DefinitionError as e:
        for one in each(e):
            if any(f"no field '{other}'" in one.message.lower() for other in computed_names):
                one.fix = "a computed field reads declared fields only, not other computed ones"
        raise
    if column.type and column.type != expression.type:
        raise source.error(
            node.at, f"the computed field '{name}' is declared {column.type}",
            found=f"{expression.type} ({expression.sql})",
            fix=f"write CAST(… AS {column.type}) or declare it {expression.type}",
        )  # fmt: skip
    if expression.type.is_nested:
        raise source.error(
            node.at, f"the computed field '{name}' is not a single value", found=str(expression.type),
            fix=part_hint(expression),
        )  # fmt: skip
    if functions_of([expression]):
        raise source.error(
            node.at, f"the computed field '{name}' calls a function of a definition file",
            fix="call it in the views instead",
        )  # fmt: skip
    error = refuse_computed(Checker(source, plain).term(node))
    if error:
        raise source.error(node.at, error.message, found=error.found, expected=error.expected, fix=error.fix)
    return Field(name, expression.type, column.nullable, expression)


def _check_record(statement: StreamStatement, field: Field, source: Source | None, mistakes: Mistakes) -> None:
    """Report a part of a Kafka record in another stream; it could be left out."""
    spans = {column.name.text: column.record_span for column in statement.columns.fields if column.record is not None}
    if field.name not in spans:
        return
    span = spans[field.name]
    with mistakes.collect(), located(statement.source, span[0]):
        try:
            check_record_fields([field], source, statement.name)
        except DefinitionError as error:
            error.write, error.replaces = " ", span
            raise


def _make_unique(statement: StreamStatement, fields: tuple[Field, ...], mistakes: Mistakes) -> UniqueEvents | None:
    written, source = statement.columns.unique, statement.source
    if written is None:
        return None
    names: list[str] = []
    for column in written.columns:
        with mistakes.collect(), located(source, column.start):
            names.append(check_unique_column(column.text, fields, statement.name, complete=not mistakes))
    with mistakes.collect(), located(source, written.at):
        return make_unique(names, written.within_ms, statement.name)
    return None


# FORMAT and WITH


def _read_clause(statement: StreamStatement, clause: FormatClause, settings: _Settings, types: dict[str, Type]) -> None:
    """Read FORMAT and WITH (…), which may set the format, the source and the idle time-out."""
    settings.word = clause.word or clause.later_word
    by_name = {option.name: option for option in clause.options}
    format_ = next((by_name[name] for name in FORMAT_OPTIONS if name in by_name), None)
    if format_:
        settings.word = FormatWord(format_.value, format_.value_span[0])
        kafka = any(name == CONNECTOR or name.startswith("kafka_") for name in by_name)
        with located(statement.source, format_.value_span[0]):
            refuse_later_format(format_.value, statement.name, kafka=kafka)
    for name in IDLE_TIMEOUT:
        if name in by_name:
            settings.idle_timeout_ms = _read_idle_timeout(statement.source, by_name[name])
    if any(name not in (*FORMAT_OPTIONS, *IDLE_TIMEOUT) for name in by_name):
        settings.source = read_source(statement, clause, types)


def _read_idle_timeout(source: SourceText, option: WrittenOption) -> int:
    with located(source, option.value_span[0]):
        if option.kind != STRING:
            raise DefinitionError(
                "the idle time-out is a text", found=option.value, expected="a duration such as '5 minutes'"
            )
        return check_idle_timeout(parse_duration(option.value))
