"""Reads what stands around the fields of CREATE STREAM: FORMAT, the connector and other options of WITH (…)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from headrace.define.connector_options import PREFIX, OptionError
from headrace.define.definition_rules import (
    NO_DEBEZIUM,
    UNWRAP,
    check_idle_timeout,
    located,
    refuse_later_format,
    to_time,
)
from headrace.define.kafka_record import PARTS, header
from headrace.define.kafka_source import ALSO, OPTIONS, TOPIC, make_source
from headrace.define.model import KAFKA, Source
from headrace.define.sql.later import statement_at
from headrace.define.sql.options import OptionsReader, WrittenOption
from headrace.errors import DefinitionError, nearest
from headrace.language.durations import parse_duration
from headrace.language.source_text import STRING, escape
from headrace.language.terms import quote
from headrace.types import TIMESTAMP, Type

CONNECTOR = "connector"
_RECORD_WORDS = ("KEY", "HEADER", "HEADERS", "TIMESTAMP", "PARTITION", "OFFSET", "TOPIC")
FORMAT_OPTIONS = ("format", "value.format", "value_format")
IDLE_TIMEOUT = ("idle_timeout", "scan.watermark.idle-timeout")  # the second is Flink's name
KEY_FORMATS = ("key.format", "key_format")
_TEXT_KEYS = ("raw", "kafka", "text", "none", "string")
_SINKS = ("print", "blackhole", "jdbc", "elasticsearch-7", "filesystem", "iceberg", "console")
_GENERATORS = ("datagen", "faker", "rate", "nexmark")
_STORAGE = (
    "ENGINE",
    "USING",
    "ROW",
    "PARTITIONED",
    "PARTITION",
    "ORDER",
    "TTL",
    "CLUSTERED",
    "DISTRIBUTED",
    "TBLPROPERTIES",
    "LOCATION",
)


def _kafka_engine(text: str) -> str | None:
    """WITH (…) for ENGINE = Kafka of ClickHouse, by its settings or by ENGINE = Kafka('servers', 'topics', …)."""
    if not re.match(r"ENGINE\s*=\s*Kafka\b", text, re.IGNORECASE):
        return None
    settings = (re.search(rf"kafka_{name}\s*=\s*('[^']*')", text) for name in ("broker_list", "topic_list"))
    texts = [setting[1] for setting in settings if setting] or re.findall(r"'[^']*'", text)
    servers, topics = [*texts, "'…'", "'…'"][:2]
    topic = topics.replace(",", ";")
    return f"WITH (connector = 'kafka', topic = {topic}, properties.bootstrap.servers = {servers})"


@dataclass(frozen=True)
class FormatWord:
    """The format as it was written, and its offset."""

    text: str
    at: int


class SourceReader(OptionsReader):
    """A parser that reads FORMAT and WITH."""

    _idle_timeout_ms: int | None = None
    _source: Source | None = None
    _types: Mapping[str, Type] = MappingProxyType({})  # of the fields, by their names in lower case
    _fields_end = 0  # the offset of the parenthesis after them

    def read_format(self) -> FormatWord | None:
        """The format of the stream; FORMAT and WITH are allowed before and after the fields, in any order."""
        if self.accept("COMMENT"):
            self.read_comment()
        if self.sees("WATERMARK", "FOR"):
            raise self.error(
                self.next.start, "WATERMARK is one of the fields", fix="write it inside the parentheses, after the last"
            )
        if self.sees("INCLUDE"):
            self._refuse_include()
        if self.sees("APPEND", "ONLY"):
            raise self.error(
                self.next.start, "APPEND ONLY is not needed: a stream without UNIQUE keeps every event",
                fix="remove it", write=" ", end=self.ahead(1).end,
            )  # fmt: skip
        if self.next.upper in _STORAGE:
            at, start = self.next.start, self.index
            self.skip_rest()
            written = self.text_since(start)
            error = self.error(
                at, f"a stream has no {self.tokens[start].upper}: the log keeps its events by time",
                fix=f"remove {written}", write=_kafka_engine(written) or " ", end=self.tokens[self.index - 1].end,
            )  # fmt: skip
            if error.write != " ":
                error.fix = f"write {error.write}"
            raise error
        word = self._encoding()
        word = (self._options() if self.sees("WITH") else None) or word
        return word or self._encoding()

    def _encoding(self) -> FormatWord | None:
        """FORMAT JSON, or FORMAT PLAIN ENCODE JSON of RisingWave."""
        at = self.next.start
        encodes = self.sees("FORMAT") and self.ahead(2).upper == "ENCODE"
        if encodes:
            self.take()
            kind = self.take()
            if kind.upper == "DEBEZIUM":
                raise self.error(
                    at, NO_DEBEZIUM, fix=f"{UNWRAP}, then write FORMAT PLAIN", write="FORMAT PLAIN", end=kind.end
                )
            if kind.upper != "PLAIN":
                raise self.error(
                    at, f"FORMAT {kind.upper} is not available: a stream is a log of events", write="FORMAT PLAIN",
                    end=kind.end,
                )  # fmt: skip
            self.take()
        elif not self.accept("FORMAT"):
            return None
        token = self.expect_name("a format")
        if encodes:
            self._refuse_later_format(token.text, token.start, kafka=True)
        if encodes and self.sees_symbol("("):
            raise self.error(
                self.next.start, "a format has no options here", fix="remove the parentheses and what is in them"
            )
        return FormatWord(token.text, token.start)

    def _refuse_later_format(self, text: str, at: int, *, kafka: bool) -> None:
        """Refuse Avro and the like before the options that they have."""
        with located(self.source, at):
            refuse_later_format(text, self.declaring or "", kafka=kafka)

    def sees_record(self) -> bool:
        """Whether a part of the Kafka record comes next, after the type of a field."""
        words = (self.next.upper, self.ahead(1).upper)
        return words[0] in ("METADATA", *_RECORD_WORDS) or (words[0] == "FROM" and words[1] in _RECORD_WORDS)

    def read_record(self, field: str) -> str:
        """FROM KEY, FROM HEADER 'x'; KEY and HEADER('x') of ksqlDB; METADATA [FROM 'x'] [VIRTUAL] of Flink."""
        if self.accept("METADATA"):
            part = self._read_metadata(field)
            self.accept("VIRTUAL")
            return part
        self.accept("FROM")
        word = self.take().upper
        if word != "HEADER":
            return word.lower()
        closes = self.accept_symbol("(")
        if self.next.kind != STRING:
            raise self.unexpected("the name of a header in quotes, as in FROM HEADER 'trace'")
        name = self.take().text
        if closes:
            self.expect_symbol(")", "the name of the header")
        return header(name)

    def _read_metadata(self, field: str) -> str:
        at, name = self.tokens[self.index - 1].start, field
        if self.accept("FROM"):
            at = self.next.start
            if self.next.kind != STRING:
                raise self.unexpected("a text after METADATA FROM, as in METADATA FROM 'timestamp'")
            name = self.take().text
        if name.lower() not in PARTS:
            near = nearest(name, PARTS)
            raise self.error(
                at, f"a record has no metadata '{name}'", expected=f"one of {', '.join(PARTS)}",
                fix=f"did you mean '{near}'?" if near else "one header is FROM HEADER 'name'",
            )  # fmt: skip
        return name.lower()

    def _refuse_include(self) -> None:
        """INCLUDE KEY AS k of RisingWave, after the fields."""
        start, at = self.index, self.next.start
        self.take()
        word = self.take()
        part = f"HEADER {escape(self.take().text)}" if self.next.kind == STRING else word.upper
        name = self.ahead(1).text if self.sees("AS") else word.text.lower()
        while not self.at_end() and not self.sees("INCLUDE") and not self.sees("WITH"):
            self.take()
        types = {"TIMESTAMP": "TIMESTAMP", "PARTITION": "INT", "OFFSET": "BIGINT", "HEADERS": "MAP<STRING, STRING>"}
        raise self.error(
            at, f"{self.text_since(start)} is a field here",
            fix=f"write {name} {types.get(part, 'STRING')} FROM {part} inside the parentheses",
        )  # fmt: skip

    def read_comment(self) -> None:
        """The text after COMMENT, which is not kept."""
        if self.next.kind != STRING:
            raise self.unexpected("a text after COMMENT")
        self.take()

    def _options(self) -> FormatWord | None:
        """The format among the options of WITH (…); it also sets the source and the idle time-out."""
        start = self.index
        options = self.read_options()
        by_name = {option.name: option for option in options}
        format_ = next((by_name[name] for name in FORMAT_OPTIONS if name in by_name), None)
        if format_:
            kafka = any(name == CONNECTOR or name.startswith("kafka_") for name in by_name)
            self._refuse_later_format(format_.value, format_.value_span[0], kafka=kafka)
        for name in IDLE_TIMEOUT:
            if name in by_name:
                self._idle_timeout_ms = self._read_idle_timeout(by_name[name])
        rest = [option for option in options if option.name not in (*FORMAT_OPTIONS, *IDLE_TIMEOUT)]
        if rest:
            with self._at_options(options):
                self._source = self._read_source(rest, start)
        return FormatWord(format_.value, format_.value_span[0]) if format_ else None

    def _read_source(self, options: list[WrittenOption], start: int) -> Source:
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
            fix = f"did you mean '{near}'?" if near else f"remove {self.text_since(start)}"
            raise OptionError(
                name, f"a stream has no option '{name}': it takes events from HTTP and from `headrace send`",
                fix=f"{fix}, or name a connector, as in connector = 'kafka'",
            )  # fmt: skip
        if connector and connector.lower() != KAFKA:
            raise self._other_connector(connector, start)
        for name in KEY_FORMATS:
            if values.pop(name, "raw").lower() not in _TEXT_KEYS:
                raise OptionError(name, "the key of a record is read as text", write=f"'{name}' = 'raw'")
        return make_source(values)

    def _other_connector(self, connector: str, start: int) -> DefinitionError:
        """'kafak', which is a slip, or a connector of another system, whose options mean nothing here."""
        is_kafka = connector.lower() == "upsert-kafka" or nearest(connector.lower(), [KAFKA]) is not None
        fix = "remove WITH (…): events come by HTTP, from `headrace send` or, with connector = 'kafka', from Kafka"
        if connector.lower() in _SINKS:
            fix = "remove this definition: CREATE SINK … FROM a view sends its rows; `headrace watch` shows them"
        elif connector.lower() in _GENERATORS:
            fix = f"remove WITH (…), and run `headrace generate {self.declaring}`"
        error = OptionError(
            CONNECTOR, f"a stream has no connector '{connector}'", expected="'kafka'",
            fix=None if is_kafka else fix, write="connector = 'kafka'" if is_kafka else None,
        )  # fmt: skip
        looked_up = self._looked_up(start) if connector.lower() == "jdbc" else None
        if looked_up:
            error.write, error.replaces = looked_up, statement_at(self.source, self.tokens[start].start)
            error.expected = None
            error.fix = f"its rows are sent by `headrace send`, HTTP or Kafka: write {looked_up}"
        elif not is_kafka:
            whole = statement_at(self.source, self.tokens[start].start) if connector.lower() in _SINKS else None
            error.write, error.replaces = " ", whole or self.span_since(start)
        return error

    def _looked_up(self, options: int) -> str | None:
        """The table without its options, if another statement joins it."""
        text = self.source.text
        name = re.escape(self.declaring or "")
        join = re.search(rf"\bJOIN\s+{name}\b(.*?)(?:;|\Z)", text, re.IGNORECASE | re.DOTALL)
        if join is None:
            return None
        start, end = statement_at(self.source, self.tokens[options].start)
        fields, after = text[start : self._fields_end], text[self.tokens[self.index - 1].end : end]
        if not re.search(r"\bPRIMARY\s+KEY\b", fields, re.IGNORECASE):
            alias = re.search(r"(?:\bAS\s+)?\b(\w+)\s+ON\b", join[1], re.IGNORECASE)
            of = rf"(?:{name}|{alias[1]})" if alias else name
            keys = dict.fromkeys(re.findall(rf"\b{of}\.(\w+)\s*=|=\s*{of}\.(\w+)", join[1], re.IGNORECASE))
            columns = ["".join(pair) for pair in keys]
            if not columns:
                return None
            fields += f", PRIMARY KEY ({', '.join(columns)})"
        return f"{fields}{text[self._fields_end : self.tokens[options].start].rstrip()}{after}"

    @contextmanager
    def _at_options(self, options: list[WrittenOption]) -> Iterator[None]:
        """Set the place of mistakes in options, and what to write there."""
        by_name = {option.name: option for option in options}
        try:
            yield
        except OptionError as error:
            option = by_name.get(error.option, options[0])
            error.where = self.source.locate(option.span[0])
            if error.option == TOPIC and TOPIC not in by_name:
                error.write = f"{self.source.text[slice(*option.span)]}, topic = '{self.declaring}'"
            if error.rename:
                error.write = f"'{error.rename}' = {self.source.text[slice(*option.value_span)]}"
            error.replaces = error.replaces or (option.span if error.write else None)
            if error.remove:
                error.write, error.replaces = " ", self._span_with_comma(options, option)
            if option.name == "timestamp" and option.value.lower() in self._types:
                self._write_watermark(error, options, option.value)
            raise

    def _write_watermark(self, error: DefinitionError, options: list[WrittenOption], field: str) -> None:
        """TIMESTAMP = 'viewtime' of ksqlDB: the statement with the event time among its fields."""
        type_, time, computed = self._types[field.lower()], field, ""
        pattern = next((option.value for option in options if option.name == "timestamp_format"), None)
        if type_ != TIMESTAMP:
            time = f"{field}_ts"
            value = f"to_timestamp({quote(field)}, {escape(pattern)})" if pattern else to_time(field, type_)
            computed = f"{quote(time)} TIMESTAMP AS {value}, "
        text, (start, end) = self.source.text, statement_at(self.source, self._fields_end)
        rest = (option for option in options if option.name not in ("timestamp", "timestamp_format"))
        error.write = (
            f"{text[start : self._fields_end]}, {computed}WATERMARK FOR {quote(time)} AS {quote(time)}"
            f"{text[self._fields_end : options[0].span[0]]}{', '.join(text[slice(*option.span)] for option in rest)}"
            f"{text[options[-1].span[1] : end]}"
        )
        error.replaces, error.fix = (start, end), f"the event time is one of the fields: write {error.write}"

    def _span_with_comma(self, options: list[WrittenOption], option: WrittenOption) -> tuple[int, int]:
        """The offsets of an option and a comma beside it."""
        index = options.index(option)
        if index > 0:
            return options[index - 1].span[1], option.span[1]
        return option.span[0], options[1].span[0] if len(options) > 1 else option.span[1]

    def _read_idle_timeout(self, option: WrittenOption) -> int:
        with located(self.source, option.value_span[0]):
            if option.kind != STRING:
                raise DefinitionError(
                    "the idle time-out is a text",
                    found=option.value,
                    expected="a duration such as '5 minutes'",
                )
            return check_idle_timeout(parse_duration(option.value))
