"""The tests that examples have: all of them run, and none is skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.tools.testing.workspace_tests import describe, find_tests, run_tests
from headrace.workspace.settings import Workspace

EXAMPLES = sorted(path.parent for path in (Path(__file__).parents[2] / "examples").glob("*/headrace.toml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_tests_of_an_example_pass(example: Path) -> None:
    workspace = Workspace.open(example)
    tests, errors = find_tests(workspace, [])
    results = list(run_tests(workspace, tests))
    assert not errors
    assert results
    assert [describe(result) for result in results if result.state != "passed"] == []
