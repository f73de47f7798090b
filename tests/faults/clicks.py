"""Clicks to send to a server that dies, and the expected answers for those that were acknowledged."""

from __future__ import annotations

import secrets
from collections import Counter
from typing import Any

import httpx2

from ..server import UpServer

PER_POST = 20


class Clicks:
    """Posts numbered events; one that was not acknowledged is sent again, with its key, until it is."""

    def __init__(self) -> None:
        self.acknowledged: list[dict[str, Any]] = []
        self.posts = 0
        self.token = ""
        self.pad = 0  # bytes of padding in each event, to fill a disk

    def post(self, server: UpServer, *, strict: bool = False) -> bool:
        """Send the next post; whether it was acknowledged. `strict` raises if the server refuses it."""
        events = [self._click(self.posts * PER_POST + i) for i in range(PER_POST)]
        body = [{**event, "pad": secrets.token_hex(self.pad // 2)} for event in events] if self.pad else events
        key = f"post-{self.posts}" if not self.pad else None
        try:
            reply = server.post("clicks", body, key)
        except httpx2.HTTPError:
            if strict:
                raise
            return False
        assert reply["accepted"] == PER_POST
        assert not reply["refused"]
        self.acknowledged += events
        self.token = reply["token"]
        self.posts += 1
        return True

    def repeat(self, server: UpServer, post: int) -> None:
        """Send an acknowledged post once more: it must add nothing."""
        events = self.acknowledged[post * PER_POST : (post + 1) * PER_POST]
        assert server.post("clicks", events, f"post-{post}")["accepted"] == PER_POST

    def _click(self, number: int) -> dict[str, Any]:
        minute, second = number // 60 % 30, number % 60
        return {
            "id": number,
            "who": f"w{number % 7}",
            "weight": number % 10,
            "at": f"2026-04-01T10:{minute:02d}:{second:02d}Z",
        }

    def check(self, server: UpServer) -> None:
        """Every acknowledged event is in every view, once."""
        server.wait_for_token(self.token)
        server.wait_for_views("total", "per_minute")  # they may have to be rebuilt
        (total,) = server.rows("total")
        ids = [event["id"] for event in self.acknowledged]
        assert (total["n"], total["ids"], total["last"]) == (len(ids), sum(ids), max(ids))
        counts = Counter((event["at"][:17] + "00Z", event["who"]) for event in self.acknowledged)
        weights: Counter[tuple[str, str]] = Counter()
        for event in self.acknowledged:
            weights[event["at"][:17] + "00Z", event["who"]] += event["weight"]
        rows = {(row["window_start"], row["who"]): (row["n"], row["weight"]) for row in server.rows("per_minute")}
        assert rows == {key: (counts[key], weights[key]) for key in counts}
        (stream,) = [s for s in server.get("/v1/status")["streams"] if s["name"] == "clicks"]
        assert (stream["events"], stream["dead_letters"]) == (len(ids), 0)
