"""The examples, and the commands of their READMEs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/headrace.toml"))
COMMENT = re.compile(r"\s+#(?=\s).*")


def readme(name: str) -> str:
    return (EXAMPLES / name / "README.md").read_text()


def commands(name: str) -> list[list[str]]:
    """The commands of an example's README."""
    block = re.search(r"```sh\n(.*?)```", readme(name), re.DOTALL)
    assert block, f"{name}: no commands"
    return [shlex.split(COMMENT.sub("", line)) for line in block[1].splitlines() if line.strip()]
