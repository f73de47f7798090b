"""Reads TABLESAMPLE: a share in percent, by what rows are chosen, and the seed."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.define.definition_rules import located
from headrace.define.derived_rows import DerivedRows
from headrace.define.expression.check import check
from headrace.define.expression.parser import ExpressionParser
from headrace.errors import DefinitionError
from headrace.language.source_text import NUMBER, SourceText
from headrace.language.syntax import Node

EXAMPLE = "TABLESAMPLE (10 PERCENT)"


@dataclass(frozen=True)
class SampleClause:
    """TABLESAMPLE as it was written."""

    at: int
    percent: float
    keys: tuple[Node, ...] = ()
    seed: int | None = None
    alias: str | None = None

    def of(self, source: SourceText, rows: DerivedRows) -> DerivedRows:
        """The sample of these rows."""
        rows = rows.named(self.alias) if self.alias else rows
        keys = [check(source, key, rows.scope()) for key in self.keys]
        with located(source, self.at):
            return rows.sample(self.percent, keys, self.seed)


def read_sample(parser: ExpressionParser) -> SampleClause:
    """TABLESAMPLE [BERNOULLI] (10 [PERCENT]) [BY (key, …)] [REPEATABLE (seed)]."""
    at = parser.take().start
    if parser.sees("SYSTEM"):
        raise parser.error(
            parser.next.start, "SYSTEM would choose blocks of a file, and events are not in blocks",
            write="BERNOULLI", end=parser.next.end,
        )  # fmt: skip
    parser.accept("BERNOULLI")
    parser.expect_symbol("(", "TABLESAMPLE")
    percent = _percent(parser)
    keys: list[Node] = []
    seed = None
    while parser.sees("BY") or parser.sees("REPEATABLE"):
        if parser.take().upper == "BY":
            parser.expect_symbol("(", "BY")
            keys.append(parser.expression())
            while parser.accept_symbol(","):
                keys.append(parser.expression())
            parser.expect_symbol(")", "the keys of TABLESAMPLE")
        else:
            parser.expect_symbol("(", "REPEATABLE")
            seed = _seed(parser)
            parser.expect_symbol(")", "the seed")
    return SampleClause(at, percent, tuple(keys), seed)


def _percent(parser: ExpressionParser) -> float:
    if parser.sees("BUCKET"):
        raise _bucket(parser)
    token = parser.next
    if token.kind != NUMBER or not token.text[-1].isdigit():
        raise parser.unexpected(f"a number of percent, as in {EXAMPLE}")
    parser.take()
    if parser.next.upper in ("ROWS", "ROW"):
        raise parser.error(
            token.start, "a sample of a stream has no number of rows: a stream has no end",
            fix=f"write a share, as in {EXAMPLE}; the aggregate sample(x, {token.text}) keeps so many of a group",
        )  # fmt: skip
    parser.accept("PERCENT")
    parser.expect_symbol(")", "the share of TABLESAMPLE")
    return float(token.text)


def _bucket(parser: ExpressionParser) -> DefinitionError:
    """The error of Spark's BUCKET 1 OUT OF 10 ON key."""
    start = parser.take().start
    count, key = None, None
    while not parser.sees_symbol(")") and parser.next.kind != "end":
        token = parser.take()
        if token.upper == "OF" and parser.next.text.isdigit():
            count = int(parser.take().text)
        elif token.upper == "ON":
            key = parser.take().text
    share = f"{100 / count:.6g}" if count else "10"
    write = f"TABLESAMPLE ({share} PERCENT)" + (f" BY ({key})" if key else "")
    return parser.error(start, "BUCKET is not supported", fix=f"write {write}")


def _seed(parser: ExpressionParser) -> int:
    token = parser.next
    if token.kind != NUMBER or not token.text.isdigit():
        raise parser.unexpected("a whole number as the seed, as in REPEATABLE (7)")
    parser.take()
    return int(token.text)
