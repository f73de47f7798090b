"""Reads calls: arguments, DISTINCT, FILTER, and what other systems have there: OVER, WITHIN GROUP, quantile(0.9)(x)."""

from __future__ import annotations

import re
from abc import abstractmethod

from headrace.define.expression.peers import is_aggregate_elsewhere
from headrace.language.source_text import END, Token
from headrace.language.syntax import Call, Node, WrittenCall
from headrace.language.token_cursor import TokenCursor

# Aggregates that choose one event, here and in other systems: first takes the earliest, last the latest.
CHOOSING = {
    **dict.fromkeys(("first", "first_value", "earliest"), "first"),
    **dict.fromkeys(("last", "last_value", "latest"), "last"),
}
WINDOWS = ("window", "tumble", "hop", "cumulate", "time_bucket", "date_bin")


class CallParser(TokenCursor):
    """A reader that also reads calls, of the expressions that a subclass reads."""

    may_be_over = False  # whether OVER is read, to be refused with what to write: in SELECT
    in_window = False  # in the arguments of a window, where months and years are spans of time as well

    @abstractmethod
    def expression(self) -> Node:
        """Any expression."""

    def read_call(self) -> Node:
        name = self.take()
        self.take()
        distinct = self.accept("DISTINCT")
        elsewhere = is_aggregate_elsewhere(name.text)
        outside, self.in_window = self.in_window, name.text.lower() in WINDOWS
        args, written = self._arguments(f"the arguments of {name.text}", may_have_order=elsewhere, of=name)
        self.in_window = outside
        self._refuse_nulls(name, written)
        parametric = elsewhere and self.accept_symbol("(")  # quantile(0.9)(x)
        if parametric:
            more, more_written = self._arguments(f"the arguments of {name.text}")
            args, written = args + more, written + more_written
        if elsewhere and self.accept("WITHIN", "GROUP"):
            order, order_written, descending = self._within_group()
            if descending and written and re.fullmatch(r"0?\.\d+", written[0]):
                written[0] = f"{1 - float(written[0]):.10g}"
            args, written = [*args, order], [*written, order_written]
        where, filter_ = None, self.index
        if self.sees("FILTER") and self.ahead(1).text == "(":
            self.take()
            self.take()
            self.expect("WHERE", "FILTER (")
            where = self.expression()
            self.expect_symbol(")", "the condition of FILTER")
        over = self._over(name.text) if self.sees("OVER") else None
        end, filter_text = self.tokens[self.index - 1].end, self.text_since(filter_) if where else ""
        as_written = WrittenCall(end, tuple(written), filter_text, parametric, over)
        return Call(name.start, name.text, tuple(args), distinct, where, as_written)

    def _refuse_order(self, name: Token, written: list[str]) -> None:
        """Refuse first(x ORDER BY y), which chooses by y."""
        chooses = CHOOSING.get(name.text.lower())
        at = self.index
        if chooses is None or len(written) != 1 or not self.accept("ORDER", "BY"):
            return
        start = self.index
        self.expression()
        by = self.text_since(start)
        descending = not self.accept("ASC") and self.accept("DESC")
        if not self.accept_symbol(")"):  # more than one order, or NULLS FIRST
            self.index = at
            return
        write = f"{'max_by' if descending == (chooses == 'first') else 'min_by'}({written[0]}, {by})"
        raise self.error(
            name.start,
            f"{name.text} takes events in the order of event time",
            write=write,
            end=self.tokens[self.index - 1].end,
        )

    def _refuse_nulls(self, name: Token, written: list[str], *, inside: bool = False) -> None:
        """Refuse first(x) IGNORE NULLS; RESPECT NULLS is what first and last do."""
        chooses = CHOOSING.get(name.text.lower())
        if chooses is None or len(written) != 1 or self.accept("RESPECT", "NULLS"):
            return
        if not self.accept("IGNORE", "NULLS"):
            return
        if inside:
            self.expect_symbol(")", "IGNORE NULLS")
        message, condition = "IGNORE NULLS is a FILTER here", f"{written[0]} IS NOT NULL"
        if self.sees("FILTER"):
            raise self.error(name.start, message, fix=f"add {condition} to the FILTER")
        write = f"{chooses}({written[0]}) FILTER (WHERE {condition})"
        raise self.error(name.start, message, write=write, end=self.tokens[self.index - 1].end)

    def _skip_order(self) -> None:
        self.accept("ORDER", "BY")
        while True:
            self.expression()
            for words in (("ASC",), ("DESC",), ("NULLS", "FIRST"), ("NULLS", "LAST")):
                self.accept(*words)
            if not self.accept_symbol(","):
                return

    def _over(self, name: str) -> tuple[str, ...]:
        """What OVER (PARTITION BY …) partitions by; the rest of it is skipped."""
        if not self.may_be_over:
            raise self.error(
                self.next.start,
                f"{name}(…) OVER is not supported: a view aggregates events, it does not number rows",
                fix="group by the window instead",
            )
        self.take()
        if not self.accept_symbol("("):
            self.expect_name("a window")
            return ()
        keys: tuple[str, ...] = ()
        if self.accept("PARTITION", "BY"):
            start = self.index
            self.expression()
            keys = (self.text_since(start),)
            while self.accept_symbol(","):
                start = self.index
                self.expression()
                keys = (*keys, self.text_since(start))
        depth = 1
        while depth and self.next.kind != END:
            depth += {"(": 1, ")": -1}.get(self.take().text, 0)
        return keys

    def _within_group(self) -> tuple[Node, str, bool]:
        """The value that percentile_cont(0.5) WITHIN GROUP (ORDER BY x) orders by, and whether from the largest on."""
        self.expect_symbol("(", "WITHIN GROUP")
        self.expect("ORDER", "WITHIN GROUP (")
        self.expect("BY", "ORDER")
        start = self.index
        node = self.expression()
        written = self.text_since(start)
        descending = not self.accept("ASC") and self.accept("DESC")
        self.expect_symbol(")", "the order of WITHIN GROUP")
        return node, written, descending

    def _list(self, what: str) -> list[Node]:
        return self._arguments(what)[0]

    def _arguments(
        self, what: str, *, end: str = ")", may_have_order: bool = False, of: Token | None = None
    ) -> tuple[list[Node], list[str]]:
        """Expressions up to the closing parenthesis or bracket, and how each was written; `of` is the name called."""
        items: list[Node] = []
        written: list[str] = []
        if self.accept_symbol(end):
            return items, written
        while not items or self.accept_symbol(","):
            start = self.index
            items.append(self.expression())
            written.append(self.text_since(start))
        if of is not None:
            self._refuse_order(of, written)
            self._refuse_nulls(of, written, inside=True)
        if may_have_order and self.sees("ORDER", "BY"):  # string_agg(x, ',' ORDER BY y)
            self._skip_order()
        self.expect_symbol(end, what)
        return items, written
