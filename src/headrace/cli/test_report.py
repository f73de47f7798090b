"""The results of tests on a terminal, as JSON and as JUnit XML."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from xml.etree import ElementTree

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headrace.cli.output import cell, console, key_cell, plural, print_json, printable
from headrace.errors import BadTestError, HeadraceError, WorkspaceError
from headrace.format import iso

if TYPE_CHECKING:
    from rich.status import Status

    from headrace.tools.testing.comparison import RowDifference, RowsDifference
    from headrace.tools.testing.run_tests import RunResult
    from headrace.tools.testing.written_tests import DefinitionTest

MARKS = {"passed": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("-", "yellow"), "bad": ("!", "red")}
MOST_SAME = 5  # rows that agree are shown beside those that differ
DIFFERS = "≠ "  # before a cell that differs: without a terminal there are no colours


class TestReport:
    """Prints each result as it comes, and the summary; on a terminal, as a context, which test runs."""

    def __init__(self, *, as_json: bool, total: int) -> None:
        self._as_json = as_json
        self._total = total
        self._results: list[RunResult] = []
        self._out = console()
        self._status: Status | None = None
        if not as_json and self._out.is_terminal and total:
            self._status = self._out.status("starting")

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *failure: object) -> None:
        if self._status:
            self._status.stop()

    def start(self, test: DefinitionTest) -> None:
        """A test begins."""
        if self._status:
            self._status.update(Text(f"{len(self._results) + 1} of {self._total}: {printable(test.name)}"))

    def show(self, result: RunResult) -> None:
        """A test has ended."""
        self._results.append(result)
        if self._as_json:
            return
        mark, style = MARKS[result.state]
        line = Text.assemble((mark, style), f" {printable(result.test.name)}", (f"  {_span(result)}", "dim"))
        self._out.print(line)
        if result.state == "failed":
            self._out.print(Text(f"    {result.test.where}", style="dim"))
        if result.error is not None:
            self._out.print(Text(f"    {printable(str(result.error))}"))
            for text in _excerpt(result.error):
                self._out.print(Text(f"      {text}", style="dim"))
        for note in result.notes:
            self._out.print(Text(f"    note: {printable(note)}", style="yellow"))
        for difference in result.differences:
            self._out.print(Text(f"    {printable(difference.message)}", style="red"))
            if difference.rows is not None:
                self._out.print(Padding(rows_table(difference.rows), (0, 0, 0, 6), expand=False))
                self._out.print()

    def end(self, errors: Sequence[BadTestError], seconds: float, problem: str | None = None) -> None:
        """All tests have ended; `problem` is why the run fails although no test did."""
        counts = _counts(self._results)
        if self._as_json:
            print_json(as_dict(self._results, errors, seconds, problem))
            return
        sys.stdout.flush()
        for error in errors:
            sys.stderr.write(f"error: {error}\n")
            sys.stderr.writelines(f"  {text}\n" for text in _excerpt(error))
        if problem:
            sys.stderr.write(f"error: {problem}\n")
        parts = [f"{counts[state]} {word}" for state, word in _COUNTED.items() if counts[state]]
        if errors:
            parts.append(f"{plural(len(errors), 'mistake')} in test files")
        style = "red" if errors or problem or counts["failed"] or counts["bad"] else "green"
        self._out.print(Text(f"{', '.join(parts) or 'no tests'} in {seconds:.2f} s", style=f"bold {style}"))


_COUNTED = {"passed": "passed", "failed": "failed", "bad": "with a mistake", "skipped": "skipped (need --spark)"}


def _counts(results: Sequence[RunResult]) -> Counter[str]:
    return Counter(str(result.state) for result in results)


def _span(result: RunResult) -> str:
    return f"{result.seconds * 1000:.0f} ms" if result.seconds < 1 else f"{result.seconds:.1f} s"


def _excerpt(error: HeadraceError) -> list[str]:
    text = error.where.excerpt if error.where else None
    return [] if text is None else text.splitlines()


def rows_table(rows: RowsDifference) -> Table:
    """Expected and found rows, one below the other, the cells that differ marked."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("", *rows.columns):
        table.add_column(title, overflow="fold")
    agreeing = 0
    for row in rows.rows:
        agreeing += row.mark == "same"
        if row.mark == "same" and agreeing > MOST_SAME:
            continue
        for label, cells in _lines(row, rows):
            table.add_row(label, *cells)
    if agreeing > MOST_SAME:
        table.add_row(Text(f"… {plural(agreeing - MOST_SAME, 'row')} more that agree", style="dim"))
    return table


def _lines(row: RowDifference, rows: RowsDifference) -> Iterator[tuple[RenderableType, list[RenderableType]]]:
    if row.mark == "same":
        yield Text("=", style="dim"), _cells(row.found, rows, (), "dim")
    elif row.mark == "differs":
        yield Text("expected", style="green"), _cells(row.expected, rows, row.wrong, "green")
        yield Text("found", style="red"), _cells(row.found, rows, row.wrong, "red")
    else:
        style = "green" if row.mark == "missing" else "red"
        yield Text(row.mark, style=style), _cells(row.expected or row.found, rows, (), style)


def _cells(values: Any, rows: RowsDifference, wrong: Sequence[str], style: str) -> list[RenderableType]:
    cells: list[RenderableType] = []
    for name in rows.columns:
        if name not in values:
            cells.append(Text(""))
            continue
        show = key_cell if name in rows.keys else cell
        text = printable(show(values[name]))
        marked = name in wrong
        cells.append(Text(f"{DIFFERS if marked else ''}{text}", style=f"bold {style}" if marked else "dim"))
    return cells


def as_dict(
    results: Sequence[RunResult], errors: Sequence[BadTestError], seconds: float, problem: str | None = None
) -> dict[str, Any]:
    """The results as JSON values."""
    counts = _counts(results)
    return {
        **{state: counts[state] for state in MARKS},
        "seconds": round(seconds, 3),
        "problem": problem,
        "errors": [error.as_dict() for error in errors],
        "tests": [_result(result) for result in results],
    }


def _result(result: RunResult) -> dict[str, Any]:
    return {
        "name": result.test.name,
        "file": result.test.where.file,
        "line": result.test.where.line,
        "state": result.state,
        "seconds": round(result.seconds, 3),
        "error": result.error.as_dict() if result.error else None,
        "notes": list(result.notes),
        "differences": [
            {"message": difference.message, "rows": difference.rows and _rows(difference.rows)}
            for difference in result.differences
        ],
    }


def _rows(rows: RowsDifference) -> dict[str, Any]:
    return {
        "view": rows.view,
        "layer": rows.layer or None,
        "rows": [
            {"mark": row.mark, "expected": _plain(row.expected), "found": _plain(row.found), "differing": row.wrong}
            for row in rows.rows
        ],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        whole = value.is_finite() and value == value.to_integral_value() and abs(value) < 1 << 63
        return int(value) if whole else str(value)
    return value.hex() if isinstance(value, bytes) else value


def write_junit(path: Path, results: Sequence[RunResult], errors: Sequence[BadTestError], seconds: float) -> None:
    """The results as a JUnit file, as CI servers read it."""
    counts = _counts(results)
    attributes = {
        "name": "headrace",
        "tests": str(len(results) + len(errors)),
        "failures": str(counts["failed"]),
        "errors": str(counts["bad"] + len(errors)),
        "skipped": str(counts["skipped"]),
        "time": f"{seconds:.3f}",
    }
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    for result in results:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {
                "classname": result.test.where.file,
                "name": result.test.name,
                "file": result.test.where.file,
                "line": str(result.test.where.line),
                "time": f"{result.seconds:.3f}",
            },
        )
        _add_outcome(case, result)
    for error in errors:
        file = error.where.file if error.where else "tests"
        case = ElementTree.SubElement(suite, "testcase", {"classname": file, "name": file, "time": "0"})
        _add(case, "error", str(error), "\n".join(_excerpt(error)))
    ElementTree.indent(root)
    try:
        path.write_bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))
    except OSError as error:
        raise WorkspaceError(f"cannot write '{path}': {error.strerror}") from error


def _add_outcome(case: ElementTree.Element, result: RunResult) -> None:
    if result.state == "skipped":
        _add(case, "skipped", str(result.error))
    elif result.state == "bad":
        _add(case, "error", str(result.error), "\n".join(_excerpt(result.error)) if result.error else "")
    elif result.state == "failed":
        messages = [difference.message for difference in result.differences]
        tables = [_text(difference.rows) for difference in result.differences if difference.rows is not None]
        _add(case, "failure", messages[0], "\n".join([*messages, *tables]))


def _add(case: ElementTree.Element, tag: str, message: str, text: str = "") -> None:
    element = ElementTree.SubElement(case, tag, {"message": printable(message)})
    element.text = "\n".join(printable(line) for line in text.splitlines()) or None


def _text(rows: RowsDifference) -> str:
    out = console()
    with out.capture() as captured:
        out.print(rows_table(rows))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
