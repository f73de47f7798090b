"""Java dies, the server continues: it restarts Java by itself, and nothing is lost or counted twice.

HEADRACE_JAVA_KILLS=10 HEADRACE_JAVA_RATE=5000 tries it as often and as busily as docs/faults.md says.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests import http

from ..server import UpServer
from ..waiting import wait_until

KILLS = int(os.environ.get("HEADRACE_JAVA_KILLS", "2"))
RATE = int(os.environ.get("HEADRACE_JAVA_RATE", "500"))
FRESH_WITHIN_S = 45 * float(os.environ.get("HEADRACE_PATIENCE", "6"))  # a busy machine is slow; by hand: 1
PER_POST = 100
VIEWS = """
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(id) AS ids FROM clicks;
CREATE MATERIALIZED VIEW hourly AS SELECT who, count(*) AS n{more} FROM clicks GROUP BY who, window(at, '1 hour');
"""
STREAM = """CREATE STREAM clicks (id BIGINT NOT NULL, who STRING, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 10 SECONDS);"""
# One event makes a text that no heap holds: Java ends, out of memory.
ENDS_JAVA = """
CREATE MATERIALIZED VIEW bad AS SELECT who, count(*) AS n FROM clicks
WHERE CASE WHEN who = 'exit' THEN length(replace(replace(replace(who, 'x', lpad('', {width}, 'a')),
  'a', lpad('', {width}, 'b')), 'b', lpad('', {width}, 'c'))) > 0 ELSE true END GROUP BY who;
"""


def java_of(server: UpServer) -> int:
    """The process id of a server's Java; 0 while there is none."""
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # threads and processes end while they are listed
            for child in (task / "children").read_text().split():
                if Path(f"/proc/{child}/comm").read_text().strip() == "java":
                    return int(child)
    return 0


def kill_java(server: UpServer) -> bool:
    """Kill a server's Java, also while it starts; False while there is none."""
    java = java_of(server)
    if java:
        with suppress(ProcessLookupError):
            os.kill(java, signal.SIGKILL)
    return bool(java)


class Writer:
    """Posts numbered events at a steady rate; a post that was not acknowledged is sent again with its key."""

    def __init__(self, server: UpServer) -> None:
        self.token, self.posts = "", 0
        self._server, self._enough = server, threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        client, start_s = http.Client(), time.monotonic()
        while not self._enough.wait(max(0.0, start_s + self.posts * PER_POST / RATE - time.monotonic())):
            first = self.posts * PER_POST
            events = [click(n, f"w{n % 5}") for n in range(first, first + PER_POST)]
            body = "\n".join(json.dumps(event) for event in events)
            headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": f"post-{self.posts}"}
            reply = client.post(f"{self._server.url}/v1/streams/clicks/events", content=body, headers=headers)
            if reply.status_code == httpx2.codes.TOO_MANY_REQUESTS:
                continue
            assert reply.json()["accepted"] == PER_POST, reply.text
            self.token, self.posts = reply.json()["token"], self.posts + 1
        client.close()

    def stop(self) -> int:
        """How many events were acknowledged."""
        self._enough.set()
        self._thread.join(180)
        return self.posts * PER_POST


class Reader:
    """Queries a view continuously: every query is answered, with a freshness, and counts never decrease."""

    def __init__(self, server: UpServer) -> None:
        self.answers, self.wrong = 0, list[Any]()
        self._server, self._enough, self._most = server, threading.Event(), 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        client = http.Client()
        while not self._enough.wait(0.05):
            reply = client.get(f"{self._server.url}/v1/views/total").json()
            n = reply["rows"][0]["n"] if reply.get("rows") else 0
            has_freshness = reply.get("freshness_ms") is not None or reply.get("freshness_reason")
            if "rows" not in reply or not has_freshness or n < self._most or n % PER_POST:
                self.wrong.append(reply)
            self._most = max(self._most, n)
            self.answers += 1
        client.close()

    def stop(self) -> None:
        self._enough.set()
        self._thread.join(180)


def click(number: int, who: str) -> dict[str, Any]:
    minute, second = number // 60 % 60, number % 60
    return {"id": number, "who": who, "at": f"2026-04-01T10:{minute:02d}:{second:02d}Z"}


def workspace(folder: Path, definitions: dict[str, str]) -> Path:
    (folder / "definitions").mkdir()
    for name, text in definitions.items():
        (folder / "definitions" / name).write_text(text)
    (folder / "headrace.toml").write_text("lease_s = 2\nrehearse = false\nrefresh_every_s = 20\n")
    return folder


def test_java_that_ends_while_a_session_is_made(tmp_path: Path) -> None:
    script = """if True:
        import sys
        from pathlib import Path
        from pyspark import SparkContext
        from headrace.spark import build

        def end_java():  # between the start of Java and the session
            build._silence_pyspark = lambda: None
            SparkContext._gateway.proc.kill()
            SparkContext._gateway.proc.wait()

        build._silence_pyspark = end_java
        try:
            build.build_session(Path(sys.argv[1]))
        except Exception:
            print("failed once")
        print(build.build_session(Path(sys.argv[1])).range(3).count())
    """
    command = [sys.executable, "-c", script, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.stdout.split("\n") == ["failed once", "3", ""], run.stderr


def test_java_killed_at_random_moments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(KILLS)
    folder = workspace(tmp_path, {"clicks.sql": STREAM + VIEWS.format(more="")})
    server = UpServer(folder).wait_until_ready()
    writer, reader, took = Writer(server), Reader(server), list[float]()
    wait_until(lambda: writer.token)
    server.wait_for_token(writer.token)
    for kill in range(KILLS):
        if kill % 3 == 0:  # an edit, whose build the kill may interrupt
            more = f", max(id) AS last_{kill}"
            (folder / "definitions" / "clicks.sql").write_text(STREAM + VIEWS.format(more=more))
            plan = server.http.post(f"{server.url}/v1/apply", json={}).json()
            assert "error" not in plan, plan
        time.sleep(chance.uniform(0, 4))  # the moment is what is random here
        wait_until(partial(kill_java, server), details=server.log_tail)
        start_s, token = time.monotonic(), writer.token
        server.wait_for_token(token, FRESH_WITHIN_S)
        took.append(time.monotonic() - start_s)
        wait_until(lambda: server.health()["status"] == "ok", details=server.health)
    count = writer.stop()
    server.wait_for_token(writer.token)
    reader.stop()
    assert not reader.wrong, (len(reader.wrong), reader.wrong[:2])
    (row,) = server.rows("total")
    assert (row["n"], row["ids"]) == (count, sum(range(count)))
    assert sum(row["n"] for row in server.rows("hourly")) == count
    assert server.stop() == 0
    assert "Traceback" not in server.log.read_text()
    with capsys.disabled():
        fresh = ", ".join(f"{seconds:.0f}" for seconds in took)
        line = f"{KILLS} kills at {RATE} events/s, {count:,} events, {reader.answers:,} answers: "
        line += f"fresh after {fresh} s\n"
        sys.stdout.write(line if KILLS > 2 else "")


def test_a_view_that_ends_java_is_stalled_alone_and_others_continue(tmp_path: Path) -> None:
    folder = workspace(tmp_path, {"clicks.sql": STREAM + VIEWS.format(more="") + ENDS_JAVA.format(width=1000)})
    server = UpServer(folder).wait_until_ready()
    server.post("clicks", [click(n, "ann") for n in range(50)], "a")
    reply = server.post("clicks", [click(50, "exit"), click(51, "bob")], "b")

    def bad() -> dict[str, Any]:
        return next(view for view in server.get("/v1/views")["views"] if view["name"] == "bad")

    wait_until(lambda: "the event at position" in (bad()["stalled"] or ""), 300, lambda: (bad(), server.log_tail()))
    assert "(commit " in bad()["stalled"]
    assert '"who": "exit"' in bad()["stalled"]
    assert "other views continue" in bad()["stalled"]
    wait_until(lambda: server.rows("total")[0]["n"] == 52)
    assert server.get(f"/v1/tokens/{reply['token']}")["stalled"] == ["bad"]
    assert server.stop() == 0

    server = UpServer(folder).wait_until_ready()  # a restart does not die of it again
    java = java_of(server)
    assert "the event at position" in bad()["stalled"]
    server.post("clicks", [click(52, "eve")], "c")
    wait_until(lambda: server.rows("total")[0]["n"] == 53)
    mended = STREAM + VIEWS.format(more="") + ENDS_JAVA.format(width=20)
    (folder / "definitions" / "clicks.sql").write_text(mended)
    plan = server.http.post(f"{server.url}/v1/apply", json={}).json()
    assert "error" not in plan, plan
    wait_until(lambda: bad()["stalled"] is None and sum(row["n"] for row in server.rows("bad")) == 53, 300, bad)
    assert java_of(server) == java
    wait_until(lambda: server.health()["status"] == "ok", details=server.health)
    assert server.stop() == 0
