"""Reads the options of a connector: WITH ('a.b' = 'x', a.b = 'x', A = 5, b = true)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.define.connector_options import OptionError
from headrace.define.model import Options
from headrace.define.sql.clauses import StatementReader
from headrace.language.source_text import NUMBER, QUOTED, STRING, WORD, SourceText


@dataclass(frozen=True)
class WrittenOption:
    """One option as it was written: its name in lower case, its value as text, and the offsets of both."""

    name: str
    value: str
    kind: str = STRING  # of the value: STRING, NUMBER or WORD (true, false, a bare word)
    span: tuple[int, int] = (0, 0)  # of name and value
    value_span: tuple[int, int] = (0, 0)


def canonical(options: list[WrittenOption]) -> Options:
    """Options by name, without their places."""
    return tuple(sorted((option.name, option.value) for option in options))


@contextmanager
def at_option(source: SourceText, options: Iterable[WrittenOption]) -> Iterator[None]:
    """Set the place of a mistake in one of these options."""
    try:
        yield
    except OptionError as error:
        spans = {option.name: option.span for option in options}
        if error.option in spans:
            error.where = error.where or source.locate(spans[error.option][0])
        raise


class OptionsReader(StatementReader):
    """A parser that reads options."""

    def sees_options(self) -> bool:
        """Whether WITH (…) comes next."""
        return self.sees("WITH") and self.ahead(1).text == "("

    def read_options(self) -> list[WrittenOption]:
        """WITH (…), which comes next; a name twice is refused."""
        self.expect("WITH", "the definition")
        self.expect_symbol("(", "WITH")
        options: list[WrittenOption] = []
        while not options or self.accept_symbol(","):
            option = self._option()
            if any(option.name == other.name for other in options):
                raise self.error(option.span[0], f"the option '{option.name}' is given twice", fix="keep one")
            options.append(option)
        self.expect_symbol(")", "the options")
        return options

    def _option(self) -> WrittenOption:
        start = self.index
        name = self._option_name()
        self.expect_symbol("=", f"the option {name}")
        value_start = self.index
        sign = "-" if self.sees_symbol("-") and self.ahead(1).kind == NUMBER else ""
        if sign:
            self.take()
        token = self.next
        if token.kind not in (STRING, NUMBER, WORD, QUOTED):
            raise self.unexpected(f"a value for the option {name}: a text in quotes, a number, true or false")
        self.take()
        bare = token.kind == WORD and token.upper in ("TRUE", "FALSE")
        text = token.text.lower() if bare else sign + token.text
        return WrittenOption(name, text, token.kind, self.span_since(start), self.span_since(value_start))

    def _option_name(self) -> str:
        """A name in quotes, or words with dots and hyphens between them."""
        if self.next.kind in (STRING, QUOTED):
            name = self.take().text
            if not name.strip():
                raise self.error(self.tokens[self.index - 1].start, "an option has no name", fix="remove it")
            return name.strip().lower()
        if self.next.kind != WORD:
            raise self.unexpected("the name of an option")
        name = self.take().text
        while self.sees_symbol(".", "-") and self.ahead(1).kind in (WORD, NUMBER):
            name += self.take().text + self.take().text
        return name.lower()
