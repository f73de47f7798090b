"""Reads what other systems have in a statement, to refuse it with the complete statement to write instead."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import final

from headrace.errors import DefinitionError
from headrace.language.durations import format_duration
from headrace.language.expressions import read_arguments, read_expression
from headrace.language.foreign import foreign_statements, foreign_streams, unavailable_syntax
from headrace.language.foreign.foreign_functions import is_aggregate_elsewhere
from headrace.language.identifiers import in_double_quotes
from headrace.language.literals import read_duration
from headrace.language.outline import Outline, TextEdit
from headrace.language.source_text import END, NUMBER, WORD, Token
from headrace.language.statements.select_rows import contains_aggregate
from headrace.language.syntax import Call, Node, SelectItem, walk
from headrace.language.terms import quote
from headrace.language.token_cursor import TokenCursor

# Aggregates that choose one event, here and in other systems: first takes the earliest, last the latest.
CHOOSING = {
    **dict.fromkeys(("first", "first_value", "earliest"), "first"),
    **dict.fromkeys(("last", "last_value", "latest"), "last"),
}
_KSQL_WINDOWS = ("TUMBLING", "HOPPING", "SESSION")
_EMITS = {
    "CHANGES": "EMIT CHANGES is not needed: a {kind} is always up to date",
    "FINAL": "EMIT FINAL is not needed: each row says whether it is settled",
    "ON": "EMIT ON WINDOW CLOSE is not needed: each row says whether it is settled",
}
_TOPIC = re.compile(r"\b(?:kafka_)?topic\b['\"]?\s*=\s*('[^']*')", re.IGNORECASE)
_EXPECTATION = re.compile(
    r"\bEXPECT\s*(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))\s*ON\s+VIOLATION\s+DROP\s+ROW\b", re.IGNORECASE
)
_PROPERTIES = (  # what follows the name of a view
    "TO", "ENGINE", "POPULATE", "COMMENT", "IN", "ON", "REFRESH", "CLUSTER BY", "PARTITIONED", "TBLPROPERTIES", "USING",
)  # fmt: skip
_NOT_IN_VIEWS = {
    "SORT": "write ORDER BY",
    "OFFSET": "remove it; the next_cursor of an answer leads to the rows after it",
    "UNION": "unite streams in FROM: FROM (SELECT … UNION ALL SELECT …)",
    "EXCEPT": "make two views",
    "INTERSECT": "make two views",
    "QUALIFY": "write CREATE VIEW over it",
}
_SECOND_QUERY = ("UNION", "EXCEPT", "INTERSECT")
_SETS = ("ROLLUP", "CUBE")
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


@final
class ForeignSyntax:
    """The parts of one statement that are of other systems; methods are called where such parts may stand."""

    read_before_create = staticmethod(foreign_statements.read_before_create)
    read_kind = staticmethod(foreign_statements.read_kind)
    unknown_statement = staticmethod(foreign_statements.unknown_statement)
    refuse_sink_of_query = staticmethod(foreign_statements.refuse_sink_of_query)
    refuse_stream_clause = staticmethod(foreign_streams.refuse_stream_clause)
    refuse_encoding = staticmethod(foreign_streams.refuse_encoding)
    constraint = staticmethod(foreign_streams.constraint)
    refuse_field_without_type = staticmethod(foreign_streams.refuse_field_without_type)
    refuse_field_clause = staticmethod(foreign_streams.refuse_field_clause)
    refuse_source = staticmethod(unavailable_syntax.refuse_source)
    refuse_after_source = staticmethod(unavailable_syntax.refuse_after_source)
    refuse_watermark = staticmethod(unavailable_syntax.refuse_watermark)
    refuse_join = staticmethod(unavailable_syntax.refuse_join)
    read_after_joined = staticmethod(unavailable_syntax.read_after_joined)

    def __init__(self) -> None:
        self._parts = Outline()
        self._in_select = False  # OVER is read there

    def outline(self, start: int, end: int) -> Outline:
        """Return what was read, in a statement that begins and ends at these offsets."""
        return replace(self._parts, start=start, end=end)

    def instead(self, reason: str, start: int, end: int, text: str = "") -> None:
        """Refuse a part of the statement, with what to write there; reading continues."""
        edits = (*self._parts.edits, TextEdit(start, end, text))
        self._parts = replace(self._parts, reasons=(*self._parts.reasons, reason), edits=edits)

    def _add(self, at: int, text: str) -> None:
        self._parts = replace(self._parts, edits=(*self._parts.edits, TextEdit(at, at, text)))

    # Around a query

    def read_properties(self, cursor: TokenCursor, kind: str) -> None:
        """Read what other systems have between the name of a view and AS: WITH (…), TO t, ENGINE = … POPULATE."""
        if cursor.sees_symbol("(") and cursor.ahead(1).upper == "CONSTRAINT":
            self._read_expectations(cursor, kind)
        at, word = cursor.next.start, "CLUSTER BY" if cursor.sees("CLUSTER", "BY") else cursor.next.upper
        has_options = word == "WITH" and (cursor.ahead(1).text == "(" or cursor.ahead(1).upper == "REFRESH")
        if word not in _PROPERTIES and not has_options:
            return
        while not (cursor.at_end() or cursor.sees("AS") or cursor.sees("SCHEDULE")):
            if cursor.sees_symbol("("):
                cursor.skip_parentheses()
            else:
                cursor.take()
        topic = _TOPIC.search(cursor.source.text[at : cursor.last_end])
        into = f"; CREATE SINK … FROM it WITH (connector = 'kafka', topic = {topic[1]}) fills a topic" if topic else ""
        self.instead(f"a {kind} has no {word}{into}", at, cursor.last_end)

    def _read_expectations(self, cursor: TokenCursor, kind: str) -> None:
        """Read (CONSTRAINT good EXPECT (a > 1) ON VIOLATION DROP ROW) of Databricks."""
        at, start = cursor.next.start, cursor.index
        cursor.skip_parentheses()
        condition = " AND ".join(_EXPECTATION.findall(cursor.text_since(start)))
        clause = "WHERE" if kind == "stream" else "WHERE or HAVING"
        reason = f"a {kind} has no CONSTRAINT: {clause} leaves out the rows that violate it"
        self.instead(reason, at, cursor.next.start)
        rest = itertools.takewhile(lambda token: token.kind != END and token.text != ";", cursor.tokens[cursor.index :])
        words = [token.upper for token in rest]
        if condition and kind == "stream" and "WHERE" not in words and words.count("SELECT") == 1:
            self._add(_end_of_statement(cursor), f" WHERE {condition}")

    def read_quantifier(self, cursor: TokenCursor) -> None:
        """Read DISTINCT, ALL or TOP 10 after the SELECT of a view."""
        at = cursor.next.start
        if cursor.accept("DISTINCT"):
            if cursor.sees("ON"):
                raise cursor.error(
                    at,
                    "SELECT DISTINCT ON is not supported in a view",
                    fix="GROUP BY these keys and select last(x) for the latest x of each by event time; "
                    "CREATE TABLE … PRIMARY KEY (…) AS SELECT … has the latest rows",
                )
            self._parts = replace(self._parts, distinct=True)
            reason = "SELECT DISTINCT is not supported in a view: GROUP BY gives each key once"
            self.instead(reason, at, cursor.last_end)
        elif cursor.sees("TOP") and cursor.ahead(1).kind == NUMBER:
            cursor.take()
            count = cursor.take().text
            self.instead(f"TOP {count} is LIMIT {count} here, after ORDER BY", at, cursor.last_end)
            self._add(_end_of_statement(cursor), f" LIMIT {count}")
        else:
            cursor.accept("ALL")

    def read_selected(self, cursor: TokenCursor) -> Node:
        """Read an expression of SELECT, in which OVER is read."""
        self._in_select = True
        node = read_expression(cursor)
        self._in_select = False
        return node

    def read_final(self, cursor: TokenCursor) -> None:
        """Read FINAL, SAMPLE 0.1 and PREWHERE of ClickHouse after the stream."""
        token = cursor.next
        if cursor.accept("FINAL"):
            self.instead("FINAL is not needed: a stream keeps every event", token.start, token.end)
        elif cursor.accept("SAMPLE"):
            share = _read_share(cursor)
            if cursor.accept("OFFSET"):
                _read_share(cursor)
            parts = [float(part) for part in share.split("/") if re.fullmatch(r"\d*\.?\d+", part)]
            ratio = parts[0] / parts[1] if len(parts) == 2 and parts[1] else parts[0] if parts else 2
            percent = ratio * 100 if 0 < ratio <= 1 else 10
            sample = f"TABLESAMPLE ({percent:g} PERCENT)"
            self.instead(f"SAMPLE {share} is {sample} here", token.start, cursor.last_end, sample)
        if cursor.sees("PREWHERE"):
            token = cursor.next
            self.instead("PREWHERE is WHERE here", token.start, token.end, "WHERE")
            cursor.tokens[cursor.index] = replace(token, text="WHERE")

    def read_window_clause(self, cursor: TokenCursor) -> None:
        """Read what other systems have after the stream, as WINDOW TUMBLING (SIZE 1 MINUTE) of ksqlDB."""
        self.read_final(cursor)
        kind = cursor.ahead(1).upper
        if not cursor.sees("WINDOW") or kind not in _KSQL_WINDOWS:
            return
        at = cursor.take().start
        cursor.take()
        cursor.expect_symbol("(", f"WINDOW {kind}")
        spans: dict[str, str] = {}
        while not spans or cursor.accept_symbol(","):
            word = cursor.take().upper if cursor.next.kind == WORD else ""
            cursor.accept("BY")
            cursor.accept("PERIOD")
            spans[word] = format_duration(read_duration(cursor))
        cursor.expect_symbol(")", f"the size of WINDOW {kind}")
        window = tuple(spans[word] for word in ("SIZE", "ADVANCE", "") if word in spans)  # SESSION (30 MINUTES)
        call = "session_window" if kind == "SESSION" else "window"
        self.instead(f"WINDOW {kind} is written {call}(…) in GROUP BY here", at, cursor.last_end)
        self._parts = replace(self._parts, window=window, window_call=call, grace=spans.get("GRACE"))

    def refuse_sets(self, cursor: TokenCursor) -> None:
        """Refuse ROLLUP, CUBE and GROUPING SETS in GROUP BY."""
        if cursor.sees("GROUPING", "SETS"):
            raise _no_sets(cursor, "GROUPING SETS", cursor.index)
        if cursor.next.upper in _SETS and cursor.ahead(1).text == "(":
            at, words = cursor.index, cursor.take().upper
            cursor.take()
            keys_at = cursor.index
            read_arguments(cursor, f"the keys of {words}")
            keys = cursor.source.text[cursor.tokens[keys_at].start : cursor.tokens[cursor.index - 1].start]
            raise _no_sets(cursor, words, at, keys)

    def refuse_totals(self, cursor: TokenCursor) -> None:
        """Refuse WITH ROLLUP, WITH CUBE and WITH TOTALS after GROUP BY."""
        if cursor.sees("WITH") and cursor.ahead(1).upper in (*_SETS, "TOTALS"):
            at = cursor.index
            cursor.take()
            words = f"WITH {cursor.take().upper}"
            raise _no_sets(cursor, words, at, " ")

    def read_name_of_group(self, cursor: TokenCursor) -> None:
        """Read AS w after an item of GROUP BY, as in Spark."""
        at = cursor.last_end
        if cursor.accept("AS"):
            name = cursor.expect_name("the window").text.lower()
            reason = "GROUP BY gives no names: those of a window are window_start and window_end"
            self.instead(reason, at, cursor.last_end)
            self._parts = replace(self._parts, window_names=(*self._parts.window_names, name))

    def read_limit_by(self, cursor: TokenCursor, start: int, limit: int | None) -> bool:
        """Refuse LIMIT 3 BY k of ClickHouse, whose LIMIT is the token of this index; return True if it is one."""
        if not cursor.accept("BY"):
            return False
        keys = cursor.index
        while not (cursor.at_end() or cursor.next.upper in _NOT_IN_VIEWS):
            cursor.take()
        before = cursor.source.text[: cursor.tokens[start].start]
        ordered = re.search(r"(?is)\bORDER\s+BY\s+(.+?)\s*$", before)
        order = f" ORDER BY {ordered[1]}" if ordered else ""
        number = f"row_number() OVER (PARTITION BY {cursor.text_since(keys)}{order})"
        _refuse_qualify(cursor, start, "LIMIT … BY", f"QUALIFY {number} <= {limit}")
        return True

    def read_after_view(self, cursor: TokenCursor, items: Sequence[SelectItem], *, grouped: bool) -> None:
        """Refuse clauses that views do not have; QUALIFY would number events if the query has no aggregates."""
        while cursor.next.upper in _NOT_IN_VIEWS:
            word, at = cursor.next.upper, cursor.next.start
            clause = "SORT BY" if word == "SORT" else word
            start = cursor.index
            cursor.take()
            while not cursor.at_end() and (word in _SECOND_QUERY or cursor.next.upper not in _NOT_IN_VIEWS):
                cursor.take()
            if word == "QUALIFY" and not (grouped or any(contains_aggregate(cursor, item.node) for item in items)):
                raise unavailable_syntax.instead_of_numbers(cursor.source, at, "QUALIFY ROW_NUMBER")
            if word == "QUALIFY":
                _refuse_qualify(cursor, start, "QUALIFY", cursor.text_since(start))
            else:
                error = cursor.error(at, f"{clause} is not supported in a view", fix=_NOT_IN_VIEWS[word])
                cursor.mistakes.errors.append(error)
        at = cursor.next.start
        if cursor.accept("WITH", "NO", "DATA") or cursor.accept("WITH", "DATA"):  # of PostgreSQL
            self.instead("WITH DATA is not needed: a view is always up to date", at, cursor.last_end)
        self._read_emit(cursor, "view")

    def read_after_query(self, cursor: TokenCursor, kind: str) -> None:
        """Read what other systems have after the query of a stream: PARTITION BY of ksqlDB, and EMIT."""
        at = cursor.next.start
        if kind == "stream" and cursor.accept("PARTITION", "BY"):
            read_expression(cursor)
            self.instead("PARTITION BY is not needed: a stream has no partitions", at, cursor.last_end)
        self._read_emit(cursor, "stream")

    def _read_emit(self, cursor: TokenCursor, kind: str) -> None:
        """Read EMIT CHANGES, EMIT FINAL, EMIT ON WINDOW CLOSE."""
        if not cursor.sees("EMIT"):
            return
        at = cursor.take().start
        reason = _EMITS.get(cursor.next.upper)
        if reason is None:
            raise cursor.unexpected("CHANGES or FINAL after EMIT")
        while not cursor.at_end():
            cursor.take()
        self.instead(reason.format(kind=kind), at, cursor.last_end)

    # Rows

    def refuse_distinct_rows(self, cursor: TokenCursor) -> None:
        """Refuse SELECT DISTINCT of a stream."""
        if cursor.sees("DISTINCT"):
            raise cursor.error(
                cursor.next.start, "SELECT DISTINCT needs all earlier events, and a stream is made of one at a time",
                fix="remove it; GROUP BY in a materialized view gives each key once, and UNIQUE (id) WITHIN "
                "INTERVAL 1 DAY among the fields of a stream drops events that are sent again",
            )  # fmt: skip

    def refuse_set_operation(self, cursor: TokenCursor) -> bool:
        """Refuse EXCEPT and INTERSECT of rows."""
        if cursor.sees("EXCEPT") or cursor.sees("INTERSECT"):
            raise _not_in_rows(cursor)
        return False

    def refuse_clause_of_rows(self, cursor: TokenCursor) -> None:
        """Refuse ORDER BY, LIMIT and the like after the query of a stream."""
        if cursor.next.upper in _NOT_IN_ROWS:
            raise _not_in_rows(cursor)

    def refuse_aggregates(self, cursor: TokenCursor, nodes: Sequence[Node], created: Token | None) -> None:
        """Refuse aggregates and OVER in the making of rows; `created` is the word STREAM, None in a query in FROM."""
        calls = (part for node in nodes for part in walk(node) if isinstance(part, Call))
        over = next((call for call in calls if call.written and call.written.over is not None), None)
        if over:
            raise unavailable_syntax.instead_of_numbers(cursor.source, over.at, over.name)
        aggregate = next((node for node in nodes if contains_aggregate(cursor, node)), None)
        at = aggregate.at if aggregate else cursor.next.start
        if aggregate or cursor.sees("GROUP", "BY"):
            what = "an aggregate" if aggregate else "GROUP BY"
            if created is None:
                raise unavailable_syntax.numbers_of_rows(cursor.source, at) or cursor.error(
                    at, f"{what} is not supported in a query inside FROM",
                    fix="aggregate in the view itself; CREATE VIEW makes a view over views",
                )  # fmt: skip
            raise cursor.error(
                at, f"{what} needs other events, and a stream is made of one at a time",
                fix=f"write CREATE MATERIALIZED VIEW {quote(cursor.declaring or 'v')} AS SELECT …",
                write="MATERIALIZED VIEW", span=(created.start, created.end),
            )  # fmt: skip
        if not (cursor.sees("EXCEPT") or cursor.sees("INTERSECT")):  # the query refuses these
            self.refuse_clause_of_rows(cursor)

    # Calls

    def read_order_of_arguments(self, cursor: TokenCursor, name: Token, written: list[str]) -> None:
        """Read what follows the last argument: ORDER BY and IGNORE NULLS."""
        _refuse_order(cursor, name, written)
        _refuse_nulls(cursor, name, written, inside=True)
        if is_aggregate_elsewhere(name.text) and cursor.sees("ORDER", "BY"):  # string_agg(x, ',' ORDER BY y)
            _skip_order(cursor)

    def read_more_arguments(self, cursor: TokenCursor, name: Token, args: list[Node], written: list[str]) -> bool:
        """Read quantile(0.9)(x), of which True is returned, WITHIN GROUP (ORDER BY x) and IGNORE NULLS after a call."""
        _refuse_nulls(cursor, name, written)
        if not is_aggregate_elsewhere(name.text):
            return False
        parametric = cursor.accept_symbol("(")
        if parametric:
            more, more_written = read_arguments(cursor, f"the arguments of {name.text}")
            args += more
            written += more_written
        if cursor.accept("WITHIN", "GROUP"):
            order, order_written, descending = _read_within_group(cursor)
            if descending and written and re.fullmatch(r"0?\.\d+", written[0]):
                written[0] = f"{1 - float(written[0]):.10g}"
            args.append(order)
            written.append(order_written)
        return parametric

    def read_over(self, cursor: TokenCursor, name: str) -> tuple[str, ...]:
        """Read OVER (PARTITION BY …) and return what it partitions by; the rest of it is skipped."""
        if not self._in_select:
            raise cursor.error(
                cursor.next.start,
                f"{name}(…) OVER is not supported: a view aggregates events, it does not number rows",
                fix="group by the window instead",
            )
        cursor.take()
        if not cursor.accept_symbol("("):
            cursor.expect_name("a window")
            return ()
        keys: list[str] = []
        if cursor.accept("PARTITION", "BY"):
            while not keys or cursor.accept_symbol(","):
                start = cursor.index
                read_expression(cursor)
                keys.append(cursor.text_since(start))
        depth = 1
        while depth and cursor.next.kind != END:
            depth += {"(": 1, ")": -1}.get(cursor.take().text, 0)
        return tuple(keys)


def _end_of_statement(cursor: TokenCursor) -> int:
    index = cursor.index
    while not (cursor.tokens[index].kind == END or cursor.tokens[index].text == ";"):
        index += 1
    return cursor.tokens[index - 1].end


def _read_share(cursor: TokenCursor) -> str:
    """Read 0.1 or 1/10."""
    share = cursor.take().text
    return f"{share}/{cursor.take().text}" if cursor.accept_symbol("/") else share


def _no_sets(cursor: TokenCursor, words: str, at: int, write: str | None = None) -> DefinitionError:
    return cursor.error(
        cursor.tokens[at].start,
        f"GROUP BY … {words} is not supported: a query can merge any of the keys",
        fix="group by all keys; by=country asks for the totals of each country, by= for the grand total",
        write=write,
        span=None if write is None else cursor.span_since(at),
    )


def _refuse_qualify(cursor: TokenCursor, start: int, clause: str, condition: str) -> None:
    view = quote(f"{cursor.declaring}_qualified")
    condition = condition.replace("`", '"')
    write = f"; CREATE VIEW {view} AS SELECT * FROM {in_double_quotes(cursor.declaring or '')} {condition}"
    error = cursor.error(
        cursor.tokens[start].start, f"{clause} is not supported in a materialized view: its rows are not numbered",
        fix=f"write it in a view over this one{write}", write=write, span=cursor.span_since(start),
    )  # fmt: skip
    cursor.mistakes.errors.append(error)


def _not_in_rows(cursor: TokenCursor) -> DefinitionError:
    token = cursor.next
    if token.upper == "QUALIFY":
        return unavailable_syntax.instead_of_numbers(cursor.source, token.start, "QUALIFY ROW_NUMBER")
    clause = f"{token.upper} BY" if token.upper in ("ORDER", "SORT") else token.upper
    return cursor.error(
        token.start, f"{clause} is not supported in a stream or a query inside FROM", fix=_NOT_IN_ROWS[token.upper]
    )


def _refuse_order(cursor: TokenCursor, name: Token, written: list[str]) -> None:
    """Refuse first(x ORDER BY y), which chooses by y."""
    chooses = CHOOSING.get(name.text.lower())
    at = cursor.index
    if chooses is None or len(written) != 1 or not cursor.accept("ORDER", "BY"):
        return
    start = cursor.index
    read_expression(cursor)
    by = cursor.text_since(start)
    descending = not cursor.accept("ASC") and cursor.accept("DESC")
    if not cursor.accept_symbol(")"):  # more than one order, or NULLS FIRST
        cursor.reset(at)
        return
    write = f"{'max_by' if descending == (chooses == 'first') else 'min_by'}({written[0]}, {by})"
    raise cursor.error(
        name.start, f"{name.text} takes events in the order of event time", write=write, end=cursor.last_end
    )


def _refuse_nulls(cursor: TokenCursor, name: Token, written: list[str], *, inside: bool = False) -> None:
    """Refuse first(x) IGNORE NULLS; RESPECT NULLS is what first and last do."""
    chooses = CHOOSING.get(name.text.lower())
    if chooses is None or len(written) != 1 or cursor.accept("RESPECT", "NULLS"):
        return
    if not cursor.accept("IGNORE", "NULLS"):
        return
    if inside:
        cursor.expect_symbol(")", "IGNORE NULLS")
    message, condition = "IGNORE NULLS is a FILTER here", f"{written[0]} IS NOT NULL"
    if cursor.sees("FILTER"):
        raise cursor.error(name.start, message, fix=f"add {condition} to the FILTER")
    write = f"{chooses}({written[0]}) FILTER (WHERE {condition})"
    raise cursor.error(name.start, message, write=write, end=cursor.last_end)


def _skip_order(cursor: TokenCursor) -> None:
    cursor.accept("ORDER", "BY")
    while True:
        read_expression(cursor)
        for words in (("ASC",), ("DESC",), ("NULLS", "FIRST"), ("NULLS", "LAST")):
            cursor.accept(*words)
        if not cursor.accept_symbol(","):
            return


def _read_within_group(cursor: TokenCursor) -> tuple[Node, str, bool]:
    """Read the value by which percentile_cont(0.5) WITHIN GROUP (ORDER BY x) orders, and whether it is descending."""
    cursor.expect_symbol("(", "WITHIN GROUP")
    cursor.expect("ORDER", "WITHIN GROUP (")
    cursor.expect("BY", "ORDER")
    start = cursor.index
    node = read_expression(cursor)
    written = cursor.text_since(start)
    descending = not cursor.accept("ASC") and cursor.accept("DESC")
    cursor.expect_symbol(")", "the order of WITHIN GROUP")
    return node, written, descending
