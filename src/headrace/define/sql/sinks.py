"""Reads CREATE SINK: the view or stream, then WHERE, WITH, FORMAT and EMIT, in any order."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.define.definition_rules import located
from headrace.define.expression.check import check_condition
from headrace.define.model import Sink, Stream, View
from headrace.define.outgoing_rules import WrittenShape, make_sink, row_scope
from headrace.define.sql.later import NAME, statement_at
from headrace.define.sql.options import OptionsReader, WrittenOption, at_option
from headrace.errors import DefinitionError
from headrace.language.source_text import Mistakes, SourceText, Token
from headrace.language.syntax import Node
from headrace.language.terms import quote

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


@dataclass(frozen=True)
class SinkStatement:
    """CREATE SINK as it was written."""

    source: SourceText
    at: int
    name: str
    reads: str  # the name of a view or a stream
    reads_at: int
    where: Node | None
    options: tuple[WrittenOption, ...]
    format: str | None
    encode: str | None
    on_close: bool | None
    mistakes: tuple[DefinitionError, ...] = ()


def build_sink(statement: SinkStatement, reads: Stream | View) -> Sink:
    """The sink over what it reads; raises all mistakes of the statement at once."""
    source, where = statement.source, None
    mistakes = Mistakes(statement.mistakes)
    if statement.where is not None:
        with mistakes.collect():
            where = check_condition(source, statement.where, row_scope(reads), "WHERE")
    options = [(option.name, option.value) for option in statement.options]
    written = WrittenShape(options, where, statement.format, statement.encode, statement.on_close)
    sink = None
    with mistakes.collect(), located(source, statement.at), at_option(source, statement.options):
        sink = make_sink(statement.name, reads, written)
    mistakes.check()
    assert sink is not None, "without a mistake there is a sink"
    return sink


class SinkReader(OptionsReader):
    """Reads what follows CREATE SINK."""

    def sink(self) -> SinkStatement:
        """The sink, up to the end of its statement."""
        name = self.read_declared_name("sink")
        if self.sees("AS") or self.sees("INTO"):
            raise self._sink_of_query(name)
        self.expect("FROM", f"CREATE SINK {name.text}")
        reads = self.expect_name("a view or a stream")
        clauses: dict[str, int] = {}
        where: Node | None = None
        options: list[WrittenOption] = []
        format_ = encode = None
        on_close: bool | None = None
        while not self.at_end():
            word, at = self.next.upper, self.next.start
            if word in clauses:
                raise self.error(at, f"sink '{name.text}' has two {word} clauses", fix="keep one")
            clauses[word] = at
            if self.accept("WHERE"):
                where = self.expression()
            elif self.sees("WITH"):
                options = self.read_options()
            elif self.accept("FORMAT"):
                format_, encode = self._sink_format()
            elif self.accept("EMIT"):
                on_close = self._sink_emit()
            else:
                raise self.unexpected("WHERE, WITH (…), FORMAT, EMIT or ';'")
        if "WITH" not in clauses:
            raise self.error(
                name.start,
                f"sink '{name.text}' does not say where to send to",
                fix="add WITH (connector = 'kafka', …), or 'postgres', 'files' or 'http'",
            )
        return SinkStatement(
            self.source, name.start, name.text, reads.text, reads.start, where, tuple(options), format_, encode,
            on_close, tuple(self.mistakes.errors),
        )  # fmt: skip

    def _sink_of_query(self, name: Token) -> DefinitionError:
        """CREATE SINK s AS SELECT … WITH (…)."""
        at, word, start = self.next.start, self.take().upper, self.index
        while not (self.at_end() or self.sees_options()):
            self.take()
        query, rest = self.text_since(start), self.index
        self.skip_rest()
        rows = quote(f"{name.text}_rows")
        written = f"CREATE MATERIALIZED VIEW {rows} AS {query}; "
        written += f"CREATE SINK {quote(name.text)} FROM {rows} {self.text_since(rest)}"
        is_query = word == "AS" and rest < self.index
        rows_of = _ROWS.fullmatch(query)
        message = f"CREATE SINK {name.text} {word} is not available: a sink sends the rows of a view or a stream"
        if rows_of:
            message += ", with all columns"
            options = _in_postgres(self.text_since(rest))
            written = f"CREATE SINK {quote(name.text)} FROM {' '.join(rows_of['rows'].split())} {options}"
        return self.error(
            at, message,
            fix=None if is_query else f"write CREATE SINK {quote(name.text)} FROM view WITH (…)",
            write=written if is_query else None, span=statement_at(self.source, at),
        )  # fmt: skip

    def _sink_format(self) -> tuple[str | None, str | None]:
        """FORMAT UPSERT ENCODE JSON: the mode and the encoding."""
        format_ = None if self.sees("ENCODE") else self.expect_name("a format").text
        encode = self.expect_name("an encoding").text if self.accept("ENCODE") else None
        if format_ is not None and encode is None and format_.upper() in ("JSON", "PARQUET"):
            return None, format_  # FORMAT JSON
        return format_, encode

    def _sink_emit(self) -> bool:
        if self.accept("ON", "WINDOW", "CLOSE") or self.accept("FINAL"):
            return True
        if self.accept("CHANGES"):
            return False
        raise self.unexpected("ON WINDOW CLOSE or CHANGES after EMIT")
