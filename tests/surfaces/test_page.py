"""The page over a real runtime without Spark: what it says, what keeps it safe, who may see it."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import httpx2
import pytest

from headrace.cli.app import run
from headrace.web.page import routes
from tests.surfaces.conftest import Served, visit
from tests.surfaces.sql_shop import fill

HTML = {"accept": "text/html"}
TOKEN = "open sesame"


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


def test_the_page_names_what_there_is_and_what_to_do_next(served: Served) -> None:
    reply = served.http.get("/")
    said = read(reply)
    for words in ("shop starting Spark is starting", "visits", "traffic", "none yet", "No rows yet."):
        assert words in said
    assert f"curl {served.url}/v1/streams/visits/events" in said
    sample = said[said.index("-d '") + 4 : said.index("}'") + 1]
    taken = served.http.post("/v1/streams/visits/events", content=sample, headers={"content-type": "application/json"})
    assert taken.json()["accepted"] == 1


def test_the_page_may_load_nothing_from_elsewhere(served: Served) -> None:
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
    wrong = served.http.get("/views/traffic?before=%3Cb%3E")
    assert wrong.status_code == 400
    assert "'before' is not a time" in read(wrong)


def test_a_row_leads_to_the_events_behind_it(served: Served, tmp_path: Path) -> None:
    fill(served.runtime, tmp_path)
    page = served.http.get("/views/traffic").text
    for cell in ("key.page=%2Fhome&amp;at=2026-03-01T12%3A00%3A00Z", "key.page=%5CN&amp;at=2026-03-01T12%3A09%3A00Z"):
        assert f'<a href="/views/traffic/explain?{cell}">explain</a>' in page, cell
    assert "/explain" not in served.http.get("/").text
    early = served.http.get("/views/traffic/explain?key.page=/home&at=2026-03-01T12:00:00Z")
    assert (early.status_code, "Spark is starting" in early.text) == (503, True)
    assert served.http.get("/views/traffic/explain?key.page=<b>&at=x").status_code == 400


def test_an_empty_workspace_says_how_to_begin(tmp_path: Path, serve: Callable[..., Served]) -> None:
    (tmp_path / "headrace.toml").write_text("")
    served = serve(tmp_path)
    assert "No streams run yet." in read(served.http.get("/"))
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "s.sql").write_text(
        "CREATE STREAM s (a STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);"
    )
    assert run(["apply", "--yes", "-w", served.url]) == 0
    said = read(served.http.get("/views/none"))
    assert "does not exist" in said
    served.runtime.apply()


def test_many_viewers_cost_no_more_than_one(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    whole = served.runtime.status.whole

    def counted() -> dict[str, object]:
        asked.append(1)
        return whole()

    monkeypatch.setattr(served.runtime.status, "whole", counted)
    began = served.http.get("/").text
    while len(asked) < 2 and served.http.get("/").text == began:
        pass  # the same page until it is made anew
    assert len(asked) == 2


def test_with_a_token_the_page_asks_for_it(
    applied: Path, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "WRONG_TOKEN_S", 0.0)
    served = serve(applied, token=TOKEN)
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
