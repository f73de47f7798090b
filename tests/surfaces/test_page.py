"""The page over a real runtime without Spark: its contents, its security, and who may see it."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import httpx2
import pytest

from headrace.cli.app import run
from headrace.deliver.delivery_status import AlertStatus
from headrace.server.status import WorkspaceStatus
from headrace.web.application import Timeouts
from headrace.web.page.delivery_sections import alerts_badge
from headrace.web.page.pages import WorkspacePage
from tests.surfaces.browser import chromium, open_tab
from tests.surfaces.conftest import Ran, Served, visit
from tests.surfaces.sql_shop import fill, visit_of

HTML = {"accept": "text/html"}
TOKEN = "open sesame"
WIDE_NAME = "WWWWWWWWWWWWWWWW_MMMMMMMMMMMMMMMM_QQQQQQQQQQQQQQQQ"
DEFINITIONS = f"""
CREATE MATERIALIZED VIEW busiest AS
SELECT page, count(*) AS hits FROM visits GROUP BY page, window(at, '1 minute') ORDER BY hits DESC, page LIMIT 2;
CREATE MATERIALIZED VIEW busiest_ever AS
SELECT page, sum(bytes) AS bytes FROM visits GROUP BY page ORDER BY bytes LIMIT 2;
CREATE MATERIALIZED VIEW sampled AS
SELECT page, count(*) AS hits FROM visits TABLESAMPLE (50 PERCENT) GROUP BY page, window(at, '1 minute');
CREATE MATERIALIZED VIEW stays AS
SELECT page, count(*) AS hits FROM visits GROUP BY page, session_window(at, '2 minutes');
CREATE MATERIALIZED VIEW {WIDE_NAME} AS SELECT count(*) AS n FROM visits GROUP BY window(at, '1 minute');
CREATE VIEW several_lines AS
SELECT page,
       hits   -- of a minute
FROM busiest;
"""
LEGEND = r'<bdi>(/\d)</bdi></a> <span class="quiet">(\d+)'  # key and number


class Text(HTMLParser):
    """The words of a page, without its markup."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(reply: httpx2.Response) -> str:
    assert reply.headers["content-type"].startswith("text/html")
    return " ".join(" ".join(Text(reply.text).words).split())


def test_the_page_shows_the_workspace_and_next_steps(served: Served) -> None:
    reply = served.http.get("/")
    text = read(reply)
    for words in ("shop starting Spark is starting", "visits", "traffic", "none yet", "No rows yet."):
        assert words in text
    assert f"curl {served.url}/v1/streams/visits/events" in text
    sample = text[text.index("-d '") + 4 : text.index("}'") + 1]
    post = served.http.post("/v1/streams/visits/events", content=sample, headers={"content-type": "application/json"})
    assert post.json()["accepted"] == 1


def test_the_page_may_load_nothing_from_other_sites(served: Served) -> None:
    for path, status in (("/", 200), ("/views/traffic", 200), ("/views/nothing", 404), ("/page/style.css", 200)):
        reply = served.http.get(path)
        assert reply.status_code == status
        policy = reply.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert {"frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} <= set(policy.split("; "))
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
    page = served.http.get("/").text
    assert "style=" not in page
    assert "<style" not in page
    assert "onclick" not in page
    assert served.http.get("/page/../routes.py").status_code == 404


def test_a_view_has_its_own_page(served: Served) -> None:
    assert "1 minute by page of visits" in read(served.http.get("/views/traffic?key.page=/home"))
    assert "did you mean 'traffic'?" in read(served.http.get("/views/trafic"))
    assert "Versions" in read(served.http.get("/views/traffic"))


def column(page: str, at: int) -> list[str]:
    """The cells of one column of the rows."""
    body = page[page.index('aria-label="rows of') :].partition("<tbody>")[2].partition("</tbody>")[0]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("</tr>")[:-1]]
    return ["".join(Text(row[at]).words) for row in rows]


@pytest.mark.parametrize(
    ("sort", "pages", "hits"),
    [
        ("-hits", ["/home", "NULL", "/cart", "/home"], ["2", "1", "1", "1"]),
        ("hits", ["NULL", "/cart", "/home", "/home"], ["1", "1", "1", "2"]),
        ("page", ["/cart", "/home", "/home", "NULL"], ["1", "1", "2", "1"]),  # NULL is last in either direction
        ("-page", ["/home", "/home", "/cart", "NULL"], ["1", "2", "1", "1"]),
        ("-bytes", ["/home", "NULL", "/home", "/cart"], ["2", "1", "1", "1"]),
        ("-settled", ["/cart", "/home", "/home", "NULL"], ["1", "1", "2", "1"]),
    ],
)
def test_rows_are_sorted_by_any_column(
    served: Served, tmp_path: Path, sort: str, pages: list[str], hits: list[str]
) -> None:
    fill(served.runtime, tmp_path)
    reply = served.http.get("/views/traffic", params={"sort": sort})
    assert (column(reply.text, 1), column(reply.text, 2)) == (pages, hits)
    name, order = sort.removeprefix("-"), "descending" if sort.startswith("-") else "ascending"
    assert f"Shown: all 4 rows, sorted by {name}, {order}" in read(reply)
    assert reply.text.count(f'aria-sort="{order}"') == 1


def test_rows_in_the_order_of_their_windows(served: Served, tmp_path: Path) -> None:
    fill(served.runtime, tmp_path)
    newest = served.http.get("/views/traffic").text
    assert newest.index("12:09</time> – 12:10") < newest.index("12:00</time> – 12:01")
    oldest = served.http.get("/views/traffic?sort=window_start")
    assert "Shown: all 4 rows" in read(oldest)
    assert oldest.text.index("12:00</time> – 12:01") < oldest.text.index("12:09</time> – 12:10")
    assert 'href="/views/traffic?sort=-window_start#rows"' in oldest.text


def test_the_caption_says_if_not_all_rows_are_sorted(served: Served, tmp_path: Path) -> None:
    visits = [visit_of(f"/{number:03d}", minute, size=number) for minute in range(10) for number in range(30)]
    fill(served.runtime, tmp_path, visits=visits)
    whole = served.http.get("/views/traffic?sort=-bytes")
    assert "Shown: 200 of 300 rows, sorted by bytes, descending" in read(whole)
    assert column(whole.text, 1)[:11] == ["/029"] * 10 + ["/028"]
    ranged = served.http.get("/views/traffic?sort=-bytes&start=2026-03-01T12:02&end=2026-03-01T12:04")
    assert "Shown: all 60 rows of the range, sorted by bytes, descending" in read(ranged)
    few = WorkspacePage(served.verbs, most_sorted=100).view("traffic", [("sort", "-bytes")])[1]
    assert "Shown: 30 of the newest 30 rows (a range sorts others), sorted by bytes, descending" in few
    fewer = WorkspacePage(served.verbs, most_sorted=20).view("traffic", [("sort", "-bytes")])[1]
    assert "Shown: 20 of the first 20 rows of the newest window by key, sorted by bytes, descending" in fewer


def test_rows_are_found_when_the_newest_windows_are_empty(served: Served, tmp_path: Path) -> None:
    fill(
        served.runtime,
        tmp_path,
        visits=[visit_of(f"/{number:03d}", minute) for minute in (1, 2) for number in range(900)],
    )
    page = served.http.get("/views/traffic")
    assert "Shown: the first 200 rows of the newest window, by key" in read(page)
    assert "12:02</time> – 12:03" in page.text


def test_a_chart_shows_the_selected_column_and_keys(served: Served, tmp_path: Path) -> None:
    visits = [visit_of(f"/{number}", minute, size=10 - number) for minute in (0, 1, 9) for number in range(8)]
    visits += [visit_of("/7", minute) for minute in (3, 4)]
    fill(served.runtime, tmp_path, visits=visits)
    together = served.http.get("/views/traffic?column=bytes").text
    assert "bytes per 1 minute, page together" in together
    top = served.http.get("/views/traffic?column=hits&by=page")
    assert "hits per 1 minute: the top 5 of 8 by page" in read(top)
    assert re.findall(LEGEND, top.text) == [
        ("/7", "5"), ("/0", "3"), ("/1", "3"), ("/2", "3"), ("/3", "3"),
    ]  # fmt: skip
    assert "<title>2026-03-01 12:03 – 12:04 UTC: /7 1, /0 0, /1 0, /2 0, /3 0</title>" in top.text
    assert 'href="/views/traffic?key.page=%2F7&amp;column=hits#chart"' in top.text
    by_bytes = served.http.get("/views/traffic?column=bytes&by=page&key.page=/1&key.page=/2")
    assert "bytes per 1 minute: the top 2 of 2 by page" in read(by_bytes)
    assert re.findall(r"<bdi>(/\d)</bdi></a> <span class=\"quiet\">(\d+)", by_bytes.text) == [
        ("/1", "27"),
        ("/2", "24"),
    ]


def test_a_chart_over_a_long_range_has_longer_windows(served: Served, tmp_path: Path) -> None:
    fill(served.runtime, tmp_path, visits=[visit_of("/home", minute) for minute in (-1000, -1000, 0)])
    page = read(served.http.get("/views/traffic?start=oldest"))
    assert "hits per 10 minutes, page together" in page
    assert "2026-02-28 19:20 – 19:30 UTC: 2" in page
    assert "Shown: all 2 rows of the range" in page
    assert "hits per 1 minute, page together" in read(served.http.get("/views/traffic?start=-1h"))


HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "'; DROP TABLE x; --", "\x00", "é" * 3000]


@pytest.mark.parametrize("name", ["sort", "column", "by", "start", "end", "key.page", "key.nothing", "other"])
def test_any_url_is_answered_by_a_page(served: Served, tmp_path: Path, name: str) -> None:
    fill(served.runtime, tmp_path)
    for text in [*HOSTILE, "-", ",", "-99999999d", "0001-01-01", "9999-12-31T23:59:59.999Z", "1e999", r"\N"]:
        reply = served.http.get("/views/traffic", params={name: text})
        assert reply.status_code in (200, 400), (name, text)
        assert reply.headers["content-type"].startswith("text/html")
        assert "<script>alert" not in reply.text
        assert "<img" not in reply.text
        if reply.status_code == 400:
            assert reply.text.count('role="alert"') == 1
            assert "Show the view without parameters" in reply.text
    assert served.http.get(f"/views/traffic?{name}=%ED%A0%80%FF").status_code in (200, 400)


def test_the_form_has_the_current_parameters(served: Served, tmp_path: Path) -> None:
    fill(served.runtime, tmp_path)
    parameters = {"key.page": HOSTILE[1], "start": "-1h", "column": "bytes", "by": "page", "sort": "-bytes"}
    page = served.http.get("/views/traffic", params=parameters).text
    form = page[page.index("<form") : page.index("</form>")]
    for part in (
        'name="key.page" value="&quot;&gt;&lt;img src=x onerror=alert(1)&gt;"',
        'name="start" value="-1h"',
        '<option value="bytes" selected>',
        '<option value="page" selected>',
        '<input type="hidden" name="sort" value="-bytes">',
    ):
        assert part in form
    assert "No rows here." in page


def test_a_row_links_to_the_events_behind_it(served: Served, tmp_path: Path) -> None:
    fill(served.runtime, tmp_path)
    page = served.http.get("/views/traffic").text
    for cell in ("key.page=%2Fhome&amp;at=2026-03-01T12%3A00%3A00Z", "key.page=%5CN&amp;at=2026-03-01T12%3A09%3A00Z"):
        assert f'<a href="/views/traffic/explain?{cell}">explain</a>' in page, cell
    assert "/explain" not in served.http.get("/").text
    early = served.http.get("/views/traffic/explain?key.page=/home&at=2026-03-01T12:00:00Z")
    assert (early.status_code, "Spark is starting" in early.text) == (503, True)
    assert served.http.get("/views/traffic/explain?key.page=<b>&at=x").status_code == 400


def test_an_empty_workspace_shows_how_to_start(tmp_path: Path, serve: Callable[..., Served]) -> None:
    (tmp_path / "headrace.toml").write_text("")
    served = serve(tmp_path)
    assert "No streams yet." in read(served.http.get("/"))
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "s.sql").write_text(
        "CREATE STREAM s (a STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);"
    )
    assert run(["apply", "--yes", "-w", served.url]) == 0
    text = read(served.http.get("/views/none"))
    assert "does not exist" in text
    served.verbs.apply()


def test_many_viewers_share_one_page(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    whole = served.runtime.monitor.describe_workspace

    def count() -> WorkspaceStatus:
        calls.append(1)
        return whole()

    monkeypatch.setattr(served.runtime.monitor, "describe_workspace", count)
    first = served.http.get("/").text
    while len(calls) < 2 and served.http.get("/").text == first:
        pass  # the same page until it is rendered again
    assert len(calls) == 2


def test_with_a_token_the_page_requires_sign_in(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, Timeouts(wrong_token_s=0.0), token=TOKEN)
    http = served.http
    assert http.get("/").status_code == 401
    led = http.get("/views/traffic", headers=HTML)
    assert (led.status_code, led.headers["location"]) == (303, "/login?next=%2Fviews%2Ftraffic")
    form = http.get(led.headers["location"])
    assert "visits" not in read(form)
    assert 'value="/views/traffic"' in form.text
    assert http.get("/page/style.css").status_code == 200

    wrong = http.post("/login", data={"token": "open", "next": "/"})
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers
    assert "That is not the token" in read(wrong)
    assert http.post("/login", data={"token": TOKEN}, headers={"origin": "http://evil.example"}).status_code == 403
    elsewhere = http.post("/login", data={"token": TOKEN, "next": "//evil.example"})
    assert elsewhere.headers["location"] == "/"
    http.cookies.clear()

    signed_in = http.post("/login", data={"token": TOKEN, "next": "/views/traffic"})
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/views/traffic")
    assert "HttpOnly; SameSite=Strict" in signed_in.headers["set-cookie"]
    assert "traffic" in read(http.get("/"))


def test_the_cookie_opens_the_page_and_nothing_else(applied: Path, serve: Callable[..., Served]) -> None:
    http = serve(applied, token=TOKEN).http
    http.post("/login", data={"token": TOKEN})
    assert http.get("/").status_code == 200
    assert http.get("/views/traffic").status_code == 200
    for method, path in (
        ("POST", "/v1/streams/visits/events"),
        ("POST", "/v1/apply"),
        ("GET", "/v1/status"),
        ("GET", "/v1/views/traffic"),
        ("GET", "/metrics"),
        ("POST", "/"),
    ):
        assert http.request(method, path, json=visit()).status_code == 401, path
    assert http.post("/logout").headers["location"] == "/login"
    assert http.get("/").status_code == 401


@pytest.fixture
def shop(folder: Path, headrace: Callable[..., Ran], serve: Callable[..., Served], tmp_path: Path) -> Served:
    (folder / "definitions" / "more.sql").write_text(DEFINITIONS)
    applied = headrace("apply", "--yes", "-w", folder)
    assert applied.code == 0, applied.err
    served = serve(folder)
    visits = [visit_of("/home", 9), visit_of("/cart", 1, size=7), visit_of("/cart", 1), visit_of("/help", 3, size=900)]
    for view in ("busiest", "busiest_ever", "sampled", "stays"):
        fill(served.runtime, tmp_path, view, visits)
    return served


def test_a_page_has_the_rows_in_the_order_of_the_view(shop: Served) -> None:
    page = shop.http.get("/views/busiest")
    assert (column(page.text, 1), column(page.text, 2)) == (["/cart", "/help"], ["2", "1"])
    assert "by ORDER BY hits DESC, page and LIMIT 2 of the view" in read(page)
    ever = shop.http.get("/views/busiest_ever")
    assert (column(ever.text, 0), column(ever.text, 1)) == (["/home", "/cart"], ["100", "107"])
    assert len(column(shop.http.get("/views/busiest?sort=page").text, 1)) == 3, "who sorts sees all"
    assert len(column(shop.http.get("/").text, 1)) == 2, "on the first page, too"


def test_a_page_of_sessions_has_their_rows_and_no_chart(shop: Served) -> None:
    page = shop.http.get("/views/stays")
    assert (column(page.text, 1), column(page.text, 2)) == (["/home", "/help", "/cart"], ["1", "1", "2"])
    assert "12:01</time> – 12:03" in page.text
    assert "Shown: all 3 rows" in read(page)
    assert not re.findall(r'id="chart"|name="column"', page.text)
    assert '/views/stays/explain?key.page=%2Fcart&amp;at=2026-03-01T12%3A01%3A00Z"' in page.text
    assert column(shop.http.get("/views/stays?sort=window_start").text, 1) == ["/cart", "/help", "/home"]
    assert column(shop.http.get("/views/stays?sort=-hits").text, 1)[0] == "/cart"
    ranged = shop.http.get("/views/stays?start=2026-03-01T12:03:30&end=2026-03-01T12:06")
    assert column(ranged.text, 1) == ["/help"]
    assert "Shown: the only row of the range" in read(ranged)


def test_a_page_shows_the_bounds_of_a_sample(shop: Served) -> None:
    rows = shop.http.get("/v1/views/sampled").json()
    expected = [f"{row['hits']:,} ± " for row in rows["rows"]]
    shown = column(shop.http.get("/views/sampled?sort=window_start").text, 2)
    assert all(text.startswith(start) for text, start in zip(shown, expected, strict=True)), shown


def test_the_select_of_a_logical_view_has_its_lines(shop: Served) -> None:
    page = shop.http.get("/views/several_lines").text
    query = page.partition('class="query">')[2].partition("</pre>")[0]
    assert "\\u000a" not in query
    assert query.count("\n") >= 3
    assert "       hits   -- of a minute" in query


def test_a_badge_says_that_alerts_fire() -> None:
    def alert(name: str, firing: int) -> AlertStatus:
        return AlertStatus(name, "traffic", "hits > 1", "firing" if firing else "ok", firing, 0, 0)

    assert alerts_badge([alert("a", 0)]) is None
    assert ">1 alert fires</a>" in str(alerts_badge([alert("a", 3), alert("b", 0)]))
    assert ">2 alerts fire</a>" in str(alerts_badge([alert("a", 3), alert("b", 1)]))


def test_the_texts_of_the_graph_are_inside_their_boxes(shop: Served) -> None:
    inside = """() => [...document.querySelectorAll('.graph .node')].flatMap(node => {
        const box = node.querySelector('rect').getBBox();
        return [...node.querySelectorAll('text')].map(text => {
            const own = text.getBBox();
            return own.x >= box.x && own.x + own.width <= box.x + box.width;
        });
    })"""
    with chromium() as browser:
        for width in (400, 1400):
            tab = open_tab(browser, viewport={"width": width, "height": 900})
            tab.page.goto(f"{shop.url}/graph")
            fits = tab.page.evaluate(inside)
            assert len(fits) >= 10
            assert all(fits)
            tab.check()
