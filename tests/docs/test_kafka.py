"""The page on Kafka has every option, and every statement of it and of the guides can be planned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.define.catalog import Catalog, parse
from headrace.define.connector_options import PREFIX
from headrace.define.kafka_record import PARTS
from headrace.define.kafka_source import ALSO, OPTIONS
from headrace.define.python.definition_script import run_script
from headrace.define.stream_source import IDLE_TIMEOUT, KEY_FORMATS
from headrace.language.statements.with_options import FORMAT_OPTIONS
from headrace.plan.differences import compare

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "kafka.md").read_text()
PAGES = [DOCS / "kafka.md", *sorted((DOCS / "guides").glob("*.md"))]


def test_every_option_is_in_the_table() -> None:
    rows = {match[1]: match[0] for match in re.finditer(r"^\| `([^`]+)` \|.*$", PAGE, re.MULTILINE)}
    for name, (meaning, _) in OPTIONS.items():
        assert meaning in rows[name]
    for other, name in ALSO.items():
        assert f"`{other}`" in rows[name if name in rows else f"{PREFIX}X"], other
    for name in (*FORMAT_OPTIONS, *IDLE_TIMEOUT, *KEY_FORMATS):
        assert f"`{name}`" in PAGE, name


def test_every_part_of_a_record_is_there() -> None:
    assert [part for part in PARTS if f"FROM {part.upper()}`" not in PAGE] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_statements_can_be_planned(page: Path) -> None:
    blocks = re.findall(r"^```sql\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    plan = compare(Catalog(), parse("\n".join(blocks), str(page)))
    assert plan.only_creates
    assert not plan.empty


def test_python_can_be_planned(tmp_path: Path) -> None:
    for page in PAGES:
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
            text = block if "import headrace" in block else f"import headrace as hr\n{block}"
            assert run_script(tmp_path / "example.py", text)
