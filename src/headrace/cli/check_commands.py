"""`headrace doctor` and `headrace test`: checks of the machine, the workspace and its definitions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headrace.cli.common_options import FolderOption, JsonOption
from headrace.cli.fitted_table import Words
from headrace.cli.output import console, print_json
from headrace.errors import BadTestError
from headrace.lazy import later
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from headrace.cli import test_report
    from headrace.tools import doctor as doctor_module
    from headrace.tools.doctor import Finding
    from headrace.tools.testing import workspace_tests
else:  # loaded by their first use
    doctor_module = later("headrace.tools.doctor")
    test_report = later("headrace.cli.test_report")
    workspace_tests = later("headrace.tools.testing.workspace_tests")


WIDEST = 24  # maximum width of the names of checks
MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "error": ("✗", "red")}


def doctor(
    workspace: FolderOption = Path(),
    deep: Annotated[bool, typer.Option("--deep", help="Also read every file of the lake completely.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the workspace. Reports problems and how to fix them.

    Checks the machine, folders, settings, definitions, lake, journal and store.
    Changes nothing, does not start Spark, and works while a server is running. Exits with 1 if there is a problem.
    """
    findings = doctor_module.examine(workspace, deep=deep)
    errors, warnings = (sum(f.level == level for f in findings) for level in ("error", "warning"))
    if as_json:
        print_json({"errors": errors, "warnings": warnings, "findings": [f.as_dict() for f in findings]})
    else:
        _print(findings, errors, warnings)
    if errors:
        raise typer.Exit(1)


def _print(findings: list[Finding], errors: int, warnings: int) -> None:
    out = console()
    width = min(WIDEST, max(len(finding.check) for finding in findings))
    for finding in findings:
        mark, style = MARKS[finding.level]
        out.print(Words(Text.assemble((mark, style), f" {finding.check:<{width}}  {finding.said}"), indent=width + 4))
        if finding.fix:
            out.print(Text(f"  {'':<{width}}  fix: {finding.fix}", style="bold"))
    if errors or warnings:
        totals = " and ".join(
            f"{count} {word}{'' if count == 1 else 's'}"
            for count, word in ((errors, "error"), (warnings, "warning"))
            if count
        )
        out.print(f"\n{totals}", markup=False)
    else:
        out.print("\nNo problems found.", markup=False)


FAILED_EXIT_CODE = 1


def test(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Test files or folders.", metavar="FILE...", show_default="the folder tests"),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Option(
            "--select", "-k", metavar="TEXT", help="Only tests whose file or name contains this; can be repeated."
        ),
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
    """Test the definitions. Runs the tests in tests/*.yaml: given events, expected rows.

    Needs no server and, unless --spark is given, no Java. The data of the workspace is neither read nor changed. Exits
    with 1 if a test fails or none ran, with 2 if a test file has an error.
    """
    began = time.perf_counter()
    place = Workspace.open(workspace)
    tests, errors = workspace_tests.find_tests(place, paths or [])
    selection = workspace_tests.choose(tests, words or []) if tests or not errors else []
    results = []
    with test_report.TestReport(as_json=as_json, total=len(selection)) as report:
        for result in workspace_tests.run_tests(place, selection, spark=spark, starting=report.start):
            results.append(result)
            report.show(result)
    seconds = time.perf_counter() - began
    problem = workspace_tests.nothing_ran(results)
    report.end(errors, seconds, problem)
    if junit is not None:
        test_report.write_junit(junit, results, errors, seconds)
    if errors or any(result.state == "bad" for result in results):
        raise typer.Exit(BadTestError.exit_code)
    if problem or any(result.state == "failed" for result in results):
        raise typer.Exit(FAILED_EXIT_CODE)
