"""A cursor over the tokens of a text, which is passed to the functions that read statements and expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, final

from headrace.errors import DefinitionError, nearest
from headrace.language.literals import DECIMALS, TYPES, read_type
from headrace.language.outline import Outline
from headrace.language.source_text import (
    END,
    QUOTED,
    SYMBOL,
    UNREADABLE,
    WORD,
    Mistakes,
    SourceText,
    Token,
    tokenize,
)
from headrace.lazy import later
from headrace.types import Type, decimal

if TYPE_CHECKING:
    from headrace.language.foreign import ForeignSyntax

T = TypeVar("T")
foreign = later("headrace.language.foreign")  # after a mistake only

RESERVED = frozenset({
    "AND", "OR", "NOT", "IS", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE",
    "END", "NULL", "TRUE", "FALSE", "FROM", "WHERE", "GROUP", "BY", "AS", "SELECT", "DISTINCT", "HAVING", "ORDER",
    "LIMIT", "UNION", "EXCEPT", "INTERSECT", "JOIN", "ON", "CAST", "TRY_CAST", "DIV",
})  # fmt: skip

KEYWORDS = (
    "CREATE", "STREAM", "MATERIALIZED", "VIEW", "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT",
    "WATERMARK", "BETWEEN", "DISTINCT", "INTERVAL", "FILTER", "SCHEDULE", "FORMAT", "ENCODE", "ABSENT",
)  # fmt: skip


@final
class TokenCursor:
    """The tokens of a text and the position of the next one.

    `foreign` reads what other systems write; it is None until our own grammar has refused the text.
    """

    def __init__(
        self,
        source: SourceText,
        unreadable: list[DefinitionError] | None = None,
        *,
        foreign: ForeignSyntax | None = None,
        in_statement: bool = False,
        is_aggregate: Callable[[str], bool] = lambda name: False,
    ) -> None:
        """`in_statement` allows queries in conditions. Without `unreadable`, a piece that is no token raises.

        `is_aggregate` tells names of aggregates, which the queries of streams do not have.
        """
        self.source = source
        self.tokens = tokenize(source, unreadable)
        self.unreadable = [] if unreadable is None else unreadable
        self.index = 0
        self.depth = 0  # of nested expressions
        self.mistakes = Mistakes()  # of the statement that is being read
        self.declaring: str | None = None  # the name of what it declares, when that is known
        self.in_statement = in_statement
        self.is_aggregate = is_aggregate
        self.foreign = foreign

    @property
    def next(self) -> Token:
        return self.tokens[self.index]

    def ahead(self, count: int) -> Token:
        """The token `count` after the next."""
        return self.tokens[min(self.index + count, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.next
        if token.kind != END:
            self.index += 1
        return token

    def reset(self, index: int) -> None:
        self.index = index

    @property
    def last_end(self) -> int:
        return self.tokens[self.index - 1].end

    def outline(self, start: int) -> Outline:
        """Return the outline of a statement that begins at an offset and ends before the next token."""
        return self.foreign.outline(start, self.last_end) if self.foreign else Outline(start, self.last_end)

    def at_end(self) -> bool:
        """Return True at the end of the statement."""
        return self.next.kind == END or self.sees_symbol(";")

    def skip_rest(self) -> None:
        """Continue at the end of the statement, whose pieces another dialect may read."""
        while not self.at_end():
            token = self.take()
            if token.kind == UNREADABLE and token.error in self.unreadable:
                self.unreadable.remove(token.error)

    def skip_parentheses(self) -> None:
        """Continue after the parenthesis that closes the next one."""
        depth = 0
        while not self.at_end():
            token = self.take()
            depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == SYMBOL else 0
            if depth == 0:
                return

    def text_since(self, index: int) -> str:
        """Return the text from the token of this index up to the next token."""
        start, end = self.span_since(index)
        return self.source.text[start:end]

    def span_since(self, index: int) -> tuple[int, int]:
        """Return the offsets of the text from the token of this index up to the next token."""
        return self.tokens[index].start, self.tokens[self.index - 1].end

    def sees(self, *words: str) -> bool:
        """Return True if exactly these keywords come next."""
        return all(self.ahead(i).upper == word for i, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Read these keywords if they come next."""
        if self.sees(*words):
            self.index += len(words)
            return True
        return False

    def sees_symbol(self, *symbols: str) -> bool:
        """Return True if one of these symbols comes next."""
        return self.next.kind == SYMBOL and self.next.text in symbols

    def accept_symbol(self, symbol: str) -> bool:
        """Read this symbol if it comes next."""
        if self.sees_symbol(symbol):
            self.index += 1
            return True
        return False

    def expect(self, word: str, after: str) -> Token:
        """Read a keyword that is required here."""
        if self.next.upper != word:
            raise self.unexpected(f"{word} after {after}")
        return self.take()

    def expect_symbol(self, symbol: str, after: str) -> Token:
        """Read a symbol that is required here."""
        if not self.sees_symbol(symbol):
            raise self.unexpected(f"'{symbol}' after {after}")
        return self.take()

    def expect_name(self, of: str) -> Token:
        """Read a name, quoted or not."""
        if self.next.kind == QUOTED or (self.next.kind == WORD and self.next.upper not in RESERVED):
            return self.take()
        raise self.unexpected(f"the name of {of}")

    def unexpected(self, expected: str) -> DefinitionError:
        """Return the error of a token that is not expected here."""
        token = self.next
        if token.error:
            return token.error
        more = {"found": token.describe(), "expected": expected, **self._advice(expected)}
        return self.error(token.start, "syntax error", **more)

    def _advice(self, expected: str) -> dict[str, Any]:
        """Return what to write, where the next token or the one before is a known kind of slip."""
        token, before = self.next, self.tokens[max(self.index - 1, 0)]
        for word in (token, before):
            keyword = nearest(word.text, KEYWORDS, 0.75) if word.kind == WORD else None
            if keyword and word.upper not in RESERVED and word.upper not in KEYWORDS:
                return {"fix": f"did you mean {keyword}?", "write": keyword, "span": (word.start, word.end)}
        if "the fields of" in expected and token.kind in (WORD, QUOTED):
            return {"fix": "a ',' is missing before it", "write": ",", "span": (before.end, before.end)}
        if token.upper in RESERVED and self.ahead(1).upper in (*TYPES, *DECIMALS):
            quoted = f"`{token.text}`"
            return {"fix": f"write {quoted} if it is a name", "write": quoted, "span": (token.start, token.end)}
        if before.text == "," and (token.kind == END or token.upper in RESERVED or token.text in ");"):
            return {"fix": "remove the ',' before it", "write": " ", "span": (before.start, before.end)}
        if token.upper == "ORDER" and before.text != ")":
            return {"fix": "remove ORDER BY: aggregates take events in the order of their event time"}
        if expected.startswith(("')'", "']'", "'>'")) and self.index:
            closing = expected[1]
            return {"fix": f"close it with {closing}", "write": closing, "span": (before.end, before.end)}
        if token.upper in RESERVED and "name" in expected:
            quoted = f"`{token.text}`"
            span = (token.start, token.end) if before.upper == "AS" else None
            return {
                "fix": f"write {quoted} in backticks if it is a name",
                **({"write": quoted, "span": span} if span else {}),
            }
        return {}

    def error(self, at: int, message: str, **more: Any) -> DefinitionError:
        """Return a mistake at an offset of the text, as `SourceText.error` does."""
        return self.source.error(at, message, **more)


def read_text(source: SourceText, read: Callable[[TokenCursor], T], *, in_statement: bool = False) -> T:
    """Read a text by our own grammar; one that it refuses is read again, with what other systems write."""
    try:
        return read(TokenCursor(source, in_statement=in_statement))
    except DefinitionError:
        return read(TokenCursor(source, foreign=foreign.ForeignSyntax(), in_statement=in_statement))


def parse_type(text: str) -> Type:
    """Return the type that `str(type)` wrote."""
    if "<" in text:
        return read_type(TokenCursor(SourceText(text)))
    name, _, digits = text.partition("(")
    if not digits:
        return Type(name)
    precision, scale = digits.rstrip(")").split(",")
    return decimal(int(precision), int(scale))
