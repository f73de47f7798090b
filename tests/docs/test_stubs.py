"""The stubs of libraries without types name only what the libraries have."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

STUBS = Path(__file__).parents[2] / "stubs"
MODULES = sorted(path.relative_to(STUBS) for path in STUBS.rglob("*.pyi"))


def kinds(cls: type) -> Iterator[type]:
    """A class and all that are derived from it: `pyarrow.Array` has in its stub what its subclasses have."""
    yield cls
    for each in cls.__subclasses__():
        yield from kinds(each)


def members(node: ast.ClassDef) -> Iterator[str]:
    for member in node.body:
        if isinstance(member, ast.FunctionDef):
            yield member.name
        elif isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
            yield member.target.id


def _assigned(kind: type) -> list[str]:
    """The attributes that objects of a class written in Python get when they are made."""
    initializer = getattr(kind, "__init__", None)
    return list(initializer.__code__.co_names) if isinstance(initializer, FunctionType) else []


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_what_a_stub_names_exists(path: Path) -> None:
    module = importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    for node in ast.parse((STUBS / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            assert hasattr(module, node.name), node.name
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            of = list(kinds(getattr(module, node.name)))
            for name in members(node):
                names = {name for kind in of for name in (*dir(kind), *_assigned(kind))}
                assert name == "__buffer__" or name in names, f"{node.name}.{name}"
