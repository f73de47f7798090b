"""VERSION AS OF and TIMESTAMP AS OF behind a view's name, taken apart before DuckDB reads the query.

`traffic VERSION AS OF 12` becomes a table of that very name, in quotes. Only in the child: it reads what people wrote.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

KINDS = {"VERSION": duckdb.token_type.numeric_const, "TIMESTAMP": duckdb.token_type.string_const}


@dataclass(frozen=True)
class Past:
    """A table of a query that is a view in the past."""

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

    def says(self, word: str) -> bool:
        return self.kind == duckdb.token_type.keyword and self.text.upper() == word

    @property
    def name(self) -> str:
        """The name that an identifier stands for."""
        return self.text[1:-1].replace('""', '"') if self.text.startswith('"') else self.text


def take_apart(query: str) -> tuple[str, list[Past]]:
    """The query with a plain table for each past that it names, and these pasts."""
    tokens, raw = _tokens(query), query.encode()
    pasts: dict[str, Past] = {}
    rest, made = 0, b""
    for at in range(len(tokens) - 4):
        past = _past(tokens[at : at + 5])
        if past is None:
            continue
        pasts[past.table] = past
        alias = b"" if _has_alias(tokens[at + 5 :]) else f" AS {_quoted(past.view)}".encode()
        made += raw[rest : tokens[at].start] + _quoted(past.table).encode() + alias
        rest = tokens[at + 4].end
    return (made + raw[rest:]).decode(), list(pasts.values())


def _past(tokens: list[_Token]) -> Past | None:
    name, kind, *words, value = tokens
    if name.kind not in (duckdb.token_type.identifier, duckdb.token_type.keyword) or name.says("FROM"):
        return None
    wanted = KINDS.get(kind.text.upper())
    if kind.kind != duckdb.token_type.keyword or wanted is None or value.kind != wanted:
        return None
    if not (words[0].says("AS") and words[1].says("OF")):
        return None
    said = value.text.strip("'") if value.text.startswith("'") else value.text
    table = f"{name.name} {kind.text.upper()} AS OF {value.text}"
    is_version = kind.text.upper() == "VERSION"
    return Past(table, name.name, said if is_version else None, None if is_version else said)


def _has_alias(tokens: list[_Token]) -> bool:
    return bool(tokens) and (tokens[0].says("AS") or tokens[0].kind == duckdb.token_type.identifier)


def _tokens(query: str) -> list[_Token]:
    """DuckDB's own: what stands in strings and comments is in none of ours."""
    raw, found = query.encode(), duckdb.tokenize(query)
    ends = [*(start for start, _ in found[1:]), len(raw)]
    tokens = [
        _Token(start, raw[start:end].decode(errors="replace").rstrip(), kind)
        for (start, kind), end in zip(found, ends, strict=False)  # a query without tokens has an end all the same
    ]
    return [token for token in tokens if token.kind != duckdb.token_type.comment]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
