"""The page in a real browser: what it shows, how it keeps up, and that hostile events stay text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from headrace.cli.app import run
from headrace.store.store_contract import Drift
from tests.ports import free_port
from tests.surfaces.browser import Tab, chromium, open_tab
from tests.surfaces.conftest import Served
from tests.surfaces.pour import beat, begin_build, pour_lines, pour_view
from tests.unit.store.partial_files import Event

DEFINITIONS = """
CREATE STREAM visits (visitor STRING NOT NULL, page STRING, bytes BIGINT, load_ms DOUBLE, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE STREAM quiet (it STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW traffic AS SELECT page, count(*) AS hits, max(visitor) AS last_visitor
  FROM visits GROUP BY page, window(at, '1 minute');
CREATE MATERIALIZED VIEW slowest AS SELECT max(load_ms) AS slowest FROM visits
  GROUP BY window(at, '5 minutes', '1 minute');
CREATE MATERIALIZED VIEW pages AS SELECT page, count(*) AS hits FROM visits GROUP BY page;
CREATE MATERIALIZED VIEW broken AS SELECT count(*) AS hits FROM quiet GROUP BY window(at, '1 hour');
"""
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><style>*{display:none}",
    "</title></textarea></svg><svg onload=alert(1)>",
    "javascript:alert(1)",
    "http://203.0.113.9/pixel.png",
    '=HYPERLINK("http://203.0.113.9")',
    "right\u202eto\u2066left\u2069",
    "NUL\x00ESC\x1b[31m",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "x" * 100_000,
    "",
    None,
]
NOON_MS = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) * 1000
NUMBERS = [1.0, float("nan"), float("inf"), -5.0, 1e308, None, 0.0]


def event(key: tuple[Any, ...], minute: int, text: str = "ann", number: float | None = 1.0) -> Event:
    values = {"STRING": text, "BIGINT": 1, "DOUBLE": number}
    return Event(key, NOON_MS + minute * 60_000, values)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop" / "definitions").mkdir(parents=True)
    (tmp_path / "shop" / "headrace.toml").write_text("")
    (tmp_path / "shop" / "definitions" / "shop.sql").write_text(DEFINITIONS)
    assert run(["apply", "--yes", "-w", str(tmp_path / "shop")]) == 0
    return tmp_path / "shop"


@pytest.fixture
def filled(folder: Path, serve: Callable[..., Served]) -> Served:
    """A server with hostile keys, values, dead letters and errors."""
    served = serve(folder)
    fill(served)
    return served


def fill(served: Served) -> None:
    runtime = served.runtime
    bad = [orjson.dumps({"visitor": text, "at": text}) for text in HOSTILE[:6] if text] + [b"<b>not json"]
    good = orjson.dumps({"visitor": "ann", "page": "/home", "bytes": 1, "at": "2026-03-01T12:00:00Z"})
    pour_lines(runtime, "visits", good, *bad)
    pour_view(runtime, "traffic", [event((key,), at, key or "ann") for at in range(3) for key in ["/home", *HOSTILE]])
    pour_view(runtime, "slowest", [event((), at, number=n) for at, n in enumerate(NUMBERS)])
    pour_view(runtime, "pages", [event((key,), 0) for key in ["/home", "/home", *HOSTILE]])
    beat(runtime, "traffic")
    beat(runtime, "pages", Drift("hits", 2, f"page {HOSTILE[0]!r}: 1 by the batch layer, 2 by the speed layer"))
    begin_build(runtime, "slowest")
    runtime._store.stall("broken", 1, "quiet", f"[BROKEN] {HOSTILE[1]} {HOSTILE[0]}")


def no_wider_than_the_screen(tab: Tab) -> bool:
    return bool(tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_hostile_events_stay_text(filled: Served, browser: Any, tmp_path: Path) -> None:
    for name, settings in {
        "light": {"viewport": {"width": 1280, "height": 900}},
        "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
        "phone": {"viewport": {"width": 360, "height": 740}},
    }.items():
        tab = open_tab(browser, **settings)
        for path in ("/", "/views/traffic", "/views/pages", "/views/slowest"):
            tab.page.goto(filled.url + path)
            tab.page.wait_for_function("document.getElementById('pause').hidden === false")  # the script has run
            assert no_wider_than_the_screen(tab), (name, path)
            tab.page.screenshot(path=tmp_path / f"{name}{path.replace('/', '-')}.png", full_page=True)
        tab.page.goto(filled.url)
        for text in ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', r"right\u202eto\u2066left\u2069"):
            assert tab.page.locator("#live td bdi", has_text=text).count() > 0, text
        assert tab.page.locator("#live script, #live img, #live style, #live a[href^='javascript']").count() == 0
        assert "100,000 characters" in tab.page.inner_text("#live")
        tab.check()


def test_the_page_shows_streams_views_rows_and_charts(filled: Served, browser: Any) -> None:
    tab = open_tab(browser)
    page = tab.page
    page.goto(filled.url)
    visits = page.get_by_role("region", name="streams").get_by_role("row").filter(has_text="visits")
    assert visits.get_by_role("cell").nth(2).inner_text() == "1"
    assert visits.get_by_role("cell").nth(3).inner_text() == "7"
    assert "View broken is stalled: [BROKEN]" in page.locator(".trouble").inner_text()
    assert "Stream quiet has no events yet" in page.inner_text("#live")
    card = page.get_by_role("article", name="traffic")
    assert card.locator("tbody tr").first.inner_text().split("\n")[0].startswith("2026-03-01 12:02 – 12:03")
    chart = card.get_by_role("img", name="hits per 1 minute, page together")
    assert chart.locator("rect").count() == 3
    assert "provisional" in chart.locator("rect").last.text_content()
    numbers = page.get_by_role("article", name="slowest").locator("svg[role=img]")
    assert "without a number" in numbers.locator("desc").text_content()
    assert page.get_by_role("article", name="pages").locator(".lying li").count() == 10
    page.get_by_text("7 dead letters of visits: why").click()
    assert "headrace dead-letters visits" in page.inner_text("#dead-visits")
    tab.check()


def test_the_page_shows_the_two_layers(filled: Served, browser: Any) -> None:
    tab = open_tab(browser)
    page = tab.page
    page.goto(filled.url)
    traffic = page.get_by_role("article", name="traffic")
    assert traffic.locator(".layers").inner_text().split("\n")[:2] == ["version 1", "batch 100 %, speed 0 %"]
    assert ": 42 rows agree" in traffic.locator(".layers").inner_text()
    alarm = page.get_by_role("article", name="pages").get_by_role("alert").inner_text()
    assert alarm.startswith("Alarm: drift in hits. Answers are not affected")
    assert HOSTILE[0] in alarm
    assert "headrace refresh pages --full rebuilds the view from the log." in alarm
    assert "View pages: drift in hits: the two layers disagree" in page.locator(".trouble").inner_text()
    build = page.get_by_role("article", name="slowest").locator(".building")
    assert build.inner_text().strip().startswith("Version 2 is being built: 0 of 1 events")
    assert build.get_by_role("progressbar").get_attribute("value") == "0"
    page.goto(f"{filled.url}/views/pages")
    audits = page.get_by_role("region", name="audits").get_by_role("row")
    assert audits.count() == 2
    assert audits.last.get_by_role("cell").last.inner_text() == "differ in hits (2)"
    tab.check()


def test_it_updates_itself_and_keeps_focus_and_position(filled: Served, browser: Any) -> None:
    tab = open_tab(browser)
    page = tab.page
    page.goto(filled.url)
    page.get_by_text("7 dead letters of visits: why").click()
    page.get_by_role("region", name="rows of traffic").focus()
    page.evaluate("document.activeElement.dataset.mine = scrollTo(0, 300)")
    pour_lines(filled.runtime, "visits", b"more rubbish")
    pour_view(filled.runtime, "traffic", [event(("/new",), 3)])
    page.get_by_role("article", name="traffic").get_by_text("/new").wait_for()
    page.get_by_text("8 dead letters of visits: why").wait_for()
    assert page.locator("#dead-visits").get_attribute("open") is not None
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "rows of traffic"
    assert page.evaluate("scrollY") == 300
    tab.check()


def test_a_hidden_page_is_not_updated(filled: Served, browser: Any) -> None:
    tab = open_tab(browser)
    page = tab.page
    page.clock.install()
    page.goto(filled.url)
    page.wait_for_function("document.getElementById('pause').hidden === false")
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => window.away}); window.away = true;"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    before = len(tab.requests)
    page.clock.run_for(600_000)
    assert len(tab.requests) == before
    with page.expect_response(filled.url + "/"):
        page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
    page.get_by_role("button", name="Pause").click()
    page.wait_for_load_state("networkidle")
    before = len(tab.requests)
    page.clock.run_for(600_000)
    assert len(tab.requests) == before
    with page.expect_response(filled.url + "/"):
        page.get_by_role("button", name="Resume").click()
    tab.check()


def test_a_lost_server_is_reported_and_found_again(folder: Path, serve: Callable[..., Served], browser: Any) -> None:
    port = free_port()
    served = serve(folder, port=port)
    fill(served)
    page = open_tab(browser).page
    page.goto(served.url)
    served.stop()
    page.get_by_text("Connection lost, numbers from").wait_for()
    assert "UTC. Trying again." in page.inner_text("#connection")
    assert "/home" in page.inner_text("#live")
    again = serve(folder, port=port)
    pour_view(again.runtime, "traffic", [event(("/back",), 4)])
    page.get_by_role("article", name="traffic").get_by_text("/back").wait_for()
    assert page.inner_text("#connection") == ""


def test_a_token_is_typed_in_once(folder: Path, serve: Callable[..., Served], browser: Any) -> None:
    served = serve(folder, token="open sesame")
    tab = open_tab(browser)
    page = tab.page
    page.goto(f"{served.url}/views/traffic")
    page.get_by_label("Token").fill("open sesame")
    page.get_by_label("Token").press("Enter")
    page.get_by_role("heading", name="traffic").wait_for()
    assert page.url == f"{served.url}/views/traffic"
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert page.evaluate("document.cookie") == ""
    page.context.clear_cookies()
    page.get_by_text("Signed out.").wait_for()
    page.get_by_role("link", name="Sign in").click()
    page.get_by_label("Token").wait_for()
    tab.check()


def test_a_view_is_filtered_by_a_form(filled: Served, browser: Any) -> None:
    tab = open_tab(browser)
    page = tab.page
    page.goto(f"{filled.url}/views/traffic")
    field = page.get_by_role("textbox", name="page", exact=True)
    field.fill(HOSTILE[0])
    field.press("Enter")
    page.get_by_text("Shown: all 3 rows").wait_for()
    assert field.input_value() == HOSTILE[0]
    page.get_by_role("textbox", name="or page").fill("/home")
    page.get_by_role("button", name="Show").click()
    page.get_by_text("Shown: all 6 rows").wait_for()
    page.get_by_role("link", name="Clear").click()
    page.get_by_role("region", name="rows of traffic").get_by_text("NULL").first.wait_for()
    assert field.input_value() == ""
    tab.check()


def test_rows_are_sorted_by_a_click_and_the_back_button_works(filled: Served, browser: Any) -> None:
    tab = open_tab(browser)
    page = tab.page
    page.goto(f"{filled.url}/views/traffic")
    page.evaluate("document.body.dataset.mine = 'the same page'")
    page.get_by_role("link", name="last_visitor").focus()
    page.keyboard.press("Enter")
    page.get_by_text("sorted by last_visitor, ascending").wait_for()
    assert page.evaluate("document.activeElement.textContent").startswith("last_visitor")
    page.keyboard.press("Enter")
    page.get_by_text("sorted by last_visitor, descending").wait_for()
    assert page.url.endswith("/views/traffic?sort=-last_visitor#rows")
    assert page.get_by_role("columnheader", name="last_visitor").get_attribute("aria-sort") == "descending"
    first = page.get_by_role("region", name="rows of traffic").locator("tbody tr").first
    assert HOSTILE[9] in first.inner_text()
    page.go_back()
    page.get_by_text("sorted by last_visitor, ascending").wait_for()
    assert page.evaluate("document.body.dataset.mine") == "the same page"
    tab.check()


def test_a_chart_shows_the_top_keys_and_each_alone(filled: Served, browser: Any) -> None:
    pour_view(filled.runtime, "traffic", [event((HOSTILE[0],), at) for at in (0, 0, 1, 2, 3)])
    tab = open_tab(browser)
    page = tab.page
    page.goto(f"{filled.url}/views/traffic")
    page.get_by_label("series").select_option("page")
    page.get_by_role("img", name="hits per 1 minute: the top 5 of 14 by page").wait_for()
    legend = page.get_by_role("list", name="keys, with hits of the whole range")
    assert legend.get_by_role("listitem").count() == 5
    assert legend.get_by_role("listitem").first.inner_text() == f"{HOSTILE[0]} 8"
    assert page.locator("#chart path.line").count() == 10  # in the picture and in the legend
    assert page.evaluate("getComputedStyle(document.querySelector('#chart path.s1')).stroke") == "rgb(29, 111, 184)"
    legend.get_by_role("link").first.click()
    page.get_by_text("Shown: all 4 rows").wait_for()
    assert page.get_by_role("textbox", name="page", exact=True).input_value() == HOSTILE[0]
    assert page.get_by_role("img", name="hits per 1 minute, filtered").locator("rect").count() == 4
    assert page.get_by_label("series").input_value() == ""
    tab.check()


def test_an_invalid_range_is_reported_on_the_page(filled: Served, browser: Any) -> None:
    page = open_tab(browser).page
    page.goto(f"{filled.url}/views/traffic")
    page.get_by_role("combobox", name="from").fill("<b>yesterday")
    page.get_by_role("combobox", name="from").press("Enter")
    page.get_by_role("alert").get_by_text("start is not a time; found '<b>yesterday'").wait_for()
    page.get_by_role("link", name="Show the view without parameters").click()
    page.get_by_role("region", name="rows of traffic").wait_for()
    page.get_by_role("combobox", name="from").fill("-1m")
    page.get_by_role("combobox", name="from").press("Enter")
    page.get_by_text("of the range").wait_for()
    assert page.url.endswith("/views/traffic?start=-1m")


def test_a_wide_table_scrolls_and_indicates_it(folder: Path, serve: Callable[..., Served], browser: Any) -> None:
    names = [f"the_{number}_of_many_columns_with_long_names" for number in range(14)]
    columns = ", ".join(f"max(visitor) AS {name}" for name in names)
    view = "a_view_with_a_name_that_is_nearly_as_long_as_the_names_can_be"
    (folder / "definitions" / "wide.sql").write_text(
        f"CREATE MATERIALIZED VIEW {view} AS SELECT page, {columns} FROM visits GROUP BY page, window(at, '1 minute');"
    )
    assert run(["apply", "--yes", "-w", str(folder)]) == 0
    served = serve(folder)
    pour_view(served.runtime, view, [event((f"/{at}",), at, "a word or two " * 5) for at in range(50)])
    for width in (1300, 400):
        tab = open_tab(browser, viewport={"width": width, "height": 900})
        for path in ("/", f"/views/{view}"):
            tab.page.goto(served.url + path)
            assert no_wider_than_the_screen(tab), (width, path)
        frame = tab.page.get_by_role("region", name=f"rows of {view}")
        assert frame.evaluate("(frame) => frame.scrollWidth > frame.clientWidth")
        assert frame.bounding_box()["height"] < 900  # its scroll bar is on the screen, not below it
        # Shadows stay at the edges of the frame; what covers them where the table ends moves with the table.
        assert frame.evaluate("(frame) => getComputedStyle(frame).backgroundAttachment").startswith(
            "local, local, scroll, scroll"
        )
        tab.check()


def test_it_works_without_script(filled: Served, browser: Any) -> None:
    tab = open_tab(browser, java_script_enabled=False)
    tab.page.goto(filled.url)
    assert tab.page.get_by_role("article", name="traffic").get_by_text("/home").first.is_visible()
    assert not tab.page.get_by_role("button", name="Pause").is_visible()
    assert tab.page.locator("noscript meta[http-equiv=refresh]").count() == 1
    tab.page.goto(f"{filled.url}/views/traffic")
    tab.page.get_by_role("link", name="hits").click()
    tab.page.locator("#rows").get_by_text("sorted by hits, descending").wait_for()
    tab.page.get_by_label("series").select_option("page")
    tab.page.get_by_role("button", name="Show").click()
    tab.page.get_by_role("list", name="keys, with hits").wait_for()
    tab.page.locator("#rows").get_by_text("sorted by hits, descending").wait_for()
    tab.check()
