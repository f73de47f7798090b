"""Reads CREATE TABLE: columns with a primary key, or PRIMARY KEY (…) AS SELECT.

Without a primary key it is the table of other systems that is a stream here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.define.definition_rules import located
from headrace.define.model import Stream, Table
from headrace.define.sql.derived import DerivedReader, DerivedStatement, build_derived
from headrace.define.table_parts import check_column, derived_table, make_table
from headrace.language.source_text import Token
from headrace.language.terms import quote


@dataclass(frozen=True)
class DerivedTable(DerivedStatement):
    """CREATE TABLE … PRIMARY KEY (…) AS SELECT as it was written."""

    key: tuple[Token, ...] = ()


def build_table(statement: DerivedTable, streams: Mapping[str, Stream], tables: Mapping[str, Table]) -> Table:
    """The table of the latest row of each key; raises all mistakes of the statement at once."""
    changes = build_derived(statement, streams, tables)
    with located(statement.source, statement.key[0].start):
        return derived_table(changes, [each.text for each in statement.key])


class TableReader(DerivedReader):
    """Reads what follows CREATE, where that is TABLE."""

    def sees_derived_table(self) -> bool:
        """Whether PRIMARY KEY stands between the name of the table and AS."""
        index = self.index
        self.take()
        self.accept("IF", "NOT", "EXISTS")
        self.take()
        if self.sees_symbol("(") and self.ahead(1).upper == "WATERMARK":
            self.skip_parentheses()
        has_key, self.index = self.sees("PRIMARY", "KEY"), index
        return has_key

    def derived_table(self) -> DerivedTable:
        """CREATE TABLE name PRIMARY KEY (a, b) AS SELECT …, up to the end of its statement."""
        created = self.take()
        name = self.read_declared_name("table")
        watermark = self._only_watermark(name) if self.sees_symbol("(") else None
        self.expect("PRIMARY", f"CREATE TABLE {name.text}")
        self.expect("KEY", "PRIMARY")
        key = tuple(self._key_columns())
        self.read_properties()
        self.expect("AS", f"PRIMARY KEY of table '{name.text}'")
        self.kind, self.creates = "stream", created
        query = self.read_query()
        self.kind, self.creates = "view", None
        self.read_emit()
        peer = replace(self.peer, end=self.last_end)
        errors = tuple(self.mistakes.errors)
        return DerivedTable(self.source, name.start, name.text, query, watermark, errors, peer, key)

    def table(self) -> Stream | Table:
        """A table with a primary key; without one, a table of Flink: with a WATERMARK or a connector it is a stream."""
        token, self._primary_key = self.take(), []
        try:
            stream = self.stream()
            primary = self._primary_key
        finally:
            self._primary_key = None
        if not primary:
            if stream.event_time is None and stream.source is None:
                raise self.error(
                    token.start,
                    f"CREATE TABLE {stream.name} has neither a PRIMARY KEY nor a WATERMARK",
                    fix=f"a table of events is a stream: write CREATE STREAM {quote(stream.name)} (…); "
                    "a table of the latest row of each key needs PRIMARY KEY (…)",
                    write="STREAM",
                    end=token.end,
                )
            return stream
        if self.unique:
            raise self.error(
                self.unique.at, f"table '{stream.name}': a table has one row for each key, so that it has no UNIQUE",
                fix="remove it; a repeated change of a row changes nothing",
            )  # fmt: skip
        if stream.idle_timeout_ms is not None:
            raise self.error(token.start, f"table '{stream.name}': a table has no idle time-out", fix="remove it")
        key = {each.text.lower() for each in primary}
        for field in stream.fields:
            if field.name.lower() not in key:
                with located(self.source, self._starts[field.name]):
                    check_column(stream.name, field, (), stream.event_time)
        with located(self.source, primary[0].start):
            return make_table(
                stream.name, stream.fields, [each.text for each in primary], stream.event_time, stream.patience_ms,
                source=stream.source, format_=stream.format,
            )  # fmt: skip
