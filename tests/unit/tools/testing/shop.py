"""Runs the tests of a text against the example of `headrace init`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.cli.init_command import EXAMPLE
from headrace.tools.testing.direct_engine import QuickEngine
from headrace.tools.testing.run_tests import Runner, RunResult
from headrace.tools.testing.written_tests import read_text

HOME = "visitor: ann, page: /home, status: 200"


@contextmanager
def runner(folder: Path, definitions: str = EXAMPLE) -> Iterator[Runner]:
    """Runs tests of these definitions."""
    (folder / "definitions").mkdir()
    (folder / "definitions" / "shop.sql").write_text(definitions)
    engine = QuickEngine()
    try:
        yield Runner(folder / "definitions", engine)
    finally:
        engine.close()


def run(folder: Path, text: str, definitions: str = EXAMPLE) -> list[RunResult]:
    """The results of all tests of a text without mistakes of structure."""
    tests, errors = read_text(textwrap.dedent(text), "t.yaml")
    assert not errors, errors
    with runner(folder, definitions) as runs:
        return [runs.run(test, folder) for test in tests]


def run_one(folder: Path, text: str, definitions: str = EXAMPLE) -> RunResult:
    """The result of its only test."""
    (result,) = run(folder, text, definitions)
    return result


def messages(result: RunResult) -> list[str]:
    """What is not as expected, in sentences."""
    return [difference.message for difference in result.differences]
