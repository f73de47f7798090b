"""Tables in HTTP, commands and Python, over a real runtime without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import headrace as hr
from headrace.engine.value_bounds import LONGEST_KEY
from headrace.errors import NotReadyError, RequestError
from tests.surfaces.conftest import ERROR_SHAPE, Ran, Served
from tests.surfaces.forms import FORMS

TABLES = """
CREATE TABLE users (id STRING PRIMARY KEY, plan STRING, age INT);
CREATE TABLE prices (shop STRING, sku STRING, price DECIMAL(10,2), at TIMESTAMP NOT NULL, PRIMARY KEY (shop, sku),
  WATERMARK FOR at);
CREATE TABLE seats (hall STRING, seat INT, day DATE, guest STRING, PRIMARY KEY (hall, seat, day));
CREATE TABLE pages PRIMARY KEY (page) AS SELECT page, status, at FROM visits;
CREATE MATERIALIZED VIEW plans AS SELECT plan, count(*) AS users FROM users GROUP BY plan;
"""


@pytest.fixture
def folder_with_tables(folder: Path) -> Path:
    (folder / "definitions" / "tables.sql").write_text(TABLES)
    return folder


def test_plan_apply_and_lists(folder_with_tables: Path, headrace: Callable[..., Ran]) -> None:
    plan = headrace("plan", "-w", folder_with_tables)
    assert "+ table users" in plan.out
    assert "primary key: shop, sku" in plan.out
    assert headrace("apply", "--yes", "-w", folder_with_tables).code == 0
    assert "No changes" in headrace("plan", "-w", folder_with_tables).out
    listed = headrace("tables", "-w", folder_with_tables, "--json").json
    assert [(table["name"], table["key"], table["latest_by"]) for table in listed] == [
        ("pages", ["page"], "at"),
        ("prices", ["shop", "sku"], "at"),
        ("seats", ["hall", "seat", "day"], None),
        ("users", ["id"], None),
    ]
    assert "users" in headrace("tables", "-w", folder_with_tables).out
    assert "users" not in [each["name"] for each in headrace("streams", "-w", folder_with_tables, "--json").json]
    assert "users" not in [each["name"] for each in headrace("views", "-w", folder_with_tables, "--json").json]
    (folder_with_tables / "definitions" / "tables.sql").write_text("")
    assert "- table users" in headrace("plan", "-w", folder_with_tables).out


def test_http(folder_with_tables: Path, headrace: Callable[..., Ran], serve: Callable[..., Served]) -> None:
    headrace("apply", "--yes", "-w", folder_with_tables)
    served = serve(folder_with_tables)
    reply = served.http.post("/v1/tables/users/rows", json=[{"id": "u1", "plan": "pro"}, {"plan": "x"}]).json()
    assert (reply["accepted"], [each["index"] for each in reply["refused"]]) == (1, [1])
    assert served.http.request("DELETE", "/v1/tables/users/rows?key.id=u1").json()["accepted"] == 1
    keys = {"content": b'{"id": "a"}\n{"id": "b"}'}
    assert served.http.request("DELETE", "/v1/tables/users/rows", **keys).json()["accepted"] == 2
    seat = {"hall": "A", "seat": 7, "day": "2026-03-01"}
    assert served.http.post("/v1/tables/seats/rows", json=[seat]).json()["accepted"] == 1
    by_key = "&".join(f"key.{name}={value}" for name, value in seat.items())
    assert served.http.request("DELETE", f"/v1/tables/seats/rows?{by_key}").json()["accepted"] == 1
    key = {"shop": "s", "sku": "a", "at": "2026-01-01T00:00:00Z"}
    once = {"headers": {"idempotency-key": "k"}, "json": [key]}
    tokens = [served.http.request("DELETE", "/v1/tables/prices/rows", **once).json()["token"] for _ in range(2)]
    assert tokens[0] == tokens[1]
    unclear = {"headers": {"idempotency-key": "k"}, "json": [{"shop": "s", "sku": "a"}]}
    assert served.http.request("DELETE", "/v1/tables/prices/rows", **unclear).status_code == 422
    for method, path, content, says in (
        ("POST", "/v1/tables/user/rows", b"{}", "did you mean 'users'"),
        ("POST", "/v1/tables/pages/rows", b"{}", "is made from stream 'visits'"),
        ("DELETE", "/v1/tables/prices/rows", b'["s"]', "shop, sku"),
        ("DELETE", "/v1/tables/users/rows", b"oh", "the keys are not JSON"),
        ("DELETE", "/v1/tables/users/rows?id=1", b"", "key.NAME=value"),
        ("DELETE", "/v1/tables/users/rows", b"", "the request names no row of table 'users'"),
        ("DELETE", "/v1/tables/seats/rows?key.hall=A&key.seat=x", b"", "key 'seat' is of type INT"),
        ("DELETE", "/v1/tables/seats/rows?key.hall=A", b"", "hall, seat, day, as in"),
        ("GET", "/v1/tables/visits", b"", "'visits' is a stream, and only tables have rows"),
    ):
        failure = served.http.request(method, path, content=content).json()["error"]
        assert set(failure) == ERROR_SHAPE
        assert says in str(failure), failure
    refused = headrace("send", "pages", str(folder_with_tables / "headrace.toml"), "-w", folder_with_tables)
    assert "table 'pages' is made from visits: no rows can be sent to it; send events to visits" in refused.err
    whole = headrace("send", "visits", str(folder_with_tables / "headrace.toml"), "--replace", "-w", folder_with_tables)
    assert "'visits' is a stream, and only tables have rows that are replaced and deleted" in whole.err
    for command in ("tail", "dead-letters"):
        refused = headrace(command, "traffic", "-w", folder_with_tables)
        assert "'traffic' is a view, and only streams have events" in refused.err or command == "dead-letters"
        assert "events are sent" not in refused.err
    tables = {table["name"]: table for table in served.http.get("/v1/tables").json()["tables"]}
    assert tables["pages"]["derived_from"] == ["visits"]
    page = served.http.get("/", headers={"Accept": "text/html"}).text
    listed, views = page.index('aria-label="tables"'), page.index('id="views"')
    assert listed < page.index('href="/views/users"') < views < page.index('href="/views/traffic"')
    assert 'href="/views/users"' not in page[views:], "a table is no view on the page"


def test_keys_that_are_too_long(folder: Path, headrace: Callable[..., Ran], serve: Callable[..., Served]) -> None:
    """Over HTTP such a row is refused; of a file it is a dead letter, see tests/faults/test_quoted_names.py."""
    (folder / "definitions" / "tables.sql").write_text(
        "CREATE TABLE users (id STRING PRIMARY KEY, plan STRING);\n"
        "CREATE STREAM orders (id STRING NOT NULL, plan STRING, UNIQUE (id) WITHIN INTERVAL 1 DAY);\n"
    )
    headrace("apply", "--yes", "-w", folder)
    long = "x" * (LONGEST_KEY + 1)
    rows = [{"id": "a", "plan": long}, {"id": long, "plan": "pro"}]
    refusal = {"index": 1, "reason": "key 'id' is longer than 65,536 bytes"}

    served = serve(folder)
    for path in ("/v1/tables/users/rows", "/v1/streams/orders/events"):
        for form, (kind, write) in FORMS.items():
            body = {"content": write(*rows), "headers": {"content-type": kind}}
            reply = served.http.post(path, **body).json()
            assert (reply["accepted"], reply["refused"]) == (1, [refusal]), (path, form)
    deleted = served.http.request("DELETE", "/v1/tables/users/rows", json=[{"id": "a"}, {"id": long}]).json()
    assert (deleted["accepted"], deleted["refused"]) == (1, [refusal])


def test_tables_in_python(folder_with_tables: Path, headrace: Callable[..., Ran]) -> None:
    headrace("apply", "--yes", "-w", folder_with_tables)
    with hr.connect(folder_with_tables) as ws:
        users = ws.table("users")
        assert users.upsert({"id": "u1", "plan": "pro"}).accepted == 1
        assert users.upsert(pa.table({"id": ["a", "b"], "age": [1, None]})).accepted == 2
        assert users.delete("u1").accepted == 1
        assert users.delete(pa.table({"id": ["a", "b"]})).accepted == 2
        with pytest.raises(NotReadyError, match="ever been computed"):  # what to delete is not known
            users.replace([{"id": "z"}])
        with pytest.raises(RequestError, match="shop, sku"):
            ws.table("prices").delete("a")
        with pytest.raises(RequestError, match="is made from visits"):
            ws.table("pages").upsert({"page": "/"})
        assert ws.table("prices").delete({"shop": "s", "sku": "a"}).refused == []
