"""Errors of DuckDB about the SELECT of a logical view, as mistakes of the definition: a sentence and its place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import orjson

from headrace.aggregate import REGISTRY
from headrace.define.model import Stream
from headrace.errors import DefinitionError, did_you_mean, nearest
from headrace.language.source_text import END, QUOTED, WORD, SourceText, Token, statement_at, tokenize
from headrace.language.statements.create_view import LogicalStatement
from headrace.language.statements.select_rows import WINDOW_TABLES
from headrace.language.terms import quote

LONGEST = 300  # characters of a sentence of DuckDB
_NO_COLUMN = re.compile(
    r'does not have a column named "(?P<name>[^"]+)"|'
    r'^Column "(?P<own>[^"]+)" (?:does not exist on|referenced that exists)'
)
_AMBIGUOUS = re.compile(r'^Ambiguous reference to column name "([^"]+)" \(use: (.+)\)')
_NOT_GROUPED = re.compile(r'^column "([^"]+)" must appear in the GROUP BY clause')
_NO_TABLE = re.compile(r'^Referenced table "([^"]+)" not found')
_NO_MATCH = re.compile(r"^No function matches the given name and argument types '(.+?)'\.")
_NEAR = re.compile(r'^syntax error at or near "(.*)"$', re.DOTALL)
_RESERVED = ("AT", "TO", "OFFSET", "CHECK", "COLUMN", "DEFAULT", "TABLE", "WINDOW", "PRIMARY", "REFERENCES", "SHOW")
_OTHER_NAMES = {  # functions of Spark, with what they are called in the dialect of `headrace sql`
    "date_format": "strftime", "collect_list": "list", "collect_set": "list(DISTINCT …)", "size": "len",
    "nvl": "coalesce", "to_timestamp": "strptime", "approx_percentile": "approx_quantile",
    "percentile": "quantile_cont", "rlike": "regexp_matches", "unix_timestamp": "epoch",
    "get_json_object": "json_extract",
}  # fmt: skip


def as_definition_error(
    statement: LogicalStatement, error: Exception, shift: int | None, columns: Sequence[str] = ()
) -> DefinitionError:
    """A mistake of the SELECT from DuckDB's error, whose positions are `shift` bytes too far; None: they do not fit."""
    fields = _fields(error)
    position = fields.get("position")
    at = 0 if position is None or shift is None else _characters(statement.sql, int(position) - shift)
    message = str(fields.get("exception_message") or "").strip()
    source, name = statement.source, _missing_column(fields, message)
    if name is not None and position is None:
        mention = re.search(rf"\b{re.escape(name)}\b", statement.sql)
        at = mention.start() if mention else 0
    place = statement.sql_at + at
    if name is not None:
        near = nearest(name, columns)
        return source.error(
            place,
            f"view '{statement.name}': column '{name}' does not exist",
            fix=f"did you mean '{near}'?" if near else f"there are: {', '.join(dict.fromkeys(columns))}",
            write=near,
            span=_span(statement, place, name),
        )
    word = _reserved_word(statement.sql, at) if _NEAR.match(message) else None
    if word is not None:
        place = statement.sql_at + word.start
        return source.error(
            place, f"view '{statement.name}': {word.upper} is a keyword here", write=f'"{word.text}"',
            span=(place, place + len(word.text)), fix=f'if it names a column, write "{word.text}" in double quotes',
        )  # fmt: skip
    sentence, fix = _explain(fields, message, statement.sql[at:])
    return source.error(place, f"view '{statement.name}': {sentence}", fix=fix)


def _reserved_word(sql: str, at: int) -> Token | None:
    """The keyword of DuckDB at this place or before it that is a usual name of a column; None if there is none."""
    tokens = [token for token in tokenize(SourceText(sql), []) if token.kind != END]
    index = next((index for index, token in enumerate(tokens) if token.start >= at), len(tokens))
    nearby = tokens[max(index - 1, 0) : index + 1]
    return next((token for token in nearby if token.upper in _RESERVED), None)


def reads_stream(statement: LogicalStatement, streams: Mapping[str, Stream]) -> DefinitionError | None:
    """The refusal of a SELECT over a stream, with what to write instead; None if it names no stream."""
    tokens = tokenize(SourceText(statement.sql), [])
    stream_tokens = [
        token
        for call, before, token in zip([tokens[0], *tokens], tokens, tokens[1:], strict=False)
        if (before.upper in ("FROM", "JOIN", "TABLE") or (before.text == "(" and call.upper in WINDOW_TABLES))
        and token.kind in (WORD, QUOTED)
        and token.text.lower() in streams
    ]
    if not stream_tokens:
        return None
    materialized = _aggregates(tokens)
    write = "MATERIALIZED VIEW" if materialized else "STREAM"
    why = "to keep its aggregates up to date" if materialized else "to name rows of a stream"
    at = statement.sql_at + stream_tokens[0].start
    written = f"CREATE {write} {quote(statement.name)} AS {' '.join(statement.sql.split())}"
    error = statement.source.error(
        at if statement.word is None else statement.word[0],
        f"view '{statement.name}' reads the stream '{stream_tokens[0].text}', but CREATE VIEW reads views and tables",
        fix=f"{why} write {written}",
    )
    if statement.word is not None:
        error.write, error.replaces = written, statement_at(statement.source, statement.at)
    return error


def _aggregates(tokens: Sequence[Token]) -> bool:
    """Return True if a query has GROUP BY or calls an aggregate, as far as its words tell."""
    for token, following in pairwise(tokens):
        if token.upper == "GROUP" and following.upper == "BY":
            return True
        if following.text == "(" and following.kind != END and token.text.lower() in REGISTRY:
            return True
    return False


def _fields(error: Exception) -> dict[str, Any]:
    text = str(error)
    try:
        return dict(orjson.loads(text[text.index("{") :]))
    except (ValueError, orjson.JSONDecodeError):
        return {"exception_message": re.sub(r"^(\w+ )+Error: ", "", text)}


def _characters(text: str, offset: int) -> int:
    """An offset in bytes as one in characters, within the text."""
    return len(text.encode()[: max(0, offset)].decode(errors="ignore"))


def _missing_column(fields: Mapping[str, Any], message: str) -> str | None:
    if fields.get("error_subtype") == "COLUMN_NOT_FOUND":
        return str(fields["name"])
    match = _NO_COLUMN.search(message)
    return (match["name"] or match["own"]) if match else None


def _span(statement: LogicalStatement, place: int, name: str) -> tuple[int, int] | None:
    """Where a name is written, at this place or after a qualifier."""
    text = statement.source.text
    match = re.compile(rf"(?:\w+\.)?({re.escape(name)})").match(text, place)
    return match.span(1) if match and statement.source.at is None else None


def _explain(fields: Mapping[str, Any], message: str, rest: str = "") -> tuple[str, str | None]:
    """A plain sentence, and what to do; `rest` is the query from the place of the mistake on."""
    if (match := _NEAR.match(message)) and match[1] and rest.strip().rstrip(";").strip() == match[1]:
        # DuckDB names the last word of a query that ends too early.
        return f"syntax error; found the end of the query after '{match[1]}'", "complete it, or remove that word"
    if match:
        return f"syntax error; found '{match[1]}'" if match[1] else "syntax error at the end", None
    if fields.get("error_subtype") == "MISSING_ENTRY":
        name, candidates = str(fields.get("name")), str(fields.get("candidates") or "").split(",")
        kind = str(fields.get("type") or "function").lower().removeprefix("scalar ").removeprefix("table ")
        other = _OTHER_NAMES.get(name.lower())
        fix = f"write {other}" if other else did_you_mean(name, candidates)
        return f"{kind} '{name}' does not exist", fix or "functions and types are those of `headrace sql`"
    if match := _AMBIGUOUS.match(message):
        return f"column '{match[1]}' is ambiguous", f"write {match[2].replace(chr(39), '')}"
    if match := _NOT_GROUPED.match(message):
        return (
            f"column '{match[1]}' is neither an aggregate nor in GROUP BY",
            f"add it to GROUP BY, or write any_value({match[1]})",
        )
    if match := _NO_TABLE.match(message):
        return f"'{match[1]}' names no table of this FROM", "write the alias that FROM gives"
    if match := _NO_MATCH.match(message):
        return f"no function or operator takes {match[1]}", "convert an argument with CAST(… AS …)"
    first = message.split("\n")[0].rstrip("!. ")
    return (first[:LONGEST] or "DuckDB refuses it"), None
