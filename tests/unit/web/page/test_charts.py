"""Charts with a line per key, tables that sort and the events behind a cell: what is drawn, all of it escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.html import breakable
from headrace.serve.answer import Answer
from headrace.serve.explanation import ExplainedEvent, Explanation, JoinedRow
from headrace.types import BIGINT, STRING
from headrace.web.page.cell_page import explanation_section
from headrace.web.page.chart_series import ChartPoint, Line, Lines
from headrace.web.page.charts import chart
from headrace.web.page.page_tables import TableColumn, table

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVIL = "<script>'\"&"


def line(key: Any, *values: Any, settled: bool = True) -> Line:
    points = {at: ChartPoint(at, "", value, settled) for at, value in enumerate(values) if value is not ...}
    return Line({"page": key}, values[-1], points)


def draw_lines(*lines: Line, places: int = 4) -> str:
    windows = [f"12:0{at}" for at in range(places)]
    return chart(Lines("hits", "hits per minute", list(lines), windows, NOON, NOON + timedelta(minutes=places)), "c")


def test_a_line_has_gaps_and_dots() -> None:
    figure = draw_lines(line("/home", 0, 10, ..., 5), line("/cart", 10, ..., float("nan"), 0))
    paths = re.findall(r'<path d="([^"]*)" class="([^"]*)">', figure[: figure.index("<ul")])
    assert paths == [
        ("M5 100.00L15 0.00", "line s1"),
        ("M35 50.00h0", "dots s1"),
        ("M5 0.00h0M35 100.00h0", "dots s2"),
    ]
    assert "<title>12:01 UTC: /home 10</title>" in figure
    assert "<title>12:02 UTC: /cart NaN</title>" in figure
    assert "/home: lowest 0, highest 10, last 5; /cart: lowest 0, highest 10, last 0" in figure


def test_a_legend_names_the_keys_and_links_to_each() -> None:
    lines = [line(EVIL, 1), line(None, 2), line("", 3), line(True, 4, settled=False)]
    figure = chart(Lines("hits", EVIL, lines, ["12:00"], NOON, NOON), "c", lambda line: f"/views/x?{line.label}")
    assert "<script" not in figure
    assert re.findall(r"<bdi>([^<]*)</bdi>", figure) == [
        "&lt;script&gt;&#x27;&quot;&amp;", "NULL", "&quot;&quot;", "true",
    ]  # fmt: skip
    assert 'href="/views/x?&lt;script&gt;' in figure
    assert "shaded: provisional" in figure


def test_lines_without_numbers_are_no_chart() -> None:
    assert "hits has no number to draw" in draw_lines(line("a", None, float("inf")))


def test_a_column_head_links_to_its_order_and_shows_the_current_one() -> None:
    columns = [
        TableColumn("a_b", sort_path="?sort=a&b"),
        TableColumn("c", number=True, sort_path="?", sorted="descending"),
    ]
    element = table([*columns, TableColumn("d")], [], label="x")
    assert '<th scope="col"><a href="?sort=a&amp;b" data-stay title="sort by a_b">a_<wbr>b' in element
    assert '<th scope="col" class="number" aria-sort="descending">' in element
    assert '<th scope="col">d</th>' in element


def test_a_name_may_be_wrapped_after_underscores() -> None:
    assert breakable("a__b_c") == "a__<wbr>b_<wbr>c"
    assert breakable("_x") == "_<wbr>x"
    assert breakable("<b>") == "&lt;b&gt;"


def explanation(*values: str, corrections: int = 1) -> Explanation:
    cell = Answer(
        view="traffic", version=1, columns=(("page", STRING), ("hits", BIGINT)), values=[("/home", 1)],
        next_cursor=None, more_rows=0, commits={}, newest_event=NOON, at=NOON, freshness_ms=0, freshness_reason=None,
        events={"batch": 0, "speed": 1}, corrections=0, approximate={}, windows=None, stalled=None,
    )  # fmt: skip
    moment = NOON + timedelta(microseconds=123_456)
    events = [
        ExplainedEvent(
            position=0, commit=0, arrived=moment, event_time=NOON, delay_ms=0, behind_ms=0, late=False,
            correction=False, in_view=True, value=value, bytes=20_000 if value.endswith("cut") else len(value),
            whole=not value.endswith("cut"), arguments={},
        )
        for value in values
    ]  # fmt: skip
    return Explanation(
        cell=cell, key={"page": "/home"}, window_start=NOON, window_end=NOON + timedelta(minutes=1), found=1,
        found_in_view=1, late=0, corrections=corrections, commits=1, agrees=True, note=None, nearest=(),
        events=events, columns=(), keys=(("page", STRING),), next_cursor=None, took_ms=1,
    )  # fmt: skip


def test_a_long_event_is_collapsed() -> None:
    long = EVIL + "x" * 5000
    section = explanation_section("/views/traffic", explanation("short", long, "y" * 500 + "cut"))
    assert "<td><bdi>short</bdi></td>" in section
    assert section.count("<details") == 2
    whole = section[section.index("<details") : section.index("</details>")]
    assert "… (5,011 characters)</bdi></summary>" in whole
    assert "&lt;script&gt;&#x27;&quot;&amp;" + "x" * 5000 + "</bdi></pre>" in whole
    assert "the first 503 characters of 20,000 bytes" in section
    assert "<script" not in section


def test_the_row_of_a_table_that_an_event_met() -> None:
    shown = explanation("short")
    assert "joined to" not in explanation_section("/views/traffic", shown)
    rows = [JoinedRow("users", {"id": "ann"}, {"id": "ann", "plan": "<b>"}), JoinedRow("cities", {"id": 5}, None)]
    met = replace(shown, events=[replace(shown.events[0], joined=rows)])
    section = explanation_section("/views/traffic", met)
    assert "joined to" in section
    assert "users id=ann: plan=&lt;b&gt; · cities id=5: no row" in section


def test_the_events_behind_a_cell_have_counts_and_times() -> None:
    section = explanation_section("/views/traffic", explanation("short"))
    assert "1 event of the log: 1 on time + 0 late, 1 correction; the view has the same count." in section
    assert "2 corrections;" in explanation_section("/views/traffic", explanation("short", corrections=2))
    assert ">2026-03-01 12:00:00.123</time>" in section
    assert 'title="2026-03-01T12:00:00.123456Z"' in section
