"""Statements of other systems that move changes: AUTO CDC of Spark; CREATE SOURCE and CREATE SINK of Materialize."""

from __future__ import annotations

import re

from headrace.define.definition_rules import NO_DEBEZIUM, UNWRAP
from headrace.define.sql.later import NAME, statement_at
from headrace.errors import DefinitionError
from headrace.language.source_text import SourceText, escape
from headrace.language.terms import quote, unquote

_FLAGS = re.IGNORECASE | re.DOTALL
_PATH = rf"(?:{NAME}\s*\.\s*)*({NAME})"  # only its last name counts
_CHANGES = re.compile(
    rf"(?P<words>APPLY\s+CHANGES|CREATE\s+FLOW\s+{NAME}\s+AS\s+(?:AUTO\s+CDC|APPLY\s+CHANGES))\s+"
    rf"INTO\s+(?:{NAME}\s*\.\s*)*(?P<name>{NAME})\s+"
    rf"FROM\s+(?:STREAM\s*\(?\s*)?{_PATH}\s*\)?\s+KEYS\s*\((?P<keys>[^()]+)\)(?P<rest>.*)",
    _FLAGS,
)
_COLUMNS = re.compile(rf"\bCOLUMNS\s+(\*\s+EXCEPT\s*\([^()]+\)|\([^()]+\)|{NAME}(?:\s*,\s*{NAME})*)", _FLAGS)
_DELETES = re.compile(r"\bAPPLY\s+AS\s+(?:DELETE|TRUNCATE)\s+WHEN\b", re.IGNORECASE)
_CONNECTION = rf"KAFKA\s+CONNECTION\s+{_PATH}\s*\(\s*TOPIC\s*=?\s*(?P<topic>'[^']*')(?:[^()]|\([^()]*\))*\)(?P<rest>.*)"
_CLUSTER = rf"(?:IN\s+CLUSTER\s+{NAME}\s+)?"
_SOURCE = re.compile(
    rf"CREATE\s+SOURCE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>{NAME})\s+{_CLUSTER}FROM\s+{_CONNECTION}", _FLAGS
)
_SINK = re.compile(
    rf"CREATE\s+SINK\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>{NAME})\s+{_CLUSTER}FROM\s+(?P<view>{NAME})\s+"
    rf"INTO\s+{_CONNECTION}",
    _FLAGS,
)
_ENVELOPE = re.compile(r"\bENVELOPE\s+(UPSERT|DEBEZIUM)\b", re.IGNORECASE)
_INCLUDED = re.compile(
    rf"\b(?P<word>KEY|PARTITION|OFFSET|TIMESTAMP|HEADERS|HEADER)\b(?:\s+(?P<header>'[^']*'))?(?:\s+AS\s+(?P<name>{NAME}))?",
    re.IGNORECASE,
)
_PARTS = {"TIMESTAMP": "TIMESTAMP", "PARTITION": "INT", "OFFSET": "BIGINT", "HEADERS": "MAP<STRING, STRING>"}
_FORMAT = re.compile(r"(?<!KEY )\bFORMAT\s+(\w+)", re.IGNORECASE)


def instead_of_flow(source: SourceText, at: int) -> DefinitionError | None:
    """The refusal of such a statement, which begins at an offset, with what to write; None if it is another."""
    start, end = statement_at(source, at)
    text = source.text[start:end]
    for form, instead in ((_CHANGES, _table), (_SOURCE, _input), (_SINK, _sink)):
        match = form.match(text)
        if match:
            message, write = instead(match)
            error = source.error(start, message, write=write, span=(start, end))
            error.of = unquote(match["name"])
            return error
    return None


def _table(form: re.Match[str]) -> tuple[str, str]:
    """AUTO CDC INTO target FROM STREAM(s) KEYS (id) SEQUENCE BY at: the latest row of each key."""
    words, target, stream, keys, rest = form.group("words", "name", 3, "keys", "rest")
    words = " ".join(re.sub(rf"(?is)CREATE\s+FLOW\s+{NAME}\s+AS\s+", "", words).upper().split())
    keys = " ".join(keys.split())
    columns = _COLUMNS.search(rest)
    selected = " ".join(columns[1].split()) if columns else "*"
    if not selected.startswith("*"):
        names = re.split(r"\s*,\s*", f"{keys}, {selected.strip('( )')}")
        selected = ", ".join(dict.fromkeys(names))
    message = (
        f"{words} INTO is a table here, without CREATE STREAMING TABLE: it has the row of each key that is the latest "
        "by the event time of the stream"
    )
    if _DELETES.search(rest):
        message += "; deletes (APPLY AS DELETE WHEN) are not available: leave such rows out in a view over it"
    if re.search(r"\bSCD\s+TYPE\s+2\b", rest, re.IGNORECASE):
        message += "; earlier rows (SCD TYPE 2) are those of a question with --timestamp-as-of"
    return message, f"CREATE TABLE {target} PRIMARY KEY ({keys}) AS SELECT {selected} FROM {stream}"


def _input(form: re.Match[str]) -> tuple[str, str]:
    """CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 't') …, of which ENVELOPE UPSERT keeps the latest of each key."""
    name, topic, rest = form.group("name", "topic", "rest")
    of_values, envelope = _FORMAT.search(rest), _ENVELOPE.search(rest)
    format_, parts = of_values[1].lower() if of_values else "json", _included(rest)
    fields, message = {"value": "STRING"}, "a source of events is a stream"
    if format_ in ("json", "text"):
        column, format_ = ("data" if format_ == "json" else "text"), "text"
        fields[column] = "STRING AS value"
        message += f"; its column {column} has the complete message: to have the fields of JSON, declare them instead"
    if envelope and "KEY" not in parts.values():
        parts = {**parts, "key": "KEY"}
    fields |= {column: f"{_PARTS.get(part, 'STRING')} FROM {part}" for column, part in parts.items()}
    events = quote(f"{unquote(name)}_changes") if envelope else name
    columns = ", ".join(f"{column} {declared}" for column, declared in fields.items())
    options = f"connector = 'kafka', topic = {topic}"
    write = f"CREATE STREAM {events} ({columns}) WITH ({options}, format = {escape(format_)})"
    if envelope:
        key = next(column for column, part in parts.items() if part == "KEY")
        selected = [column for column, declared in fields.items() if not declared.startswith("MAP")]
        write += f"; CREATE TABLE {name} PRIMARY KEY ({key}) AS SELECT {', '.join(selected)} FROM {events}"
        message = "ENVELOPE UPSERT is a table, which has the latest row of each key"
        if envelope[1].upper() == "DEBEZIUM":
            message = f"{NO_DEBEZIUM}: {UNWRAP}; then it is a table, which has the latest row of each key"
        message += (
            "; to delete rows by messages without a value, declare the fields of the messages: "
            f"CREATE TABLE {name} ({key} STRING FROM KEY PRIMARY KEY, …) WITH ({options})"
        )
    return message, write


def _included(rest: str) -> dict[str, str]:
    """The parts of a record that INCLUDE KEY AS k, TIMESTAMP, … names, by the columns that have them."""
    _, *included = re.split(r"\bINCLUDE\b", rest, flags=re.IGNORECASE)
    return {
        part["name"] or quote(part["word"].lower()): " ".join(filter(None, (part["word"].upper(), part["header"])))
        for part in _INCLUDED.finditer(" ".join(included))
    }


def _sink(form: re.Match[str]) -> tuple[str, str]:
    """CREATE SINK s FROM view INTO KAFKA CONNECTION k (TOPIC 't') …."""
    name, view, topic = form.group("name", "view", "topic")
    message = "a sink has no INTO: its connector is an option, and it sends rows as JSON"
    return message, f"CREATE SINK {name} FROM {view} WITH (connector = 'kafka', topic = {topic})"
