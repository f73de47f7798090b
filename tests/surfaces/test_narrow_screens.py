"""Commands on a terminal of 80 columns: no word is cut, and `--wide` shows every column."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli import output
from tests.surfaces.conftest import Ran, Served
from tests.surfaces.sql_shop import fill, visit_of

COLUMNS = 80
VIEW = "traffic_per_page_and_minute_of_the_web_shop"
DEFINITIONS = f"""
CREATE TABLE customers_of_the_shop (id BIGINT PRIMARY KEY, plan STRING, city STRING);
CREATE STREAM failed_requests_of_pages AS SELECT page, status, at FROM visits WHERE status >= 500;
CREATE MATERIALIZED VIEW {VIEW} AS
SELECT page, count(*) AS hits, count(*) FILTER (WHERE status >= 500) AS errors, sum(bytes) AS bytes,
       approx_count_distinct(visitor) AS visitors, max(bytes) AS largest_answer_in_bytes
FROM visits GROUP BY page, window(at, '1 minute');
CREATE VIEW busiest_pages_of_all AS SELECT page, hits FROM {VIEW} ORDER BY hits DESC LIMIT 5;
CREATE ALERT too_many_errors_on_a_page AS SELECT page, errors, hits FROM {VIEW} WHERE errors >= 2 AND hits > 300;
CREATE SINK traffic_as_files FROM {VIEW} WITH (connector = 'files', path = 'out', format = 'ndjson');
"""
COMMANDS = [
    ["status"],
    ["streams"],
    ["views"],
    ["tables"],
    ["sinks"],
    ["alerts"],
    ["subscriptions"],
    ["versions", VIEW],
    ["ask", VIEW],
    ["sql", f"SELECT * FROM {VIEW}"],
    ["graph"],
]


@pytest.fixture
def shop(folder: Path, headrace: Callable[..., Ran], serve: Callable[..., Served]) -> Path:
    (folder / "definitions" / "more.sql").write_text(DEFINITIONS)
    assert headrace("apply", "--yes", "-w", folder).code == 0
    served = serve(folder)
    fill(served.runtime, folder, VIEW, [visit_of("/products/trousers-with-a-long-name", 0), visit_of("/cart", 1)])
    created = headrace("subscriptions", "create", "mails_to_customers", "--stream", "visits", "-w", folder)
    assert created.code == 0, created.err
    return folder


def words(text: str) -> set[str]:
    """The words that are the same whenever the command runs: without times and counts."""
    timeless = re.sub(r"\d ?(ms|s|m|min|h|d)\b", "0", text)
    return {word.strip("─") for word in timeless.split() if not any(c.isdigit() for c in word)}


def test_no_word_is_cut_on_a_narrow_screen(
    shop: Path, headrace: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in COMMANDS:
        wide = headrace(*command, "-w", shop)
        monkeypatch.setattr(output, "UNLIMITED", COLUMNS)
        narrow = headrace(*command, "-w", shop)
        monkeypatch.undo()
        assert (wide.code, narrow.code) == (0, 0), wide.err + narrow.err
        notes = {"not", "shown:", "(--wide", "shows", "all)", *(f"{word}," for word in words(wide.out))}
        assert words(narrow.out) <= words(wide.out) | notes, command
        assert all(len(line.rstrip()) <= COLUMNS or len(line.split()) == 1 for line in narrow.out.splitlines()), command
