"""Reads CREATE MATERIALIZED VIEW and CREATE VIEW, whose SELECT is in the dialect of `headrace sql`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.errors import DefinitionError
from headrace.language.durations import SECOND_MS
from headrace.language.expressions import read_expression
from headrace.language.identifiers import read_declared_name
from headrace.language.literals import read_duration
from headrace.language.outline import NO_OUTLINE, Outline
from headrace.language.source_text import END, NUMBER, QUOTED, WORD, SourceText
from headrace.language.statements.select_rows import read_from, read_selected, read_star, read_with
from headrace.language.syntax import (
    FromClause,
    FromItem,
    Logic,
    Node,
    OrderItem,
    RowQuery,
    SelectItem,
    Star,
    StreamRead,
    joined_in,
    joined_in_query,
    streams_of,
    streams_of_query,
)
from headrace.language.token_cursor import TokenCursor, read_text

MOST_ROWS = 10_000  # of one answer
GROUPING_SETS = ("ROLLUP", "CUBE", "GROUPING")


@dataclass(frozen=True)
class ViewStatement:
    """CREATE MATERIALIZED VIEW as it was written."""

    source: SourceText
    at: int
    name: str
    schedule_ms: int | None
    items: tuple[SelectItem, ...]
    from_clause: FromClause
    where: Node | None
    groups: tuple[Node, ...]
    mistakes: tuple[DefinitionError, ...] = ()  # found while it was read
    outline: Outline = NO_OUTLINE
    where_spans: tuple[tuple[int, int], ...] = ()  # the conditions of WHERE, by their offsets
    incomplete: bool = False  # items with mistakes were left out
    left_out: frozenset[str] = frozenset()  # the words of parts that could not be read
    having: Node | None = None
    order: tuple[OrderItem, ...] = ()
    limit: int | None = None
    all_keys: bool = False  # GROUP BY ALL
    queries: tuple[tuple[FromItem, RowQuery], ...] = ()  # of WITH

    @property
    def is_insert(self) -> bool:
        """True for INSERT INTO …, which is read as the view that it would keep up to date."""
        return bool(self.outline.reasons) and self.source.text[self.outline.start :][:6].upper() == "INSERT"

    @property
    def reads(self) -> tuple[StreamRead, ...]:
        """The streams that it names."""
        query_names = frozenset((item.name or "").lower() for item, _ in self.queries)
        of_queries = streams_of_query(RowQuery(self.at, (), self.queries))
        return tuple(dict.fromkeys((*of_queries, *streams_of(self.from_clause, query_names))))

    @property
    def joined(self) -> tuple[StreamRead, ...]:
        """The tables that it joins."""
        of_queries = joined_in_query(RowQuery(self.at, (), self.queries))
        return tuple(dict.fromkeys((*of_queries, *joined_in(self.from_clause, self.where))))


@dataclass(frozen=True)
class LogicalStatement:
    """CREATE VIEW as it was written."""

    source: SourceText
    at: int  # of the name
    name: str
    sql: str
    sql_at: int
    word: tuple[int, int] | None = None  # the offsets of the word VIEW
    mistakes: tuple[DefinitionError, ...] = ()


def read_logical_view(cursor: TokenCursor, start: int) -> LogicalStatement:
    """Read what follows CREATE VIEW."""
    word = cursor.tokens[cursor.index - 1]
    name = read_declared_name(cursor, "view")
    if cursor.sees_symbol("("):
        raise cursor.error(
            cursor.next.start, f"CREATE VIEW {name.text} (…) is not supported",
            fix="name the columns with AS in SELECT",
        )  # fmt: skip
    cursor.expect("AS", f"CREATE VIEW {name.text}")
    first = cursor.next
    if cursor.at_end():
        raise cursor.unexpected(f"a SELECT after CREATE VIEW {name.text} AS")
    cursor.skip_rest()
    return LogicalStatement(
        cursor.source, name.start, name.text, cursor.source.text[first.start : cursor.last_end], first.start,
        (word.start, word.end), tuple(cursor.mistakes.errors),
    )  # fmt: skip


def read_view(cursor: TokenCursor, start: int) -> ViewStatement:
    """Read what follows CREATE MATERIALIZED VIEW."""
    foreign = cursor.foreign
    name = read_declared_name(cursor, "view")
    if foreign:
        foreign.read_properties(cursor, "view")
    schedule_ms = _read_schedule(cursor) if cursor.accept("SCHEDULE") else None
    cursor.expect("AS", f"CREATE MATERIALIZED VIEW {name.text}")
    queries = read_with(cursor)
    cursor.expect("SELECT", "AS")
    if foreign:
        foreign.read_quantifier(cursor)
    else:
        cursor.accept("ALL")
    items = [_read_item(cursor)]
    while cursor.accept_symbol(","):
        items.append(_read_item(cursor))
    items_end = cursor.last_end
    cursor.expect("FROM", "the columns")
    from_clause = read_from(cursor, windowed=True)
    if foreign:
        foreign.read_window_clause(cursor)
    where_at = cursor.index
    where = read_expression(cursor) if cursor.accept("WHERE") else None
    where_span = cursor.span_since(where_at) if where else None
    groups, all_keys = _read_groups(cursor) if cursor.accept("GROUP", "BY") else ([], False)
    groups_at = cursor.last_end
    having = read_expression(cursor) if cursor.accept("HAVING") else None
    order = read_order(cursor) if cursor.accept("ORDER", "BY") else []
    limit = _read_limit(cursor)
    if foreign:
        foreign.read_after_view(cursor, items, grouped=bool(groups or all_keys))
    outline = replace(
        cursor.outline(start), groups_at=groups_at, has_groups=bool(groups), where=where_span, items_end=items_end
    )
    return ViewStatement(
        cursor.source, name.start, name.text, schedule_ms, tuple(items), from_clause, where, tuple(groups),
        tuple(cursor.mistakes.errors), outline, where.spans if isinstance(where, Logic) else (), having=having,
        order=tuple(order), limit=limit, all_keys=all_keys, queries=queries,
    )  # fmt: skip


def read_item_text(source: SourceText, what: str = "column") -> SelectItem:
    """Read a text that is an expression with its name, if it has one."""

    def read(cursor: TokenCursor) -> SelectItem:
        item = _read_item(cursor)
        if cursor.next.kind != END:
            raise cursor.unexpected(f"an operator or the end of the {what}")
        return item

    return read_text(source, read, in_statement=True)


def _read_item(cursor: TokenCursor) -> SelectItem:
    """Read an expression, with a name if AS or a bare word follows."""
    star = read_star(cursor)
    if star is not None:
        return SelectItem(Star(star.at), None)
    start = cursor.index
    node = read_selected(cursor)
    text = cursor.text_since(start)
    if cursor.accept("AS"):
        return SelectItem(node, cursor.expect_name("a column").text, text)
    if cursor.next.kind in (WORD, QUOTED) and not cursor.sees("FROM"):
        alias = cursor.expect_name("a column")
        if cursor.sees_symbol("("):
            raise cursor.error(
                alias.start, f"a ',' is missing before {alias.text}(…)", write=f", {alias.text}", end=alias.end
            )
        return SelectItem(node, alias.text, text)
    return SelectItem(node, None, text)


def _read_schedule(cursor: TokenCursor) -> int:
    at = cursor.next.start
    cursor.accept("REFRESH")
    if not cursor.accept("EVERY"):
        raise cursor.error(at, "a schedule is a fixed duration", expected="SCHEDULE EVERY 1 HOUR")
    at = cursor.next.start
    ms = read_duration(cursor)
    if ms < SECOND_MS:
        raise cursor.error(at, "a schedule is at least 1 second", fix="for example SCHEDULE EVERY 1 HOUR")
    return ms


def _read_groups(cursor: TokenCursor) -> tuple[list[Node], bool]:
    """Read the expressions of GROUP BY, and return whether it is GROUP BY ALL."""
    if cursor.sees("ALL") and cursor.ahead(1).text != ",":
        cursor.take()
        return [], True
    groups = [_read_group(cursor)]
    while cursor.accept_symbol(","):
        groups.append(_read_group(cursor))
    if cursor.foreign:
        cursor.foreign.refuse_totals(cursor)
    return groups, False


def _read_group(cursor: TokenCursor) -> Node:
    if cursor.foreign is None:
        if cursor.next.upper in GROUPING_SETS and cursor.ahead(1).text in ("(", "SETS"):
            raise cursor.unexpected("an expression")
        return read_expression(cursor)
    cursor.foreign.refuse_sets(cursor)
    node = read_expression(cursor)
    cursor.foreign.read_name_of_group(cursor)
    return node


# What shapes answers


def read_order(cursor: TokenCursor) -> list[OrderItem]:
    """Read what follows ORDER BY."""
    items = [_read_order_item(cursor)]
    while cursor.accept_symbol(","):
        items.append(_read_order_item(cursor))
    return items


def read_order_text(source: SourceText) -> list[OrderItem]:
    """Read a text that is the items of ORDER BY and nothing else."""

    def read(cursor: TokenCursor) -> list[OrderItem]:
        items = read_order(cursor)
        if cursor.next.kind != END:
            raise cursor.unexpected("ASC, DESC, NULLS FIRST, NULLS LAST, a comma or the end")
        return items

    return read_text(source, read)


def _read_order_item(cursor: TokenCursor) -> OrderItem:
    if cursor.sees("ALL"):
        raise cursor.error(cursor.next.start, "ORDER BY ALL is not supported", fix="name the columns")
    node = read_expression(cursor)
    descending = cursor.accept("DESC")
    if not descending:
        cursor.accept("ASC")
    nulls_first = not descending
    if cursor.accept("NULLS"):
        if not cursor.sees("FIRST") and not cursor.sees("LAST"):
            raise cursor.unexpected("FIRST or LAST after NULLS")
        nulls_first = cursor.take().upper == "FIRST"
    return OrderItem(node, descending, nulls_first)


def _read_limit(cursor: TokenCursor) -> int | None:
    """Read LIMIT 10, or FETCH FIRST 10 ROWS ONLY of standard SQL."""
    start = cursor.index
    if cursor.accept("LIMIT"):
        limit = read_limit(cursor)
        if cursor.foreign and cursor.foreign.read_limit_by(cursor, start, limit):
            return None
        return limit
    if not (cursor.accept("FETCH", "FIRST") or cursor.accept("FETCH", "NEXT")):
        return None
    limit = read_limit(cursor) if cursor.next.kind == NUMBER else 1
    for word in ("ROWS", "ROW", "ONLY"):
        cursor.accept(word)
    return limit


def read_limit(cursor: TokenCursor) -> int | None:
    """Read what follows LIMIT; None for ALL."""
    if cursor.accept("ALL"):
        return None
    token = cursor.next
    if token.kind != NUMBER or not token.text.isdigit():
        raise cursor.unexpected(f"a number from 1 to {MOST_ROWS:,} after LIMIT")
    cursor.take()
    limit = check_limit(cursor.source, token.start, int(token.text))
    if cursor.next.upper == "OFFSET" or cursor.sees_symbol(","):
        raise cursor.error(
            cursor.next.start, "a view does not skip rows",
            fix="remove OFFSET; the next_cursor of an answer leads to the rows after it",
        )  # fmt: skip
    return limit


def check_limit(source: SourceText, at: int, limit: int) -> int:
    """Return the default number of rows of an answer, if it is in range."""
    if not 1 <= limit <= MOST_ROWS:
        raise source.error(at, "LIMIT is out of range", found=f"{limit:,}", expected=f"1 to {MOST_ROWS:,}")
    return limit
