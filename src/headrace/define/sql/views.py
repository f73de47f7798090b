"""Reads CREATE MATERIALIZED VIEW: SCHEDULE, SELECT, FROM, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT; refuses others."""

from __future__ import annotations

from dataclasses import replace

from headrace.define.durations import SECOND_MS
from headrace.define.expression.syntax import Call, Logic, Node
from headrace.define.shape import read_limit, read_order
from headrace.define.sql.peers import CLAUSES, PeerReader
from headrace.define.sql.select import Item, Select
from headrace.define.tokens import Token
from headrace.errors import DefinitionError

_NOT_IN_VIEWS = {
    "SORT": "write ORDER BY",
    "OFFSET": "remove it; the next_cursor of an answer leads to the rows after it",
    "UNION": "make two views",
    "EXCEPT": "make two views",
    "INTERSECT": "make two views",
    "QUALIFY": "write HAVING",
}
_CLAUSES = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT")
_SETS = ("ROLLUP", "CUBE")
WINDOW_TABLES = {"TUMBLE": ("SIZE",), "HOP": ("SLIDE", "SIZE"), "CUMULATE": ("STEP", "SIZE")}  # by name or in order
_SECOND_QUERY = ("UNION", "EXCEPT", "INTERSECT")
_JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "LATERAL", "ANTI", "SEMI")
_JOIN_FIX = "send events that contain all fields; joins of streams are not available yet"


class ViewReader(PeerReader):
    """Reads what follows CREATE MATERIALIZED VIEW."""

    def view(self) -> Select:
        """The view, up to the end of its statement."""
        name = self.read_declared_name("view")
        self.read_properties()
        schedule_ms = self._schedule() if self.accept("SCHEDULE") else None
        self.expect("AS", f"CREATE MATERIALIZED VIEW {name.text}")
        if self.sees("WITH"):
            raise self.error(self.next.start, "WITH is not supported in a view", fix="write one SELECT over one stream")
        self.expect("SELECT", "AS")
        self.read_quantifier()
        items = [self.item()]
        while self.accept_symbol(","):
            items.append(self.item())
        items_end = self.last_end
        self.expect("FROM", "the columns")
        stream, alias, table_window = self._from()
        self.read_window_clause()
        where_at = self.index
        where = self.expression() if self.accept("WHERE") else None
        where_span = self.span_since(where_at) if where else None
        groups, all_keys = self._group_by() if self.accept("GROUP", "BY") else ([], False)
        groups_at = self.last_end
        having = self.expression() if self.accept("HAVING") else None
        order = read_order(self) if self.accept("ORDER", "BY") else []
        limit = read_limit(self) if self.accept("LIMIT") else self.read_fetch()
        self._refuse_clauses()
        self.read_no_data()
        self.read_emit()
        peer = replace(
            self.peer, end=self.last_end, groups_at=groups_at, has_groups=bool(groups), where=where_span,
            items_end=items_end,
        )  # fmt: skip
        where_spans = where.spans if isinstance(where, Logic) else ()
        return Select(
            self.source, name.start, name.text, schedule_ms, tuple(items), stream.text, stream.start, alias, where,
            tuple(groups), table_window, tuple(self.mistakes.errors), peer, where_spans,
            having=having, order=tuple(order), limit=limit, all_keys=all_keys,
        )  # fmt: skip

    def _schedule(self) -> int:
        at = self.next.start
        self.accept("REFRESH")
        if not self.accept("EVERY"):
            raise self.error(at, "a schedule is a fixed duration", expected="SCHEDULE EVERY 1 HOUR")
        at = self.next.start
        ms = self.read_duration()
        if ms < SECOND_MS:
            raise self.error(at, "a schedule is at least 1 second", fix="for example SCHEDULE EVERY 1 HOUR")
        return ms

    def item(self) -> Item:
        """An expression, with a name if AS or a bare word follows."""
        start, self.may_be_over = self.index, True
        node = self.expression()
        self.may_be_over = False
        self.peer = replace(self.peer, items=(*self.peer.items, self.text_since(start)))
        if self.accept("AS"):
            return Item(node, self.expect_name("a column").text)
        if self.next.kind in ("word", "name") and not self.sees("FROM"):
            alias = self.expect_name("a column")
            if self.sees_symbol("("):
                raise self.error(
                    alias.start, f"a ',' is missing before {alias.text}(…)", write=f", {alias.text}", end=alias.end
                )
            return Item(node, alias.text)
        return Item(node, None)

    def _from(self) -> tuple[Token, str | None, Call | None]:
        if self.sees_symbol("("):
            raise self.error(self.next.start, "a query inside FROM is not supported", fix="name a stream")
        wrapped = self.accept("TABLE")
        if wrapped:
            self.expect_symbol("(", "TABLE")
        table_window = None
        if self.sees("SESSION") and self.ahead(1).text == "(":
            raise self.error(self.next.start, "sessions are not available yet", fix="use TUMBLE, HOP or CUMULATE")
        if self.next.upper in WINDOW_TABLES and self.ahead(1).text == "(":
            stream, table_window = self._window_table()
        else:
            stream = self.expect_name("a stream")
        if wrapped:
            self.expect_symbol(")", "TABLE(…")
        self._refuse_joins()
        alias = None
        if self.accept("AS") or (self.next.kind in ("word", "name") and not self._at_clause()):
            alias = self.expect_name("the alias of the stream").text
        self._refuse_joins()
        return stream, alias, table_window

    def _window_table(self) -> tuple[Token, Call]:
        """TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL …), its arguments by place or by name, as in Flink."""
        call, self.in_window = self.take(), True
        self.take()
        stream: Token | None = None
        values: list[Node] = []
        by_name: dict[str, Node] = {}
        while True:
            name = self._argument_name(call, by_name)
            if name == "DATA" or (name is None and stream is None):
                self.accept("TABLE")
                stream = self.expect_name("a stream")
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
        return stream, Call(call.start, call.text, tuple(args))

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

    def _at_clause(self) -> bool:
        return self.next.upper in (*_CLAUSES, *_NOT_IN_VIEWS, *CLAUSES)

    def _refuse_joins(self) -> None:
        if self.next.upper in _JOINS or self.sees_symbol(","):
            raise self.error(self.next.start, "a view reads one stream", fix=_JOIN_FIX)

    def _group_by(self) -> tuple[list[Node], bool]:
        """The expressions of GROUP BY, and whether it is GROUP BY ALL."""
        if self.sees("ALL") and self.ahead(1).text != ",":
            self.take()
            return [], True
        groups = [self._group()]
        while self.accept_symbol(","):
            groups.append(self._group())
        if self.sees("WITH") and self.ahead(1).upper in _SETS:
            at = self.index
            self.take()
            words = f"WITH {self.take().upper}"
            raise self._refuse_sets(words, at, " ")
        return groups, False

    def _group(self) -> Node:
        if (self.next.upper in _SETS and self.ahead(1).text == "(") or self.sees("GROUPING", "SETS"):
            if self.sees("GROUPING"):
                raise self._refuse_sets("GROUPING SETS", self.index)
            at, words = self.index, self.take().upper
            self.take()
            keys_at = self.index
            self._list(f"the keys of {words}")
            keys = self.source.text[self.tokens[keys_at].start : self.tokens[self.index - 1].start]
            raise self._refuse_sets(words, at, keys)
        return self.expression()

    def _refuse_sets(self, words: str, at: int, write: str | None = None) -> DefinitionError:
        return self.error(
            self.tokens[at].start,
            f"GROUP BY … {words} is not supported: a question merges any of the keys",
            fix="group by all keys; by=country asks for the totals of each country, by= for the grand total",
            write=write,
            span=None if write is None else self.span_since(at),
        )

    def _refuse_clauses(self) -> None:
        while self.next.upper in _NOT_IN_VIEWS:
            word, at = self.next.upper, self.next.start
            clause = "SORT BY" if word == "SORT" else word
            self.refuse(at, f"{clause} is not supported in a view", _NOT_IN_VIEWS[word])
            self.take()
            while not self.at_end() and (word in _SECOND_QUERY or self.next.upper not in _NOT_IN_VIEWS):
                self.take()
