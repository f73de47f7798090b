"""`headrace dead-letters` and its endpoints: the same through a server and straight from the folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.define.catalog import load
from headrace.workspace.settings import Workspace

from ..unit.lake.dead_lake import DeadLake
from .conftest import Ran, Served

BAD = [b'{"visitor":"ann","status":"\x1b[31mred"}', b"<html>", b'{"visitor":null}']


@pytest.fixture
def spoilt(applied: Path) -> Path:
    """The example with three dead letters and one visit in its lake."""
    workspace = Workspace.open(applied)
    stream = load(workspace.definitions).streams["visits"]
    lake = DeadLake(applied, stream, lake=workspace.lake("visits"), journal=workspace.journal("visits"))
    lake.add(b'{"visitor":"ann","at":"2026-03-01T12:00:00Z"}', *BAD)
    lake.close()
    return applied


def check(headrace: Callable[..., Ran], folder: Path) -> None:
    listed = headrace("dead-letters", "visits", "-w", folder)
    assert listed.code == 0, listed.err
    assert "\x1b" not in listed.out
    assert r"\x1b[31mred" in listed.out
    assert listed.out.splitlines()[-1] == "3 of 3 dead letters"
    assert listed.out.index('visitor":null') < listed.out.index("<html>")
    page = headrace("dead-letters", "visits", "--limit", 2, "--json", "-w", folder).json
    first = headrace("dead-letters", "visits", "--cursor", page["next_cursor"], "--json", "-w", folder).json
    assert len(page["dead_letters"]) == 2
    (row,) = first["dead_letters"]
    assert row["value"].encode() == BAD[0]
    assert "none of 3" in headrace("dead-letters", "visits", "--reason", "no such", "-w", folder).out

    counted = headrace("dead-letters", "visits", "count", "--json", "-w", folder).json
    assert sum(reason["count"] for reason in counted) == 3
    assert "field 'visitor' is missing or null" in headrace("dead-letters", "visits", "count", "-w", folder).out

    shown = headrace("dead-letters", "visits", "show", row["position"], "-w", folder).out
    assert shown.splitlines()[-1] == r'{"visitor":"ann","status":"\x1b[31mred"}'


def test_straight_from_the_folder(spoilt: Path, headrace: Callable[..., Ran]) -> None:
    check(headrace, spoilt)


def test_through_a_server(spoilt: Path, serve: Callable[..., Served], headrace: Callable[..., Ran]) -> None:
    served = serve(spoilt)
    check(headrace, spoilt)
    (stream,) = served.http.get("/v1/streams").json()["streams"]
    assert (stream["events"], stream["dead_letters"]) == (1, 3)
    for path, status in [
        ("visits/dead-letters?limit=0", 422),
        ("visits/dead-letters?cursor=x", 422),
        ("visits/dead-letters/5", 404),
        ("visits/dead-letters/x", 422),
        ("visitz/dead-letters", 404),
        ("visitz/dead-letters/reasons", 404),
    ]:
        reply = served.http.get(f"/v1/streams/{path}")
        assert reply.status_code == status, (path, reply.text)
        assert reply.json()["error"]["message"]


def test_mistakes(applied: Path, headrace: Callable[..., Ran]) -> None:
    assert headrace("dead-letters", "visits", "-w", applied).out == "stream visits has no dead letters\n"
    assert "stream 'visitz' does not exist; did you mean" in headrace("dead-letters", "visitz", "-w", applied).err
    assert (
        "show takes a position, other actions do not" in headrace("dead-letters", "visits", "show", "-w", applied).err
    )
    assert (
        "show takes a position, other actions do not"
        in headrace("dead-letters", "visits", "list", 5, "-w", applied).err
    )
    assert "no dead letter at position 5" in headrace("dead-letters", "visits", "show", 5, "-w", applied).err


def test_a_loosened_stream_takes_more_at_once(
    spoilt: Path, serve: Callable[..., Served], headrace: Callable[..., Ran]
) -> None:
    served = serve(spoilt)
    event = {"status": 3_000_000_000, "at": "2026-03-01T12:00:00Z"}
    assert served.http.post("/v1/streams/visits/events", json=event).json()["accepted"] == 0
    definitions = spoilt / "definitions" / "shop.sql"
    loose = definitions.read_text().replace("visitor STRING NOT NULL", "visitor STRING")
    definitions.write_text(re.sub(r"status\s+INT", "status BIGINT", loose))
    applied = headrace("apply", "--yes", "--no-wait", "-w", spoilt)
    assert "field loosened: visitor STRING NOT NULL → visitor STRING" in applied.out
    assert "type of status: INT → BIGINT" in applied.out
    assert "3 dead letters of stream visits may be valid now: `headrace dead-letters visits replay`" in applied.out
    assert served.http.post("/v1/streams/visits/events", json=event).json()["accepted"] == 1
    (stream,) = served.http.get("/v1/streams").json()["streams"]
    assert [field["type"] for field in stream["fields"]][2] == "BIGINT"
    (view,) = served.http.get("/v1/views").json()["views"]
    assert view["building"]["version"] == 2
