"""No answer is truncated silently: Python returns all rows, and others report the omitted rows and how to get them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.api.connect import connect
from headrace.errors import SqlError
from tests.surfaces.conftest import Ran, Served
from tests.surfaces.sql_shop import fill, visit_of

KEYS, MINUTES = 1_200, 10
ROWS = KEYS * MINUTES  # more than one page of HTTP has


@pytest.fixture
def crowded(applied: Path, serve: Callable[..., Served], tmp_path: Path) -> Served:
    """A view with many rows."""
    served = serve(applied)
    fill(served.runtime, tmp_path, visits=[visit_of(f"/{n:04d}", at) for at in range(MINUTES) for n in range(KEYS)])
    return served


def test_python_returns_all_rows_without_a_limit(crowded: Served) -> None:
    with connect(crowded.url) as connection:
        answer = connection.ask("traffic")
        assert (len(answer.pandas()), len(answer.rows()), answer.arrow().num_rows) == (ROWS, ROWS, ROWS)
        assert answer.next_cursor is None
        assert sum(answer.events.values()) == ROWS
        page = connection.ask("traffic", limit=7)
        assert (len(page.rows()), page.more_rows) == (7, ROWS - 7)
        assert len(connection.ask("traffic", cursor=page.next_cursor).rows()) == ROWS - 7
        whole = connection.sql("SELECT page, hits FROM traffic")
        assert (len(whole.pandas()), whole.truncated, whole.more_rows) == (ROWS, False, 0)
        few = connection.sql("SELECT page, hits FROM traffic", limit=7)
        assert (len(few.rows()), few.truncated, few.more_rows) == (7, True, ROWS - 7)


def test_python_returns_all_rows_without_a_server(crowded: Served) -> None:
    folder = crowded.runtime.workspace.folder
    crowded.stop()
    with connect(folder) as connection:
        assert len(connection.ask("traffic").rows()) == ROWS
        assert len(connection.sql("FROM traffic").rows()) == ROWS


def test_an_sql_answer_that_is_too_large_is_an_error_not_a_part(served: Served) -> None:
    with (
        connect(served.url) as connection,
        pytest.raises(SqlError, match=r"the answer is too large; found .* rows, and"),
    ):
        connection.sql("SELECT repeat('x', 100000) || i FROM range(1000) AS r(i)")


def test_http_says_how_many_rows_follow(crowded: Served) -> None:
    page = crowded.http.get("/v1/views/traffic", params={"limit": 10}).json()
    assert (len(page["rows"]), page["more_rows"], bool(page["next_cursor"])) == (10, ROWS - 10, True)
    answer = crowded.http.post("/v1/sql", json={"query": "FROM traffic"}).json()
    assert (len(answer["rows"]), answer["truncated"], answer["more_rows"]) == (1_000, True, ROWS - 1_000)
    answer = crowded.http.post("/v1/sql", json={"query": "FROM traffic", "limit": "all"}).json()
    assert (len(answer["rows"]), answer["truncated"], answer["more_rows"]) == (ROWS, False, 0)
    endless = crowded.http.post("/v1/sql", json={"query": "SELECT * FROM range(100000000000)", "limit": 1}).json()
    assert (endless["truncated"], endless["more_rows"]) == (True, None), "rows that take long to count are not counted"


def test_the_command_says_how_many_rows_follow_and_shows_all(crowded: Served, headrace: Callable[..., Ran]) -> None:
    table = headrace("ask", "traffic", "-w", crowded.url, "--limit", 10)
    assert f"{ROWS - 10:,} more rows: --cursor " in table.out
    assert "--limit all shows all" in table.out
    assert len(headrace("ask", "traffic", "-w", crowded.url, "--limit", "all", "--json").json["rows"]) == ROWS
    assert "expected 1 to 10000, or all" in headrace("ask", "traffic", "-w", crowded.url, "--limit", "-1").err
    table = headrace("sql", "SELECT page FROM traffic", "-w", crowded.url, "--limit", 10)
    assert f"{ROWS - 10:,} more rows: these are the first 10; --limit all shows all" in table.out
    csv = headrace("sql", "SELECT page FROM traffic", "-w", crowded.url, "--csv")
    assert f"note: {ROWS - 1_000:,} more rows" in csv.err
    csv = headrace("sql", "SELECT page FROM traffic", "-w", crowded.url, "--csv", "--limit", "all")
    assert (len(csv.out.splitlines()), csv.err) == (ROWS + 1, "")
    assert "--limit is not a number of rows" in headrace("sql", "SELECT 1", "-w", crowded.url, "--limit", "x").err


def test_the_command_shows_the_newest_windows_first(crowded: Served, headrace: Callable[..., Ran]) -> None:
    command = ("ask", "traffic", "-w", crowded.url, "--by", "")

    def minutes(*options: object) -> list[str]:
        return re.findall(r"2026-03-01 12:(\d\d):00 +2026", headrace(*command, *options).out)

    assert minutes("--limit", 3) == ["09", "08", "07"]
    assert minutes("--limit", 3, "--oldest-first") == ["00", "01", "02"]
    assert minutes() == [f"{n:02d}" for n in range(9, -1, -1)]
    rows = crowded.http.get("/v1/views/traffic", params={"by": "", "order": "newest", "limit": 1}).json()["rows"]
    assert rows[0]["window_start"] == "2026-03-01T12:09:00Z"
    with connect(crowded.url) as connection:
        newest = connection.ask("traffic", by=[], order="newest").rows()
        assert newest == connection.ask("traffic", by=[]).rows()[::-1]


def test_one_window_over_all_time_by_all_surfaces(crowded: Served, headrace: Callable[..., Ran]) -> None:
    table = headrace("ask", "traffic", "-w", crowded.url, "--by", "", "--window", "all")
    assert table.out.splitlines()[0].split() == ["hits", "errors", "bytes", "visitors", "settled"]
    assert f"{ROWS:,}" in table.out
    (row,) = crowded.http.get("/v1/views/traffic", params={"by": "", "window": "all"}).json()["rows"]
    assert (row["hits"], row["window_start"], row["window_end"]) == (ROWS, None, None)
    with connect(crowded.url) as connection:
        (row,) = connection.ask("traffic", by=[], window="all", start="2026-03-01T12:08:00Z").rows()
        assert row["hits"] == 2 * KEYS
        (row,) = connection.ask("traffic", key={"page": "/0007"}, window="all").rows()
        assert row["hits"] == MINUTES


def test_integer_keys_have_no_thousands_separators(
    applied: Path, serve: Callable[..., Served], tmp_path: Path, headrace: Callable[..., Ran]
) -> None:
    view = (
        "CREATE MATERIALIZED VIEW years AS SELECT year(at) AS year, sum(bytes) AS bytes FROM visits GROUP BY year(at);"
    )
    (applied / "definitions" / "more.sql").write_text(view)
    served = serve(applied)
    served.verbs.apply()
    event = visit_of(None, 0, size=12_345)
    fill(served.runtime, tmp_path, "years", [type(event)((2026,), event.at_ms, event.values)])
    table = headrace("ask", "years", "-w", served.url).out
    assert table.splitlines()[2].split() == ["2026", "12,345"]
    table = headrace("sql", "SELECT year, bytes FROM years", "-w", served.url).out
    assert table.splitlines()[2].split() == ["2026", "12345"], "SQL has no keys to tell from measures"
    assert ">2026<" in served.http.get("/views/years").text
