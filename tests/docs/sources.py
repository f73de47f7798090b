"""Messages in the source, as tests of documents read them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "headrace"


def sentences_of(words: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """The place of each text of the source with these words, and its pattern: `.*` where a value is put in."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        apart = {id(value) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values}
        apart |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        for node in ast.walk(tree):
            if id(node) not in apart and isinstance(node, ast.Constant | ast.JoinedStr):
                parts = node.values if isinstance(node, ast.JoinedStr) else [node]
                texts = [part.value if isinstance(part, ast.Constant) else None for part in parts]
                if words.search("".join(text if isinstance(text, str) else "…" for text in texts)):
                    pattern = "".join(".*" if text is None else re.escape(str(text)) for text in texts)
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", pattern
