"""SQL that people write when they meet a new system: the first line of each file says what must come of it.

`-- expect: accepted`, or `-- expect: refused, the message names: X | Y`: the messages contain every named text.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.define.catalog import parse
from headrace.errors import HeadraceError

TESTS = Path(__file__).parents[1]
SHARED = TESTS.parents[1] / "shared" / "day_one"  # further examples, where they are there
LAST_OF_SHARED = "30"  # those after it need tables and joins
OF_CONNECTORS = ("38", "39", "40")  # Kafka and sinks
OF_LOGICAL_VIEWS = ("34", "35")
OF_SAMPLES_AND_REPEATS = ("36", "37")
PENDING: frozenset[str] = frozenset()  # of the shared ones: not yet as expected
PENDING_OF_OURS: frozenset[str] = frozenset()

OURS = sorted((TESTS / "day_one").glob("*.sql"))
THEIRS = sorted(
    path
    for path in SHARED.glob("*.sql")
    if path.name[:2] <= LAST_OF_SHARED or path.name[:2] in (*OF_CONNECTORS, *OF_LOGICAL_VIEWS, *OF_SAMPLES_AND_REPEATS)
)


def _case(path: Path) -> object:
    pending = path.name[:2] in PENDING or path.stem in PENDING_OF_OURS
    marks = [pytest.mark.xfail(strict=True, reason="not supported yet")] if pending else []
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", [*map(_case, OURS), *map(_case, THEIRS)], ids=lambda path: path.stem)
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
