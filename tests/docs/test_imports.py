"""An import inside a function says why it is not at the top of the file: on its line, or above its block."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "headrace"
late_imports = runpy.run_path(str(ROOT / "scripts" / "structure"))["late_imports"]

EXAMPLE = """\
import io

def first():
    import csv  # slow
    import json
    print()
    # Both are slow.
    import math

    import random
    print()  # not above a block
    import time
    import zlib  # noqa: F401
    import bz2  # noqa: F401 - slow
"""


def test_no_import_inside_a_function_is_without_a_reason() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, has_reason in late_imports(path.read_text())
        if not has_reason
    ]
    assert not wrong


def test_a_reason_is_a_comment_on_the_line_or_above_the_block() -> None:
    reasons = {EXAMPLE.splitlines()[line - 1].split()[1]: has_reason for line, has_reason in late_imports(EXAMPLE)}
    assert reasons == {
        "csv": True, "json": False, "math": True, "random": True, "time": False, "zlib": False, "bz2": True,
    }  # fmt: skip
