"""Tests of definitions in Python: `headrace.testing.check` runs the tests of a workspace in a pytest suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.tools.testing.workspace_tests import choose, describe, find_tests, nothing_ran, run_tests
from headrace.workspace.settings import Workspace


def check(
    workspace: str | Path = ".", paths: Sequence[str | Path] = (), select: Sequence[str] = (), *, spark: bool = False
) -> None:
    """Run the tests of a workspace, as `headrace test` does.

    Raises AssertionError with what is not as expected, or if all tests were skipped.

    `paths` are files and folders instead of the folder `tests`; `select` are parts of files and names.
    """
    place = Workspace.open(workspace)
    tests, errors = find_tests(place, [Path(path) for path in paths])
    results = list(run_tests(place, choose(tests, select), spark=spark)) if tests or not errors else []
    failures = [describe(result) for result in results if result.state in ("failed", "bad")]
    if problem := nothing_ran(results):
        failures.append(problem)
    if errors or failures:
        raise AssertionError("\n".join([*map(str, errors), *failures]))
