"""Tests are found by the name of what they test, and each of them can fail."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests import wording

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "headrace"
FAILING = {"fail", "raises", "wait_until"}  # of pytest, and of ours
Function = ast.FunctionDef | ast.AsyncFunctionDef


def module_of(file: Path) -> Path | None:
    """The module or package that a file of unit tests is named for, if there is one: test_M.py, or test_M_TOPIC.py."""
    folder = SOURCE / file.relative_to(TESTS / "unit").parent
    words = file.stem.split("_")[1:]
    names = ["_".join(words[:count]) for count in range(len(words), 0, -1)]
    places = [place for name in names for place in (folder / f"{name}.py", folder / name / "__init__.py")]
    return next((place for place in places if place.exists()), None)


def test_unit_tests_are_where_their_module_is() -> None:
    files = sorted((TESTS / "unit").rglob("test_*.py"))
    lost = [str(file.relative_to(TESTS)) for file in files if module_of(file) is None]
    assert not lost, "name tests/unit/P/test_M.py, or test_M_TOPIC.py, for what src/headrace/P/M.py has"


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def called(function: Function) -> set[str]:
    """The names of what a function calls, and of what it gives to others to be called."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    used = [part for call in calls for part in (call.func, *call.args)]
    return {part.id for part in used if isinstance(part, ast.Name)} | {
        part.attr for part in used if isinstance(part, ast.Attribute)
    }


def can_fail(function: Function) -> bool:
    return any(isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(function))


def helpers_that_fail(trees: Iterable[ast.AST]) -> set[str]:
    """The names of functions of tests that assert or raise, or call one that does."""
    defined = [function for tree in trees for function in functions(tree) if not function.name.startswith("test_")]
    names = FAILING | {function.name for function in defined if can_fail(function)}
    more = set(names)
    while more:
        more = {function.name for function in defined if called(function) & names} - names
        names |= more
    return names


def test_every_test_can_fail() -> None:
    trees = {path: ast.parse(path.read_text()) for path in sorted(TESTS.rglob("*.py"))}
    failing = helpers_that_fail(trees.values())
    wrong = [
        f"{path.relative_to(TESTS)}:{function.lineno}: {function.name}"
        for path, tree in trees.items()
        for function in tree.body
        if isinstance(function, Function) and function.name.startswith("test_")
        if not can_fail(function) and not called(function) & failing
    ]
    assert not wrong, "these tests assert nothing"


def always_true(node: ast.expr) -> bool:
    """Whether a condition is true whatever is tested: a constant, a tuple, or one of several that is."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return any(map(always_true, node.values))
    return (isinstance(node, ast.Constant) and bool(node.value)) or (isinstance(node, ast.Tuple) and bool(node.elts))


def test_no_assertion_is_always_true() -> None:
    wrong = [
        f"{path.relative_to(TESTS)}:{node.lineno}"
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert) and always_true(node.test)
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("condition", "expected"),
    [("x or 'text'", True), ("(x, 'text')", True), ("x or y", False), ("x and 'text'", False), ("1", True)],
)
def test_what_is_always_true_is_found(condition: str, expected: bool) -> None:
    assert always_true(ast.parse(condition, mode="eval").body) is expected


def test_a_helper_that_fails_is_found_behind_others() -> None:
    tree = ast.parse("def a(): assert x\ndef b(): a()\ndef c(): pass\n")
    assert {"a", "b"} <= helpers_that_fail([tree])
    assert "c" not in helpers_that_fail([tree])


def test_every_sentence_belongs_to_a_test() -> None:
    files = list(wording.FOLDER.rglob("*.txt"))
    assert files
    lost = [
        f"{file.relative_to(TESTS)}: {test}"
        for file in files
        for test in wording.read(file)
        if wording.bare(test) not in wording.names_in(file)
    ]
    assert not lost, "`pytest --update-wording` over the folder of these tests removes them"


def test_sentences_belong_to_one_test() -> None:
    """They are kept by the name of the test: another test of that name in the folder would be expected to have them."""
    shared = [
        f"{file.relative_to(TESTS)}: {test}"
        for file in wording.FOLDER.rglob("*.txt")
        for test in {wording.bare(test) for test in wording.read(file)}
        if wording.names_in(file)[test] > 1
    ]
    assert not shared, "rename one of the tests of each name"
