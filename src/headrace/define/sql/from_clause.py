"""Reads row-wise queries and FROM: streams, subqueries, WITH, LATERAL VIEW, UNNEST, UNION ALL.

What is read is a tree, as it was written; `row_query.py` makes rows of it when the streams are known.
"""

from __future__ import annotations

import re
from dataclasses import replace

from headrace.define.expression.hints import NO_SESSIONS
from headrace.define.sql.joins import read_in_query, read_join
from headrace.define.sql.later import (
    instead_of_numbers,
    numbers_of_rows,
    refuse_function,
    refuse_pattern,
    refuse_watermark,
)
from headrace.define.sql.peers import CLAUSES, PeerReader
from headrace.define.sql.query_tree import (
    ExplodeStep,
    FromClause,
    FromItem,
    FromStep,
    RowItem,
    RowQuery,
    RowSelect,
    StarItem,
)
from headrace.define.sql.samples import read_sample
from headrace.define.view_columns import contains_aggregate
from headrace.errors import DefinitionError
from headrace.language.source_text import QUOTED, WORD, Token
from headrace.language.syntax import Call, Node, walk
from headrace.language.terms import quote

GENERATORS = ("explode", "explode_outer", "posexplode", "posexplode_outer", "unnest", "arrayjoin")
WINDOW_TABLES = {"TUMBLE": ("SIZE",), "HOP": ("SLIDE", "SIZE"), "CUMULATE": ("STEP", "SIZE")}  # by name or in order
JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "LATERAL", "ANTI", "SEMI", "ARRAY", "ASOF")
# Words that end an item of FROM, where another one would be its alias.
AFTER_ITEM = frozenset((
    "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "SORT", "OFFSET", "FETCH", "UNION", "EXCEPT", "INTERSECT", "QUALIFY",
    "ON", "USING", "TABLESAMPLE", "FOR", "WITH", "PARTITION", *JOINS, *CLAUSES,
))  # fmt: skip
_NOT_IN_ROWS = {
    "HAVING": "write WHERE",
    "ORDER": "remove it: events have the order of their arrival; ORDER BY is for views",
    "SORT": "remove it: events have the order of their arrival; ORDER BY is for views",
    "LIMIT": "remove it: a stream has no end; LIMIT is for views",
    "FETCH": "remove it: a stream has no end; LIMIT is for views",
    "OFFSET": "remove it: a stream has no end",
    "QUALIFY": "number rows in CREATE VIEW",
    "EXCEPT": "filter with WHERE NOT",
    "INTERSECT": "filter with WHERE",
}
_GENERATOR_FORM = "LATERAL VIEW explode(items) t AS i"


class FromReader(PeerReader):
    """Reads queries that make rows of events one by one."""

    creates: Token | None = None  # the word STREAM of the statement that the query belongs to; None: a query in FROM
    may_have_window = False  # whether TUMBLE(TABLE x, …) is read: in the FROM of a view itself
    table_window: Call | None = None

    def read_with(self) -> tuple[tuple[FromItem, RowQuery], ...]:
        """WITH a AS (…), b AS (…), if it is there."""
        if not self.accept("WITH"):
            return ()
        if self.sees("RECURSIVE"):
            raise self.error(self.next.start, "WITH RECURSIVE is not supported", fix="remove RECURSIVE")
        queries: list[tuple[FromItem, RowQuery]] = []
        while not queries or self.accept_symbol(","):
            name = self.expect_name("a query")
            if any(name.text.lower() == (item.name or "").lower() for item, _ in queries):
                raise self.error(name.start, f"WITH has two queries named '{name.text}'", fix="rename one")
            columns = self.names_in_parentheses("the columns") if self.sees_symbol("(") else ()
            self.expect("AS", f"WITH {name.text}")
            queries.append((FromItem(name.start, name.text, columns=columns), self._parenthesized("AS")))
        return tuple(queries)

    def read_query(self) -> RowQuery:
        """A row-wise query: WITH, SELECT, UNION ALL."""
        at, queries = self.next.start, self.read_with()
        parts = [self._query_part()]
        while self.sees("UNION") or self.sees("EXCEPT") or self.sees("INTERSECT"):
            token = self.take()
            if token.upper == "UNION" and self.accept("ALL"):
                parts.append(self._query_part())
            elif token.upper == "UNION":
                raise self.error(
                    token.start, "UNION removes repeated rows, for which all of them would have to be kept",
                    write="UNION ALL", end=token.end,
                )  # fmt: skip
            else:
                raise self._not_in_rows(token)
        if self.next.upper in _NOT_IN_ROWS:
            raise self._not_in_rows(self.next)
        return RowQuery(at, tuple(parts), queries)

    def _query_part(self) -> RowSelect | RowQuery:
        return self._parenthesized("the query") if self.sees_symbol("(") else self._row_select()

    def _parenthesized(self, after: str) -> RowQuery:
        self.expect_symbol("(", after)
        outside = self.creates, self.may_have_window
        self.creates, self.may_have_window = None, False
        query = self.read_query()
        self.creates, self.may_have_window = outside
        self.expect_symbol(")", "the query")
        return query

    def _row_select(self) -> RowSelect:
        if not self.sees("SELECT"):
            raise self.unexpected("SELECT")
        at = self.take().start
        if self.sees("DISTINCT"):
            raise self.error(
                self.next.start, "SELECT DISTINCT needs all earlier events, and a stream is made of one at a time",
                fix="remove it; GROUP BY in a materialized view gives each key once, and UNIQUE (id) WITHIN "
                "INTERVAL 1 DAY among the fields of a stream drops events that are sent again",
            )  # fmt: skip
        self.accept("ALL")
        items = [self._row_item()]
        while self.accept_symbol(","):
            items.append(self._row_item())
        self.expect("FROM", "the columns")
        source = self.read_from()
        self.read_final()
        where = self.expression() if self.accept("WHERE") else None
        self._refuse_aggregates(items, where)
        if self.next.upper in _NOT_IN_ROWS and self.next.upper not in ("EXCEPT", "INTERSECT"):
            raise self._not_in_rows(self.next)
        return RowSelect(at, tuple(items), source, where)

    def _row_item(self) -> StarItem | RowItem:
        star = self.read_star()
        if star is not None:
            return star
        self.may_be_over = True
        node = self.expression()
        self.may_be_over = False
        if self.accept("AS") and self.sees_symbol("("):
            return RowItem(node, self.names_in_parentheses("AS"))
        if self.tokens[self.index - 1].upper == "AS" or (self.next.kind in (WORD, QUOTED) and not self.sees("FROM")):
            return RowItem(node, (self.expect_name("a column").text,))
        return RowItem(node)

    def read_star(self) -> StarItem | None:
        """`*` or `t.*`, with EXCEPT and REPLACE; None if the next item is another."""
        if self.sees_symbol("*"):
            return self._star(self.take().start, None)
        symbols = [(token.kind, token.text) for token in (self.ahead(1), self.ahead(2))]
        if self.next.kind in (WORD, QUOTED) and symbols == [("symbol", "."), ("symbol", "*")]:
            of = self.take()
            self.take()
            self.take()
            return self._star(of.start, of.text)
        return None

    def _star(self, at: int, of: str | None) -> StarItem:
        without: list[tuple[str, int]] = []
        replaced: list[tuple[str, Node]] = []
        if self.accept("EXCEPT") or self.accept("EXCLUDE"):
            in_parentheses = self.accept_symbol("(")
            while not without or (in_parentheses and self.accept_symbol(",")):
                token = self.expect_name("a column")
                without.append((token.text, token.start))
            if in_parentheses:
                self.expect_symbol(")", "the columns to leave out")
        if self.accept("REPLACE"):
            self.expect_symbol("(", "REPLACE")
            while not replaced or self.accept_symbol(","):
                node = self.expression()
                self.expect("AS", "the new value")
                replaced.append((self.expect_name("a column").text, node))
            self.expect_symbol(")", "the columns to replace")
        return StarItem(at, of, tuple(without), tuple(replaced))

    def names_in_parentheses(self, after: str) -> tuple[str, ...]:
        """(a, b)."""
        self.expect_symbol("(", after)
        names: list[str] = []
        while not names or self.accept_symbol(","):
            names.append(self.expect_name("a column").text)
        self.expect_symbol(")", "the names of the columns")
        return tuple(names)

    def read_from(self) -> FromClause:
        """What follows FROM: an item, and what is joined to it."""
        source = FromClause(self.read_input())
        while step := self.read_step():
            source = replace(source, steps=(*source.steps, step))
        return source

    def read_input(self) -> FromItem:
        """A stream, a query of WITH, or a query in parentheses, with its alias."""
        at = self.next.start
        wrapped = self.next.upper in ("TABLE", "STREAM") and self.ahead(1).text == "("  # STREAM(t) of Spark
        if wrapped:
            self.take()
            self.take()
        item = self._parenthesized_input() if self.sees_symbol("(") else self._named_input()
        if wrapped:
            self.expect_symbol(")", "TABLE(…")
        if self.sees("WATERMARK"):
            raise refuse_watermark(self)
        alias, columns = self.read_alias("the stream")
        return replace(item, at=item.at if item.name else at, alias=alias, columns=columns)

    def _parenthesized_input(self) -> FromItem:
        return FromItem(self.next.start, None, self._parenthesized("FROM"))

    def _named_input(self) -> FromItem:
        if self.next.upper == "UNNEST" and self.ahead(1).text == "(":
            raise self.error(
                self.next.start, "FROM begins with a stream", fix="write FROM orders CROSS JOIN UNNEST(items) AS t(i)"
            )
        if self.sees("SESSION") and self.ahead(1).text == "(":
            raise self._refuse_session_table()
        if self.next.upper in WINDOW_TABLES and self.ahead(1).text == "(":
            if not self.may_have_window:
                raise numbers_of_rows(self.source, self.next.start) or self.error(
                    self.next.start, f"{self.next.upper} is not supported in a stream or a query inside FROM",
                    fix="name the stream here; a window belongs to the view",
                )  # fmt: skip
            return self._window_table()
        if self.sees("STREAM") and self.ahead(2).text == "(":
            self.take()
        token = self.expect_name("a stream")
        if self.sees_symbol("(") and token.upper == "CHANGES":
            raise self.error(
                token.start, "a stream of the changes of a view is not available yet",
                fix="meanwhile CREATE SINK … FROM the view WITH (…) sends its changes, and `headrace watch` shows them",
            )  # fmt: skip
        if self.sees_symbol("("):
            raise refuse_function(self, token)
        if self.sees("MATCH_RECOGNIZE"):
            raise refuse_pattern(self, token.text)
        return FromItem(token.start, token.text)

    def _refuse_session_table(self) -> DefinitionError:
        """SESSION(TABLE clicks PARTITION BY user_id, DESCRIPTOR(ts), INTERVAL …) of Flink."""
        start = self.index
        self.take()
        self.skip_parentheses()
        text = re.sub(r"(?i)^SESSION", "TUMBLE", self.text_since(start))
        text = re.sub(r"(?is)\s+PARTITION\s+BY\s+.*?(?=,\s*DESCRIPTOR)", "", text)
        return self.error(
            self.tokens[start].start, NO_SESSIONS, fix=f"meanwhile write windows of a fixed size: {text}", write=text,
            span=self.span_since(start),
        )  # fmt: skip

    def _window_table(self) -> FromItem:
        """TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL …), its arguments by place or by name, as in Flink."""
        call, self.in_window, self.may_have_window = self.take(), True, False
        self.take()
        stream: FromItem | None = None
        values: list[Node] = []
        by_name: dict[str, Node] = {}
        while True:
            name = self._argument_name(call, by_name)
            if name == "DATA" or (name is None and stream is None):
                self.accept("TABLE")
                stream = self._parenthesized_input() if self.sees_symbol("(") else self._named_input()
            elif name is None:
                values.append(self._descriptor() or self.expression())
            else:
                by_name[name] = self._descriptor() or self.expression()
            if not self.accept_symbol(","):
                break
        self.expect_symbol(")", f"{call.upper}(…")
        self.in_window = False
        order = ["TIMECOL", *WINDOW_TABLES[call.upper], "OFFSET"]
        args = [*values, *(by_name[name] for name in order[len(values) :] if name in by_name)]
        if stream is None:
            raise self.error(call.start, f"{call.upper} names no stream", fix="write DATA => TABLE clicks")
        self.table_window = Call(call.start, call.text, tuple(args))
        return stream

    def _argument_name(self, call: Token, by_name: dict[str, Node]) -> str | None:
        if self.ahead(1).text != "=>":
            return None
        token = self.take()
        self.take()
        names = ("DATA", "TIMECOL", *WINDOW_TABLES[call.upper], "OFFSET")
        if token.upper not in names or token.upper in by_name:
            raise self.error(
                token.start, f"{call.upper} has no further argument '{token.text}'", expected=", ".join(names)
            )
        return token.upper

    def _descriptor(self) -> Node | None:
        if not self.accept("DESCRIPTOR"):
            return None
        self.expect_symbol("(", "DESCRIPTOR")
        column = self.expression()
        self.expect_symbol(")", "DESCRIPTOR(…")
        return column

    def read_alias(self, of: str) -> tuple[str | None, tuple[str, ...]]:
        """[AS] t and [AS] t(a, b)."""
        if not (self.accept("AS") or (self.next.kind in (WORD, QUOTED) and self.next.upper not in AFTER_ITEM)):
            return None, ()
        alias = self.expect_name(f"the alias of {of}").text
        return alias, self.names_in_parentheses("the alias") if self.sees_symbol("(") else ()

    def read_step(self) -> FromStep | None:
        """What is joined to the rows of FROM; None at the end of FROM."""
        start = self.index
        at = self.next.start
        if self.accept("LATERAL", "VIEW"):
            return self._lateral_view(at)
        outer = self.sees("LEFT")
        if self.accept("LEFT", "ARRAY", "JOIN") or self.accept("ARRAY", "JOIN"):  # of ClickHouse
            return self._array_join(at, outer)
        if self.accept_symbol(",") or self.accept("CROSS", "JOIN") or self._accept_left_join():
            self.accept("LATERAL")
            if self.next.text.lower() in GENERATORS and self.ahead(1).text == "(":
                return self._unnest(at, outer)
            self.index = start
        if self.next.upper in JOINS or self.sees_symbol(","):
            return self.read_join()
        if not self.sees("TABLESAMPLE"):
            return None
        clause = read_sample(self)
        alias, _ = self.read_alias("the sample")
        return replace(clause, alias=alias)

    def _accept_left_join(self) -> bool:
        return self.accept("LEFT", "JOIN") or self.accept("LEFT", "OUTER", "JOIN")

    def read_join(self) -> FromStep:
        """A join to a table."""
        return read_join(self)

    def read_query_in(self, operand: Node | None, negated: bool, at: int) -> Node:
        """The SELECT of IN or EXISTS."""
        return read_in_query(self, operand, negated, at)

    def _lateral_view(self, at: int) -> ExplodeStep:
        outer = self.accept("OUTER")
        call = self._generator()
        alias = None
        if self.next.kind in (WORD, QUOTED) and self.next.upper not in AFTER_ITEM and not self.sees("AS"):
            alias = self.expect_name("the alias of LATERAL VIEW").text
        names: list[str] = []
        if self.accept("AS"):
            while not names or self.accept_symbol(","):
                names.append(self.expect_name("a column").text)
        return self._explosion(at, call, outer, alias, names)

    def _generator(self) -> Call:
        at, name = self.next.start, self.next.text.lower()
        if name not in GENERATORS:
            fix = f"write {_GENERATOR_FORM}, and i.sku for a part"
            raise self.error(at, "LATERAL VIEW takes explode or posexplode", found=self.next.describe(), fix=fix)
        call = self.read_call()
        assert isinstance(call, Call), "a call is read"
        if len(call.args) != 1:
            raise self.error(at, f"{name} takes one array or map", found=str(len(call.args)))
        return call

    def _explosion(self, at: int, call: Call, outer: bool, alias: str | None, names: list[str]) -> ExplodeStep:
        name = call.name.lower()
        position = None
        if name.startswith("pos"):
            position = names.pop(0) if names else "pos"
        outer = outer or name.endswith("_outer")
        return ExplodeStep(at, call.args[0], outer, alias, tuple(names), position)

    def _unnest(self, at: int, outer: bool) -> ExplodeStep:
        """UNNEST(x) [WITH ORDINALITY] AS t(i, n), and UNNEST(x) AS i WITH OFFSET AS n of BigQuery."""
        call = self._generator()
        ordinality = self.accept("WITH", "ORDINALITY")
        alias, columns = self.read_alias("UNNEST")
        ordinality = self.accept("WITH", "ORDINALITY") or ordinality
        names, position = list(columns) or ([alias] if alias and call.name.lower() == "unnest" else []), None
        if ordinality:
            position = names.pop() if len(names) > 1 else "ordinality"
        elif self.accept("WITH", "OFFSET"):
            position = self.expect_name("the position").text if self.accept("AS") else "offset"
        if outer and not self.accept("ON", "TRUE"):
            raise self.unexpected("ON TRUE after LEFT JOIN UNNEST(…)")
        explosion = self._explosion(at, call, outer, alias, names)
        if position is None:
            return explosion
        return replace(explosion, position=position, first_position=1 if ordinality else 0)

    def _array_join(self, at: int, outer: bool) -> ExplodeStep:
        values = self.expression()
        self.expect("AS", "ARRAY JOIN x")
        return ExplodeStep(at, values, outer, None, (self.expect_name("a column").text,))

    def _refuse_aggregates(self, items: list[StarItem | RowItem], where: Node | None) -> None:
        nodes = [item.node for item in items if isinstance(item, RowItem)] + ([where] if where else [])
        over = next((call for call in map(_over, nodes) if call), None)
        if over:
            raise instead_of_numbers(self.source, over.at, over.name)
        aggregate = next((node for node in nodes if contains_aggregate(node)), None)
        at = aggregate.at if aggregate else self.next.start
        if not aggregate and not self.sees("GROUP", "BY"):
            return
        what = "an aggregate" if aggregate else "GROUP BY"
        if self.creates is None:
            raise numbers_of_rows(self.source, at) or self.error(
                at, f"{what} is not supported in a query inside FROM",
                fix="aggregate in the view itself; CREATE VIEW makes a view over views",
            )  # fmt: skip
        raise self.error(
            at, f"{what} needs other events, and a stream is made of one at a time",
            fix=f"write CREATE MATERIALIZED VIEW {quote(self.declaring or 'v')} AS SELECT …",
            write="MATERIALIZED VIEW", span=(self.creates.start, self.creates.end),
        )  # fmt: skip

    def _not_in_rows(self, token: Token) -> DefinitionError:
        if token.upper == "QUALIFY":
            return instead_of_numbers(self.source, token.start, "QUALIFY ROW_NUMBER")
        clause = f"{token.upper} BY" if token.upper in ("ORDER", "SORT") else token.upper
        return self.error(
            token.start, f"{clause} is not supported in a stream or a query inside FROM", fix=_NOT_IN_ROWS[token.upper]
        )


def _over(node: Node) -> Call | None:
    calls = (part for part in walk(node) if isinstance(part, Call))
    return next((call for call in calls if call.written and call.written.over is not None), None)
