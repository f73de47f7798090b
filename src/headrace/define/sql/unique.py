"""Reads UNIQUE (a, b) WITHIN INTERVAL 1 DAY among the fields of CREATE STREAM, or after a field."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.define.definition_rules import check_unique_column, located, make_unique
from headrace.define.model import Field, UniqueEvents
from headrace.define.sql.sources import SourceReader
from headrace.language.source_text import Token


@dataclass(frozen=True)
class _Unique:
    """UNIQUE as it was written."""

    at: int
    columns: tuple[Token, ...]
    within_ms: int


class UniqueReader(SourceReader):
    """A parser that reads UNIQUE."""

    unique: _Unique | None = None

    def sees_unique(self) -> bool:
        """UNIQUE (a, b), perhaps as a constraint with a name."""
        first = 2 if self.sees("CONSTRAINT") else 0
        return self.ahead(first).upper == "UNIQUE" and self.ahead(first + 1).text == "("

    def read_unique(self, owner: str) -> None:
        """The clause, up to its end."""
        if self.accept("CONSTRAINT"):
            self.expect_name("the constraint")
        at = self.take().start
        self.expect_symbol("(", "UNIQUE")
        columns = [self.expect_name("a field")]
        while self.accept_symbol(","):
            columns.append(self.expect_name("a field"))
        self.expect_symbol(")", "the fields of UNIQUE")
        self.remember(at, tuple(columns), owner)

    def remember(self, at: int, columns: tuple[Token, ...], owner: str) -> None:
        """What follows UNIQUE and its columns: WITHIN and a duration, as ksqlDB also writes it for joins."""
        end = self.tokens[self.index - 1].end
        if not self.accept("WITHIN"):
            self.accept("NOT", "ENFORCED")
            if owner.startswith("table "):
                raise self.error(
                    at, f"{owner} enforces no UNIQUE: it has one row for each PRIMARY KEY",
                    fix=f"remove {self.source.text[at:end]}", write=" ", end=self.tokens[self.index - 1].end,
                )  # fmt: skip
            raise self.error(
                at, f"{owner}: UNIQUE does not say how far apart repeats of an event may be",
                expected="WITHIN and a time", write=f"{self.source.text[at:end]} WITHIN INTERVAL 1 DAY",
                end=self.tokens[self.index - 1].end,
            )  # fmt: skip
        in_parentheses = self.accept_symbol("(")
        within_ms = self.read_duration()
        if in_parentheses:
            self.expect_symbol(")", "WITHIN")
        if self.unique:
            raise self.error(
                at, f"{owner} has two UNIQUE clauses", fix="keep one; UNIQUE (a, b) compares several fields together"
            )
        self.unique = _Unique(at, columns, within_ms)

    def check_unique(self, fields: tuple[Field, ...], stream: str) -> UniqueEvents | None:
        """What was read, if these are the fields of the stream."""
        written = self.unique
        if written is None:
            return None
        names: list[str] = []
        for column in written.columns:
            with self.mistakes.collect(), located(self.source, column.start):
                names.append(check_unique_column(column.text, fields, stream, complete=not self.mistakes))
        with self.mistakes.collect(), located(self.source, written.at):
            return make_unique(names, written.within_ms, stream)
        return None
