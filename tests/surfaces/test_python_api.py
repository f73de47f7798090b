"""The Python API is listed by `dir`, completed in a REPL, and described in docs/python.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import headrace
from tests.surfaces.conftest import Served
from tests.surfaces.python_reference import CLASSES, INTRODUCTION, members
from tests.surfaces.references import DOCS


def test_dir_lists_the_api_and_nothing_else() -> None:
    assert [name for name in dir(headrace) if not name.startswith("__")] == sorted(headrace.__all__)
    assert all(getattr(headrace, name) is not None for name in headrace.__all__)


def test_a_repl_completes_names_that_are_not_loaded_yet() -> None:
    code = """
import headrace as hr, rlcompleter
complete = rlcompleter.Completer({"hr": hr}).complete
print([complete("hr.co", n) for n in range(9)])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "hr.connect(" in ran.stdout
    assert "hr.count(" in ran.stdout


def test_every_public_name_is_documented() -> None:
    text = (DOCS / "python.md").read_text()
    for name in headrace.__all__:
        assert f"`hr.{name}" in text, name
    for of in CLASSES:
        section = text.split(f"\n## {of.__name__}\n")[1].split("\n## ")[0]
        for name in [*(name for name, _ in members(of)), *getattr(of, "__dataclass_fields__", ())]:
            assert f"`{name}" in section, f"{of.__name__}.{name}"


def test_the_page_is_linked() -> None:
    assert "(docs/python.md)" in (DOCS.parent / "README.md").read_text()


def test_its_example_runs(served: Served, tmp_path: Path) -> None:
    example = re.findall(r"```python\n(.*?)```", INTRODUCTION, re.DOTALL)[0]
    folder = str(served.runtime.workspace.folder)
    assert "timeout=10" in example
    code = example.replace('"my-workspace"', repr(folder)).replace("timeout=10", "timeout=0")  # no Spark brings it on
    names: dict[str, object] = {}
    exec(compile(code, "docs/python.md", "exec"), names)
    assert names["reply"].accepted == 1  # type: ignore[attr-defined]
