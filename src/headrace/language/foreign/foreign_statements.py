"""Statements of other systems: INSERT, CREATE TABLE … AS, AUTO CDC of Spark, sources and sinks of Materialize."""

from __future__ import annotations

import re
from dataclasses import replace

from headrace.errors import DefinitionError, nearest
from headrace.language.foreign.unavailable_syntax import NAME
from headrace.language.source_text import QUOTED, WORD, SourceText, Token, escape, statement_at
from headrace.language.statements import FIRST_WORDS, listed
from headrace.language.statements.create_table import sees_table
from headrace.language.statements.with_options import NO_DEBEZIUM, UNWRAP, sees_options
from headrace.language.terms import quote, unquote
from headrace.language.token_cursor import TokenCursor

_SEND = "send events and rows with `headrace send`, HTTP or Python"
_QUERIES = "for queries use `headrace ask` or `headrace sql`"
_OTHER_STATEMENTS = {  # what to do instead
    "APPLY": "write CREATE TABLE target PRIMARY KEY (…) AS SELECT …",
    **dict.fromkeys(("INSERT", "UPDATE", "DELETE", "MERGE", "COPY", "LOAD"), _SEND),
    **dict.fromkeys(("DROP", "TRUNCATE"), "to drop something, delete its definition"),
    "ALTER": "change its definition, and run `headrace apply`",
    "SET": "remove it: settings are in headrace.toml",
    **dict.fromkeys(("SHOW", "DESCRIBE", "DESC", "EXPLAIN", "LIST", "PRINT"), "`headrace status` shows what there is"),
    **dict.fromkeys(("SUBSCRIBE", "FETCH", "DECLARE"), "`headrace watch VIEW` shows the changes of a view"),
    **dict.fromkeys(
        ("USE", "EXECUTE", "BEGIN", "END", "START", "COMMIT", "CACHE", "REFRESH", "OPTIMIZE", "VACUUM", "ANALYZE"),
        "remove it: definitions need no job, and views are always up to date",
    ),
}
_NO_NAMESPACE = "remove it: a workspace is one folder, and its definitions are read together"
_CONNECTOR = "write WITH (connector = 'kafka', topic = '…') after the fields of CREATE STREAM"
_IN_PYTHON = (
    'functions are in Python files beside the SQL: @hr.udf("text STRING", gives="STRING") before def f(text): …'
)
_OTHER_KINDS = {  # what cannot be created, and what to do instead
    **dict.fromkeys(("FUNCTION", "AGGREGATE", "SYSTEM"), _IN_PYTHON),
    **dict.fromkeys(("INDEX", "DEFAULT", "UNIQUE"), "remove it: the rows of a view are found by its keys"),
    **dict.fromkeys(("DATABASE", "SCHEMA", "CATALOG", "CLUSTER", "ROLE", "USER"), _NO_NAMESPACE),
    **dict.fromkeys(("CONNECTION", "CONNECTOR"), _CONNECTOR),
    "SECRET": "remove it: the value 'secret:NAME' of an option is the environment variable NAME",
    "TYPE": "write the type where it is used, as in address STRUCT<street STRING, city STRING>",
    "FLOW": "write CREATE STREAM … AS SELECT, with UNION ALL of all queries that fill it",
    "DICTIONARY": "write CREATE TABLE with a PRIMARY KEY; JOIN looks its rows up",
    "WINDOW": "write CREATE MATERIALIZED VIEW, and window(at, '1 minute') in GROUP BY",
}
_READABLE = ("DICTIONARY", "WINDOW", "FLOW")  # of those: what other statements may read
NOTHING = ""  # what a statement declares that other statements cannot read
_KINDS = ("LIVE", "TEMPORARY", "TEMP", "CONTINUOUS", "EXTERNAL", "UNLOGGED", "GLOBAL", "PRIVATE")  # before TABLE, VIEW
_CREATED = ("STREAM", "STREAMING", "MATERIALIZED", "SINK", "ALERT", "SOURCE")  # besides TABLE and VIEW
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
_ROWS = re.compile(  # a query of columns, whose rows are those that it reads
    rf"SELECT\s+(?:\*|{NAME}(?:\s*,\s*{NAME})*)\s+FROM\s+(?P<rows>{NAME}(?:\s+WHERE\s+(?:(?!\bGROUP\s+BY\b).)+)?)",
    re.IGNORECASE | re.DOTALL,
)


def _in_postgres(options: str) -> str:
    """WITH (…) for the connector jdbc of RisingWave."""
    table = re.search(r"\btable\.name\s*=\s*('[^']*')", options, re.IGNORECASE)
    if not table or not re.search(r"\bconnector\s*=\s*'jdbc'", options, re.IGNORECASE):
        return options
    return f"WITH (connector = 'postgres', url = 'secret:PG_URL', table = {table[1]})"


def read_before_create(cursor: TokenCursor) -> None:
    """Read INSERT INTO as the view that it keeps; refuse what does not begin with CREATE."""
    start = cursor.next
    if cursor.sees("APPLY", "CHANGES") or (
        cursor.sees("CREATE") and cursor.ahead(1).upper in ("FLOW", "SOURCE", "SINK")
    ):
        error = _instead_of_flow(cursor.source, start.start)
        if error is not None:
            cursor.declaring = error.of
            cursor.skip_rest()
            raise error
    if cursor.sees("INSERT", "INTO"):
        _read_insert(cursor)
    if cursor.sees("SELECT") or cursor.sees("WITH"):
        raise _unnamed_query(cursor)
    if not cursor.sees("CREATE"):
        cursor.declaring = NOTHING if start.upper in _OTHER_STATEMENTS else None
        raise cursor.error(
            start.start, f"a definition file contains only CREATE {listed('and')}", found=start.describe(),
            fix=_OTHER_STATEMENTS.get(start.upper, _QUERIES),
        )  # fmt: skip


def read_kind(cursor: TokenCursor) -> bool:
    """Read the words after CREATE that other systems have; return True if they mean CREATE MATERIALIZED VIEW."""
    _refuse_temporary(cursor)
    if (cursor.sees("SOURCE") and cursor.ahead(1).upper in ("STREAM", "TABLE", "CONNECTOR")) or (
        cursor.sees("SINK") and cursor.ahead(1).upper == "CONNECTOR"
    ):  # of ksqlDB
        cursor.take()
    if cursor.sees("SOURCE"):
        cursor.tokens[cursor.index] = replace(cursor.next, text="STREAM")
    if cursor.sees("VIEW") or sees_table(cursor):
        return False
    if not (cursor.sees("TABLE") or cursor.next.upper in _KINDS):
        return False
    _read_view_of_other_kind(cursor)
    return True


def _instead(cursor: TokenCursor, reason: str, start: int, end: int, text: str) -> None:
    assert cursor.foreign is not None, "it is the second pass"
    cursor.foreign.instead(reason, start, end, text)


def _read_insert(cursor: TokenCursor) -> None:
    """Read INSERT INTO name SELECT … as the view that it would keep up to date."""
    insert, into, name = cursor.next, cursor.ahead(1), cursor.ahead(2)
    if name.kind not in (WORD, QUOTED) or cursor.ahead(3).upper != "SELECT":
        return
    words = [replace(insert, text=word) for word in ("CREATE", "MATERIALIZED", "VIEW")]
    cursor.tokens[cursor.index : cursor.index + 3] = [*words, name, replace(into, text="AS")]
    text = f"CREATE MATERIALIZED VIEW {cursor.source.text[name.start : name.end]} AS"
    _instead(cursor, "a view is kept up to date without INSERT", insert.start, name.end, text)


def _refuse_temporary(cursor: TokenCursor) -> None:
    """Refuse CREATE TEMPORARY TABLE t (…) of Flink and the like; a view of SELECT is read as such."""
    start, place = cursor.index, cursor.next.start
    while cursor.next.upper in _KINDS:
        cursor.take()
    if cursor.index == start:
        return
    words, end = cursor.text_since(start).upper(), cursor.next.start
    if sees_table(cursor) or cursor.next.upper in _CREATED:
        cursor.skip_rest()
        rest = " ".join(cursor.source.text[end : cursor.last_end].split())
        raise cursor.error(
            place, f"a definition exists as long as it is in its file: there is no {words}",
            write=f"CREATE {rest}", span=(statement_at(cursor.source, place)[0], cursor.last_end),
        )  # fmt: skip
    cursor.reset(start)


def _read_view_of_other_kind(cursor: TokenCursor) -> None:
    """Read the words of CREATE TABLE … AS SELECT and CREATE TEMPORARY VIEW … AS SELECT."""
    start = cursor.next.start
    while cursor.next.upper in _KINDS:
        cursor.take()
    if not (cursor.sees("TABLE") or cursor.sees("VIEW")):
        raise unknown_statement(cursor)
    token = cursor.take()
    if cursor.ahead(1).upper == "USING":
        name = cursor.next.text
        cursor.skip_rest()
        raise cursor.error(
            token.start, "a view has no USING: what is read from outside is a stream",
            fix=f"write CREATE STREAM {quote(name)} (value STRING) WITH (connector = 'kafka', "
            f"topic = {escape(name)}, format = 'text'), with the name of the topic; `headrace send` loads files",
        )  # fmt: skip
    reasons = {
        "TABLE": "CREATE TABLE … AS SELECT is CREATE MATERIALIZED VIEW here",
        "VIEW": "a definition is not temporary: CREATE MATERIALIZED VIEW reads streams, CREATE VIEW reads views",
    }
    _instead(cursor, reasons[token.upper], start, token.end, "MATERIALIZED VIEW")


def unknown_statement(cursor: TokenCursor) -> DefinitionError:
    """Return the error of what cannot be created."""
    error = cursor.unexpected(listed("or"))
    error.message = "this cannot be created" if error.message == "syntax error" else error.message
    if cursor.next.upper in _OTHER_KINDS:
        error.fix, error.write = _OTHER_KINDS[cursor.next.upper], None
        cursor.declaring = None if cursor.next.upper in _READABLE else NOTHING
        cursor.skip_rest()
        return error
    word = cursor.ahead(1) if cursor.sees("MATERIALIZED") else cursor.next
    near = nearest(word.text, ("VIEW",) if cursor.sees("MATERIALIZED") else FIRST_WORDS, 0.75)
    if near and error.write is None:
        error.fix, error.write, error.replaces = f"did you mean {near}?", near, (word.start, word.end)
    return error


def _unnamed_query(cursor: TokenCursor) -> DefinitionError:
    """Return the error of SELECT …, which other systems run until it is stopped."""
    start, cursor.declaring = cursor.next.start, NOTHING
    cursor.skip_rest()
    query = " ".join(cursor.source.text[start : cursor.last_end].split())
    return cursor.error(
        start, f"a query has no name, and a definition file contains definitions: {_QUERIES}",
        write=f"CREATE MATERIALIZED VIEW results AS {query}", end=cursor.last_end,
    )  # fmt: skip


# Sinks


def refuse_sink_of_query(cursor: TokenCursor, name: Token) -> None:
    """Refuse CREATE SINK s AS SELECT … WITH (…), and INTO."""
    if not (cursor.sees("AS") or cursor.sees("INTO")):
        return
    at, word, start = cursor.next.start, cursor.take().upper, cursor.index
    while not (cursor.at_end() or sees_options(cursor)):
        cursor.take()
    query, rest = cursor.text_since(start), cursor.index
    cursor.skip_rest()
    rows = quote(f"{name.text}_rows")
    written = f"CREATE MATERIALIZED VIEW {rows} AS {query}; "
    written += f"CREATE SINK {quote(name.text)} FROM {rows} {cursor.text_since(rest)}"
    is_query = word == "AS" and rest < cursor.index
    rows_of = _ROWS.fullmatch(query)
    message = f"CREATE SINK {name.text} {word} is not available: a sink sends the rows of a view or a stream"
    if rows_of:
        message += ", with all columns"
        options = _in_postgres(cursor.text_since(rest))
        written = f"CREATE SINK {quote(name.text)} FROM {' '.join(rows_of['rows'].split())} {options}"
    raise cursor.error(
        at, message,
        fix=None if is_query else f"write CREATE SINK {quote(name.text)} FROM view WITH (…)",
        write=written if is_query else None, span=statement_at(cursor.source, at),
    )  # fmt: skip


# Flows


def _instead_of_flow(source: SourceText, at: int) -> DefinitionError | None:
    """Return the refusal of a statement that moves changes, with what to write; None if it is another."""
    start, end = statement_at(source, at)
    text = source.text[start:end]
    for form, instead in ((_CHANGES, _table_of_changes), (_SOURCE, _stream_of_source), (_SINK, _sink_into)):
        match = form.match(text)
        if match:
            message, write = instead(match)
            error = source.error(start, message, write=write, span=(start, end))
            error.of = unquote(match["name"])
            return error
    return None


def _table_of_changes(form: re.Match[str]) -> tuple[str, str]:
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
        message += "; earlier rows (SCD TYPE 2) are available by --timestamp-as-of"
    return message, f"CREATE TABLE {target} PRIMARY KEY ({keys}) AS SELECT {selected} FROM {stream}"


def _stream_of_source(form: re.Match[str]) -> tuple[str, str]:
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


def _sink_into(form: re.Match[str]) -> tuple[str, str]:
    """CREATE SINK s FROM view INTO KAFKA CONNECTION k (TOPIC 't') …."""
    name, view, topic = form.group("name", "view", "topic")
    message = "a sink has no INTO: its connector is an option, and it sends rows as JSON"
    return message, f"CREATE SINK {name} FROM {view} WITH (connector = 'kafka', topic = {topic})"
