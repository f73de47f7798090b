"""Clauses of other systems in CREATE STREAM: keys, defaults, storage clauses, INCLUDE, formats with envelopes."""

from __future__ import annotations

import re

from headrace.errors import DefinitionError
from headrace.language.expressions import read_expression
from headrace.language.source_text import STRING, Token, escape
from headrace.language.statements.with_options import NO_DEBEZIUM, UNWRAP
from headrace.language.token_cursor import TokenCursor

_STORAGE = (
    "ENGINE", "USING", "ROW", "PARTITIONED", "PARTITION", "ORDER", "TTL", "CLUSTERED", "DISTRIBUTED", "TBLPROPERTIES",
    "LOCATION",
)  # fmt: skip
_RECORD_TYPES = {"TIMESTAMP": "TIMESTAMP", "PARTITION": "INT", "OFFSET": "BIGINT", "HEADERS": "MAP<STRING, STRING>"}


def refuse_stream_clause(cursor: TokenCursor) -> None:
    """Refuse what other systems have before and after the fields of a stream."""
    token = cursor.next
    if cursor.sees("WATERMARK", "FOR"):
        raise cursor.error(
            token.start, "WATERMARK is one of the fields", fix="write it inside the parentheses, after the last"
        )
    if cursor.sees("INCLUDE"):
        raise _included(cursor)
    if cursor.sees("APPEND", "ONLY"):
        raise cursor.error(
            token.start, "APPEND ONLY is not needed: a stream without UNIQUE keeps every event", fix="remove it",
            write=" ", end=cursor.ahead(1).end,
        )  # fmt: skip
    if token.upper in _STORAGE:
        start = cursor.index
        cursor.skip_rest()
        written = cursor.text_since(start)
        write = _kafka_engine(written)
        raise cursor.error(
            token.start, f"a stream has no {token.upper}: the log keeps its events by time",
            fix=f"write {write}" if write else f"remove {written}", write=write or " ", end=cursor.last_end,
        )  # fmt: skip


def refuse_encoding(cursor: TokenCursor) -> None:
    """Refuse FORMAT DEBEZIUM ENCODE JSON of RisingWave, and other formats than PLAIN before ENCODE."""
    token, kind = cursor.next, cursor.ahead(1)
    if cursor.sees("FORMAT") and cursor.ahead(2).upper == "ENCODE":
        if kind.upper == "DEBEZIUM":
            raise cursor.error(
                token.start, NO_DEBEZIUM, fix=f"{UNWRAP}, then write FORMAT PLAIN", write="FORMAT PLAIN", end=kind.end
            )
        if kind.upper != "PLAIN":
            raise cursor.error(
                token.start, f"FORMAT {kind.upper} is not available: a stream is a log of events",
                write="FORMAT PLAIN", end=kind.end,
            )  # fmt: skip


def _kafka_engine(text: str) -> str | None:
    """Return WITH (…) for ENGINE = Kafka of ClickHouse, by its settings or its arguments ('servers', 'topics', …)."""
    if not re.match(r"ENGINE\s*=\s*Kafka\b", text, re.IGNORECASE):
        return None
    settings = (re.search(rf"kafka_{name}\s*=\s*('[^']*')", text) for name in ("broker_list", "topic_list"))
    texts = [setting[1] for setting in settings if setting] or re.findall(r"'[^']*'", text)
    servers, topics = [*texts, "'…'", "'…'"][:2]
    topic = topics.replace(",", ";")
    return f"WITH (connector = 'kafka', topic = {topic}, properties.bootstrap.servers = {servers})"


def _included(cursor: TokenCursor) -> DefinitionError:
    """Return the error of INCLUDE KEY AS k of RisingWave, after the fields."""
    start, at = cursor.index, cursor.next.start
    cursor.take()
    word = cursor.take()
    part = f"HEADER {escape(cursor.take().text)}" if cursor.next.kind == STRING else word.upper
    name = cursor.ahead(1).text if cursor.sees("AS") else word.text.lower()
    while not cursor.at_end() and not cursor.sees("INCLUDE") and not cursor.sees("WITH"):
        cursor.take()
    return cursor.error(
        at, f"{cursor.text_since(start)} is a field here",
        fix=f"write {name} {_RECORD_TYPES.get(part, 'STRING')} FROM {part} inside the parentheses",
    )  # fmt: skip


def constraint(cursor: TokenCursor, owner: str) -> DefinitionError:
    """Return the error of PRIMARY KEY (a, b) NOT ENFORCED, by which a later event would replace another."""
    start = cursor.index
    at = cursor.tokens[start - 1].start if cursor.tokens[start - 1].text == "," else cursor.next.start
    while not cursor.at_end() and cursor.next.text != "(":
        cursor.take()
    while not cursor.at_end() and not cursor.accept_symbol(")"):
        cursor.take()
    cursor.accept("NOT", "ENFORCED")
    text = cursor.text_since(start)
    error = cursor.error(
        cursor.tokens[start].start, f"{owner} is a log of events, which keeps them all: it has no key",
        fix=f"remove {text}; the latest x of a key is last(x), and UNIQUE (id) WITHIN INTERVAL 1 DAY "
        "counts repeats once",
    )  # fmt: skip
    error.write, error.replaces = " ", (at, cursor.last_end)
    return error


def refuse_field_without_type(cursor: TokenCursor, owner: str, name: Token) -> None:
    """Refuse a name that PRIMARY KEY follows."""
    if cursor.sees("PRIMARY", "KEY"):
        raise cursor.error(
            cursor.next.start, f"{owner}: the column '{name.text}' has no type",
            fix=f"write it before PRIMARY KEY, as in {name.text} STRING PRIMARY KEY",
        )  # fmt: skip


def refuse_field_clause(cursor: TokenCursor, owner: str, name: Token) -> None:
    """Refuse KEY, DEFAULT and CODEC after a field."""
    at, start = cursor.next.start, cursor.index
    if cursor.sees("PRIMARY") or cursor.sees("KEY"):
        cursor.take()
        cursor.accept("KEY")
        cursor.accept("NOT", "ENFORCED")
        message, fix = (
            f"{owner} is a log of events, which keeps them all: it has no key",
            f"remove {cursor.text_since(start)}",
        )
    elif cursor.accept("DEFAULT"):
        value = cursor.index
        read_expression(cursor)
        coalesce = f"coalesce({name.text}, {cursor.text_since(value)})"
        message, fix = "DEFAULT is not supported", f"remove it, and write {coalesce} where it is used"
    elif cursor.sees("CODEC") and cursor.ahead(1).text == "(":  # of ClickHouse
        cursor.take()
        cursor.skip_parentheses()
        message, fix = "a field has no CODEC: the log is compressed", "remove it"
    else:
        return
    raise cursor.error(at, message, fix=fix, write=" ", end=cursor.last_end)
