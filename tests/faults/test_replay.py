"""Dead letters, a stream that is loosened while it runs, replays, a kill after the commit: each event once."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2

from headrace.faults import VARIABLE
from tests import http

from ..server import UpServer
from ..waiting import wait_until
from ..warm import Java

DEFINITIONS = """
CREATE STREAM clicks (id BIGINT NOT NULL, who STRING NOT NULL, weight INT, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 10 SECONDS);
CREATE MATERIALIZED VIEW per_minute AS
  SELECT who, count(*) AS n, sum(weight) AS weight FROM clicks GROUP BY who, window(at, '1 minute');
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(id) AS ids FROM clicks;
"""
EVENTS = 240


def click(number: int) -> dict[str, Any]:
    """Every third is too heavy, every fifth has no name, some have both mistakes."""
    return {
        "id": number,
        **({"who": f"w{number % 7}"} if number % 5 else {}),
        "weight": 10**10 if number % 3 == 0 else number % 10,
        "at": f"2026-04-01T10:{number // 60 % 30:02d}:{number % 60:02d}Z",
    }


def loosen(server: UpServer, old: str, new: str) -> None:
    file = server.folder / "definitions" / "clicks.sql"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    http.post(f"{server.url}/v1/apply").raise_for_status()


def replay(server: UpServer) -> int:
    """Run all steps; returns how many letters became events."""
    readable, cursor = 0, None
    while True:
        params = {"cursor": cursor} if cursor else {}
        reply = http.post(f"{server.url}/v1/streams/clicks/dead-letters/replay", params=params, timeout=120)
        reply.raise_for_status()
        step = reply.json()
        readable, cursor = readable + step["readable"], step["cursor"]
        if cursor is None:
            return readable


def numbers(server: UpServer) -> tuple[int, int]:
    (stream,) = server.get("/v1/streams")["streams"]
    return stream["events"], stream["dead_letters"]


def wait_for_views(server: UpServer) -> None:
    """Wait until both answer from every commit, with the newest definitions."""

    def all_there() -> bool:
        views = server.get("/v1/views")["views"]
        return all(view["applied_to"] == view["commits"] and not view["building"] for view in views)

    wait_until(all_there, 300, lambda: (server.get("/v1/views"), server.log_tail()))


def check(server: UpServer, events: list[dict[str, Any]]) -> None:
    """The views have the right answers for these events."""
    wait_for_views(server)
    counts, weights = Counter[Any](), Counter[Any]()
    for event in events:
        key = event["at"][:17] + "00Z", event.get("who")
        counts[key] += 1
        weights[key] += event["weight"]
    rows = {(row["window_start"], row["who"]): (row["n"], row["weight"]) for row in server.rows("per_minute")}
    assert rows == {key: (counts[key], weights[key]) for key in counts}
    (total,) = server.rows("total")
    assert (total["n"], total["ids"]) == (len(events), sum(event["id"] for event in events))


def test_replayed_once_over_a_kill(java: Java, tmp_path: Path) -> None:
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "clicks.sql").write_text(DEFINITIONS)
    (tmp_path / "headrace.toml").write_text("lease_s = 2\n")
    clicks = [click(number) for number in range(EVENTS)]
    with_who = [event for event in clicks if "who" in event]
    light = [event for event in with_who if event["weight"] < 10**10]
    server = java.server(tmp_path, **{VARIABLE: "replay.after_commit:2"}).wait_until_ready()
    for start in range(0, EVENTS, 80):
        lines = [json.dumps(event) for event in clicks[start : start + 80]] + ["broken"]
        reply = http.post(
            f"{server.url}/v1/streams/clicks/events", params={"keep_bad": "true"}, content="\n".join(lines),
            headers={"content-type": "application/x-ndjson"},
        ).raise_for_status()  # fmt: skip
    server.wait_for_token(reply.json()["token"])
    assert numbers(server) == (len(light), EVENTS + 3 - len(light))
    check(server, light)

    loosen(server, "weight INT", "weight BIGINT")
    assert replay(server) == len(with_who) - len(light)
    assert numbers(server) == (len(with_who), EVENTS + 3 - len(with_who))
    check(server, with_who)
    assert replay(server) == 0

    loosen(server, "who STRING NOT NULL", "who STRING")
    with suppress(httpx2.HTTPError):
        replay(server)
    assert server.process.wait(180) == -9

    server = java.server(tmp_path).wait_until_ready()
    assert numbers(server) == (EVENTS, 3)
    assert replay(server) == 0
    check(server, clicks)
    # All came in order, so only what was replayed into a settled minute is a correction.
    late = [event for event in clicks if event not in light and event["at"] < "2026-04-01T10:03"]
    assert server.get("/v1/views/per_minute", limit=10_000)["corrections"] == len(late)
    assert [row["count"] for row in server.get("/v1/streams/clicks/dead-letters/reasons")["reasons"]] == [3]
    assert server.stop() == 0
