"""Completes what messages propose: a statement that would be refused itself is corrected before it is shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from headrace.errors import DefinitionError
from headrace.language.source_text import SourceText

MOST_STEPS = 5  # corrections of one statement
_FILE = "<proposal>"
_NOT_ONE = "no statement reads both: make a view of each, and CREATE VIEW over these"  # each proposal leads back
_STATEMENT = re.compile(r"\s*CREATE\s", re.IGNORECASE)


def complete(errors: Sequence[DefinitionError], mistakes_of: Callable[[SourceText], list[DefinitionError]]) -> None:
    """Correct the statements that these mistakes propose; what is wrong with them is said once."""
    reported = {error.message for error in errors}
    for error in errors:
        if error.write and error.replaces and _STATEMENT.match(error.write):
            _complete(error, reported, mistakes_of)


def _complete(
    error: DefinitionError, reported: set[str], mistakes_of: Callable[[SourceText], list[DefinitionError]]
) -> None:
    statements: set[str] = set()
    for _ in range(MOST_STEPS):
        statement = error.write or ""
        if statement in statements:
            error.fix = _NOT_ONE
            error.write = error.replaces = None
            return
        statements.add(statement)
        mistakes = mistakes_of(SourceText(statement, _FILE))
        mistake = next((one for one in mistakes if one.replaces), None)
        if mistake is None:
            for one in mistakes:
                if one.message not in reported:  # nothing can be written in its place: that is the answer
                    error.message = f"{error.message}; {one.message}"
                    error.found, error.expected, error.fix = one.found, one.expected, one.fix
                    error.write = error.replaces = None
            return
        start, end = mistake.replaces or (0, 0)
        error.write = f"{statement[:start]}{mistake.write}{statement[end:]}".strip()
        if mistake.message not in reported and mistake.message not in error.message:
            error.message = f"{error.message}; {mistake.message}"
        whole = (start, end) == (0, len(statement)) and mistake.message not in reported
        error.fix = mistake.fix if whole else f"write {error.write}"
