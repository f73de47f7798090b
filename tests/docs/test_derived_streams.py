"""The definitions of docs/derived-streams.md are accepted, together."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.define.catalog import parse

PAGE = Path(__file__).parents[2] / "docs" / "derived-streams.md"


def test_the_definitions_of_the_page_are_accepted() -> None:
    blocks = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    catalog = parse("\n".join(blocks))
    assert {"slow", "all_clicks", "shipped", "patient_orders"} <= set(catalog.streams)
    assert catalog.views["by_source"].streams == ("clicks", "app_clicks")
