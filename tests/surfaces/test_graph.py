"""`headrace graph`, `GET /v1/graph` and the graph on the page: what reads what, with numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from headrace.api.connect import connect
from tests.surfaces.browser import chromium, open_tab
from tests.surfaces.conftest import Ran, Served
from tests.surfaces.sql_shop import fill

MORE = """
CREATE STREAM errors AS SELECT * FROM visits WHERE status >= 500;
CREATE MATERIALIZED VIEW error_pages AS SELECT page, count(*) AS n FROM errors GROUP BY page, window(at, '1 minute');
CREATE VIEW top AS SELECT t.page, t.hits, e.n FROM traffic t LEFT JOIN error_pages e USING (page, window_start);
CREATE ALERT many AS SELECT * FROM error_pages WHERE n > 5;
"""


@pytest.fixture
def folder_with_more(folder: Path) -> Path:
    (folder / "definitions" / "more.sql").write_text(MORE)
    return folder


@pytest.fixture
def shop(folder_with_more: Path, headrace: Callable[..., Ran], serve: Callable[..., Served], tmp_path: Path) -> Served:
    assert headrace("apply", "--yes", "-w", folder_with_more).code == 0
    served = serve(folder_with_more)
    fill(served.runtime, tmp_path)
    return served


def test_the_graph_by_http_and_python(shop: Served) -> None:
    nodes = {node["name"]: node for node in shop.http.get("/v1/graph").json()["nodes"]}
    assert {name: (node["kind"], node["reads"]) for name, node in nodes.items()} == {
        "visits": ("stream", []),
        "errors": ("derived stream", ["visits"]),
        "traffic": ("view", ["visits"]),
        "error_pages": ("view", ["errors"]),
        "top": ("logical view", ["traffic", "error_pages"]),
        "many": ("alert", ["error_pages"]),
    }
    assert (nodes["traffic"]["rows"], nodes["traffic"]["freshness_ms"]) == (4, 0)
    assert nodes["visits"]["events_per_second"] == 0
    with connect(shop.url) as connection:
        assert [node.name for node in connection.graph().nodes] == list(nodes)


def test_the_tree_of_the_command(folder_with_more: Path, headrace: Callable[..., Ran], tmp_path: Path) -> None:
    """Also before anything is applied."""
    ran = headrace("graph", "-w", folder_with_more)
    assert ran.code == 0, ran.err
    lines = [re.split(r"  +(?=\w)", line)[0] for line in ran.out.splitlines()]
    assert lines[0] == "visits"
    assert "├─ errors" in lines
    assert "│  └─ error_pages" in lines
    assert any("see above" in line for line in ran.out.splitlines())
    assert len(headrace("graph", "-w", folder_with_more, "--json").json["nodes"]) == 6
    file = tmp_path / "graph.svg"
    assert "Wrote 6 nodes" in headrace("graph", "-w", folder_with_more, "--svg", file).out
    picture = ET.parse(file).getroot()
    texts = ["".join(each.itertext()) for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"visits", "top", "logical view"} <= set(texts)
    assert "prefers-color-scheme" in file.read_text()
    refused = headrace("graph", "-w", folder_with_more, "--svg", tmp_path / "missing" / "graph.svg")
    assert "cannot be written: No such file or directory" in refused.err
    assert "cannot be combined" in headrace("graph", "-w", folder_with_more, "--svg", file, "--json").err


def test_an_empty_workspace_says_so(folder: Path, headrace: Callable[..., Ran]) -> None:
    for file in (folder / "definitions").iterdir():
        file.unlink()
    assert "nothing is declared yet" in headrace("graph", "-w", folder).out


def test_the_page_shows_the_graph_and_leads_to_each(shop: Served) -> None:
    with chromium() as browser:
        tab = open_tab(browser, color_scheme="dark")
        tab.page.goto(shop.url)
        tab.page.get_by_role("link", name="Graph: what reads what").click()
        tab.page.get_by_role("heading", name="Graph").wait_for()
        box = tab.page.locator(".graph a", has_text="traffic").bounding_box()
        source = tab.page.locator(".graph a", has_text="visits").bounding_box()
        assert source["x"] + source["width"] < box["x"]
        fill_of = "getComputedStyle(document.querySelector('.graph .node rect')).fill"
        assert tab.page.evaluate(fill_of) == "rgb(24, 30, 38)"  # the dark surface
        tab.page.locator(".graph a", has_text="top").click()
        tab.page.get_by_role("heading", name="top").wait_for()
        tab.page.go_back()
        tab.page.locator(".graph a", has_text="visits").click()
        tab.page.wait_for_url("**/#stream-visits")
        assert tab.page.locator("#stream-visits").inner_text() == "visits"
        tab.check()
