"""`headrace dead-letters` and its endpoints: the same through a server and directly from the folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.api.connect import connect
from headrace.define.catalog import load
from headrace.workspace.settings import Workspace
from tests import wording

from ..unit.lake.dead_lake import DeadLake
from .conftest import Ran, Served

BAD = [b'{"visitor":"ann","status":"\x1b[31mred"}', b"<html>", b'{"visitor":null}']


@pytest.fixture
def dead_letter_folder(applied: Path) -> Path:
    """The example with three dead letters and one visit in its lake."""
    workspace = Workspace.open(applied)
    stream = load(workspace.definitions).streams["visits"]
    lake = DeadLake(applied, stream, lake=workspace.lake("visits"), journal=workspace.journal("visits"))
    lake.add(b'{"visitor":"ann","at":"2026-03-01T12:00:00Z"}', *BAD)
    lake.close()
    return applied


def check(headrace: Callable[..., Ran], folder: Path) -> None:
    listing = headrace("dead-letters", "visits", "-w", folder)
    assert listing.code == 0, listing.err
    assert "\x1b" not in listing.out
    assert r"\x1b[31mred" in listing.out
    wording.check(listing.out.splitlines()[-1], "3 of 3")
    assert listing.out.index('visitor":null') < listing.out.index("<html>")
    page = headrace("dead-letters", "visits", "--limit", 2, "--json", "-w", folder).json
    first = headrace("dead-letters", "visits", "--cursor", page["next_cursor"], "--json", "-w", folder).json
    assert len(page["dead_letters"]) == 2
    (row,) = first["dead_letters"]
    assert row["value"].encode() == BAD[0]
    assert "none of 3" in headrace("dead-letters", "visits", "--reason", "no such", "-w", folder).out

    reasons = headrace("dead-letters", "visits", "count", "--json", "-w", folder).json
    assert sum(reason["count"] for reason in reasons) == 3
    assert "field 'visitor' is missing or null" in headrace("dead-letters", "visits", "count", "-w", folder).out

    letter = headrace("dead-letters", "visits", "show", row["position"], "-w", folder).out
    assert letter.splitlines()[-1] == r'{"visitor":"ann","status":"\x1b[31mred"}'

    with connect(folder) as connection:
        letters = connection.dead_letters("visits")
        assert letters.page(limit=2).as_dict() == page
        assert [each.as_dict() for each in letters.reasons()] == reasons
        assert letters.show(row["position"]).as_dict() == row


def test_directly_from_the_folder(dead_letter_folder: Path, headrace: Callable[..., Ran]) -> None:
    check(headrace, dead_letter_folder)


def test_through_a_server(dead_letter_folder: Path, serve: Callable[..., Served], headrace: Callable[..., Ran]) -> None:
    served = serve(dead_letter_folder)
    check(headrace, dead_letter_folder)
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
    wording.check(headrace("dead-letters", "visits", "-w", applied).out, "visits")
    wording.check(headrace("dead-letters", "visitz", "-w", applied).err, "visitz", "visits")
    wording.check(headrace("dead-letters", "visits", "show", "-w", applied).err, "show")
    wording.check(headrace("dead-letters", "visits", "list", 5, "-w", applied).err, "show")
    wording.check(headrace("dead-letters", "visits", "show", 5, "-w", applied).err, "visits", 5)


def test_a_loosened_stream_accepts_more_events_at_once(
    dead_letter_folder: Path, serve: Callable[..., Served], headrace: Callable[..., Ran]
) -> None:
    served = serve(dead_letter_folder)
    event = {"status": 3_000_000_000, "at": "2026-03-01T12:00:00Z"}
    assert served.http.post("/v1/streams/visits/events", json=event).json()["accepted"] == 0
    definitions = dead_letter_folder / "definitions" / "shop.sql"
    loose = definitions.read_text().replace("visitor STRING NOT NULL", "visitor STRING")
    definitions.write_text(re.sub(r"status\s+INT", "status BIGINT", loose))
    result = headrace("apply", "--yes", "--no-wait", "-w", dead_letter_folder)
    wording.check_line(result.out, "visitor STRING NOT NULL", "visitor STRING")
    wording.check_line(result.out, "status", "INT", "BIGINT")
    wording.check_line(result.out, 3, "visits", "headrace dead-letters visits replay")
    assert served.http.post("/v1/streams/visits/events", json=event).json()["accepted"] == 1
    (stream,) = served.http.get("/v1/streams").json()["streams"]
    assert [field["type"] for field in stream["fields"]][2] == "BIGINT"
    (view,) = served.http.get("/v1/views").json()["views"]
    assert view["building"]["version"] == 2


def test_events_that_wait_for_a_server_are_said_to_be_unread(applied: Path, headrace: Callable[..., Ran]) -> None:
    file = applied / "visits.ndjson"
    file.write_bytes(b'{"visitor":null}\n<html>\n{"visitor":"ann","at":"2026-03-01T12:00:00Z"}\n')
    sent = headrace("send", "visits", file, "-w", applied)
    wording.check(sent.out.splitlines()[-1], 3, "headrace up")
    listing = headrace("dead-letters", "visits", "-w", applied).out.splitlines()
    wording.check(listing[0], "visits")
    assert re.fullmatch(r"\d+ B of events are not processed yet: `headrace up` processes them", listing[1])
