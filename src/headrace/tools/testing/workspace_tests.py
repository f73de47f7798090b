"""The tests of a workspace: found in its files, chosen by name, run one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import BadTestError, UsageError, did_you_mean
from headrace.logs import configure
from headrace.tools.testing.direct_engine import Engine, QuickEngine
from headrace.tools.testing.run_tests import Runner, RunResult
from headrace.tools.testing.written_tests import DefinitionTest, find_test_files, read_file
from headrace.workspace.local_spark import local_session
from headrace.workspace.settings import Workspace

FOLDER = "tests"
MOST_NAMES = 3  # of tests in a message
_HOW = "docs/testing.md shows how to write one"


@dataclass(frozen=True)
class FileTest:
    """A test, and the folder that its files with events are relative to."""

    test: DefinitionTest
    folder: Path


def find_tests(workspace: Workspace, paths: Sequence[Path]) -> tuple[list[FileTest], list[BadTestError]]:
    """The tests of these files and folders, or of the workspace's folder; and the mistakes of the files."""
    files: list[Path] = []
    for path in paths or [workspace.folder / FOLDER]:
        is_file = path.is_file() or (bool(paths) and not path.is_dir())
        path_files = [path] if is_file else find_test_files(path)
        if not path_files:
            raise UsageError(f"no tests in '{path}'", expected="files *.yaml", fix=_HOW)
        files += path_files
    tests: list[FileTest] = []
    errors: list[BadTestError] = []
    for file in dict.fromkeys(files):
        own, mistakes = read_file(file, _shown(file))
        tests += [FileTest(test, file.parent) for test in own]
        errors += mistakes
    return tests, errors


def choose(tests: Sequence[FileTest], words: Sequence[str]) -> list[FileTest]:
    """The tests whose file or name has one of these words, in any case of letters; all without a word."""
    if not tests:
        raise UsageError("the files have no tests", fix=_HOW)
    selection = [each for each in tests if not words or any(word.lower() in each.test.id.lower() for word in words)]
    if not selection:
        names = [each.test.name for each in tests]
        raise UsageError(
            f"no test matches {' or '.join(map(repr, words))}",
            expected=f"a part of a file or name, such as '{names[0]}'",
            fix=did_you_mean(words[0], names),
        )
    return selection


def run_tests(
    workspace: Workspace,
    tests: Sequence[FileTest],
    *,
    spark: bool = False,
    starting: Callable[[DefinitionTest], None] = lambda test: None,
) -> Iterator[RunResult]:
    """The result of each, as soon as it is there. Raises DefinitionError if the definitions have mistakes."""
    with _engine(workspace, spark=spark and bool(tests)) as engine:
        runner = Runner(workspace.definitions, engine)
        for each in tests:
            starting(each.test)
            yield runner.run(each.test, each.folder)


@contextmanager
def _engine(workspace: Workspace, *, spark: bool) -> Iterator[Engine]:
    with ExitStack() as stack:
        if spark:
            # PySpark takes a second to import, and few runs need it.
            from headrace.tools.testing.spark_engine import SparkEngine

            configure("error")  # failures are reported with their test
            engine: Engine = SparkEngine(stack.enter_context(local_session(workspace, keep_log=False)))
        else:
            engine = QuickEngine()
        stack.callback(engine.close)
        yield engine


def _shown(path: Path) -> str:
    """The path as messages name it."""
    relative = os.path.relpath(path)
    return str(path.resolve()) if relative.startswith("..") else relative


def nothing_ran(results: Sequence[RunResult]) -> str | None:
    """The reason why a run of tests shows nothing: all of them were skipped; None if one ran."""
    if not results or any(result.state != "skipped" for result in results):
        return None
    names = ", ".join(repr(result.test.name) for result in results[:MOST_NAMES])
    more = f" and {len(results) - MOST_NAMES} more" if len(results) > MOST_NAMES else ""
    return f"no test ran: all of them need Spark ({names}{more}); `headrace test --spark` runs them"


def describe(result: RunResult) -> str:
    """A result in lines, for those who have no terminal."""
    lines = [f"{result.test.where}: {result.test.name}: {result.state}"]
    if result.error is not None:
        lines.append(f"  {result.error}")
    for difference in result.differences:
        lines.append(f"  {difference.message}")
        for row in difference.rows.rows if difference.rows else ():
            if row.mark != "same":
                lines += [f"    expected {dict(row.expected)}"] if row.expected is not None else []
                lines += [f"    found    {dict(row.found)}"] if row.found is not None else []
    return "\n".join(lines)
