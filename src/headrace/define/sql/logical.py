"""Reads CREATE VIEW: a logical view, whose SELECT is in the dialect of `headrace sql` and is checked by DuckDB."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.define.sql.clauses import StatementReader
from headrace.errors import DefinitionError
from headrace.language.source_text import SourceText


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


class LogicalReader(StatementReader):
    """Reads what follows CREATE, from VIEW on."""

    def logical_view(self) -> LogicalStatement:
        """The view, up to the end of its statement."""
        word = self.take()
        name = self.read_declared_name("view")
        if self.sees_symbol("("):
            raise self.error(
                self.next.start,
                f"CREATE VIEW {name.text} (…) is not supported",
                fix="name the columns with AS in SELECT",
            )
        self.expect("AS", f"CREATE VIEW {name.text}")
        first = self.next
        if self.at_end():
            raise self.unexpected(f"a SELECT after CREATE VIEW {name.text} AS")
        self.skip_rest()
        last = self.tokens[self.index - 1].end
        return LogicalStatement(
            self.source, name.start, name.text, self.source.text[first.start : last], first.start,
            (word.start, word.end), tuple(self.mistakes.errors),
        )  # fmt: skip
