"""Makes the source of a stream of the options of WITH (…): those of Kafka; others are refused, with what to write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from headrace.define.connector_options import PREFIX, OptionError
from headrace.define.definition_rules import to_time
from headrace.define.kafka_source import ALSO, OPTIONS, TOPIC, make_source
from headrace.define.model import KAFKA, Source
from headrace.errors import DefinitionError, nearest
from headrace.language.source_text import escape, statement_at
from headrace.language.statements.create_stream import StreamStatement
from headrace.language.statements.with_options import CONNECTOR, FORMAT_OPTIONS, FormatClause, WrittenOption
from headrace.language.terms import quote
from headrace.types import TIMESTAMP, Type

IDLE_TIMEOUT = ("idle_timeout", "scan.watermark.idle-timeout")  # the second is Flink's name
KEY_FORMATS = ("key.format", "key_format")
_TEXT_KEYS = ("raw", "kafka", "text", "none", "string")
_SINKS = ("print", "blackhole", "jdbc", "elasticsearch-7", "filesystem", "iceberg", "console")
_GENERATORS = ("datagen", "faker", "rate", "nexmark")


def read_source(statement: StreamStatement, clause: FormatClause, types: Mapping[str, Type]) -> Source:
    """Return the source that the options of WITH (…) name; `types` are of the fields, by name in lower case."""
    options = [option for option in clause.options if option.name not in (*FORMAT_OPTIONS, *IDLE_TIMEOUT)]
    with _at_options(statement, clause, types):
        return _make_source(statement, clause, options)


def _make_source(statement: StreamStatement, clause: FormatClause, options: Sequence[WrittenOption]) -> Source:
    values = {option.name: option.value for option in options}
    connector = values.pop(CONNECTOR, None)
    if connector is None and not any(name.startswith("kafka_") for name in values):
        known = [name for name in values if ALSO.get(name, name) in OPTIONS or name.startswith(PREFIX)]
        if known:
            error = OptionError(known[0], f"the option '{known[0]}' is one of a connector")
            error.fix = "write connector = 'kafka' as well"
            error.write = f"connector = 'kafka', {known[0]} = {escape(values[known[0]])}"
            raise error
        name = options[0].name
        near = nearest(name, (*FORMAT_OPTIONS, *IDLE_TIMEOUT, CONNECTOR))
        fix = f"did you mean '{near}'?" if near else f"remove {statement.source.text[slice(*clause.span)]}"
        raise OptionError(
            name, f"a stream has no option '{name}': it takes events from HTTP and from `headrace send`",
            fix=f"{fix}, or name a connector, as in connector = 'kafka'",
        )  # fmt: skip
    if connector and connector.lower() != KAFKA:
        raise _other_connector(statement, clause, connector)
    for name in KEY_FORMATS:
        if values.pop(name, "raw").lower() not in _TEXT_KEYS:
            raise OptionError(name, "the key of a record is read as text", write=f"'{name}' = 'raw'")
    return make_source(values)


def _other_connector(statement: StreamStatement, clause: FormatClause, connector: str) -> DefinitionError:
    """Return the error of 'kafak', a slip, or of a connector of another system, whose options mean nothing here."""
    is_kafka = connector.lower() == "upsert-kafka" or nearest(connector.lower(), [KAFKA]) is not None
    fix = "remove WITH (…): events come by HTTP, from `headrace send` or, with connector = 'kafka', from Kafka"
    if connector.lower() in _SINKS:
        fix = "remove this definition: CREATE SINK … FROM a view sends its rows; `headrace watch` shows them"
    elif connector.lower() in _GENERATORS:
        fix = f"remove WITH (…), and run `headrace generate {statement.name}`"
    error = OptionError(
        CONNECTOR, f"a stream has no connector '{connector}'", expected="'kafka'",
        fix=None if is_kafka else fix, write="connector = 'kafka'" if is_kafka else None,
    )  # fmt: skip
    looked_up = _looked_up(statement, clause) if connector.lower() == "jdbc" else None
    whole = statement_at(statement.source, clause.span[0])
    if looked_up:
        error.write, error.replaces = looked_up, whole
        error.expected = None
        error.fix = f"its rows are sent by `headrace send`, HTTP or Kafka: write {looked_up}"
    elif not is_kafka:
        error.write, error.replaces = " ", whole if connector.lower() in _SINKS else clause.span
    return error


def _looked_up(statement: StreamStatement, clause: FormatClause) -> str | None:
    """Return the table without its options, if another statement joins it."""
    text, fields_end = statement.source.text, statement.columns.end
    name = re.escape(statement.name)
    join = re.search(rf"\bJOIN\s+{name}\b(.*?)(?:;|\Z)", text, re.IGNORECASE | re.DOTALL)
    if join is None:
        return None
    start, end = statement_at(statement.source, clause.span[0])
    fields, after = text[start:fields_end], text[clause.span[1] : end]
    if not re.search(r"\bPRIMARY\s+KEY\b", fields, re.IGNORECASE):
        alias = re.search(r"(?:\bAS\s+)?\b(\w+)\s+ON\b", join[1], re.IGNORECASE)
        of = rf"(?:{name}|{alias[1]})" if alias else name
        keys = dict.fromkeys(re.findall(rf"\b{of}\.(\w+)\s*=|=\s*{of}\.(\w+)", join[1], re.IGNORECASE))
        columns = ["".join(pair) for pair in keys]
        if not columns:
            return None
        fields += f", PRIMARY KEY ({', '.join(columns)})"
    return f"{fields}{text[fields_end : clause.span[0]].rstrip()}{after}"


@contextmanager
def _at_options(statement: StreamStatement, clause: FormatClause, types: Mapping[str, Type]) -> Iterator[None]:
    """Set the place of mistakes in options, and what to write there."""
    by_name, source = {option.name: option for option in clause.options}, statement.source
    try:
        yield
    except OptionError as error:
        option = by_name.get(error.option, clause.options[0])
        error.where = source.locate(option.span[0])
        if error.option == TOPIC and TOPIC not in by_name:
            error.write = f"{source.text[slice(*option.span)]}, topic = '{statement.name}'"
        if error.rename:
            error.write = f"'{error.rename}' = {source.text[slice(*option.value_span)]}"
        error.replaces = error.replaces or (option.span if error.write else None)
        if error.remove:
            error.write, error.replaces = " ", _span_with_comma(clause.options, option)
        if option.name == "timestamp" and option.value.lower() in types:
            _write_watermark(error, statement, clause, option.value, types)
        raise


def _write_watermark(
    error: OptionError, statement: StreamStatement, clause: FormatClause, field: str, types: Mapping[str, Type]
) -> None:
    """Write, for TIMESTAMP = 'viewtime' of ksqlDB, the statement with the event time among its fields."""
    type_, time, computed = types[field.lower()], field, ""
    options, fields_end = clause.options, statement.columns.end
    pattern = next((option.value for option in options if option.name == "timestamp_format"), None)
    if type_ != TIMESTAMP:
        time = f"{field}_ts"
        value = f"to_timestamp({quote(field)}, {escape(pattern)})" if pattern else to_time(field, type_)
        computed = f"{quote(time)} TIMESTAMP AS {value}, "
    text, (start, end) = statement.source.text, statement_at(statement.source, fields_end)
    rest = (option for option in options if option.name not in ("timestamp", "timestamp_format"))
    error.write = (
        f"{text[start:fields_end]}, {computed}WATERMARK FOR {quote(time)} AS {quote(time)}"
        f"{text[fields_end : options[0].span[0]]}{', '.join(text[slice(*option.span)] for option in rest)}"
        f"{text[options[-1].span[1] : end]}"
    )
    error.replaces, error.fix = (start, end), f"the event time is one of the fields: write {error.write}"


def _span_with_comma(options: Sequence[WrittenOption], option: WrittenOption) -> tuple[int, int]:
    """Return the offsets of an option and a comma beside it."""
    index = options.index(option)
    if index > 0:
        return options[index - 1].span[1], option.span[1]
    return option.span[0], options[1].span[0] if len(options) > 1 else option.span[1]
