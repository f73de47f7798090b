"""Reads an expression with the precedence of Spark SQL; does not resolve fields or types."""

from __future__ import annotations

from dataclasses import replace

from headrace.language.durations import is_calendar
from headrace.language.literals import (
    duration_at,
    interval_text,
    number,
    parse_date,
    parse_timestamp,
    read_interval,
    read_type,
)
from headrace.language.source_text import END, NUMBER, QUOTED, STRING, WORD, SourceText, Token
from headrace.language.standard_forms import (
    FORMS,
    JSON_ARROWS,
    JSON_TYPES,
    Readers,
    as_json,
    between_symmetric,
    json_arrow,
    json_as_text,
    read_like,
)
from headrace.language.syntax import (
    Call,
    Case,
    Cast,
    Interval,
    Item,
    Literal,
    Logic,
    Name,
    Node,
    Operation,
    Part,
    Star,
    TableQuery,
    Test,
    WrittenCall,
)
from headrace.language.token_cursor import RESERVED, TokenCursor, read_text
from headrace.types import BOOLEAN, DATE, TIMESTAMP
from headrace.types import STRING as STRING_TYPE

COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "<=>"}
DEEPEST = 40  # nested parentheses and calls
WINDOWS = ("window", "tumble", "hop", "cumulate", "time_bucket", "date_bin")
JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "LATERAL", "ANTI", "SEMI", "ARRAY", "ASOF")
# Words that end an item of FROM, where another one would be its alias.
AFTER_ITEM = frozenset((
    "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "SORT", "OFFSET", "FETCH", "UNION", "EXCEPT", "INTERSECT", "QUALIFY",
    "ON", "USING", "TABLESAMPLE", "FOR", "WITH", "PARTITION", *JOINS,
    "WINDOW", "EMIT", "FINAL", "PREWHERE", "SAMPLE",  # of other systems
))  # fmt: skip


def parse_tree(source: SourceText) -> Node:
    """Return the tree of a text that is one expression."""
    return read_text(source, _read_complete)


def _read_complete(cursor: TokenCursor) -> Node:
    node = read_expression(cursor)
    if cursor.next.kind != END:
        raise cursor.unexpected("an operator or the end of the expression")
    return node


def read_expression(cursor: TokenCursor) -> Node:
    """Read any expression: the chain of OR."""
    start = cursor.index
    cursor.depth += 1
    try:
        if cursor.depth > DEEPEST:
            raise RecursionError
        return _spanned(cursor, _chain(cursor, "OR"), start)
    except RecursionError:
        raise cursor.error(cursor.next.start, "the expression is nested too deeply", fix="split it") from None
    finally:
        cursor.depth -= 1


def _spanned(cursor: TokenCursor, node: Node, start: int) -> Node:
    return node if node.span else replace(node, span=cursor.span_since(start))


def _chain(cursor: TokenCursor, op: str) -> Node:
    start = cursor.index
    first = _chain(cursor, "AND") if op == "OR" else _negation(cursor)
    args, at, spans = _flatten(op, first), cursor.next.start, [cursor.span_since(start)]
    while cursor.accept(op):
        start = cursor.index
        args += _flatten(op, _chain(cursor, "AND") if op == "OR" else _negation(cursor))
        spans.append(cursor.span_since(start))
    return Logic(at, op, tuple(args), tuple(spans)) if len(args) > 1 else first


def _negation(cursor: TokenCursor) -> Node:
    at = cursor.next.start
    negations = 0
    while cursor.accept("NOT") or cursor.accept_symbol("!"):
        negations += 1
    node = _predicate(cursor)
    for _ in range(negations):
        node = _negate(node, at)
    return node


def _predicate(cursor: TokenCursor) -> Node:
    left = _comparison(cursor)
    at = cursor.next.start
    if cursor.accept("IS"):
        return _is(cursor, left, at)
    if cursor.sees_symbol("~", "~*", "!~", "!~*"):
        return _regex(cursor, left)
    negated = cursor.accept("NOT")
    if cursor.accept("IN"):
        return _in(cursor, left, negated, at)
    if cursor.accept("BETWEEN"):
        symmetric = not cursor.accept("ASYMMETRIC") and cursor.accept("SYMMETRIC")
        low = _comparison(cursor)
        cursor.expect("AND", "the lower bound of BETWEEN")
        if symmetric:
            return between_symmetric(at, left, low, _comparison(cursor), negated)
        return Test(at, "BETWEEN", (left, low, _comparison(cursor)), negated)
    if cursor.sees("SIMILAR", "TO"):
        raise cursor.error(cursor.next.start, "SIMILAR TO is not supported", fix="write RLIKE and a regular expression")
    for op in ("LIKE", "ILIKE"):
        if cursor.accept(op):
            return read_like(cursor, _READERS, op, left, at, negated)
    if cursor.accept("RLIKE") or cursor.accept("REGEXP"):
        return Test(at, "RLIKE", (left, _comparison(cursor)), negated)
    if negated:
        raise cursor.unexpected("IN, BETWEEN, LIKE or RLIKE after NOT")
    return left


def _is(cursor: TokenCursor, left: Node, at: int) -> Node:
    negated = cursor.accept("NOT")
    if cursor.accept("DISTINCT", "FROM"):
        same = Operation(at, "<=>", (left, _comparison(cursor)))
        return same if negated else Operation(at, "NOT", (same,))
    for what in ("NULL", "TRUE", "FALSE"):
        if cursor.accept(what):
            return Test(at, f"IS {what}", (left,), negated)
    if cursor.accept("UNKNOWN"):
        return Test(at, "IS NULL", (left,), negated)
    if cursor.next.kind in (STRING, NUMBER):
        equals = "<>" if negated else "="
        message = "IS compares with NULL, TRUE and FALSE only"
        raise cursor.error(at, message, write=equals, span=(at, cursor.last_end))
    raise cursor.unexpected("NULL, TRUE, FALSE or DISTINCT FROM after IS")


def _regex(cursor: TokenCursor, left: Node) -> Node:
    """Read text ~ 'pattern', as in PostgreSQL: RLIKE; with * it ignores the case of letters."""
    operator, pattern = cursor.take(), _comparison(cursor)
    if operator.text.endswith("*") and isinstance(pattern, Literal) and pattern.type == STRING_TYPE:
        pattern = Literal(pattern.at, f"(?i){pattern.text}", STRING_TYPE)
    return Test(operator.start, "RLIKE", (left, pattern), operator.text.startswith("!"))


def _in(cursor: TokenCursor, left: Node, negated: bool, at: int) -> Node:
    cursor.expect_symbol("(", "IN")
    if cursor.sees("SELECT"):
        return _read_table_query(cursor, left, negated, at)
    items = read_arguments(cursor, "the list of IN")[0]
    if not items:
        raise cursor.error(at, "the list of IN is empty", fix="give it at least one value")
    return Test(at, "IN", (left, *items), negated)


def _comparison(cursor: TokenCursor) -> Node:
    left = read_operand(cursor)
    while cursor.next.text in COMPARISONS and cursor.sees_symbol(cursor.next.text):
        token = cursor.take()
        left = Operation(token.start, COMPARISONS[token.text], (left, read_operand(cursor)))
    return left


def read_operand(cursor: TokenCursor) -> Node:
    """Read an expression without comparisons and conditions, unless they are in parentheses."""
    start = cursor.index
    left = _product(cursor)
    while cursor.sees_symbol("+", "-", "||"):
        token = cursor.take()
        right = _product(cursor)
        if token.text != "||":
            left = Operation(token.start, token.text, (left, right))
        elif isinstance(left, Operation) and left.op == "||":
            left = Operation(left.at, "||", (*left.args, right))
        else:
            left = Operation(token.start, "||", (left, right))
    return _spanned(cursor, left, start)


def _product(cursor: TokenCursor) -> Node:
    left = _signed(cursor)
    while cursor.sees_symbol("*", "/", "%") or cursor.sees("DIV"):
        token = cursor.take()
        left = Operation(token.start, token.upper or token.text, (left, _signed(cursor)))
    return left


def _signed(cursor: TokenCursor) -> Node:
    if cursor.accept_symbol("+"):
        return _signed(cursor)
    if not cursor.sees_symbol("-"):
        return _cast_suffix(cursor)
    at = cursor.take().start
    if cursor.next.kind == NUMBER and not (cursor.ahead(1).kind == "symbol" and cursor.ahead(1).text == "::"):
        return _number(cursor, cursor.take(), at, negative=True)
    return Operation(at, "-", (_signed(cursor),))


def _cast_suffix(cursor: TokenCursor) -> Node:
    start, node = cursor.index, _primary(cursor)
    while cursor.sees_symbol("::", ".", "[", *JSON_ARROWS):
        if cursor.sees_symbol(*JSON_ARROWS):
            node = json_arrow(cursor, node, start)
            continue
        token = cursor.take()
        if token.text == "::" and cursor.sees("INTERVAL") and isinstance(node, Literal):
            cursor.take()
            node = Interval(node.at, duration_at(cursor, node.text, node.at))
        elif token.text == "::" and cursor.next.upper in JSON_TYPES:
            cursor.take()
            node = as_json(cursor, node, start)
        elif token.text == "::":
            node = Cast(token.start, json_as_text(node), read_type(cursor), "CAST")
        elif token.text == ".":
            node = Part(node.at, node, _part(cursor).text)
        else:
            node = Item(node.at, node, read_expression(cursor))
            cursor.expect_symbol("]", "the index")
    while cursor.accept("AT", "TIME", "ZONE"):
        node = Call(node.at, "from_utc_timestamp", (node, _primary(cursor)))
    return _spanned(cursor, node, start)


def _part(cursor: TokenCursor) -> Token:
    return cursor.take() if cursor.next.kind == WORD else cursor.expect_name("a field")  # any word, as in window.end


def _primary(cursor: TokenCursor) -> Node:
    token = cursor.next
    if token.kind == NUMBER:
        return _number(cursor, cursor.take(), token.start, negative=False)
    if token.kind == STRING:
        cursor.take()
        return Literal(token.start, token.text, STRING_TYPE)
    if cursor.accept_symbol("("):
        if cursor.sees("SELECT"):
            raise cursor.error(token.start, "a query inside an expression is not supported", fix="leave it out")
        node = read_expression(cursor)
        if cursor.sees_symbol(","):
            raise cursor.error(
                token.start, "a list of values in parentheses is not a value",
                fix="compare each: a = b AND c = d; with a table, EXISTS (SELECT 1 FROM t WHERE t.a = b AND …)",
            )  # fmt: skip
        cursor.expect_symbol(")", "the expression in parentheses")
        return node
    if cursor.accept_symbol("*"):
        return Star(token.start)
    if token.kind == QUOTED or token.kind == WORD:
        return _word(cursor, token)
    raise cursor.unexpected("a field, a constant or a function")


def _number(cursor: TokenCursor, token: Token, at: int, *, negative: bool) -> Node:
    literal = number(token.text, negative)
    if isinstance(literal, str):
        raise cursor.error(token.start, literal)
    return Literal(at, *literal)


def _word(cursor: TokenCursor, token: Token) -> Node:
    after = cursor.ahead(1)
    calls = after.kind == "symbol" and after.text == "("
    match token.upper:
        case "EXISTS" if calls and cursor.ahead(2).upper == "SELECT":
            cursor.take()
            cursor.take()
            return _read_table_query(cursor, None, False, token.start)
        case "CASE":
            return _case(cursor)
        case "CAST" | "TRY_CAST" | "SAFE_CAST" if calls:
            return _cast(cursor)
        case "NULL":
            return Literal(cursor.take().start, "NULL", None)
        case "TRUE" | "FALSE":
            return Literal(cursor.take().start, token.upper, BOOLEAN)
        case "DATE" | "TIMESTAMP" | "TIMESTAMPTZ" | "TIMESTAMP_LTZ" if after.kind == STRING:
            return _time_literal(cursor)
        case "INTERVAL" if after.kind in (STRING, NUMBER):
            cursor.take()
            return _interval(cursor, token.start)
    if calls and token.kind == WORD and (token.upper not in RESERVED):
        form = FORMS.get(token.upper)
        return (form(cursor, _READERS) if form else None) or read_call(cursor)
    if token.kind == WORD and token.upper == "ARRAY" and after.kind == "symbol" and after.text == "[":
        cursor.take()
        cursor.take()
        return Call(token.start, "array", tuple(read_arguments(cursor, "the elements of ARRAY[…]", end="]")[0]))
    name = cursor.expect_name("a field")
    if cursor.accept_symbol("."):
        return Name(name.start, _part(cursor).text, of=name.text)
    return Name(name.start, name.text)


def _interval(cursor: TokenCursor, at: int) -> Node:
    return Interval(at, read_interval(cursor))


def _time_literal(cursor: TokenCursor) -> Node:
    kind, text = cursor.take(), cursor.take()
    if kind.upper == "DATE":
        value, type_, form = parse_date(text.text), DATE, "DATE '2026-01-31'"
    else:
        value, type_, form = parse_timestamp(text.text), TIMESTAMP, "TIMESTAMP '2026-01-31 12:00:00'"
    if value is None:
        raise cursor.error(text.start, f"'{text.text}' is not a {kind.upper}", expected=f"for example {form}")
    return Literal(kind.start, value, type_)


def _cast(cursor: TokenCursor) -> Node:
    start, function = cursor.index, cursor.take()
    cursor.take()
    value = read_expression(cursor)
    cursor.expect("AS", f"the value of {function.upper}")
    if cursor.next.upper in JSON_TYPES and function.upper == "CAST":
        cursor.take()
        cursor.expect_symbol(")", "the type of CAST")
        return as_json(cursor, value, start)
    to = read_type(cursor)
    cursor.expect_symbol(")", f"the type of {function.upper}")
    return Cast(function.start, json_as_text(value), to, function.upper.replace("SAFE", "TRY"))


def _case(cursor: TokenCursor) -> Node:
    at = cursor.take().start
    subject = None if cursor.sees("WHEN") else read_expression(cursor)
    whens: list[tuple[Node, Node]] = []
    while cursor.accept("WHEN"):
        when = read_expression(cursor)
        condition = Operation(when.at, "=", (subject, when)) if subject else when
        cursor.expect("THEN", "the condition of WHEN")
        whens.append((condition, read_expression(cursor)))
    if not whens:
        raise cursor.unexpected("WHEN after CASE")
    otherwise = read_expression(cursor) if cursor.accept("ELSE") else None
    cursor.expect("END", "CASE … WHEN … THEN …")
    return Case(at, tuple(whens), otherwise)


def read_call(cursor: TokenCursor) -> Call:
    """Read a call: its arguments, with DISTINCT, and FILTER (WHERE …)."""
    name = cursor.take()
    cursor.take()
    distinct = cursor.accept("DISTINCT")
    args, written = read_arguments(cursor, f"the arguments of {name.text}", of=name)
    parametric = cursor.foreign is not None and cursor.foreign.read_more_arguments(cursor, name, args, written)
    where, filter_ = None, cursor.index
    if cursor.sees("FILTER") and cursor.ahead(1).text == "(":
        cursor.take()
        cursor.take()
        cursor.expect("WHERE", "FILTER (")
        where = read_expression(cursor)
        cursor.expect_symbol(")", "the condition of FILTER")
    over = None
    if cursor.sees("OVER"):
        if cursor.foreign is None:
            raise cursor.unexpected("an operator or the end of the expression")
        over = cursor.foreign.read_over(cursor, name.text)
    filter_text = cursor.text_since(filter_) if where else ""
    as_written = WrittenCall(cursor.last_end, tuple(written), filter_text, parametric, over)
    return Call(name.start, name.text, tuple(args), distinct, where, as_written)


def read_arguments(
    cursor: TokenCursor, what: str, *, end: str = ")", of: Token | None = None
) -> tuple[list[Node], list[str]]:
    """Read expressions up to the closing parenthesis or bracket, and how each was written; `of` is the name called."""
    items: list[Node] = []
    written: list[str] = []
    if cursor.accept_symbol(end):
        return items, written
    read = read_window_argument if of is not None and of.text.lower() in WINDOWS else read_expression
    while not items or cursor.accept_symbol(","):
        start = cursor.index
        items.append(read(cursor))
        written.append(cursor.text_since(start))
    if of is not None and cursor.foreign is not None:
        cursor.foreign.read_order_of_arguments(cursor, of, written)
    cursor.expect_symbol(end, what)
    return items, written


def read_window_argument(cursor: TokenCursor) -> Node:
    """Read an argument of a window, where months and years are spans of time as well."""
    start = cursor.index
    if cursor.sees("INTERVAL") and cursor.ahead(1).kind in (STRING, NUMBER):
        at = cursor.take().start
        text, _ = interval_text(cursor)
        if is_calendar(text) and cursor.sees_symbol(",", ")"):
            return Interval(at, 0, text, span=cursor.span_since(start))
        cursor.reset(start)
    return read_expression(cursor)


def _read_table_query(cursor: TokenCursor, operand: Node | None, negated: bool, at: int) -> Node:
    """Read the SELECT of IN or EXISTS, and the parenthesis after it; only conditions of statements have one."""
    if not cursor.in_statement:
        raise cursor.error(cursor.next.start, "a query inside an expression is not supported", fix="list the values")
    cursor.take()
    column: str | None = None
    if operand is None:
        read_expression(cursor)
    else:
        selected = read_expression(cursor)
        if not isinstance(selected, Name):
            raise cursor.error(selected.at, "IN (SELECT …) selects one column, the primary key of a table")
        column = selected.name
    cursor.expect("FROM", "the column" if operand else "SELECT 1")
    name = cursor.expect_name("a table")
    alias, _ = read_alias(cursor, "the table")
    where = read_expression(cursor) if cursor.accept("WHERE") else None
    cursor.expect_symbol(")", "the query")
    return TableQuery(at, operand, name.text, name.start, alias, column, where, negated)


def read_alias(cursor: TokenCursor, of: str) -> tuple[str | None, tuple[str, ...]]:
    """Read [AS] t and [AS] t(a, b)."""
    if not (cursor.accept("AS") or (cursor.next.kind in (WORD, QUOTED) and cursor.next.upper not in AFTER_ITEM)):
        return None, ()
    alias = cursor.expect_name(f"the alias of {of}").text
    return alias, read_names(cursor, "the alias") if cursor.sees_symbol("(") else ()


def read_names(cursor: TokenCursor, after: str) -> tuple[str, ...]:
    """Read (a, b)."""
    cursor.expect_symbol("(", after)
    names: list[str] = []
    while not names or cursor.accept_symbol(","):
        names.append(cursor.expect_name("a column").text)
    cursor.expect_symbol(")", "the names of the columns")
    return tuple(names)


def _flatten(op: str, node: Node) -> list[Node]:
    return list(node.args) if isinstance(node, Logic) and node.op == op else [node]


def _negate(node: Node, at: int) -> Node:
    if isinstance(node, Test):
        return Test(node.at, node.op, node.args, not node.negated)
    if isinstance(node, TableQuery):
        return replace(node, negated=not node.negated)
    return Operation(at, "NOT", (node,))


_READERS = Readers(read_expression, read_operand)
