"""Edits of every kind on a live server that is queried continuously: no query fails, and each answer is correct."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.cli.app import run
from tests import http
from tests.server import UpServer
from tests.surfaces.conftest import Ran, visit
from tests.waiting import wait_until
from tests.warm import Java

STREAM = """CREATE STREAM visits (visitor STRING NOT NULL, page STRING, status INT, bytes BIGINT, at TIMESTAMP NOT NULL,
WATERMARK FOR at AS at - INTERVAL 1 MINUTE);\n"""
VIEW = """CREATE MATERIALIZED VIEW shop AS SELECT page, count(*) AS n, sum(bytes) AS total, max(status) AS worst
FROM visits WHERE status < 600 GROUP BY page, window(at, '10 minutes', '5 minutes');\n"""
# The kind of edit, and its text replacements. tests/unit/plan/test_edits.py has all kinds.
EDITS: list[tuple[str, list[tuple[str, str]]]] = [
    ("free", [("AS n,", "AS hits,")]),
    ("free", [("count(*) AS hits, sum(bytes) AS total", "sum(bytes) AS total, count(*) AS hits")]),
    ("free", [(", max(status) AS worst", "")]),
    ("free", [("'10 minutes', '5 minutes'", "'1 hour', '5 minutes'")]),
    ("free", [("AS hits", "AS hits, count(*) AS n")]),
    ("free", [("VIEW shop AS", "VIEW shop SCHEDULE EVERY 1 HOUR AS")]),
    ("free", [("1 MINUTE", "2 MINUTES")]),
    ("build", [("AS n", "AS m, avg(bytes) AS mean"), ("AS total,", "AS total, min(status) AS best,")]),
    ("build", [("status < 600", "status < 500"), ("min(status)", "min(bytes)")]),
    ("build", [("GROUP BY page,", "GROUP BY page, visitor,"), ("'1 hour', '5 minutes'", "'1 hour', '1 minute'")]),
]


class Reader:
    """Queries the whole view continuously, and collects wrong answers."""

    def __init__(self, url: str) -> None:
        self.answers, self.failures = 0, []
        self.right: set[tuple[int, int]] = set()  # hits and bytes of a correct answer
        self._url = f"{url}/v1/views/shop?by=&window=24h&every=24h"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        with http.Client() as client:
            while not self._stopping.is_set():
                right = set(self.right)
                reply = client.get(self._url)
                self.answers += 1
                content = reply.json()
                if reply.status_code != 200 or _sums(content) not in right | self.right:
                    self.failures.append(content)


def _sums(content: dict[str, Any]) -> tuple[int, int]:
    (row,) = content["rows"]
    hits = next(row[name] for name in ("n", "hits", "m") if name in row)
    return hits, int(row["total"])


@pytest.fixture(scope="module")
def up(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpServer]:
    folder = tmp_path_factory.mktemp("edits") / "shop"
    assert run(["init", str(folder)]) == 0
    (folder / "definitions" / "shop.sql").write_text(STREAM + VIEW)
    yield java.server(folder).wait_until_ready()
    UpServer.kill_all()


def send(up: UpServer, *events: dict[str, Any]) -> None:
    reply = up.post("visits", list(events), None)
    assert reply["accepted"] == len(events)
    up.wait_for_token(reply["token"])


def test_an_edit_of_every_kind_while_it_serves(up: UpServer, headrace: Callable[..., Ran]) -> None:
    send(up, *(visit(10 * i, page=f"/{i % 3}", visitor=f"v{i % 5}") for i in range(60)))
    send(up, visit(30, status=500, bytes=7), visit(90, page=None, bytes=None))
    text = STREAM + VIEW
    with Reader(up.url) as reader:
        reader.right = {(62, 6007)}
        for how, replacements in EDITS:
            for old, new in replacements:
                assert old in text
                text = text.replace(old, new)
            if "status < 500" in text:
                reader.right = {(62, 6007), (61, 6000)}
            (up.folder / "definitions" / "shop.sql").write_text(text)
            plan = headrace("plan", "-w", up.folder, "--json").json
            assert [change["how"] for change in plan["changes"] if change["what"] == "view"] == [how], plan
            before = up.get("/v1/views/shop/versions")["versions"]
            ran = headrace("apply", "--yes", "-w", up.folder)
            assert ran.code == 0, ran.err
            after = up.get("/v1/views/shop/versions")["versions"]
            assert (after[0]["state"], after[0]["version"]) == ("serving", before[0]["version"] + 1), after
            assert after[0]["changed_from"] == before[0]["version"]
            assert after[1]["has_rows"] == (how == "build"), after
        reader.right = {(61, 6000)}
        _newer_edits_take_the_place_of_builds(up, headrace, text)
        reader.right = {(61, 6000), (62, 6050)}
        send(up, visit(40, bytes=50))
        reader.right = {(62, 6050)}
        _forth_and_back(up, headrace)
        _refresh(up, headrace)
    assert reader.failures == []
    assert reader.answers > 50


def _newer_edits_take_the_place_of_builds(up: UpServer, headrace: Callable[..., Ran], text: str) -> None:
    for new in ("max(at) AS last", "min(at) AS first"):
        (up.folder / "definitions" / "shop.sql").write_text(text.replace("AS total,", f"AS total, {new},"))
        assert headrace("apply", "--yes", "--no-wait", "-w", up.folder).code == 0
    wait_until(lambda: up.get("/v1/views")["views"][0]["building"] is None)
    versions = up.get("/v1/views/shop/versions")["versions"]
    assert versions[0]["state"] == "serving"
    assert "column added: min(at) AS first" in versions[0]["changes"]
    (row, *_) = up.get("/v1/views/shop", by="", window="24h", every="24h")["rows"]
    assert "first" in row
    assert "last" not in row


def _forth_and_back(up: UpServer, headrace: Callable[..., Ran]) -> None:
    now, before = (v["version"] for v in up.get("/v1/views/shop/versions")["versions"][:2])
    refusal = headrace("rollback", "shop", "-w", up.folder)
    assert (refusal.code, "give --yes" in refusal.err) == (2, True)
    back = headrace("rollback", "shop", "--yes", "-w", up.folder)
    assert back.code == 0, back.err
    assert f"version {now} → {before}  free: version {before} has this definition and still has its rows" in back.out
    assert f"View shop is rolled back to version {before}." in back.out
    plan = headrace("plan", "-w", up.folder, "--json").json
    assert [change["details"] for change in plan["changes"]] == [["column added: min(at) AS first"]]
    assert f"version {now} has this definition" in plan["changes"][0]["reason"]
    forth = headrace("rollback", "shop", "--to", now, "--yes", "--json", "-w", up.folder)
    assert (forth.json["from"], forth.json["to"], forth.json["how"]) == (before, now, "free")
    assert headrace("plan", "-w", up.folder, "--json").json["empty"] is True


def _refresh(up: UpServer, headrace: Callable[..., Ran]) -> None:
    assert headrace("audit", "shop", "-w", up.folder).out.startswith("View shop has had no audit yet")
    ran = headrace("refresh", "shop", "-w", up.folder)
    assert ran.code == 0, ran.err
    assert "read again in" in ran.out
    assert "drift 0" in ran.out
    (audit,) = headrace("audit", "shop", "-w", up.folder, "--json").json["audits"]
    assert (audit["agreed"], audit["drift"]) == (True, [])
    assert "has nothing new" in headrace("refresh", "shop", "-w", up.folder).out
    (newest, *_) = up.get("/v1/views/shop/versions")["versions"]
    assert (newest["horizon"], newest["speed_events"]) == (newest["applied_to"], 0)
    full = headrace("refresh", "shop", "--full", "-w", up.folder)
    assert f"Version {newest['version'] + 1} of view shop, rebuilt from the log, serves." in full.out
    lines = headrace("versions", "shop", "-w", up.folder).out.splitlines()
    assert "nothing: rebuilt" in lines[2]


def test_after_a_restart_the_rolled_back_version_serves_and_the_change_is_pending(java: Java, up: UpServer) -> None:
    before = up.get("/v1/views/shop")
    definitions = up.folder / "definitions" / "shop.sql"
    definitions.write_text(definitions.read_text().replace("AS m", "AS visits_seen"))
    up.stop()
    again = java.server(up.folder).wait_for_http()
    assert again.get("/v1/views/shop")["rows"] == before["rows"]
    assert again.stop() == 0
    assert "column renamed: count(*) AS m → visits_seen" in again.log_tail()
    assert "These changes need `headrace apply`" in again.log_tail()
