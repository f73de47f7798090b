"""Extracts VERSION AS OF and TIMESTAMP AS OF from a query before DuckDB parses it.

`traffic VERSION AS OF 12` becomes a table with this text as its quoted name. Runs only in the child process, as
everything that reads SQL of users.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from headrace.define.query_rules import QueryError
from headrace.errors import QuestionError
from headrace.serve.question_times import read_as_of

KINDS = ("VERSION", "TIMESTAMP")
LITERALS = (duckdb.token_type.numeric_const, duckdb.token_type.string_const)


@dataclass(frozen=True)
class AsOfTable:
    """A view as of an earlier commit or time, as a table of a query."""

    table: str
    view: str
    version: str | None
    timestamp: str | None


@dataclass(frozen=True)
class _Token:
    start: int
    text: str
    kind: duckdb.token_type

    @property
    def end(self) -> int:
        return self.start + len(self.text.encode())

    def is_keyword(self, word: str) -> bool:
        return self.kind == duckdb.token_type.keyword and self.text.upper() == word

    @property
    def name(self) -> str:
        """The name that an identifier stands for."""
        return self.text[1:-1].replace('""', '"') if self.text.startswith('"') else self.text


def extract_as_of(query: str) -> tuple[str, list[AsOfTable]]:
    """The query with a plain table for each AS OF that it names, and these tables."""
    tokens, raw = _tokens(query), query.encode()
    tables: dict[str, AsOfTable] = {}
    rest, plain = 0, b""
    for at in range(len(tokens) - 4):
        if not _is_as_of(tokens[at : at + 5]):
            continue
        value = _value(raw, tokens[at + 4 : at + 6])
        as_of = _as_of_table(tokens[at], tokens[at + 1], value)
        tables[as_of.table] = as_of
        following = [token for token in tokens[at + 5 :] if token.start >= value.end]
        alias = b"" if _has_alias(following) else f" AS {quoted(as_of.view)}".encode()
        plain += raw[rest : tokens[at].start] + quoted(as_of.table).encode() + alias
        rest = value.end
    return (plain + raw[rest:]).decode(), list(tables.values())


def _is_as_of(tokens: list[_Token]) -> bool:
    """Whether the tokens are a name, VERSION or TIMESTAMP, AS, OF and a value.

    A keyword is the name of a view only if a literal follows: `SELECT version AS of FROM t` is not AS OF.
    """
    name, kind, *words, value = tokens
    if kind.kind != duckdb.token_type.keyword or kind.text.upper() not in KINDS:
        return False
    if not (words[0].is_keyword("AS") and words[1].is_keyword("OF")):
        return False
    if name.kind == duckdb.token_type.identifier:
        return True
    return name.kind == duckdb.token_type.keyword and not name.is_keyword("FROM") and value.kind in LITERALS


def _value(raw: bytes, tokens: list[_Token]) -> _Token:
    """What follows OF: a literal, a sign and a number, or any other token."""
    first = tokens[0]
    if first.text in ("-", "+") and len(tokens) > 1 and tokens[1].kind == duckdb.token_type.numeric_const:
        return _Token(first.start, raw[first.start : tokens[1].end].decode(), tokens[1].kind)
    return first


def _as_of_table(name: _Token, kind: _Token, value: _Token) -> AsOfTable:
    """The table of an AS OF; a wrong value is refused with the message of `ask`."""
    text = value.text.strip("'") if value.text.startswith("'") else value.text
    is_version = kind.text.upper() == "VERSION"
    version, timestamp = (text, None) if is_version else (None, text)
    try:
        read_as_of(version, timestamp)
    except QuestionError as error:
        raise QueryError(error.message, found=error.found, expected=error.expected, fix=error.fix) from error
    table = f"{name.name} {kind.text.upper()} AS OF {value.text}"
    return AsOfTable(table, name.name, version, timestamp)


def _has_alias(tokens: list[_Token]) -> bool:
    return bool(tokens) and (tokens[0].is_keyword("AS") or tokens[0].kind == duckdb.token_type.identifier)


def _tokens(query: str) -> list[_Token]:
    """DuckDB's tokens, so that text in strings and comments is not matched."""
    raw, positions = query.encode(), duckdb.tokenize(query)
    ends = [*(start for start, _ in positions[1:]), len(raw)]
    tokens = [
        _Token(start, raw[start:end].decode(errors="replace").rstrip(), kind)
        for (start, kind), end in zip(positions, ends, strict=False)  # a query without tokens still has an end
    ]
    return [token for token in tokens if token.kind != duckdb.token_type.comment]


def quoted(name: str) -> str:
    """A name as an identifier."""
    return '"' + name.replace('"', '""') + '"'
