"""Variables, parameters and attributes are nouns for the thing they hold, not participles such as `said` or `made`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "headrace"
WORDS = {
    "said", "told", "found", "made", "asked", "given", "taken", "seen", "shown", "wanted", "named", "heard", "drawn",
    "got", "met", "begun", "chosen", "gone",
}  # fmt: skip
ON_DISK = {
    ("tools/doctor/finding.py", "said"),
    ("transport/sent_files.py", "seen"),
}  # names of JSON, and of journal records
FOUND = "found"  # a part of every error, so parameters and attributes may have this name


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each variable, parameter and attribute that is assigned or declared, with its line."""
    attributes = {
        id(statement.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()) if name != FOUND:
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) if not (name == FOUND and id(node) in attributes):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name


def test_names_are_nouns() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, name in names(ast.parse(path.read_text()))
        if name.strip("_").lower() in WORDS and (str(path.relative_to(SOURCE)), name) not in ON_DISK
    ]
    assert not wrong, "name what these hold, as in `message`, `rows` or `reply`:\n" + "\n".join(wrong)
