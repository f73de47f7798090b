"""Functions over rows on a real server: failing rows are dead letters of the derived stream; new code computes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server import UpServer
from tests.waiting import wait_until

from .conftest import Ran

CODE = """
import headrace as hr
import pyarrow as pa

posts = hr.Stream("posts", "id BIGINT NOT NULL, text STRING")

@hr.udf("text STRING", gives="words BIGINT, first STRING")
def measure(text):
    rows = [{"words": len(each.split()), "first": each.split()[0]} for each in text.to_pylist()]
    return pa.Table.from_pylist(rows, pa.schema([("words", pa.int64()), ("first", pa.string())]))

measured = hr.Stream("measured", posts.map(measure))
hr.View("words", measured.agg(n=hr.count(), words=hr.sum("words")))
hr.View("some", posts.sample(50).agg(n=hr.count()))
"""
MENDED = CODE.replace(
    '[{"words": len(each.split()), "first": each.split()[0]} for each in text.to_pylist()]',
    '[{"words": len((each or "").split()), "first": None} for each in text.to_pylist()]',
)
WRONG = CODE.replace("return pa.Table.from_pylist(", "return pa.Table.from_pylist(rows[:1] and [] and ")
POSTS = [{"id": at, "text": text} for at, text in enumerate(["a b", "", "c d e", None, "f"] * 20)]
FAILING = [post["id"] for post in POSTS if not post["text"]]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[UpServer]:
    (tmp_path / "headrace.toml").touch()
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "posts.py").write_text(CODE)
    up = UpServer(tmp_path).wait_for_http()
    yield up
    up.stop()


def answer(server: UpServer, view: str) -> dict[str, int]:
    reply = server.http.get(f"{server.url}/v1/views/{view}")
    return reply.json()["rows"][0] if reply.status_code == 200 and reply.json()["rows"] else {}


def test_failing_rows_are_dead_letters_until_the_function_is_mended(
    server: UpServer, headrace: Callable[..., Ran]
) -> None:
    body = "\n".join(map(json.dumps, POSTS))
    reply = server.http.post(
        f"{server.url}/v1/streams/posts/events", content=body, headers={"content-type": "application/x-ndjson"}
    )
    assert reply.json()["accepted"] == len(POSTS)
    server.wait_for_token(reply.json()["token"])
    words = answer(server, "words")
    assert (words["n"], words["words"]) == (len(POSTS) - len(FAILING), 120)

    listing = headrace("dead-letters", "measured", "--limit", 3, "--json", "-w", server.folder).json
    assert listing["total"] == len(FAILING)
    assert [json.loads(each["value"])["id"] for each in listing["dead_letters"]] == FAILING[:-4:-1]
    newest, second, _ = listing["dead_letters"]
    assert "function 'measure' failed: AttributeError" in newest["reason"]
    assert newest["reason"].endswith("(posts.py:9, for text = None)")
    assert second["reason"].endswith("IndexError: list index out of range (posts.py:9, for text = '')")
    rest = headrace(
        "dead-letters", "measured", "--limit", 1000, "--cursor", listing["next_cursor"], "--json", "-w", server.folder
    ).json
    assert len(rest["dead_letters"]) == len(FAILING) - 3
    reasons = headrace("dead-letters", "measured", "count", "--json", "-w", server.folder).json
    assert [reason["count"] for reason in reasons] == [20, 20]
    shown = headrace("dead-letters", "measured", "show", second["position"], "-w", server.folder)
    assert "list index out of range" in shown.out
    replay = headrace("dead-letters", "measured", "replay", "-w", server.folder)
    assert "change the function" in replay.err
    streams = server.http.get(f"{server.url}/v1/streams").json()["streams"]
    assert {each["name"]: each["dead_letters"] for each in streams} == {"posts": 0, "measured": len(FAILING)}

    estimate = server.http.get(f"{server.url}/v1/views/some").json()
    (row,), (bound,) = estimate["rows"], estimate["bounds"]["n"]
    assert row["n"] % 2 == 0
    assert abs(row["n"] - len(POSTS)) <= 3 * bound
    assert estimate["approximate"]["n"] == "scaled from a sample of 50 %; 95 % bounds are stated"

    (server.folder / "definitions" / "posts.py").write_text(WRONG)
    refused = headrace("apply", "--yes", "-w", server.folder)
    assert "returned 0 values for" in refused.err
    (server.folder / "definitions" / "posts.py").write_text(MENDED)
    applied = headrace("apply", "--yes", "-w", server.folder)
    assert applied.code == 0, applied.err
    wait_until(lambda: answer(server, "words").get("n") == len(POSTS))
    assert headrace("dead-letters", "measured", "--json", "-w", server.folder).json["total"] == 0
