"""Imports point only upwards in the list of the architecture, and the tour names every file folder."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "headrace"
TOUR = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
GROUND = [
    "errors",
    "types",
    "disk",
    "faults",
    "timing",
    "call_limits",
    "name_encoding",
    "format",
    "html",
    "logs",
    "lazy",
    "duckdb_connections",
    "secrets",
]  # loose modules, used by all
# Each may import the ground, those before it, and itself.
ROOMS = [
    "language",
    "aggregate",
    "define",
    "engine",
    "spark",
    "workspace",
    "parse",
    "transport",
    "ingest",
    "lake",
    "store",
    "plan",
    "maintain",
    "serve",
    "deliver",
    "server",
    "api",
    "web",
    "tools",
    "cli",
]
ENTRIES = {"testing": "tools"}  # modules that users import, and the package to which each belongs
RANK = dict.fromkeys(GROUND, 0) | {room: rank for rank, room in enumerate(ROOMS, 1)}
BESIDE_EACH_OTHER = {"define", "engine"}  # definitions are checked against what engines compute


def part_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "headrace" and len(parts) > 1 else None


def imports(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
        elif isinstance(node, ast.Import):
            modules |= {name.name for name in node.names}
    return {part for part in map(part_of, modules) if part}


def test_imports_point_upwards() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        own = ENTRIES.get(own, own)
        rank = RANK[own] if own in ROOMS else 1
        wrong += [
            f"{path.name} imports {part}"
            for part in imports(path) - {own}
            if RANK[part] >= rank and {own, part} != BESIDE_EACH_OTHER
        ]
    assert not wrong


def test_only_the_opening_of_a_store_names_its_engine() -> None:
    engine = SOURCE / "store" / "duckdb"
    naming = [path for path in SOURCE.rglob("*.py") if "headrace.store.duckdb" in path.read_text()]
    assert {path.name for path in naming if engine not in path.parents} == {"open_store.py", "open_to_read.py"}


def test_one_module_opens_duckdb() -> None:
    """Its settings, such as the time zone and which extensions are loaded, decide what values are."""
    opens = re.compile(r"\bduckdb\.connect\(|from duckdb import .*\bconnect\b")
    assert {path.name for path in SOURCE.rglob("*.py") if opens.search(path.read_text())} == {"duckdb_connections.py"}


def test_every_module_has_its_room() -> None:
    loose = {path.stem for path in SOURCE.glob("*.py")}
    assert loose == {"__init__", *GROUND, *ENTRIES}
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == set(ROOMS)


def test_the_tour_names_every_part() -> None:
    for part in RANK:
        assert f"`{part}/`" in TOUR or f"`{part}.py`" in TOUR, part


def test_the_tour_names_only_files_that_exist() -> None:
    for word in TOUR.split("`")[1::2]:
        if word.endswith(".py"):
            assert list(SOURCE.rglob(word)), word


def test_no_test_imports_another() -> None:
    """What several of them use is in a module of its own, so that each can be changed, or run, alone."""
    tests = SOURCE.parents[1] / "tests"
    wrong = [
        f"{path.relative_to(tests)} imports {node.module}"
        for path in tests.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[-1].startswith("test_")
    ]
    assert not wrong


def test_no_test_measures_the_time_of_a_processor() -> None:
    """It depends on the machine and on what else runs there: tests count calls, lines or reads (`tests/calls.py`)."""
    clocks = {"process_time", "process_time_ns", "thread_time", "thread_time_ns", "perf_counter", "perf_counter_ns"}
    clocks |= {"getrusage", "times"}
    tests = SOURCE.parents[1] / "tests"
    wrong = [
        f"{path.relative_to(tests)}:{node.lineno}"
        for path in tests.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in clocks
        and isinstance(node.value, ast.Name)
        and node.value.id in ("time", "resource", "os")
    ]
    assert not wrong


def test_no_merge_was_left_half_done() -> None:
    for path in [*SOURCE.parents[1].glob("*.md"), *(SOURCE.parents[1] / "docs").rglob("*.md")]:
        lines = path.read_text().splitlines()
        assert not [line for line in lines if line.startswith(("<<<<<<< ", ">>>>>>> "))], path
