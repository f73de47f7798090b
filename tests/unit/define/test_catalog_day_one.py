"""SQL that people write when they meet a new system: the first line of each file says what must come of it.

`-- expect: accepted`, or `-- expect: refused, the message names: X | Y`: the messages contain every named text.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.define.catalog import parse
from headrace.errors import DefinitionError, HeadraceError
from headrace.language.source_text import each

TESTS = Path(__file__).parents[2]
SHARED = TESTS.parents[1] / "shared"  # further examples, where they are there
DAY_TWO = sorted((SHARED / "day_two").glob("*.sql"))
# Of the second day: the others need views over views, joins of streams, patterns, or numbers of rows.
NOW = ("01", "02", "03", "04", "05", "20", "29", "30")
LATER = [path for path in DAY_TWO if path.name[:2] not in NOW]
NOT_YET = re.compile(r"not available yet|CREATE VIEW|UNIQUE")
MOST_MISTAKES = 9

OURS = sorted((TESTS / "day_one").glob("*.sql"))
THEIRS = sorted((SHARED / "day_one").glob("*.sql"))


@pytest.mark.parametrize(
    "path", [*OURS, *THEIRS, *(path for path in DAY_TWO if path not in LATER)], ids=lambda path: path.stem
)
def test_day_one(path: Path) -> None:
    """Each file is accepted, or refused with a message that names what to write."""
    text = path.read_text()
    expected = text.splitlines()[0].removeprefix("-- expect: ")
    message = None
    try:
        parse(text, str(path))
    except HeadraceError as error:
        message = str(error)
    if expected == "accepted":
        assert message is None
        return
    names = expected.removeprefix("refused, the message names: ").split(" | ")
    assert message is not None, "it was accepted"
    assert [name for name in names if name not in message] == [], message


@pytest.mark.parametrize("path", LATER, ids=lambda path: path.stem)
def test_what_is_not_available_yet_says_so(path: Path) -> None:
    """The first message says what is missing; what it proposes is accepted, unless it says that there is nothing."""
    text = path.read_text()
    mistakes = _mistakes(text, path)
    assert mistakes, "it is accepted: it belongs to the cases above"
    assert any(NOT_YET.search(str(one)) for one in mistakes), mistakes
    for _ in range(MOST_MISTAKES):
        first = next((one for one in mistakes if one.replaces), None)
        if first is None:  # all are corrected, or a message has nothing to write in place of the mistake
            return
        start, end = first.replaces or (0, 0)
        text = text[:start] + (first.write or "") + text[end:]
        mistakes = _mistakes(text, path)
    raise AssertionError(f"what the messages propose is not accepted: {mistakes}")


def _mistakes(text: str, path: Path) -> list[DefinitionError]:
    try:
        parse(text, str(path))
    except DefinitionError as error:
        return each(error)
    return []
