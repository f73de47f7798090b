"""`headrace doctor`: checks of the machine and the workspace, with fixes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headrace.cli.options import FolderOption, JsonOption
from headrace.cli.output import console, print_json
from headrace.cli.table import Words

if TYPE_CHECKING:
    from headrace.doctor import Finding

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
    from headrace.doctor import examine  # the readers of all data take 0.5 s to import: not for --help

    findings = examine(workspace, deep=deep)
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
