"""`headrace test`: tests of the definitions, from files of the workspace."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.options import FolderOption, JsonOption
from headrace.errors import BadTestError
from headrace.workspace.settings import Workspace

FAILED_EXIT_CODE = 1


def test(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Test files or folders.", metavar="FILE...", show_default="the folder tests"),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Option("--select", "-k", metavar="TEXT", help="Only tests whose file or name has this; repeatable."),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Run the events through the real Spark jobs of both layers.")
    ] = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write the results as JUnit XML.")
    ] = None,
    workspace: FolderOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Test the definitions. Runs the tests in tests/*.yaml: events given, rows expected.

    Needs no server and, unless --spark is given, no Java. Nothing of the workspace's data is read or changed.
    Exits with 1 if a test fails or none ran, with 2 if a test file has a mistake.
    """
    # They load DuckDB and Arrow, which takes 0.5 s: not for --help.
    from headrace.cli.test_report import Report, write_junit
    from headrace.testing.folder import choose, find_tests, nothing_ran, run_tests

    began = time.perf_counter()
    place = Workspace.open(workspace)
    tests, errors = find_tests(place, paths or [])
    selection = choose(tests, words or []) if tests or not errors else []
    results = []
    with Report(as_json=as_json, total=len(selection)) as report:
        for result in run_tests(place, selection, spark=spark, starting=report.start):
            results.append(result)
            report.show(result)
    seconds = time.perf_counter() - began
    problem = nothing_ran(results)
    report.end(errors, seconds, problem)
    if junit is not None:
        write_junit(junit, results, errors, seconds)
    if errors or any(result.state == "bad" for result in results):
        raise typer.Exit(BadTestError.exit_code)
    if problem or any(result.state == "failed" for result in results):
        raise typer.Exit(FAILED_EXIT_CODE)
