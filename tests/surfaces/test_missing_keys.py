"""Streams joined to tables on a real server: followed, sunk, and what they leave out counted, listed and replayed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server import UpServer
from tests.waiting import wait_until

from .conftest import Ran

SQL = """
CREATE STREAM clicks (user_id STRING, n INT);
CREATE TABLE users (id STRING PRIMARY KEY, plan STRING);
CREATE STREAM planned AS SELECT user_id, n, u.plan FROM clicks c JOIN users u ON u.id = c.user_id;
CREATE STREAM marked AS SELECT user_id, n, u.plan FROM clicks c LEFT JOIN users u ON u.id = c.user_id;
CREATE MATERIALIZED VIEW by_plan AS SELECT plan, count(*) AS hits FROM planned GROUP BY plan;
CREATE MATERIALIZED VIEW inline AS SELECT count(*) AS hits FROM clicks WHERE user_id IN (SELECT id FROM users);
CREATE MATERIALIZED VIEW lefts AS SELECT plan, count(*) AS hits FROM marked GROUP BY plan;
CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS hits FROM clicks;
CREATE SINK copies FROM planned WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
"""
MISSING = "missing key: table 'users' has no row with id = "


@pytest.fixture
def server(tmp_path: Path) -> Iterator[UpServer]:
    (tmp_path / "headrace.toml").touch()
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "clicks.sql").write_text(SQL)
    up = UpServer(tmp_path).wait_for_http()
    yield up
    up.stop()


def send(server: UpServer, path: str, *rows: dict[str, Any]) -> None:
    body = "\n".join(map(json.dumps, rows))
    headers = {"content-type": "application/x-ndjson"}
    reply = server.http.post(f"{server.url}/v1/{path}?wait=true", content=body, headers=headers)
    assert reply.status_code == 200, reply.text


def rows(server: UpServer, view: str) -> dict[Any, int]:
    reply = server.http.get(f"{server.url}/v1/views/{view}")
    return {row.get("plan"): row["hits"] for row in reply.json()["rows"]} if reply.status_code == 200 else {}


def commits(server: UpServer, stream: str) -> int:
    streams = server.http.get(f"{server.url}/v1/streams").json()["streams"]
    return int(next(each["commits"] for each in streams if each["name"] == stream))


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def sent_rows(server: UpServer) -> list[Any]:
    """What the sink has written."""
    files = [file for file in (server.folder / "out").glob("**/*.json") if not file.parent.name.startswith("_")]
    return [line for file in files for line in lines(file.read_text())]


def test_missing_keys_are_listed_and_replayed(server: UpServer, headrace: Callable[..., Ran]) -> None:
    def run(*words: object) -> Any:
        ran = headrace(*words, "--json", "-w", server.folder)
        assert ran.code == 0, ran.err
        return ran.json

    send(server, "streams/users/events", {"id": "a", "plan": "free"})
    wait_until(lambda: commits(server, "users") == 1)
    clicks = [{"user_id": user, "n": n} for n, user in enumerate(["a", "b", None, "b", "c"])]
    send(server, "streams/clicks/events", *clicks)
    wait_until(lambda: rows(server, "by_plan") == {"free": 1} and rows(server, "lefts") == {"free": 1, None: 4})
    wait_until(lambda: rows(server, "inline") == {None: 1} and rows(server, "totals") == {None: 5})

    # Events, by the log and by a sink.
    followed = headrace("tail", "marked", "--from", "earliest", "--no-follow", "--json", "-w", server.folder)
    assert followed.code == 0, followed.err
    plans = [(line["event"]["user_id"], line["event"]["plan"]) for line in lines(followed.out)]
    assert plans == [("a", "free"), ("b", None), (None, None), ("b", None), ("c", None)]
    wait_until(lambda: sent_rows(server))
    (sent,) = sent_rows(server)
    assert (sent["user_id"], sent["n"], sent["plan"]) == ("a", 0, "free")

    # What is left out.
    for name in ("planned", "by_plan", "inline"):
        listing = run("dead-letters", name)
        assert listing["total"] == 4
        assert [each["reason"] for each in listing["dead_letters"]] == [
            f"{MISSING}{key}" for key in ("'c'", "'b'", "NULL", "'b'")
        ]
        assert [json.loads(each["value"])["n"] for each in listing["dead_letters"]] == [4, 3, 2, 1]
        (kind,) = run("dead-letters", name, "count")
        assert (kind["reason"], kind["count"]) == ("missing key: table 'users' has no row with this id", 4)
    assert run("dead-letters", "planned", "--reason", "'b'", "--limit", 1)["dead_letters"][0]["reason"].endswith("'b'")
    assert run("dead-letters", "marked")["total"] == 0
    streams = server.http.get(f"{server.url}/v1/streams").json()["streams"]
    assert {each["name"]: each["dead_letters"] for each in streams}["planned"] == 4
    refused = headrace("dead-letters", "totals", "-w", server.folder)
    assert "view 'totals' leaves out no events" in refused.err
    assert "`headrace dead-letters clicks`" in refused.err

    # The key comes: nothing changes by itself, and a replay builds the views anew with it.
    send(server, "streams/users/events", {"id": "b", "plan": "pro"}, {"id": "a", "plan": "late"})
    wait_until(lambda: commits(server, "users") == 2)
    assert run("dead-letters", "planned")["total"] == 4
    replay = run("dead-letters", "planned", "replay", "--dry-run")
    assert (replay["read"], replay["readable"], replay["views"]) == (4, 2, {})
    dry = headrace("dead-letters", "planned", "replay", "--dry-run", "-w", server.folder)
    assert "2 of 4 missing keys are in the tables now; nothing was changed" in dry.out
    done = headrace("dead-letters", "planned", "replay", "--wait", "-w", server.folder)
    assert done.code == 0, done.err
    assert "2 of 4 missing keys are in the tables now; rebuilt with them: by_plan (version 2)" in done.out
    assert rows(server, "by_plan") == {"free": 1, "pro": 2}
    assert run("dead-letters", "by_plan")["total"] == 2
    assert run("dead-letters", "inline", "replay", "--wait")["views"] == {"inline": 2}
    assert rows(server, "inline") == {None: 3}
    status = headrace("refresh", "lefts", "--full", "--tables", "missing", "-w", server.folder)
    assert status.code == 0, status.err
    assert rows(server, "lefts") == {"free": 1, "pro": 2, None: 2}
    send(server, "streams/clicks/events", {"user_id": "a", "n": 5}, {"user_id": "b", "n": 6})
    wait_until(lambda: rows(server, "by_plan") == {"free": 1, "pro": 3, "late": 1})
    wait_until(lambda: rows(server, "lefts") == {"free": 1, "pro": 3, "late": 1, None: 2})

    wrong = headrace("refresh", "lefts", "--full", "--tables", "then", "-w", server.folder)
    assert "expected now, recorded or missing" in wrong.err
    unjoined = headrace("refresh", "totals", "--full", "--tables", "missing", "-w", server.folder)
    assert "view 'totals' joins no table" in unjoined.err
    server.stop()
    down = headrace("dead-letters", "planned", "replay", "-w", server.folder)
    assert "the server is not running" in down.err
    assert run("dead-letters", "by_plan")["total"] == 2
