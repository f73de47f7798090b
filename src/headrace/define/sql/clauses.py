"""What CREATE STREAM and CREATE MATERIALIZED VIEW share: names, and the collection of mistakes."""

from __future__ import annotations

from headrace.define.definition_rules import check_name, located
from headrace.define.expression.parser import ExpressionParser
from headrace.errors import DefinitionError
from headrace.language.source_text import END, UNREADABLE, WORD, Mistakes, SourceText, Token


class StatementReader(ExpressionParser):
    """A parser that collects the mistakes of one statement."""

    def __init__(self, source: SourceText, unreadable: list[DefinitionError] | None = None) -> None:
        super().__init__(source, unreadable)
        self.unreadable = [] if unreadable is None else unreadable
        self.mistakes = Mistakes()  # of the statement that is being read
        self.declaring: str | None = None  # the name of what it declares, when that is known

    def refuse(self, at: int, message: str, fix: str) -> None:
        """Report a mistake and continue with the statement."""
        self.mistakes.errors.append(self.error(at, message, fix=fix))

    def read_declared_name(self, what: str) -> Token:
        """The name of the stream or view that the statement declares."""
        self.accept("IF", "NOT", "EXISTS")  # a definition says what there is
        token = self.expect_name(f"the {what}")
        self.declaring = token.text
        if self.sees_symbol("-", ".") and self.ahead(1).kind == WORD:
            self.index += 2
            end = self.tokens[self.index - 1].end
            name = self.source.text[token.start : end]
            whole = name.replace("-", "_") if "-" in name else name.rpartition(".")[2]
            raise self.error(token.start, f"'{name}' cannot name a {what}", write=whole, end=end)
        with self.mistakes.collect(), located(self.source, token.start):
            check_name(token.text, what)
        return token

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
            depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "symbol" else 0
            if depth == 0:
                return

    def at_end(self) -> bool:
        """Whether the statement ends here."""
        return self.next.kind == END or self.sees_symbol(";")
