"""Reads an expression with the precedence of Spark SQL; does not resolve fields or types."""

from __future__ import annotations

from dataclasses import replace

from headrace.define.expression.calls import CallParser
from headrace.define.expression.standard import (
    JSON_ARROWS,
    JSON_TYPES,
    as_json,
    between_symmetric,
    json_arrow,
    json_as_text,
    read_form,
    read_like,
)
from headrace.language.durations import is_calendar
from headrace.language.literals import number, parse_date, parse_timestamp
from headrace.language.source_text import NUMBER, QUOTED, STRING, WORD, Token
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
)
from headrace.language.token_cursor import RESERVED
from headrace.types import BOOLEAN, DATE, TIMESTAMP
from headrace.types import STRING as STRING_TYPE

COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "<=>"}
DEEPEST = 40  # nested parentheses and calls


class ExpressionParser(CallParser):
    """A reader that also reads expressions."""

    depth = 0

    def expression(self) -> Node:
        """Any expression: the chain of OR."""
        self.depth += 1
        try:
            if self.depth > DEEPEST:
                raise RecursionError
            start = self.index
            node = self._spanned(self._chain("OR"), start)
        except RecursionError:
            raise self.error(self.next.start, "the expression is nested too deeply", fix="split it") from None
        self.depth -= 1
        return node

    def _spanned(self, node: Node, start: int) -> Node:
        return node if node.span else replace(node, span=self.span_since(start))

    def _chain(self, op: str) -> Node:
        start = self.index
        first = self._chain("AND") if op == "OR" else self._negation()
        args, at, spans = _flatten(op, first), self.next.start, [self.span_since(start)]
        while self.accept(op):
            start = self.index
            args += _flatten(op, self._chain("AND") if op == "OR" else self._negation())
            spans.append(self.span_since(start))
        return Logic(at, op, tuple(args), tuple(spans)) if len(args) > 1 else first

    def _negation(self) -> Node:
        at = self.next.start
        negations = 0
        while self.accept("NOT") or self.accept_symbol("!"):
            negations += 1
        node = self._predicate()
        for _ in range(negations):
            node = _negate(node, at)
        return node

    def _predicate(self) -> Node:
        left = self._comparison()
        at = self.next.start
        if self.accept("IS"):
            return self._is(left, at)
        if self.sees_symbol("~", "~*", "!~", "!~*"):
            return self._regex(left)
        negated = self.accept("NOT")
        if self.accept("IN"):
            return self._in(left, negated, at)
        if self.accept("BETWEEN"):
            symmetric = not self.accept("ASYMMETRIC") and self.accept("SYMMETRIC")
            low = self._comparison()
            self.expect("AND", "the lower bound of BETWEEN")
            if symmetric:
                return between_symmetric(at, left, low, self._comparison(), negated)
            return Test(at, "BETWEEN", (left, low, self._comparison()), negated)
        if self.sees("SIMILAR", "TO"):
            raise self.error(self.next.start, "SIMILAR TO is not supported", fix="write RLIKE and a regular expression")
        for op in ("LIKE", "ILIKE"):
            if self.accept(op):
                return read_like(self, op, left, at, negated)
        if self.accept("RLIKE") or self.accept("REGEXP"):
            return Test(at, "RLIKE", (left, self._comparison()), negated)
        if negated:
            raise self.unexpected("IN, BETWEEN, LIKE or RLIKE after NOT")
        return left

    def _is(self, left: Node, at: int) -> Node:
        negated = self.accept("NOT")
        if self.accept("DISTINCT", "FROM"):
            same = Operation(at, "<=>", (left, self._comparison()))
            return same if negated else Operation(at, "NOT", (same,))
        for what in ("NULL", "TRUE", "FALSE"):
            if self.accept(what):
                return Test(at, f"IS {what}", (left,), negated)
        if self.accept("UNKNOWN"):
            return Test(at, "IS NULL", (left,), negated)
        if self.next.kind in (STRING, NUMBER):
            equals = "<>" if negated else "="
            message = "IS compares with NULL, TRUE and FALSE only"
            raise self.error(at, message, write=equals, span=(at, self.tokens[self.index - 1].end))
        raise self.unexpected("NULL, TRUE, FALSE or DISTINCT FROM after IS")

    def _regex(self, left: Node) -> Node:
        """Text ~ 'pattern', as in PostgreSQL: RLIKE; with * it ignores the case of letters."""
        operator, pattern = self.take(), self._comparison()
        if operator.text.endswith("*") and isinstance(pattern, Literal) and pattern.type == STRING_TYPE:
            pattern = Literal(pattern.at, f"(?i){pattern.text}", STRING_TYPE)
        return Test(operator.start, "RLIKE", (left, pattern), operator.text.startswith("!"))

    def _in(self, left: Node, negated: bool, at: int) -> Node:
        self.expect_symbol("(", "IN")
        if self.sees("SELECT"):
            return self.read_query_in(left, negated, at)
        items = self._list("the list of IN")
        if not items:
            raise self.error(at, "the list of IN is empty", fix="give it at least one value")
        return Test(at, "IN", (left, *items), negated)

    def read_query_in(self, operand: Node | None, negated: bool, at: int) -> Node:
        """The SELECT of IN or EXISTS. Only queries over rows have one."""
        raise self.error(self.next.start, "a query inside an expression is not supported", fix="list the values")

    def _comparison(self) -> Node:
        left = self.operand()
        while self.next.text in COMPARISONS and self.sees_symbol(self.next.text):
            token = self.take()
            left = Operation(token.start, COMPARISONS[token.text], (left, self.operand()))
        return left

    def operand(self) -> Node:
        """An expression without comparisons and conditions, unless they are in parentheses."""
        start = self.index
        left = self._product()
        while self.sees_symbol("+", "-", "||"):
            token = self.take()
            right = self._product()
            if token.text != "||":
                left = Operation(token.start, token.text, (left, right))
            elif isinstance(left, Operation) and left.op == "||":
                left = Operation(left.at, "||", (*left.args, right))
            else:
                left = Operation(token.start, "||", (left, right))
        return self._spanned(left, start)

    def _product(self) -> Node:
        left = self._signed()
        while self.sees_symbol("*", "/", "%") or self.sees("DIV"):
            token = self.take()
            left = Operation(token.start, token.upper or token.text, (left, self._signed()))
        return left

    def _signed(self) -> Node:
        if self.accept_symbol("+"):
            return self._signed()
        if not self.sees_symbol("-"):
            return self._cast_suffix()
        at = self.take().start
        if self.next.kind == NUMBER and not (self.ahead(1).kind == "symbol" and self.ahead(1).text == "::"):
            return self._number(self.take(), at, negative=True)
        return Operation(at, "-", (self._signed(),))

    def _cast_suffix(self) -> Node:
        start, node = self.index, self._primary()
        while self.sees_symbol("::", ".", "[", *JSON_ARROWS):
            if self.sees_symbol(*JSON_ARROWS):
                node = json_arrow(self, node, start)
                continue
            token = self.take()
            if token.text == "::" and self.sees("INTERVAL") and isinstance(node, Literal):
                self.take()
                node = Interval(node.at, self.duration(node.text, node.at))
            elif token.text == "::" and self.next.upper in JSON_TYPES:
                self.take()
                node = as_json(self, node, start)
            elif token.text == "::":
                node = Cast(token.start, json_as_text(node), self.read_type(), "CAST")
            elif token.text == ".":
                node = Part(node.at, node, self._part().text)
            else:
                node = Item(node.at, node, self.expression())
                self.expect_symbol("]", "the index")
        while self.accept("AT", "TIME", "ZONE"):
            node = Call(node.at, "from_utc_timestamp", (node, self._primary()))
        return self._spanned(node, start)

    def _part(self) -> Token:
        return self.take() if self.next.kind == WORD else self.expect_name("a field")  # any word, as in window.end

    def _primary(self) -> Node:
        token = self.next
        if token.kind == NUMBER:
            return self._number(self.take(), token.start, negative=False)
        if token.kind == STRING:
            self.take()
            return Literal(token.start, token.text, STRING_TYPE)
        if self.accept_symbol("("):
            if self.sees("SELECT"):
                raise self.error(token.start, "a query inside an expression is not supported", fix="leave it out")
            node = self.expression()
            if self.sees_symbol(","):
                raise self.error(
                    token.start, "a list of values in parentheses is not a value",
                    fix="compare each: a = b AND c = d; with a table, EXISTS (SELECT 1 FROM t WHERE t.a = b AND …)",
                )  # fmt: skip
            self.expect_symbol(")", "the expression in parentheses")
            return node
        if self.accept_symbol("*"):
            return Star(token.start)
        if token.kind == QUOTED or token.kind == WORD:
            return self._word(token)
        raise self.unexpected("a field, a constant or a function")

    def _number(self, token: Token, at: int, *, negative: bool) -> Node:
        literal = number(token.text, negative)
        if isinstance(literal, str):
            raise self.error(token.start, literal)
        return Literal(at, *literal)

    def _word(self, token: Token) -> Node:
        after = self.ahead(1)
        calls = after.kind == "symbol" and after.text == "("
        match token.upper:
            case "EXISTS" if calls and self.ahead(2).upper == "SELECT":
                self.take()
                self.take()
                return self.read_query_in(None, False, token.start)
            case "CASE":
                return self._case()
            case "CAST" | "TRY_CAST" | "SAFE_CAST" if calls:
                return self._cast()
            case "NULL":
                return Literal(self.take().start, "NULL", None)
            case "TRUE" | "FALSE":
                return Literal(self.take().start, token.upper, BOOLEAN)
            case "DATE" | "TIMESTAMP" | "TIMESTAMPTZ" | "TIMESTAMP_LTZ" if after.kind == STRING:
                return self._time_literal()
            case "INTERVAL" if after.kind in (STRING, NUMBER):
                self.take()
                return self._interval(token.start)
        if calls and token.kind == WORD and (token.upper not in RESERVED):
            return read_form(self) or self.read_call()
        if token.kind == WORD and token.upper == "ARRAY" and after.kind == "symbol" and after.text == "[":
            self.take()
            self.take()
            return Call(token.start, "array", tuple(self._arguments("the elements of ARRAY[…]", end="]")[0]))
        name = self.expect_name("a field")
        if self.accept_symbol("."):
            return Name(name.start, self._part().text, of=name.text)
        return Name(name.start, name.text)

    def _interval(self, at: int) -> Node:
        text, text_at = self.interval_text()
        if self.in_window and is_calendar(text):
            return Interval(at, 0, text)
        return Interval(at, self.duration(text, text_at))

    def _time_literal(self) -> Node:
        kind, text = self.take(), self.take()
        if kind.upper == "DATE":
            value, type_, form = parse_date(text.text), DATE, "DATE '2026-01-31'"
        else:
            value, type_, form = parse_timestamp(text.text), TIMESTAMP, "TIMESTAMP '2026-01-31 12:00:00'"
        if value is None:
            raise self.error(text.start, f"'{text.text}' is not a {kind.upper}", expected=f"for example {form}")
        return Literal(kind.start, value, type_)

    def _cast(self) -> Node:
        start, function = self.index, self.take()
        self.take()
        value = self.expression()
        self.expect("AS", f"the value of {function.upper}")
        if self.next.upper in JSON_TYPES and function.upper == "CAST":
            self.take()
            self.expect_symbol(")", "the type of CAST")
            return as_json(self, value, start)
        to = self.read_type()
        self.expect_symbol(")", f"the type of {function.upper}")
        return Cast(function.start, json_as_text(value), to, function.upper.replace("SAFE", "TRY"))

    def _case(self) -> Node:
        at = self.take().start
        subject = None if self.sees("WHEN") else self.expression()
        whens: list[tuple[Node, Node]] = []
        while self.accept("WHEN"):
            when = self.expression()
            condition = Operation(when.at, "=", (subject, when)) if subject else when
            self.expect("THEN", "the condition of WHEN")
            whens.append((condition, self.expression()))
        if not whens:
            raise self.unexpected("WHEN after CASE")
        otherwise = self.expression() if self.accept("ELSE") else None
        self.expect("END", "CASE … WHEN … THEN …")
        return Case(at, tuple(whens), otherwise)


def _flatten(op: str, node: Node) -> list[Node]:
    return list(node.args) if isinstance(node, Logic) and node.op == op else [node]


def _negate(node: Node, at: int) -> Node:
    if isinstance(node, Test):
        return Test(node.at, node.op, node.args, not node.negated)
    if isinstance(node, TableQuery):
        return replace(node, negated=not node.negated)
    return Operation(at, "NOT", (node,))
