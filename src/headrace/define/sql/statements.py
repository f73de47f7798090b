"""Reads the statements of a definition file: CREATE STREAM, TABLE, MATERIALIZED VIEW, SINK, ALERT; refuses others."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.define.model import Stream, Table
from headrace.define.sql.alerts import AlertReader, AlertStatement
from headrace.define.sql.derived import DerivedStatement
from headrace.define.sql.flows import instead_of_flow
from headrace.define.sql.logical import LogicalReader, LogicalStatement
from headrace.define.sql.peers import Peer
from headrace.define.sql.recover import broken_part
from headrace.define.sql.select import ViewStatement
from headrace.define.sql.sinks import SinkReader, SinkStatement
from headrace.define.sql.tables import TableReader
from headrace.define.sql.views import ViewReader
from headrace.errors import DefinitionError, Location, nearest
from headrace.language.source_text import END, QUOTED, WORD, Mistakes, SourceText, each, escape
from headrace.language.terms import quote

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
_CREATABLE = ("STREAM", "TABLE", "MATERIALIZED", "VIEW", "SINK", "ALERT")
_CREATED = ("STREAM", "STREAMING", "MATERIALIZED", "SINK", "ALERT", "SOURCE")  # besides TABLE and VIEW
MOST_RECOVERIES = 8  # broken parts of a statement that are left out


Statement = Stream | DerivedStatement | Table | ViewStatement | LogicalStatement | SinkStatement | AlertStatement


@dataclass(frozen=True)
class Declared:
    """A definition and its place; a view in SQL is a Select until its stream is known, and so are sinks and alerts."""

    definition: Statement
    where: Location


def read_statements(source: SourceText) -> tuple[list[Declared], list[DefinitionError]]:
    """All statements of a text, and all mistakes: a mistake ends its statement, not the reading."""
    declared: list[Declared] = []
    errors: list[DefinitionError] = []
    statements = Statements(source, errors)
    while statements.next.kind != END:
        if statements.accept_symbol(";"):
            continue
        start = statements.index
        try:
            declared.append(statements.statement())
        except DefinitionError as e:
            mistakes = [*statements.mistakes.errors, *each(e)]
            rest = statements.without_broken_parts(start, mistakes)
            declared += [rest] if rest else []
            statements.skip()
            unreadable = [token.error for token in statements.tokens[start : statements.index] if token.error]
            for mistake in (*mistakes, *unreadable):
                mistake.of = statements.declaring
            errors += mistakes
    return declared, errors


class Statements(TableReader, ViewReader, LogicalReader, SinkReader, AlertReader):
    """A parser that reads statements."""

    def skip(self) -> None:
        """Continue after the next semicolon."""
        self.depth = 0
        while self.next.kind != END and not self.accept_symbol(";"):
            self.take()

    def without_broken_parts(self, start: int, mistakes: list[DefinitionError]) -> Declared | None:
        """The view of a statement without the parts that could not be read; their mistakes are added to `mistakes`."""
        tokens, place = self.tokens, self.index
        end = next(i for i in range(place, len(tokens)) if tokens[i].kind == END or tokens[i].text == ";")
        statement, after = tokens[start:end], tokens[end:]
        words: set[str] = set()
        rest = None
        for _ in range(MOST_RECOVERIES):
            part = broken_part(statement, self.index - start)
            if part is None:
                break
            words |= {statement[i].text.lower() for i in part if statement[i].kind in (WORD, QUOTED)}
            statement = [token for i, token in enumerate(statement) if i not in part]
            self.tokens, self.index, self.depth = [*tokens[:start], *statement, *after], start, 0
            try:
                rest = self.statement()
                break
            except DefinitionError as error:
                mistakes += [*self.mistakes.errors, *each(error)]
        self.tokens, self.index = tokens, place
        if rest is None or not isinstance(rest.definition, ViewStatement):
            return None
        return replace(rest, definition=replace(rest.definition, left_out=frozenset(words)))

    def statement(self) -> Declared:
        """One statement, up to its semicolon or the end."""
        start, self.mistakes, self.declaring = self.next, Mistakes(), None
        self.peer, self.kind = Peer(start=start.start), "view"
        self.creates, self.may_have_window = None, False
        if self.sees("APPLY", "CHANGES") or (self.sees("CREATE") and self.ahead(1).upper in ("FLOW", "SOURCE", "SINK")):
            self._refuse_flow()
        if self.sees("INSERT", "INTO"):
            self._view_of_insert()
        if self.sees("SELECT") or self.sees("WITH"):
            raise self._unnamed_query()
        if not self.accept("CREATE"):
            self.declaring = NOTHING if start.upper in _OTHER_STATEMENTS else None
            raise self.error(
                start.start,
                "a definition file contains only CREATE STREAM, TABLE, MATERIALIZED VIEW, VIEW, SINK and ALERT",
                found=start.describe(),
                fix=_OTHER_STATEMENTS.get(start.upper, _QUERIES),
            )
        if self.accept("OR") and not (self.accept("REPLACE") or self.accept("REFRESH")):
            raise self.unexpected("REPLACE or REFRESH after CREATE OR")
        self._refuse_temporary()
        definition: Statement
        if (self.sees("SOURCE") and self.ahead(1).upper in ("STREAM", "TABLE", "CONNECTOR")) or (
            self.sees("SINK") and self.ahead(1).upper == "CONNECTOR"
        ):  # of ksqlDB
            self.take()
        if self.accept("STREAM") or self.accept("STREAMING", "TABLE") or self.accept("SOURCE"):
            definition = self.stream_or_derived(self.tokens[self.index - 1])
        elif self.accept("MATERIALIZED", "VIEW"):
            definition = self.view()
        elif self.sees("VIEW"):
            definition = self.logical_view()
        elif self.accept("SINK"):
            definition = self.sink()
        elif self.accept("ALERT"):
            definition = self.alert()
        elif self.sees("TABLE") and self.sees_derived_table():
            definition = self.derived_table()
        elif self.sees("TABLE") and self._declares_fields():
            definition = self.table()
        elif self.sees("TABLE") or self.sees("VIEW") or self.next.upper in _KINDS:
            definition = self._view_of_other_kind()
        else:
            raise self._unknown_statement()
        if self.next.kind != END:
            self.expect_symbol(";", "the statement")
        return Declared(definition, self.source.locate(start.start))

    def _refuse_flow(self) -> None:
        """Raise if it is a statement of Spark or Materialize that moves changes."""
        error = instead_of_flow(self.source, self.next.start)
        if error is not None:
            self.declaring = error.of
            self.skip_rest()
            raise error

    def _refuse_temporary(self) -> None:
        """CREATE TEMPORARY TABLE t (…) of Flink and the like; a view of SELECT is read as such."""
        start, place = self.index, self.next.start
        while self.next.upper in _KINDS:
            self.take()
        if self.index == start:
            return
        words, end = self.text_since(start).upper(), self.next.start
        is_table = self.sees("TABLE") and (self.sees_derived_table() or self._declares_fields())
        if is_table or self.next.upper in _CREATED:
            self.skip_rest()
            rest = " ".join(self.source.text[end : self.last_end].split())
            raise self.error(
                place, f"definitions are kept as long as they are in their files: there is no {words}",
                write=f"CREATE {rest}", span=(self.peer.start, self.last_end),
            )  # fmt: skip
        self.index = start

    def _declares_fields(self) -> bool:
        place = 4 if self.ahead(1).upper == "IF" else 1
        return self.ahead(place + 1).text == "("

    def _view_of_insert(self) -> None:
        """Read INSERT INTO name SELECT … as the view that it would keep up to date."""
        insert, into, name = self.next, self.ahead(1), self.ahead(2)
        if name.kind not in (WORD, QUOTED) or self.ahead(3).upper != "SELECT":
            return
        words = [replace(insert, text=word) for word in ("CREATE", "MATERIALIZED", "VIEW")]
        self.tokens[self.index : self.index + 3] = [*words, name, replace(into, text="AS")]
        text = f"CREATE MATERIALIZED VIEW {self.source.text[name.start : name.end]} AS"
        self.instead("a view is kept up to date without INSERT", insert.start, name.end, text)

    def _view_of_other_kind(self) -> ViewStatement:
        """CREATE TABLE … AS SELECT, CREATE VIEW … AS SELECT."""
        start = self.next.start
        while self.next.upper in _KINDS:
            self.take()
        if not (self.sees("TABLE") or self.sees("VIEW")):
            raise self._unknown_statement()
        token = self.take()
        if self.ahead(1).upper == "USING":
            name = self.next.text
            self.skip_rest()
            raise self.error(
                token.start, "a view has no USING: what is read from outside is a stream",
                fix=f"write CREATE STREAM {quote(name)} (value STRING) WITH (connector = 'kafka', "
                f"topic = {escape(name)}, format = 'text'), with the name of the topic; `headrace send` loads files",
            )  # fmt: skip
        reasons = {
            "TABLE": "CREATE TABLE … AS SELECT is CREATE MATERIALIZED VIEW here",
            "VIEW": "a definition is not temporary: CREATE MATERIALIZED VIEW reads streams, CREATE VIEW reads views",
        }
        self.instead(reasons[token.upper], start, token.end, "MATERIALIZED VIEW")
        return self.view()

    def _unknown_statement(self) -> DefinitionError:
        error = self.unexpected("STREAM, TABLE, MATERIALIZED VIEW, VIEW, SINK or ALERT")
        error.message = "this cannot be created" if error.message == "syntax error" else error.message
        if self.next.upper in _OTHER_KINDS:
            error.fix, error.write = _OTHER_KINDS[self.next.upper], None
            self.declaring = None if self.next.upper in _READABLE else NOTHING
            self.skip_rest()
            return error
        word = self.ahead(1) if self.sees("MATERIALIZED") else self.next
        near = nearest(word.text, ("VIEW",) if self.sees("MATERIALIZED") else _CREATABLE, 0.75)
        if near and error.write is None:
            error.fix, error.write, error.replaces = f"did you mean {near}?", near, (word.start, word.end)
        return error

    def _unnamed_query(self) -> DefinitionError:
        """SELECT …, which other systems run until it is stopped."""
        start, self.declaring = self.next.start, NOTHING
        self.skip_rest()
        query = " ".join(self.source.text[start : self.last_end].split())
        return self.error(
            start, f"a query has no name, and a definition file contains definitions: {_QUERIES}",
            write=f"CREATE MATERIALIZED VIEW results AS {query}", end=self.last_end,
        )  # fmt: skip
