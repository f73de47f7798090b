"""The definitions of docs/sampling.md and the Python of docs/derived-streams.md are accepted."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.define.catalog import load, parse
from headrace.define.sampling import share_of

DOCS = Path(__file__).parents[2] / "docs"


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def test_the_definitions_about_samples_are_accepted() -> None:
    share = share_of(parse("\n".join(_blocks("sampling.md", "sql"))).views["revenue"].relation)
    assert share is not None
    assert share.percent == 10


def test_the_python_of_derived_streams_is_accepted(tmp_path: Path) -> None:
    for at, block in enumerate(_blocks("derived-streams.md", "python")):
        folder = tmp_path / str(at)
        folder.mkdir()
        (folder / "definitions.py").write_text(block)
        assert load(folder).streams
