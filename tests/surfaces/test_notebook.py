"""Answers, views and streams in notebooks: what they show, that values are escaped, and that a browser draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from headrace.api.connect import Connection, connect
from headrace.errors import NotFoundError
from tests.surfaces.browser import chromium, open_tab
from tests.surfaces.conftest import Served
from tests.surfaces.pour import pour_lines
from tests.surfaces.sql_shop import fill, visit_of

ATTACKS = ['<script>alert("1")</script>', '" onload="alert(2)', "</td></table><img src=x onerror=alert(3)>", "a\u202eb"]
ALLOWED = {"div", "strong", "figure", "figcaption", "svg", "title", "rect", "table", "thead", "tbody", "tr", "th", "td",
           "bdi", "span", "time", "dl", "dt", "dd", "p", "code"}  # fmt: skip


class Reader(HTMLParser):
    """Collects elements, attributes and text; every element must be closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.open.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def shop(applied: Path, serve: Callable[..., Served], tmp_path: Path) -> Served:
    """A view with keys that attack a page, and one event in the lake."""
    served = serve(applied)
    pages = ["/home", None, *ATTACKS]
    fill(served.runtime, tmp_path, visits=[visit_of(page, minute) for minute in range(30) for page in pages])
    pour_lines(
        served.runtime,
        "visits",
        b'{"visitor":"a","page":"/","status":200,"bytes":1,"at":"2026-03-01T12:00:00Z"}',
    )
    return served


@pytest.fixture
def connection(shop: Served) -> Iterator[Connection]:
    with connect(shop.url) as opened:
        yield opened


def shown(value: Any) -> Reader:
    """What a notebook shows of a value; it has no element or attribute that could run anything."""
    reader = Reader(value._repr_html_())
    assert set(reader.elements) <= ALLOWED
    assert not [name for name in reader.attributes if name.startswith("on") or name in ("href", "src")]
    return reader


def test_an_answer_shows_rows_freshness_and_a_chart_over_time(connection: Connection) -> None:
    reader = shown(connection.ask("traffic", key={"page": "/home"}))
    assert (reader.elements.count("rect"), reader.elements.count("tr")) == (30, 21)
    for words in (
        "traffic",
        "version 1",
        "2026-03-01 12:00",
        "… and 10 rows more",
        "30 rows, 9 settled",
        "within 3.3 %",
    ):
        assert words in reader.text
    assert "30 events on time + 0 corrections = 30 events" in reader.text


def test_values_are_escaped_everywhere(connection: Connection) -> None:
    by_page = shown(connection.ask("traffic", by="page", window="all"))
    for attack in ATTACKS[:3]:
        assert attack in by_page.text
    assert "a\\u202eb" in by_page.text
    assert "window_start" not in by_page.text, "one window over all time has no bounds"
    assert by_page.elements.count("rect") == 6
    shown(connection.view("traffic"))
    shown(connection.sql("SELECT page, '<b>' AS \"<i>\" FROM traffic"))


def test_a_lookup_names_what_is_missing(connection: Connection) -> None:
    reader = shown(connection.lookup("traffic", [{"page": "/home"}, {"page": "/none"}], window="all"))
    assert "no rows for 1 key" in reader.text


def test_an_answer_without_rows(connection: Connection) -> None:
    assert "no rows" in shown(connection.ask("traffic", key={"page": "/none"})).text


def test_a_view_is_an_object(connection: Connection) -> None:
    view = connection.view("traffic")
    assert repr(connection) == f"connection to the server at {connection.url}"
    assert repr(view) == "view traffic"
    frame = view.df(key={"page": "/home"}, window="all")
    assert list(frame["hits"]) == [30]
    assert view.arrow().num_rows == len(view.ask().values) == 180
    assert view.lookup([{"page": "/home"}], window="all").rows()[0]["hits"] == 30
    reader = shown(view)
    assert reader.elements.count("rect") == 30, "totals over time"
    for words in ("status <> 304", "180 on time, corrections: 0", "1 minute"):
        assert words in reader.text
    with pytest.raises(NotFoundError, match="did you mean 'traffic'"):
        connection.view("trafic")._repr_html_()


def test_a_stream_is_an_object(connection: Connection) -> None:
    stream = connection.stream("visits")
    assert repr(stream) == "stream visits"
    reader = shown(stream)
    for words in (
        "visitor",
        "TIMESTAMP",
        "NOT NULL",
        "at, patience 1 minute",
        "no event was late",
        "lateness: p50 0 ms",
    ):
        assert words in reader.text
    reply = stream.send({"visitor": "b", "page": "/", "status": 200, "bytes": 1, "at": "2026-03-01T12:00:01Z"})
    assert reply.accepted == 1


def test_lists_are_tables(connection: Connection) -> None:
    assert connection.views() == connection.verbs.views()
    assert "traffic" in shown(connection.views()).text
    assert "visits: no event was late; patience is 1 minute" in shown(connection.streams()).text


def test_a_browser_draws_them_and_runs_nothing(connection: Connection, tmp_path: Path) -> None:
    parts = [
        connection.ask("traffic", by="page", window="all"),
        connection.view("traffic"),
        connection.stream("visits"),
    ]
    page = tmp_path / "notebook.html"
    page.write_text("<!doctype html><meta charset=utf-8>" + "".join(part._repr_html_() for part in parts))
    with chromium() as browser:
        tab = open_tab(browser)
        tab.page.goto(page.as_uri())
        assert tab.page.locator("svg").count() == 3
        boxes = [box.bounding_box() for box in tab.page.locator("svg").all()]
        assert all(box["width"] >= 50 and box["height"] >= 40 for box in boxes)
        assert tab.page.locator("script, img").count() == 0
        assert tab.faults == []
