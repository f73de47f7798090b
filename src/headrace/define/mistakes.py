"""Collects the mistakes of one statement, so that all of them are reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from headrace.errors import DefinitionError, DefinitionErrors, Location
from headrace.secrets import without_passwords, without_secret_options

EXCERPT_WIDTH = 100  # characters of a line that are shown around a mistake


class FollowUpError(DefinitionError):
    """Something cannot be checked because of another mistake; only that one is reported."""


class Mistakes:
    """The mistakes collected so far."""

    def __init__(self, errors: Iterable[DefinitionError] = ()) -> None:
        self.errors = list(errors)

    def __bool__(self) -> bool:
        return bool(self.errors)

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Collect the mistakes of a block and continue after it."""
        try:
            yield
        except DefinitionError as error:
            self.errors += each(error)

    def check(self) -> None:
        """Raise what was collected, if anything was."""
        if self.errors:
            raise join(self.errors)


def each(error: DefinitionError) -> list[DefinitionError]:
    """The single mistakes of an error."""
    return error.errors if isinstance(error, DefinitionErrors) else [error]


def join(errors: list[DefinitionError]) -> DefinitionError:
    """One error for all of them, by place; the same mistake at the same place is reported once."""
    causes = [error for error in errors if not isinstance(error, FollowUpError)] or errors
    by_place = {(str(error.where), error.message): error for error in reversed(causes)}  # the first of each
    errors = sorted(by_place.values(), key=_place)
    return errors[0] if len(errors) == 1 else DefinitionErrors(errors)


@contextmanager
def placed(where: Location) -> Iterator[None]:
    """Set the place of mistakes that have none."""
    try:
        yield
    except DefinitionError as error:
        for one in each(error):
            one.where = one.where or where
        raise


def quote_lines(error: DefinitionError, texts: Mapping[str, str]) -> DefinitionError:
    """The error, whose mistakes have the lines of these files; Python shows them below the message."""
    notes = []
    for one in each(error):
        one.message, one.found = without_passwords(one.message), one.found and without_passwords(one.found)
        if one.where and one.where.excerpt is None and one.where.file in texts:
            one.where = replace(one.where, excerpt=_excerpt(texts[one.where.file], one.where))
        if one.excerpt:
            notes.append(f"{one.where}\n{one.excerpt}")
    if notes and not getattr(error, "__notes__", None):
        error.add_note("\n".join(notes))
    return error


def _excerpt(text: str, where: Location) -> str:
    """A line of the text, cut to a readable length, and a caret under the column."""
    lines = text.split("\n")
    line = without_secret_options(lines[where.line - 1].rstrip("\r")) if where.line <= len(lines) else ""
    start = max(0, min(where.column - 1 - EXCERPT_WIDTH // 2, len(line) - EXCERPT_WIDTH))
    end = start + EXCERPT_WIDTH
    before, after = "…" * (start > 0), "…" * (end < len(line))
    excerpt = "".join(c if c.isprintable() else " " for c in line[start:end])
    gutter = f"{where.line} | "
    indent = " " * (len(before) + where.column - 1 - start)
    return f"{gutter}{before}{excerpt}{after}\n{'| ':>{len(gutter)}}{indent}^"


def _place(error: DefinitionError) -> tuple[str, int, int]:
    return (error.where.file, error.where.line, error.where.column) if error.where else ("", 0, 0)
