"""The definitions of docs/logical-views.md are accepted, together."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.define.catalog import parse

PAGE = Path(__file__).parents[2] / "docs" / "logical-views.md"


def test_the_definitions_of_the_page_are_accepted() -> None:
    blocks = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    catalog = parse("\n".join(blocks))
    assert list(catalog.logical) == ["peak", "top_urls", "named_peaks"]
    assert catalog.logical["named_peaks"].reads == ("peak", "countries")
