"""The table of a PostgreSQL sink: its columns and types, how it is created, whether an existing one fits, and its rows
for COPY.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import xxhash
from psycopg import Connection, sql

from headrace.deliver.sinks.sink_writer import COMMIT, POSITION, VERSION, DestinationError, SinkBatch
from headrace.serve.json_values import KeyEncoder, json_text
from headrace.types import Type

KEY = "_key"
MOST_NAME_BYTES = 63  # PostgreSQL cuts longer names without an error
SCALARS = {
    "STRING": "text",
    "BOOLEAN": "boolean",
    "INT": "integer",
    "BIGINT": "bigint",
    "DOUBLE": "double precision",
    "DATE": "date",
    "TIMESTAMP": "timestamp with time zone",
    "BINARY": "bytea",
}
# Types that hold every value of ours, and those that hold most: a value that does not fit stops the sink and is named.
ACCEPTED = {
    "text": ("character varying", "character", "citext"),
    "integer": ("bigint", "numeric"),
    "bigint": ("numeric",),
    "numeric": ("bigint", "integer"),
    "jsonb": ("json",),
}
_FACTS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef OR a.attidentity <> '',
       a.attgenerated <> ''
FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_UNIQUE_KEY = """
SELECT EXISTS (
  SELECT 1 FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
  WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1 AND i.indpred IS NULL
    AND a.attname = %s)
"""
_NAME = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


@dataclass(frozen=True)
class TableName:
    """A table and its schema, exactly as PostgreSQL spells them."""

    schema: str
    name: str

    @classmethod
    def parse(cls, text: str, sink: str) -> TableName:
        """`table`, `schema.table`, or either in double quotes; letters keep their case."""
        parts, at = [], 0
        while match := _NAME.match(text, at):
            parts.append(match[1].replace('""', '"') if match[1] else match[2].strip())
            at = match.end()
            if at == len(text) or text[at] != ".":
                break
            at += 1
        if at != len(text) or not 1 <= len(parts) <= 2 or not all(parts):
            raise DestinationError(
                f"sink '{sink}': the option 'table' is not the name of a table",
                found=repr(text),
                expected="'schema.table' or 'table'",
            )
        for part in parts:
            check_name(part, f"sink '{sink}': the table name")
        return cls(*parts) if len(parts) == 2 else cls("public", parts[0])

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)

    @property
    def text(self) -> str:
        """For statements that a user is told to write."""
        return f"{_quote(self.schema)}.{_quote(self.name)}"


def check_name(name: str, what: str) -> None:
    """Raise if PostgreSQL would cut a name, and so might take two names for one."""
    size = len(name.encode())
    if size > MOST_NAME_BYTES:
        raise DestinationError(
            f"{what} '{name}' is too long for PostgreSQL",
            found=f"{size} bytes",
            expected=f"at most {MOST_NAME_BYTES}",
            fix="choose a shorter name (in a view: AS name)",
        )


def sql_type(of: Type) -> str:
    """The PostgreSQL type that holds the values of a type of ours."""
    if of.name == "DECIMAL":
        return f"numeric({of.precision},{of.scale})"
    if of.name == "ARRAY" and not of.inner.is_nested:
        return sql_type(of.inner) + "[]"  # arrays of arrays would have to be rectangular
    return "jsonb" if of.is_nested else SCALARS[of.name]


Columns = tuple[tuple[str, Type], ...]


@dataclass(frozen=True)
class TableShape:
    """The columns of a table: those of the source, then ours."""

    columns: Columns
    own: tuple[str, ...]

    @property
    def keyed(self) -> bool:
        """Whether rows are upserted."""
        return KEY in self.own

    @property
    def types(self) -> list[tuple[str, str]]:
        """Every column with its type in PostgreSQL."""
        return [
            *((name, sql_type(of)) for name, of in self.columns),
            *((name, "uuid" if name == KEY else "bigint") for name in self.own),
        ]


ROWS = (KEY, VERSION, COMMIT)  # of a view whose rows change
SETTLED_ROWS = (VERSION, COMMIT)  # of a view whose rows are sent once
EVENTS = (COMMIT, POSITION)


def ensure_table(connection: Connection[Any], table: TableName, shape: TableShape, sink: str) -> None:
    """Create the table if it is missing; one that exists is checked and never altered."""
    _check_columns(shape.columns, sink)
    number = table_number(connection, table)
    if number is None:
        _create(connection, table, shape)
        return
    facts = {name: (of, *rest) for name, of, *rest in connection.execute(_FACTS, [number]).fetchall()}
    title = f"sink '{sink}': table {table}"
    _check_missing(table, facts, shape.types, title)
    _check_types(table, facts, shape.types, title)
    _check_others(table, facts, {name for name, _ in shape.types}, title)
    unique = connection.execute(_UNIQUE_KEY, [number, KEY]).fetchone()
    if shape.keyed and not (unique and unique[0]):
        raise DestinationError(
            f"{title} has no unique index on '{KEY}', so rows cannot be upserted",
            fix=f"write CREATE UNIQUE INDEX ON {table.text} ({_quote(KEY)})",
        )


def table_number(connection: Connection[Any], table: TableName) -> int | None:
    """The object number of a table or view; None if there is none of this name."""
    row = connection.execute("SELECT to_regclass(%s)::oid", [table.text]).fetchone()
    return row[0] if row else None


def _check_columns(columns: Columns, sink: str) -> None:
    for name, _ in columns:
        check_name(name, f"sink '{sink}': the column")
        if name in (KEY, VERSION, COMMIT, POSITION):
            raise DestinationError(
                f"sink '{sink}': the column '{name}' has the name of a column that the sink adds",
                fix="give it another name in the view (AS name)",
            )


def _create(connection: Connection[Any], table: TableName, shape: TableShape) -> None:
    parts = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(_declared(name, of))) for name, of in shape.types]
    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(table.quoted, sql.SQL(", ").join(parts)))
    if any(name == "window_start" for name, _ in shape.columns):  # most questions of a dashboard are about a time
        connection.execute(sql.SQL("CREATE INDEX ON {} (window_start)").format(table.quoted))


def _declared(name: str, of: str) -> str:
    return f"{of} PRIMARY KEY" if name == KEY else of


Facts = Mapping[str, tuple[Any, ...]]  # by column: type, NOT NULL, has a default, is generated


def _check_missing(table: TableName, facts: Facts, needed: Sequence[tuple[str, str]], title: str) -> None:
    missing = [(name, of) for name, of in needed if name not in facts]
    if missing:
        names = ", ".join(f"'{name}'" for name, _ in missing)
        adds = ", ".join(f"ADD COLUMN {_quote(name)} {_declared(name, of)}" for name, of in missing)
        emptied = f"TRUNCATE {table.text}; " if any(name == KEY for name, _ in missing) else ""
        raise DestinationError(
            f"{title} lacks the column{'s' if len(missing) > 1 else ''} {names}",
            fix=f"write {emptied}ALTER TABLE {table.text} {adds}; or name another table",
        )


def _check_types(table: TableName, facts: Facts, needed: Sequence[tuple[str, str]], title: str) -> None:
    for name, of in needed:
        actual, _, _, generated = facts[name]
        column = f"ALTER TABLE {table.text} ALTER COLUMN {_quote(name)}"
        if generated:
            raise DestinationError(
                f"{title}: the column '{name}' is generated, so the sink cannot write it",
                fix=f"write {column} DROP EXPRESSION",
            )
        if not fits(of, actual):
            raise DestinationError(
                f"{title}: the column '{name}' has the wrong type",
                found=actual,
                expected=of,
                fix=f"write {column} TYPE {of} USING {_quote(name)}::{of}; or name another table",
            )


def _check_others(table: TableName, facts: Facts, names: Container[str], title: str) -> None:
    """Columns that the sink does not write must do without a value."""
    for name, (_, not_null, default, _) in facts.items():
        if name not in names and not_null and not default:
            raise DestinationError(
                f"{title}: the column '{name}' is NOT NULL without a default, and the sink does not write it",
                fix=f"write ALTER TABLE {table.text} ALTER COLUMN {_quote(name)} DROP NOT NULL",
            )


def fits(needed: str, found: str) -> bool:
    """Whether a column of type `found` can take the values of type `needed`."""
    if needed == found:
        return True
    base, found_base = (re.sub(r"\(.*\)", "", text) for text in (needed, found))
    if base == found_base == found:
        return True  # numeric or numeric[] without a limit
    if base == found_base == "numeric":
        return _digits(found) >= _digits(needed) and _scale(found) >= _scale(needed)
    return found_base in ACCEPTED.get(base, ()) and (base != "numeric" or _scale(needed) == 0)


def _digits(numeric: str) -> int:
    """The digits before the point."""
    precision, scale = _numbers(numeric)
    return precision - scale


def _scale(numeric: str) -> int:
    return _numbers(numeric)[1]


def _numbers(numeric: str) -> tuple[int, int]:
    precision, _, scale = numeric.partition("(")[2].rstrip(")").partition(",")
    return int(precision), int(scale or 0)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


NUL, NUL_SYMBOL = "\0", "\u2400"  # PostgreSQL refuses U+0000 in text; U+2400 is the picture of it


class CopyRows:
    """The rows of a batch as COPY takes them; of several changes of one row only the last counts."""

    def __init__(self, batch: SinkBatch, shape: TableShape) -> None:
        self.shape = shape
        self.names = [name for name, _ in shape.types]
        self.values: list[list[Any]] = []
        self.deleted: list[str] = []  # keys
        convert = [(name, _converter(of)) for name, of in batch.columns]
        if shape.keyed:
            encode = KeyEncoder(batch.columns, batch.keys)
            for key, change in {row_key(encode(change.row)): change for change in batch.changes}.items():
                if change.op == "delete":
                    self.deleted.append(key)
                else:
                    self.values.append([*_values(change.row, convert), key, change.version, change.commit])
            return
        for change in batch.changes:
            if change.op == "upsert":
                place = (change.version, change.commit) if batch.keys else (change.commit, change.position)
                self.values.append([*_values(change.row, convert), *place])

    @property
    def quoted(self) -> sql.Composed:
        """The names of the columns."""
        return sql.SQL(", ").join(map(sql.Identifier, self.names))

    @property
    def declared(self) -> sql.Composed:
        """The columns with their types."""
        columns = self.shape.types
        return sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(n), sql.SQL(of)) for n, of in columns)


def row_key(key: bytes) -> str:
    """What tells a row from others, a UUID: keys may be NULL, and longer than an entry of an index may be."""
    return xxhash.xxh3_128_hexdigest(key)


Convert = Callable[[Any], Any]


def _values(row: Mapping[str, Any], convert: Sequence[tuple[str, Convert | None]]) -> list[Any]:
    values = []
    for name, function in convert:
        value = row[name]
        values.append(value if value is None or function is None else function(value))
    return values


def _converter(of: Type) -> Convert | None:
    """What makes a value of ours one that PostgreSQL takes; None: it is one."""
    if of.name == "STRING":
        return _without_nul
    if of.name == "ARRAY" and not of.inner.is_nested:
        if of.inner.name != "STRING":
            return None
        return lambda items: [None if item is None else _without_nul(item) for item in items]
    return json_text(of, NUL_SYMBOL) if of.is_nested else None


def _without_nul(text: str) -> str:
    return text.replace(NUL, NUL_SYMBOL) if NUL in text else text
