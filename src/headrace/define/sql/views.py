"""Reads CREATE MATERIALIZED VIEW: SCHEDULE, SELECT, FROM, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT; refuses others."""

from __future__ import annotations

import re
from dataclasses import replace

from headrace.define.answer_shape import read_limit, read_order
from headrace.define.sql.from_clause import FromReader
from headrace.define.sql.later import instead_of_numbers
from headrace.define.sql.select import SelectItem, ViewStatement
from headrace.define.view_columns import contains_aggregate
from headrace.engine.duckdb_terms import duckdb_name
from headrace.errors import DefinitionError
from headrace.language.durations import SECOND_MS
from headrace.language.syntax import Logic, Node, Star
from headrace.language.terms import quote

_NOT_IN_VIEWS = {
    "SORT": "write ORDER BY",
    "OFFSET": "remove it; the next_cursor of an answer leads to the rows after it",
    "UNION": "unite streams in FROM: FROM (SELECT … UNION ALL SELECT …)",
    "EXCEPT": "make two views",
    "INTERSECT": "make two views",
    "QUALIFY": "write CREATE VIEW over it",
}
_SETS = ("ROLLUP", "CUBE")
_SECOND_QUERY = ("UNION", "EXCEPT", "INTERSECT")


class ViewReader(FromReader):
    """Reads what follows CREATE MATERIALIZED VIEW."""

    def view(self) -> ViewStatement:
        """The view, up to the end of its statement."""
        name = self.read_declared_name("view")
        self.read_properties()
        schedule_ms = self._schedule() if self.accept("SCHEDULE") else None
        self.expect("AS", f"CREATE MATERIALIZED VIEW {name.text}")
        queries = self.read_with()
        self.expect("SELECT", "AS")
        self.read_quantifier()
        items = [self.item()]
        while self.accept_symbol(","):
            items.append(self.item())
        items_end = self.last_end
        self.expect("FROM", "the columns")
        self.table_window, self.may_have_window = None, True
        from_clause = self.read_from()
        self.may_have_window = False
        self.read_window_clause()
        where_at = self.index
        where = self.expression() if self.accept("WHERE") else None
        where_span = self.span_since(where_at) if where else None
        groups, all_keys = self._group_by() if self.accept("GROUP", "BY") else ([], False)
        groups_at = self.last_end
        having = self.expression() if self.accept("HAVING") else None
        order = read_order(self) if self.accept("ORDER", "BY") else []
        limit = self._limit()
        self._refuse_clauses(numbers=not (groups or all_keys or any(contains_aggregate(item.node) for item in items)))
        self.read_no_data()
        self.read_emit()
        peer = replace(
            self.peer, end=self.last_end, groups_at=groups_at, has_groups=bool(groups), where=where_span,
            items_end=items_end,
        )  # fmt: skip
        where_spans = where.spans if isinstance(where, Logic) else ()
        return ViewStatement(
            self.source, name.start, name.text, schedule_ms, tuple(items), from_clause, where,
            tuple(groups), self.table_window, tuple(self.mistakes.errors), peer, where_spans,
            having=having, order=tuple(order), limit=limit, all_keys=all_keys, queries=queries,
        )  # fmt: skip

    def _limit(self) -> int | None:
        """LIMIT 10; LIMIT 3 BY k of ClickHouse is refused."""
        start = self.index
        if not self.accept("LIMIT"):
            return self.read_fetch()
        limit = read_limit(self)
        if not self.accept("BY"):
            return limit
        keys = self.index
        while not (self.at_end() or self.next.upper in _NOT_IN_VIEWS):
            self.take()
        ordered = re.search(r"(?is)\bORDER\s+BY\s+(.+?)\s*$", self.source.text[: self.tokens[start].start])
        order = f" ORDER BY {ordered[1]}" if ordered else ""
        number = f"row_number() OVER (PARTITION BY {self.text_since(keys)}{order})"
        self._refuse_qualify(start, "LIMIT … BY", f"QUALIFY {number} <= {limit}")
        return None

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

    def item(self) -> SelectItem:
        """An expression, with a name if AS or a bare word follows."""
        star = self.read_star()
        if star is not None:
            return SelectItem(Star(star.at), None)
        start, self.may_be_over = self.index, True
        node = self.expression()
        self.may_be_over = False
        self.peer = replace(self.peer, items=(*self.peer.items, self.text_since(start)))
        if self.accept("AS"):
            return SelectItem(node, self.expect_name("a column").text)
        if self.next.kind in ("word", "name") and not self.sees("FROM"):
            alias = self.expect_name("a column")
            if self.sees_symbol("("):
                raise self.error(
                    alias.start, f"a ',' is missing before {alias.text}(…)", write=f", {alias.text}", end=alias.end
                )
            return SelectItem(node, alias.text)
        return SelectItem(node, None)

    def _group_by(self) -> tuple[list[Node], bool]:
        """The expressions of GROUP BY, and whether it is GROUP BY ALL."""
        if self.sees("ALL") and self.ahead(1).text != ",":
            self.take()
            return [], True
        groups = [self._group()]
        while self.accept_symbol(","):
            groups.append(self._group())
        if self.sees("WITH") and self.ahead(1).upper in (*_SETS, "TOTALS"):
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
        node, at = self.expression(), self.last_end
        if self.accept("AS"):  # of Spark
            name = self.expect_name("the window").text.lower()
            self.instead(
                "GROUP BY gives no names: those of a window are window_start and window_end", at, self.last_end
            )
            self.peer = replace(self.peer, window_names=(*self.peer.window_names, name))
        return node

    def _refuse_sets(self, words: str, at: int, write: str | None = None) -> DefinitionError:
        return self.error(
            self.tokens[at].start,
            f"GROUP BY … {words} is not supported: a question merges any of the keys",
            fix="group by all keys; by=country asks for the totals of each country, by= for the grand total",
            write=write,
            span=None if write is None else self.span_since(at),
        )

    def _refuse_clauses(self, *, numbers: bool) -> None:
        """Refuse clauses that views do not have; `numbers`: its rows would be events, which QUALIFY numbers."""
        while self.next.upper in _NOT_IN_VIEWS:
            word, at = self.next.upper, self.next.start
            clause = "SORT BY" if word == "SORT" else word
            start = self.index
            self.take()
            while not self.at_end() and (word in _SECOND_QUERY or self.next.upper not in _NOT_IN_VIEWS):
                self.take()
            if word == "QUALIFY" and numbers:
                raise instead_of_numbers(self.source, at, "QUALIFY ROW_NUMBER")
            if word == "QUALIFY":
                self._refuse_qualify(start, "QUALIFY", self.text_since(start))
            else:
                self.refuse(at, f"{clause} is not supported in a view", _NOT_IN_VIEWS[word])

    def _refuse_qualify(self, start: int, clause: str, condition: str) -> None:
        view = quote(f"{self.declaring}_qualified")
        condition = condition.replace("`", '"')
        write = f"; CREATE VIEW {view} AS SELECT * FROM {duckdb_name(self.declaring or '')} {condition}"
        error = self.error(
            self.tokens[start].start, f"{clause} is not supported in a materialized view: its rows are not numbered",
            fix=f"write it in a view over this one{write}", write=write, span=self.span_since(start),
        )  # fmt: skip
        self.mistakes.errors.append(error)
