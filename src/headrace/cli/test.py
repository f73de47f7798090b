"""`headrace test`: tests of the definitions, from files of the workspace."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.options import FolderOption, JsonOption
from headrace.errors import BadTestError, UsageError, did_you_mean
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from headrace.testing.engine import Engine
    from headrace.testing.model import DefinitionTest

BAD_EXIT_CODE, FAILED_EXIT_CODE = 2, 1


@dataclass(frozen=True)
class FileTest:
    """A test and the folder that its files with events are relative to."""

    test: DefinitionTest
    folder: Path


def test(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Test files or folders.", metavar="[FILE]...", show_default="the folder tests"),
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
    Exits with 1 if a test fails, with 2 if a test file has a mistake.
    """
    # They load DuckDB and Arrow, which takes 0.5 s: not for --help.
    from headrace.cli.test_report import Report, write_junit
    from headrace.testing.run import Runner

    began = time.perf_counter()
    place = Workspace.open(workspace)
    tests, errors = find_tests(place.folder / "tests", paths or [])
    selection = _choose(tests, words or [], errors)
    report = Report(as_json=as_json, total=len(selection))
    with report, _engine(place, spark=spark and bool(selection)) as engine:
        runner = Runner(place.definitions, engine)
        results = []
        for each in selection:
            report.start(each.test)
            results.append(runner.run(each.test, each.folder))
            report.show(results[-1])
    seconds = time.perf_counter() - began
    report.end(errors, seconds)
    if junit is not None:
        write_junit(junit, results, errors, seconds)
    if errors or any(result.state == "bad" for result in results):
        raise typer.Exit(BAD_EXIT_CODE)
    if any(result.state == "failed" for result in results):
        raise typer.Exit(FAILED_EXIT_CODE)


def find_tests(folder: Path, paths: Sequence[Path]) -> tuple[list[FileTest], list[BadTestError]]:
    """The tests of these files and folders, or of the folder of the workspace; and the mistakes of the files."""
    from headrace.testing.read import find_test_files, read_file  # loads PyYAML: not for --help

    files: list[Path] = []
    for path in paths or [folder]:
        path_files = find_test_files(path) if path.is_dir() else [path]
        if path.is_dir() and not path_files:
            raise UsageError(
                f"no tests in '{path}'", expected="files *.yaml", fix="docs/testing.md shows how to write one"
            )
        files += path_files
    if not paths and not folder.is_dir():
        raise UsageError(
            f"no tests in '{folder}'", expected="files *.yaml", fix="docs/testing.md shows how to write one"
        )
    tests: list[FileTest] = []
    errors: list[BadTestError] = []
    for file in dict.fromkeys(files):
        own, mistakes = read_file(file, _shown(file))
        tests += [FileTest(one, file.parent) for one in own]
        errors += mistakes
    return tests, errors


def _choose(tests: list[FileTest], words: list[str], errors: list[BadTestError]) -> list[FileTest]:
    from headrace.testing.run import select  # loads DuckDB: not for --help

    selection = select([each.test for each in tests], words)
    if not selection and not errors:
        if not tests:
            raise UsageError("the files have no tests", fix="docs/testing.md shows how to write one")
        names = [each.test.name for each in tests]
        raise UsageError(
            f"no test matches {' or '.join(map(repr, words))}",
            expected=f"a part of a file or name, such as '{names[0]}'",
            fix=did_you_mean(words[0], names),
        )
    ids = {id(test) for test in selection}
    return [each for each in tests if id(each.test) in ids]


@contextmanager
def _engine(workspace: Workspace, *, spark: bool) -> Iterator[Engine]:
    with ExitStack() as stack:
        if spark:
            # PySpark takes a second to import, and few runs need it.
            from headrace.logs import configure
            from headrace.testing.jobs import SparkEngine
            from headrace.workspace.local_spark import local_session

            configure("error")  # what fails is told with its test
            engine: Engine = SparkEngine(stack.enter_context(local_session(workspace, keep_log=False)))
        else:
            from headrace.testing.engine import QuickEngine  # loads DuckDB: not for --help

            engine = QuickEngine()
        stack.callback(engine.close)
        yield engine


def _shown(path: Path) -> str:
    """The path as messages name it."""
    relative = os.path.relpath(path)
    return str(path.resolve()) if relative.startswith("..") else relative
