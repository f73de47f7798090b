"""Views over derived streams, and the events of these, of a server that is killed: each row once."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests import http

from ..server import UpServer
from ..warm import Java

DEFINITIONS = """
CREATE STREAM notes (id BIGINT NOT NULL, note STRING, at TIMESTAMP NOT NULL,
WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE STREAM calls (who STRING, said STRING, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS ts);
CREATE STREAM words AS SELECT id, explode(split(lower(note), ' ')) AS word, at FROM notes WHERE note IS NOT NULL;
CREATE STREAM spoken AS SELECT word, at FROM words WHERE word <> '' UNION ALL SELECT said, ts FROM calls;
CREATE MATERIALIZED VIEW counts AS SELECT word, count(*) AS n FROM spoken GROUP BY word;
CREATE MATERIALIZED VIEW per_minute AS SELECT count(*) AS n, first(word) AS first_word FROM words
GROUP BY window(at, '1 minute');
"""
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOTES = ["to be or not", "be", "", None, "To  be", "a b c d e f"]
ROUNDS = 3


class Workspace:
    """Its folder, and what was acknowledged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chance = random.Random(5)
        self.notes: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.requests = 0
        (folder / "definitions").mkdir()
        (folder / "headrace.toml").write_text("lease_s = 2\nrehearse = false\n")
        (folder / "definitions" / "all.sql").write_text(DEFINITIONS)

    def post(self, server: UpServer) -> str:
        """A request to one of the base streams, sent twice; its token."""
        at = (START + timedelta(seconds=self.chance.randrange(240))).isoformat()
        if self.chance.random() < 0.6:
            stream, sent = "notes", self.notes
            events = [{"id": len(sent) + n, "note": self.chance.choice(NOTES), "at": at} for n in range(9)]
        else:
            stream, sent = "calls", self.calls
            events = [{"who": "a", "said": self.chance.choice(["be", "x"]), "ts": at} for _ in range(4)]
        self.requests += 1
        url, headers = f"{server.url}/v1/streams/{stream}/events", {"Idempotency-Key": f"k{self.requests}"}
        for _ in range(2):
            reply = http.post(url, json=events, headers=headers).raise_for_status().json()
            assert reply["accepted"] == len(events)
        sent += events
        return str(reply["token"])

    def words(self) -> list[tuple[str, str]]:
        """Each word of the notes with its time, in the order of the log."""
        notes = [note for note in self.notes if note["note"] is not None]
        return [(word, note["at"]) for note in notes for word in note["note"].lower().split(" ")]


def tail(server: UpServer, stream: str, cursor: str | None) -> tuple[list[dict[str, Any]], str]:
    """All events of a stream after a cursor, and the one behind them."""
    events: list[dict[str, Any]] = []
    place = {"cursor": cursor} if cursor else {"from": "earliest"}
    while True:
        url, parameters = f"{server.url}/v1/streams/{stream}/tail", {**place, "limit": "40"}
        page = http.get(url, params=parameters, headers={"Accept": "application/json"}).raise_for_status().json()
        events += page["events"]
        place = {"cursor": page["cursor"]}
        if not page["more"]:
            return events, page["cursor"]


@pytest.mark.timeout(600)
def test_rows_of_derived_streams_count_once(java: Java, tmp_path: Path) -> None:
    workspace, cursors = Workspace(tmp_path), dict[str, str]()
    received: dict[str, list[Any]] = {"words": [], "spoken": []}
    for number in range(ROUNDS):
        server = java.server(tmp_path).wait_until_ready()
        tokens = [workspace.post(server) for _ in range(12)]
        for token in tokens:
            server.wait_for_token(token)
        check(workspace, server)
        for stream, events in received.items():  # a reader goes on from its cursor, whichever server it asks
            new, cursors[stream] = tail(server, stream, cursors.get(stream))
            events += new
        assert [event["event"]["word"] for event in received["words"]] == [word for word, _ in workspace.words()]
        spoken = Counter(event["event"]["word"] for event in received["spoken"])
        assert spoken == Counter([word for word, _ in workspace.words() if word] + [c["said"] for c in workspace.calls])
        if number == 1:
            for view in ("counts", "per_minute"):
                http.post(f"{server.url}/v1/views/{view}/refresh?full=true").raise_for_status()
        tokens = [workspace.post(server) for _ in range(3)]
        server.kill()
    server = java.server(tmp_path).wait_until_ready()
    for token in [*tokens, workspace.post(server)]:  # a token waits for its own stream only
        server.wait_for_token(token)
    check(workspace, server)
    reply = http.post(f"{server.url}/v1/streams/words/events", json=[{"word": "x"}])
    assert reply.status_code == 400
    assert "notes" in json.dumps(reply.json())
    server.stop()


def check(workspace: Workspace, server: UpServer) -> None:
    answer = server.get("/v1/views/counts", limit=1000)
    spoken = [word for word, _ in workspace.words() if word] + [call["said"] for call in workspace.calls]
    assert {row["word"]: row["n"] for row in answer["rows"]} == Counter(spoken)
    assert set(answer["as_of"]["commits"]) == {"notes", "calls"}
    rows = server.get("/v1/views/per_minute", limit=1000)["rows"]
    minutes: dict[datetime, list[tuple[str, int, str]]] = {}
    for place, (word, at) in enumerate(workspace.words()):
        time = datetime.fromisoformat(at)
        minutes.setdefault(time.replace(second=0), []).append((at, place, word))
    expected = {minute: (len(words), min(words)[2]) for minute, words in minutes.items()}
    assert {datetime.fromisoformat(row["window_start"]): (row["n"], row["first_word"]) for row in rows} == expected
