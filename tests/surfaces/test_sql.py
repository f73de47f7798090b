"""`headrace sql` by command, HTTP and Python: one answer, with a server and without."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headrace.api.connect import connect
from headrace.errors import NotFoundError, NotReadyError, SqlError
from headrace.serve.sql.children import Children
from headrace.serve.sql.sql_answer import SqlAnswer
from tests.surfaces.conftest import Ran, Served
from tests.surfaces.sql_shop import fill, fill_stopped

TOP = "SELECT page, sum(hits) AS hits, sum(bytes) AS bytes FROM traffic GROUP BY page ORDER BY hits DESC, page"
ROWS = [
    {"page": "/home", "hits": 3, "bytes": 250},
    {"page": "/cart", "hits": 1, "bytes": 7},
    {"page": None, "hits": 1, "bytes": 100},
]


def test_http_returns_rows_types_and_freshness(served: Served, tmp_path: Path) -> None:
    fill(served.runtime, tmp_path)
    reply = served.http.post("/v1/sql", json={"query": TOP, "limit": 2})
    assert reply.status_code == 200, reply.text
    content = reply.json()
    assert content["rows"] == ROWS[:2]
    assert content["truncated"] is True
    assert content["columns"] == [
        {"name": "page", "type": "STRING"},
        {"name": "hits", "type": "BIGINT"},
        {"name": "bytes", "type": "BIGINT"},
    ]
    assert content["as_of"]["commits"] == {"visits": 1}
    assert (content["freshness_ms"], content["freshness_reason"]) == (0, None)
    traffic = content["views"]["traffic"]
    assert (traffic["version"], traffic["newest_event"]) == (1, "2026-03-01T12:10:00Z")
    assert list(traffic["approximate"]) == ["visitors"]
    # The next query uses a process that was started ahead.
    assert served.http.post("/v1/sql", json={"query": "SELECT 1 AS one"}).json()["views"] == {}


def test_python_returns_the_same_through_a_server_and_from_the_folder(
    applied: Path, serve: Callable[..., Served], headrace: Callable[..., Ran]
) -> None:
    with connect(applied) as connection, pytest.raises(NotReadyError, match="no view has ever been computed"):
        connection.sql("SELECT 1")
    fill_stopped(applied)
    query = "SELECT * FROM traffic WHERE page = '/home' ORDER BY window_start"
    with connect(applied) as connection:
        offline = connection.sql(query)
    assert (offline.freshness_ms, offline.freshness_reason) == (None, "the server is not running")
    first, second = offline.rows()
    assert list(first) == ["page", "window_start", "window_end", "hits", "errors", "bytes", "visitors", "settled"]
    assert first["window_start"] == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert (first["hits"], first["errors"], first["bytes"], first["visitors"], first["settled"]) == (2, 2, 150, 2, True)
    assert second["hits"] == 1
    served = serve(applied)
    with connect(served.url) as connection:
        remote = connection.sql(query)
    assert remote.arrow().equals(offline.arrow())
    assert remote.columns == offline.columns
    assert list(remote.pandas().columns) == list(first)
    assert SqlAnswer.from_arrow(remote.as_arrow()) == remote


def test_the_command_prints_tables_json_and_csv(
    applied: Path, headrace: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_stopped(applied)
    table = headrace("sql", TOP, "-w", applied, "--limit", 2)
    assert table.code == 0, table.err
    assert "/home" in table.out
    assert "1 more row: these are the first 2; --limit all shows all" in table.out
    assert "traffic: version 1 · as of 1 commit of visits · freshness: the server is not running" in table.out
    file = tmp_path / "top.sql"
    file.write_text(TOP)
    assert headrace("sql", "-f", file, "-w", applied, "--json").json["rows"] == ROWS
    monkeypatch.setattr("sys.stdin", io.StringIO(TOP))
    csv = headrace("sql", "-", "-w", applied, "--csv")
    assert csv.out == "page,hits,bytes\n/home,3,250\n/cart,1,7\n,1,100\n"


def test_invalid_arguments_are_refused_with_what_is_expected(applied: Path, headrace: Callable[..., Ran]) -> None:
    fill_stopped(applied)
    for arguments, message in (
        ([], "no query was given; expected one, as an argument, from a file (-f FILE) or from standard input (-)"),
        (["SELECT 1", "-f", "x.sql"], "two queries were given"),
        (["-f", "missing.sql"], "file 'missing.sql' cannot be read: No such file or directory"),
        (["SELECT 1", "--csv", "--json"], "cannot be combined"),
        (["SELECT 1", "--limit", "0"], "limit is out of range; found 0; expected a number from 1 to 100,000, or all"),
        (["  "], "the query is empty"),
        (["SELECT 1" + " " * 100_000], "the query is too long; found 100,008 bytes; expected at most 100,000"),
    ):
        ran = headrace("sql", *arguments, "-w", applied)
        assert (ran.code, message in ran.err) == (1 if "missing.sql" in arguments else 2, True), ran.err


def test_names_are_resolved_as_in_sql(applied: Path, serve: Callable[..., Served], tmp_path: Path) -> None:
    more = "CREATE MATERIALIZED VIEW `Order` AS SELECT page, count(*) AS n FROM visits GROUP BY page;"
    (applied / "definitions" / "more.sql").write_text(more)
    served = serve(applied)
    served.verbs.apply()
    fill(served.runtime, tmp_path)
    fill(served.runtime, tmp_path, "Order")
    query = 'WITH v AS (SELECT page, n FROM "order") SELECT v.n, t.hits FROM v JOIN TRAFFIC t USING (page) LIMIT 1'
    answer = served.verbs.sql(query)
    assert sorted(answer.views) == ["Order", "traffic"]
    with pytest.raises(NotFoundError, match=r"view 'trafic' does not exist; did you mean 'traffic'\?"):
        served.verbs.sql("SELECT * FROM trafic")
    with pytest.raises(
        SqlError, match="version_as_of is not a number of commits; found '-1'; expected the number of commits"
    ):
        served.verbs.sql("SELECT * FROM traffic VERSION AS OF -1")
    with pytest.raises(SqlError, match='Referenced column "hitz" not found'):
        served.verbs.sql("SELECT hitz FROM traffic")
    with pytest.raises(SqlError, match=r'syntax error at or near "GROUP"; found line 2 of the query'):
        served.verbs.sql("SELECT page FROM traffic WHERE\nGROUP BY page")
    with pytest.raises(SqlError, match=r'syntax error at or near "SELEC"; did you mean \'SELECT\'\?'):
        served.verbs.sql("SELEC page FROM traffic")


def test_too_many_at_once_are_refused_and_the_next_succeed(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, sql_at_once=1)
    children: Children = served.runtime.answering._children
    with children.lend():  # as a query does while it runs
        reply = served.http.post("/v1/sql", json={"query": "SELECT 1"})
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
    assert reply.json()["error"]["code"] == "overload"
    assert served.http.post("/v1/sql", json={"query": "SELECT 1"}).status_code == 200


def test_invalid_bodies_are_refused(served: Served) -> None:
    for body, message in (
        (b"{", "the body is not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"sql": "SELECT 1"}', "'sql' is not part of a query"),
        (b'{"query": 5}', "the query is empty"),
        (b'{"query": "SELECT 1", "limit": "many"}', "limit is out of range"),
        (b'{"query": "SELECT \\u0000"}', "NUL character"),
    ):
        reply = served.http.post("/v1/sql", content=body)
        assert (reply.status_code, message in reply.json()["error"]["message"]) == (400, True), reply.text
