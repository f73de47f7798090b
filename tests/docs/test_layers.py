"""Imports point only upwards in the list of the architecture, and the tour names every file folder."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "headrace"
TOUR = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
# Each may import those before it, and itself.
LAYERS = [
    {"errors", "types", "faults", "timing", "readable"},
    {"failures", "layers"},
    {"aggregate"},
    {"define"},
    {"transport"},
    {"lake"},
    {"content"},
    {"files"},
    {"sending"},
    {"follow"},
    {"infer"},
    {"store"},
    {"maintain"},
    {"serve"},
    {"spark"},
    {"config", "lease", "running", "logs"},
    {"history"},
    {"sql"},
    {"stored", "reconcile"},
    {"rollback"},
    {"worker", "describe", "rehearse"},
    {"pipeline"},
    {"damaged", "versions"},
    {"definitions"},
    {"status"},
    {"runtime"},
    {"offline"},
    {"web"},
    {"client"},
    {"doctor"},
    {"demo"},
    {"bench"},
    {"cli"},
]
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}


def part_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "headrace" and len(parts) > 1 else None


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return {part for part in map(part_of, found) if part}


def test_imports_point_upwards() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        wrong += [f"{path.name} imports {part}" for part in imports(path) if part != own and RANK[part] >= RANK[own]]
    assert not wrong


def test_the_tour_names_every_part() -> None:
    for part in RANK:
        assert f"`{part}/`" in TOUR or f"`{part}.py`" in TOUR, part


def test_the_tour_names_only_files_that_exist() -> None:
    for word in TOUR.split("`")[1::2]:
        if word.endswith(".py"):
            assert list(SOURCE.rglob(word)), word


def test_no_merge_was_left_half_done() -> None:
    for path in [*SOURCE.parents[1].glob("*.md"), *(SOURCE.parents[1] / "docs").rglob("*.md")]:
        lines = path.read_text().splitlines()
        assert not [line for line in lines if line.startswith(("<<<<<<< ", ">>>>>>> "))], path
