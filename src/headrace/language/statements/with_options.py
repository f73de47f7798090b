"""Reads WITH (…) and FORMAT: the options of a connector, and the format of events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.errors import DefinitionError
from headrace.language.source_text import NUMBER, QUOTED, STRING, WORD, located
from headrace.language.token_cursor import TokenCursor

CONNECTOR = "connector"
FORMAT_OPTIONS = ("format", "value.format", "value_format")
NO_DEBEZIUM = "the envelopes of Debezium (before, after, op) are not read yet"
UNWRAP = "unwrap them in Kafka Connect with ExtractNewRecordState and schemas.enable = false"
_LATER_FORMATS = (
    "avro", "avro-confluent", "protobuf", "protobuf-confluent", "protobuf_nosr", "json_sr", "debezium-json",
    "debezium-avro-confluent", "canal-json", "maxwell-json", "ogg-json",
)  # fmt: skip


@dataclass(frozen=True)
class WrittenOption:
    """One option as it was written: its name in lower case, its value as text, and the offsets of both."""

    name: str
    value: str
    kind: str = STRING  # of the value: STRING, NUMBER or WORD (true, false, a bare word)
    span: tuple[int, int] = (0, 0)  # of name and value
    value_span: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class FormatWord:
    """The format as it was written, and its offset."""

    text: str
    at: int


@dataclass(frozen=True)
class FormatClause:
    """FORMAT and WITH (…), before or after the fields of a stream."""

    word: FormatWord | None = None
    options: tuple[WrittenOption, ...] = ()
    span: tuple[int, int] = (0, 0)  # of WITH (…)
    later_word: FormatWord | None = None  # FORMAT after WITH (…)


def canonical(options: Iterable[WrittenOption]) -> tuple[tuple[str, str], ...]:
    """Return options by name, without their places."""
    return tuple(sorted((option.name, option.value) for option in options))


def sees_options(cursor: TokenCursor) -> bool:
    """Return True if WITH (…) comes next."""
    return cursor.sees("WITH") and cursor.ahead(1).text == "("


def read_options(cursor: TokenCursor) -> list[WrittenOption]:
    """Read WITH (…), which comes next; a name twice is refused."""
    cursor.expect("WITH", "the definition")
    cursor.expect_symbol("(", "WITH")
    options: list[WrittenOption] = []
    while not options or cursor.accept_symbol(","):
        option = _read_option(cursor)
        if any(option.name == other.name for other in options):
            raise cursor.error(option.span[0], f"the option '{option.name}' is given twice", fix="keep one")
        options.append(option)
    cursor.expect_symbol(")", "the options")
    return options


def _read_option(cursor: TokenCursor) -> WrittenOption:
    start = cursor.index
    name = _read_name(cursor)
    cursor.expect_symbol("=", f"the option {name}")
    value_start = cursor.index
    sign = "-" if cursor.sees_symbol("-") and cursor.ahead(1).kind == NUMBER else ""
    if sign:
        cursor.take()
    token = cursor.next
    if token.kind not in (STRING, NUMBER, WORD, QUOTED):
        raise cursor.unexpected(f"a value for the option {name}: a text in quotes, a number, true or false")
    cursor.take()
    bare = token.kind == WORD and token.upper in ("TRUE", "FALSE")
    text = token.text.lower() if bare else sign + token.text
    return WrittenOption(name, text, token.kind, cursor.span_since(start), cursor.span_since(value_start))


def _read_name(cursor: TokenCursor) -> str:
    """Read a name in quotes, or words with dots and hyphens between them."""
    if cursor.next.kind in (STRING, QUOTED):
        token = cursor.take()
        if not token.text.strip():
            raise cursor.error(token.start, "an option has no name", fix="remove it")
        return token.text.strip().lower()
    if cursor.next.kind != WORD:
        raise cursor.unexpected("the name of an option")
    name = cursor.take().text
    while cursor.sees_symbol(".", "-") and cursor.ahead(1).kind in (WORD, NUMBER):
        name += cursor.take().text + cursor.take().text
    return name.lower()


def read_format(cursor: TokenCursor) -> FormatClause:
    """Read FORMAT and WITH (…) of a stream, which are allowed before and after the fields, in any order."""
    if cursor.accept("COMMENT"):
        read_comment(cursor)
    if cursor.foreign:
        cursor.foreign.refuse_stream_clause(cursor)
    word = _read_word(cursor)
    if not cursor.sees("WITH"):
        return FormatClause(word, later_word=None if word else _read_word(cursor))
    start = cursor.index
    options = tuple(read_options(cursor))
    span = cursor.span_since(start)
    has_format = word is not None or any(option.name in FORMAT_OPTIONS for option in options)
    return FormatClause(word, options, span, None if has_format else _read_word(cursor))


def _read_word(cursor: TokenCursor) -> FormatWord | None:
    """Read FORMAT JSON, or FORMAT PLAIN ENCODE JSON of RisingWave."""
    if cursor.foreign:
        cursor.foreign.refuse_encoding(cursor)
    encodes = cursor.sees("FORMAT", "PLAIN", "ENCODE")
    if encodes:
        cursor.reset(cursor.index + 3)
    elif not cursor.accept("FORMAT"):
        return None
    token = cursor.expect_name("a format")
    if encodes:
        with located(cursor.source, token.start):
            refuse_later_format(token.text, cursor.declaring or "", kafka=True)
        if cursor.sees_symbol("("):
            raise cursor.error(
                cursor.next.start, "a format has no options here", fix="remove the parentheses and what is in them"
            )
    return FormatWord(token.text, token.start)


def read_comment(cursor: TokenCursor) -> None:
    """Read the text after COMMENT, which is not kept."""
    if cursor.next.kind != STRING:
        raise cursor.unexpected("a text after COMMENT")
    cursor.take()


def refuse_later_format(format_: str, stream: str, *, kafka: bool) -> None:
    """Raise if the format is one that streams do not read yet."""
    if format_.lower() in _LATER_FORMATS:
        fix = "produce values in one of these; Kafka Connect and ksqlDB convert topics to JSON"
        raise DefinitionError(
            f"stream '{stream}': the format {format_.upper()} is not available yet",
            expected="JSON, TEXT or CSV" if kafka else "JSON or TEXT",
            fix=f"{UNWRAP}, then write JSON" if format_.lower() == "debezium-json" else fix,
        )
