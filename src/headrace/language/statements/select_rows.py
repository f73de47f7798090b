"""Reads row-wise queries and FROM: streams, subqueries, WITH, joins, LATERAL VIEW, UNNEST, samples, UNION ALL.

What is read is a tree, as it was written; rows are made of it when the streams are known.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.errors import DefinitionError
from headrace.language.expressions import (
    AFTER_ITEM,
    JOINS,
    read_alias,
    read_call,
    read_expression,
    read_names,
    read_operand,
    read_window_argument,
)
from headrace.language.source_text import END, NUMBER, QUOTED, WORD, Token
from headrace.language.syntax import (
    Call,
    ExplodeStep,
    FromClause,
    FromItem,
    FromStep,
    JoinItem,
    JoinKind,
    Node,
    RowItem,
    RowQuery,
    RowSelect,
    SampleClause,
    StarItem,
    walk,
)
from headrace.language.token_cursor import TokenCursor

GENERATORS = ("explode", "explode_outer", "posexplode", "posexplode_outer", "unnest", "arrayjoin")
WINDOW_TABLES = {  # arguments after the time, by name or in order
    "TUMBLE": ("SIZE", "OFFSET"),
    "HOP": ("SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("STEP", "SIZE", "OFFSET"),
    "SESSION": ("GAP",),
}
JOIN_FORM = "JOIN users u ON c.user_id = u.id"
SAMPLE_FORM = "TABLESAMPLE (10 PERCENT)"
_GENERATOR_FORM = "LATERAL VIEW explode(items) t AS i"


# Queries


def read_with(cursor: TokenCursor) -> tuple[tuple[FromItem, RowQuery], ...]:
    """Read WITH a AS (…), b AS (…), if it is there."""
    if not cursor.accept("WITH"):
        return ()
    if cursor.sees("RECURSIVE"):
        raise cursor.error(cursor.next.start, "WITH RECURSIVE is not supported", fix="remove RECURSIVE")
    queries: list[tuple[FromItem, RowQuery]] = []
    while not queries or cursor.accept_symbol(","):
        name = cursor.expect_name("a query")
        if any(name.text.lower() == (item.name or "").lower() for item, _ in queries):
            raise cursor.error(name.start, f"WITH has two queries named '{name.text}'", fix="rename one")
        columns = read_names(cursor, "the columns") if cursor.sees_symbol("(") else ()
        cursor.expect("AS", f"WITH {name.text}")
        queries.append((FromItem(name.start, name.text, columns=columns), _read_parenthesized(cursor, "AS")))
    return tuple(queries)


def read_query(cursor: TokenCursor, created: Token | None = None) -> RowQuery:
    """Read a row-wise query: WITH, SELECT, UNION ALL; `created` is the word STREAM of what it defines."""
    at, queries = cursor.next.start, read_with(cursor)
    parts = [_read_part(cursor, created)]
    while cursor.sees("UNION") or (cursor.foreign and cursor.foreign.refuse_set_operation(cursor)):
        cursor.take()
        if not cursor.accept("ALL"):
            raise cursor.error(
                cursor.tokens[cursor.index - 1].start,
                "UNION removes repeated rows, for which all of them would have to be kept",
                write="UNION ALL", end=cursor.last_end,
            )  # fmt: skip
        parts.append(_read_part(cursor, created))
    if cursor.foreign:
        cursor.foreign.refuse_clause_of_rows(cursor)
    return RowQuery(at, tuple(parts), queries)


def _read_part(cursor: TokenCursor, created: Token | None) -> RowSelect | RowQuery:
    return _read_parenthesized(cursor, "the query") if cursor.sees_symbol("(") else _read_select(cursor, created)


def _read_parenthesized(cursor: TokenCursor, after: str) -> RowQuery:
    cursor.expect_symbol("(", after)
    query = read_query(cursor)
    cursor.expect_symbol(")", "the query")
    return query


def _read_select(cursor: TokenCursor, created: Token | None) -> RowSelect:
    if not cursor.sees("SELECT"):
        raise cursor.unexpected("SELECT")
    at = cursor.take().start
    if cursor.foreign:
        cursor.foreign.refuse_distinct_rows(cursor)
    cursor.accept("ALL")
    items = [_read_item(cursor)]
    while cursor.accept_symbol(","):
        items.append(_read_item(cursor))
    cursor.expect("FROM", "the columns")
    source = read_from(cursor)
    if cursor.foreign:
        cursor.foreign.read_final(cursor)
    where = read_expression(cursor) if cursor.accept("WHERE") else None
    nodes = [item.node for item in items if isinstance(item, RowItem)] + ([where] if where else [])
    if cursor.foreign:
        cursor.foreign.refuse_aggregates(cursor, nodes, created)
    elif any(contains_aggregate(cursor, node) for node in nodes):
        raise cursor.unexpected("rows of events")
    return RowSelect(at, tuple(items), source, where)


def _read_item(cursor: TokenCursor) -> StarItem | RowItem:
    star = read_star(cursor)
    if star is not None:
        return star
    node = read_selected(cursor)
    if cursor.accept("AS") and cursor.sees_symbol("("):
        return RowItem(node, read_names(cursor, "AS"))
    if cursor.tokens[cursor.index - 1].upper == "AS" or (
        cursor.next.kind in (WORD, QUOTED) and not cursor.sees("FROM")
    ):
        return RowItem(node, (cursor.expect_name("a column").text,))
    return RowItem(node)


def contains_aggregate(cursor: TokenCursor, node: Node) -> bool:
    """Return True if an aggregate is somewhere in the expression."""
    return any(isinstance(part, Call) and cursor.is_aggregate(part.name) for part in walk(node))


def read_selected(cursor: TokenCursor) -> Node:
    """Read an expression of SELECT, where other systems have OVER."""
    return cursor.foreign.read_selected(cursor) if cursor.foreign else read_expression(cursor)


def read_star(cursor: TokenCursor) -> StarItem | None:
    """Read `*` or `t.*`, with EXCEPT and REPLACE; None if the next item is another."""
    if cursor.sees_symbol("*"):
        return _read_star(cursor, cursor.take().start, None)
    symbols = [(token.kind, token.text) for token in (cursor.ahead(1), cursor.ahead(2))]
    if cursor.next.kind in (WORD, QUOTED) and symbols == [("symbol", "."), ("symbol", "*")]:
        of = cursor.take()
        cursor.take()
        cursor.take()
        return _read_star(cursor, of.start, of.text)
    return None


def _read_star(cursor: TokenCursor, at: int, of: str | None) -> StarItem:
    without: list[tuple[str, int]] = []
    replaced: list[tuple[str, Node]] = []
    if cursor.accept("EXCEPT") or cursor.accept("EXCLUDE"):
        in_parentheses = cursor.accept_symbol("(")
        while not without or (in_parentheses and cursor.accept_symbol(",")):
            token = cursor.expect_name("a column")
            without.append((token.text, token.start))
        if in_parentheses:
            cursor.expect_symbol(")", "the columns to leave out")
    if cursor.accept("REPLACE"):
        cursor.expect_symbol("(", "REPLACE")
        while not replaced or cursor.accept_symbol(","):
            node = read_expression(cursor)
            cursor.expect("AS", "the new value")
            replaced.append((cursor.expect_name("a column").text, node))
        cursor.expect_symbol(")", "the columns to replace")
    return StarItem(at, of, tuple(without), tuple(replaced))


# FROM


def read_from(cursor: TokenCursor, *, windowed: bool = False) -> FromClause:
    """Read what follows FROM: an item, and what is joined to it; `windowed` allows TUMBLE(TABLE x, …)."""
    item = _read_from_item(cursor, windowed)
    steps: list[FromStep] = []
    while step := _read_step(cursor):
        steps.append(step)
    return FromClause(item, tuple(steps))


def _read_from_item(cursor: TokenCursor, windowed: bool) -> FromItem:
    """Read a stream, a query of WITH, or a query in parentheses, with its alias."""
    at = cursor.next.start
    wrapped = cursor.next.upper in ("TABLE", "STREAM") and cursor.ahead(1).text == "("  # STREAM(t) of Spark
    if wrapped:
        cursor.take()
        cursor.take()
    item = _read_source(cursor, windowed)
    if wrapped:
        cursor.expect_symbol(")", "TABLE(…")
    if cursor.foreign:
        cursor.foreign.refuse_watermark(cursor)
    alias, columns = read_alias(cursor, "the stream")
    return replace(item, at=item.at if item.name else at, alias=alias, columns=columns)


def _read_source(cursor: TokenCursor, windowed: bool) -> FromItem:
    if cursor.sees_symbol("("):
        return FromItem(cursor.next.start, None, _read_parenthesized(cursor, "FROM"))
    if cursor.foreign:
        cursor.foreign.refuse_source(cursor, windowed)
    elif cursor.sees("STREAM") and cursor.ahead(2).text == "(":
        raise cursor.unexpected("a stream")
    if windowed and cursor.next.upper in WINDOW_TABLES and cursor.ahead(1).text == "(":
        return _read_window_table(cursor)
    token = cursor.expect_name("a stream")
    if cursor.foreign:
        cursor.foreign.refuse_after_source(cursor, token)
    return FromItem(token.start, token.text)


def _read_window_table(cursor: TokenCursor) -> FromItem:
    """Read TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL …), its arguments by place or by name, as in Flink."""
    call = cursor.take()
    cursor.take()
    stream: FromItem | None = None
    values: list[Node] = []
    by_name: dict[str, Node] = {}
    while True:
        name = _read_argument_name(cursor, call, by_name)
        if name == "DATA" or (name is None and stream is None):
            cursor.accept("TABLE")
            stream = _read_source(cursor, windowed=False)
            if call.upper == "SESSION" and cursor.accept("PARTITION", "BY"):
                stream = replace(stream, partition=_read_partition(cursor))
        elif name is None:
            values.append(_read_descriptor(cursor))
        else:
            by_name[name] = _read_descriptor(cursor)
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")", f"{call.upper}(…")
    order = ["TIMECOL", *WINDOW_TABLES[call.upper]]
    args = [*values, *(by_name[name] for name in order[len(values) :] if name in by_name)]
    if stream is None:
        raise cursor.error(call.start, f"{call.upper} names no stream", fix="write DATA => TABLE clicks")
    return replace(stream, window=Call(call.start, call.text, tuple(args)))


def _read_partition(cursor: TokenCursor) -> tuple[Node, ...]:
    """Read the keys of SESSION(TABLE clicks PARTITION BY user_id, DESCRIPTOR(at), …), in parentheses or not."""
    bracketed = cursor.accept_symbol("(")
    keys = [read_expression(cursor)]
    while cursor.sees_symbol(",") and (bracketed or not _begins_argument(cursor)):
        cursor.take()
        keys.append(read_expression(cursor))
    if bracketed:
        cursor.expect_symbol(")", "PARTITION BY (…")
    return tuple(keys)


def _begins_argument(cursor: TokenCursor) -> bool:
    return cursor.ahead(1).upper == "DESCRIPTOR" or cursor.ahead(2).text == "=>"


def _read_argument_name(cursor: TokenCursor, call: Token, by_name: dict[str, Node]) -> str | None:
    if cursor.ahead(1).text != "=>":
        return None
    token = cursor.take()
    cursor.take()
    names = ("DATA", "TIMECOL", *WINDOW_TABLES[call.upper])
    if token.upper not in names or token.upper in by_name:
        raise cursor.error(
            token.start, f"{call.upper} has no further argument '{token.text}'", expected=", ".join(names)
        )
    return token.upper


def _read_descriptor(cursor: TokenCursor) -> Node:
    """Read an argument of a window, where DESCRIPTOR(x) is x."""
    if not cursor.accept("DESCRIPTOR"):
        return read_window_argument(cursor)
    cursor.expect_symbol("(", "DESCRIPTOR")
    column = read_expression(cursor)
    cursor.expect_symbol(")", "DESCRIPTOR(…")
    return column


def _read_step(cursor: TokenCursor) -> FromStep | None:
    """Read what is joined to the rows of FROM; None at the end of FROM."""
    start = cursor.index
    at = cursor.next.start
    if cursor.accept("LATERAL", "VIEW"):
        return _read_lateral_view(cursor, at)
    outer = cursor.sees("LEFT")
    if cursor.accept("LEFT", "ARRAY", "JOIN") or cursor.accept("ARRAY", "JOIN"):  # of ClickHouse
        values = read_expression(cursor)
        cursor.expect("AS", "ARRAY JOIN x")
        return ExplodeStep(at, values, outer, None, (cursor.expect_name("a column").text,))
    joins = (("CROSS", "JOIN"), ("LEFT", "JOIN"), ("LEFT", "OUTER", "JOIN"))
    if cursor.accept_symbol(",") or any(cursor.accept(*words) for words in joins):
        cursor.accept("LATERAL")
        if cursor.next.text.lower() in GENERATORS and cursor.ahead(1).text == "(":
            return _read_unnest(cursor, at, outer)
        cursor.reset(start)
    if cursor.next.upper in JOINS or cursor.sees_symbol(","):
        return _read_join(cursor)
    if not cursor.sees("TABLESAMPLE"):
        return None
    clause = read_sample(cursor)
    alias, _ = read_alias(cursor, "the sample")
    return replace(clause, alias=alias)


# Joins


def _read_join(cursor: TokenCursor) -> JoinItem:
    """Read [INNER | LEFT [OUTER | SEMI | ANTI]] JOIN t [FOR SYSTEM_TIME AS OF x] [[AS] u] ON …"""
    join = cursor.next
    if cursor.foreign:
        cursor.foreign.refuse_join(cursor)
    is_of_time = cursor.foreign is not None and cursor.accept("ASOF")
    kind: JoinKind = "inner"
    if cursor.accept("LEFT"):
        kind = "left"
        cursor.accept("OUTER")
    else:
        cursor.accept("INNER")
    if cursor.accept("SEMI"):
        kind = "semi"
    elif cursor.accept("ANTI"):
        kind = "anti"
    cursor.expect("JOIN", "the kind of the join")
    if cursor.sees_symbol("("):
        raise cursor.error(
            cursor.next.start, "a query cannot be joined",
            fix=f"join a table: {JOIN_FORM}, and filter with AND or WHERE",
        )  # fmt: skip
    name = cursor.expect_name("a table")
    as_of = _read_as_of(cursor)
    alias, columns = read_alias(cursor, "the table")
    if columns:
        raise cursor.error(name.start, "the columns of a joined table cannot be renamed here", fix="rename in SELECT")
    as_of = as_of or _read_as_of(cursor)
    item = JoinItem(name.start, name.text, kind, alias, as_of, name_end=name.end)
    if cursor.foreign:
        item = cursor.foreign.read_after_joined(cursor, item, join if is_of_time else None)
    if cursor.accept("USING"):
        return replace(item, using=read_names(cursor, "USING"))
    if not cursor.accept("ON"):
        raise cursor.unexpected(f"ON and the primary key, as in {JOIN_FORM}")
    return replace(item, on=read_expression(cursor))


def _read_as_of(cursor: TokenCursor) -> Node | None:
    if not cursor.accept("FOR"):
        return None
    if not (cursor.accept("SYSTEM_TIME") or cursor.accept("SYSTEM", "TIME")):
        raise cursor.unexpected("SYSTEM_TIME AS OF after FOR")
    cursor.expect("AS", "SYSTEM_TIME")
    cursor.expect("OF", "SYSTEM_TIME AS")
    return read_operand(cursor)


# Arrays


def is_generator(node: Node) -> bool:
    """Return True for a call of explode or one of its like."""
    return isinstance(node, Call) and node.name.lower() in GENERATORS


def _read_lateral_view(cursor: TokenCursor, at: int) -> ExplodeStep:
    outer = cursor.accept("OUTER")
    call = _read_generator(cursor)
    alias = None
    if cursor.next.kind in (WORD, QUOTED) and cursor.next.upper not in AFTER_ITEM and not cursor.sees("AS"):
        alias = cursor.expect_name("the alias of LATERAL VIEW").text
    names: list[str] = []
    if cursor.accept("AS"):
        while not names or cursor.accept_symbol(","):
            names.append(cursor.expect_name("a column").text)
    return _explode_step(at, call, outer, alias, names)


def _read_generator(cursor: TokenCursor) -> Call:
    at, name = cursor.next.start, cursor.next.text.lower()
    if name not in GENERATORS:
        fix = f"write {_GENERATOR_FORM}, and i.sku for a part"
        raise cursor.error(at, "LATERAL VIEW takes explode or posexplode", found=cursor.next.describe(), fix=fix)
    call = read_call(cursor)
    if len(call.args) != 1:
        raise cursor.error(at, f"{name} takes one array or map", found=str(len(call.args)))
    return call


def _explode_step(at: int, call: Call, outer: bool, alias: str | None, names: list[str]) -> ExplodeStep:
    name = call.name.lower()
    position = None
    if name.startswith("pos"):
        position = names.pop(0) if names else "pos"
    outer = outer or name.endswith("_outer")
    return ExplodeStep(at, call.args[0], outer, alias, tuple(names), position)


def _read_unnest(cursor: TokenCursor, at: int, outer: bool) -> ExplodeStep:
    """Read UNNEST(x) [WITH ORDINALITY] AS t(i, n), and UNNEST(x) AS i WITH OFFSET AS n of BigQuery."""
    call = _read_generator(cursor)
    ordinality = cursor.accept("WITH", "ORDINALITY")
    alias, columns = read_alias(cursor, "UNNEST")
    ordinality = cursor.accept("WITH", "ORDINALITY") or ordinality
    names, position = list(columns) or ([alias] if alias and call.name.lower() == "unnest" else []), None
    if ordinality:
        position = names.pop() if len(names) > 1 else "ordinality"
    elif cursor.accept("WITH", "OFFSET"):
        position = cursor.expect_name("the position").text if cursor.accept("AS") else "offset"
    if outer and not cursor.accept("ON", "TRUE"):
        raise cursor.unexpected("ON TRUE after LEFT JOIN UNNEST(…)")
    step = _explode_step(at, call, outer, alias, names)
    if position is None:
        return step
    return replace(step, position=position, first_position=1 if ordinality else 0)


# Samples


def read_sample(cursor: TokenCursor) -> SampleClause:
    """Read TABLESAMPLE [BERNOULLI] (10 [PERCENT]) [BY (key, …)] [REPEATABLE (seed)]."""
    at = cursor.take().start
    if cursor.sees("SYSTEM"):
        raise cursor.error(
            cursor.next.start, "SYSTEM would choose blocks of a file, and events are not in blocks",
            write="BERNOULLI", end=cursor.next.end,
        )  # fmt: skip
    cursor.accept("BERNOULLI")
    cursor.expect_symbol("(", "TABLESAMPLE")
    percent = _read_percent(cursor)
    keys: list[Node] = []
    seed = None
    while cursor.sees("BY") or cursor.sees("REPEATABLE"):
        if cursor.take().upper == "BY":
            cursor.expect_symbol("(", "BY")
            keys.append(read_expression(cursor))
            while cursor.accept_symbol(","):
                keys.append(read_expression(cursor))
            cursor.expect_symbol(")", "the keys of TABLESAMPLE")
        else:
            cursor.expect_symbol("(", "REPEATABLE")
            seed = _read_seed(cursor)
            cursor.expect_symbol(")", "the seed")
    return SampleClause(at, percent, tuple(keys), seed)


def _read_percent(cursor: TokenCursor) -> float:
    if cursor.sees("BUCKET"):
        raise _refuse_bucket(cursor)
    token = cursor.next
    if token.kind != NUMBER or not token.text[-1].isdigit():
        raise cursor.unexpected(f"a number of percent, as in {SAMPLE_FORM}")
    cursor.take()
    if cursor.next.upper in ("ROWS", "ROW"):
        raise cursor.error(
            token.start, "a sample of a stream has no number of rows: a stream has no end",
            fix=f"write a share, as in {SAMPLE_FORM}; the aggregate sample(x, {token.text}) keeps so many of a group",
        )  # fmt: skip
    cursor.accept("PERCENT")
    cursor.expect_symbol(")", "the share of TABLESAMPLE")
    return float(token.text)


def _refuse_bucket(cursor: TokenCursor) -> DefinitionError:
    """Return the error of BUCKET 1 OUT OF 10 ON key of Spark."""
    start = cursor.take().start
    count, key = None, None
    while not cursor.sees_symbol(")") and cursor.next.kind != END:
        token = cursor.take()
        if token.upper == "OF" and cursor.next.text.isdigit():
            count = int(cursor.take().text)
        elif token.upper == "ON":
            key = cursor.take().text
    share = f"{100 / count:.6g}" if count else "10"
    write = f"{SAMPLE_FORM.replace('10', share)}" + (f" BY ({key})" if key else "")
    return cursor.error(start, "BUCKET is not supported", fix=f"write {write}")


def _read_seed(cursor: TokenCursor) -> int:
    token = cursor.next
    if token.kind != NUMBER or not token.text.isdigit():
        raise cursor.unexpected("a whole number as the seed, as in REPEATABLE (7)")
    cursor.take()
    return int(token.text)
