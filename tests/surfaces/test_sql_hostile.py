"""Hostile SQL: it accesses nothing, it ends in time, and the server continues to answer."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import orjson
import pytest

from tests import http
from tests.surfaces.conftest import Served
from tests.surfaces.hostile_sql import GREEDY, ODD, REACHING, SECRET, TARGET
from tests.surfaces.sql_shop import fill
from tests.surfaces.unchecked_child import BY_PYTHON

TIMEOUT_S = 1.0
SLACK_S = 60.0  # to start a process on a machine that is busy with other tests; the log says what was stopped
WORD = "abracadabra"


@pytest.fixture
def secret(tmp_path: Path) -> str:
    """A file that can be read, but not by a query."""
    file = tmp_path / "secret.csv"
    file.write_text(f"word\n{WORD}\n")
    return str(file)


@pytest.fixture
def target(tmp_path: Path) -> str:
    """The start of the names that queries try to write."""
    return str(tmp_path / "hostile")


def host_paths(folder: Path) -> list[str]:
    """Paths that no answer may contain."""
    here = [str(folder), sys.prefix, sys.base_prefix, str(Path.cwd()), str(Path.home()), "headrace-sql-", "/.duckdb"]
    return [path for path in here if len(path) > 1]


class Points:
    """A client that repeats a point query."""

    def __init__(self, url: str) -> None:
        self._http = http.Client(base_url=url)
        self._stop = threading.Event()
        self.answers = 0
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.wait(0.005):
            reply = self._http.get("/v1/views/traffic", params={"key.page": "/home"})
            self.answers += 1
            if reply.status_code != 200 or sum(row["hits"] for row in reply.json()["rows"]) != 3:
                self.failures.append(reply.text)

    def __enter__(self) -> Points:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._http.close()


def ask(served: Served, statement: str) -> httpx2.Response:
    return served.http.post("/v1/sql", json={"query": statement})


def test_every_hostile_statement_is_refused_while_point_queries_are_answered(
    applied: Path, serve: Callable[..., Served], tmp_path: Path, secret: str, target: str
) -> None:
    served = serve(applied, sql_timeout_s=TIMEOUT_S, sql_memory_mb=256)
    fill(served.runtime, tmp_path)
    hidden = host_paths(tmp_path)
    statements = [s.replace(SECRET, secret).replace(TARGET, target) for s in [*REACHING, *ODD, *GREEDY]]
    with Points(served.url) as points:
        with ThreadPoolExecutor(2) as two:
            futures = [(statement, two.submit(ask, served, statement)) for statement in statements]
        for statement, future in futures:
            reply = future.result()
            short = statement[:80]
            assert reply.status_code in (400, 404), (short, reply.text)
            error = reply.json()["error"]
            assert error["code"] in ("sql", "sql_limit", "not_found"), (short, error)
            assert "please report it" not in str(error), (short, error)
            text = reply.text.replace(secret, "").replace(target, "")  # a path in the query itself is allowed
            assert WORD not in text, short
            assert not [path for path in hidden if path in text], (short, text)
            if statement in GREEDY:
                assert error["code"] == "sql_limit", (short, error)
    assert len(statements) >= 60
    assert not points.failures, points.failures[:1]
    assert points.answers > 2 * len(statements)  # one that waited for a statement would be answered once for each
    served.runtime.answering._children.timeout_s = SLACK_S  # what follows must not be stopped on a slow machine
    assert served.http.post("/v1/sql", json={"query": "SELECT sum(hits) AS n FROM traffic"}).json()["rows"] == [
        {"n": 5}
    ]
    assert not list(tmp_path.glob("hostile*"))


def test_without_the_check_nothing_is_accessible_either(tmp_path: Path, secret: str, target: str) -> None:
    statements = [statement.replace(SECRET, secret).replace(TARGET, target) for statement in REACHING]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.surfaces.unchecked_child"],
        input=orjson.dumps(statements),
        capture_output=True,
        check=False,
        env={**os.environ, "HEADRACE_TOKEN": WORD, "PYTHONPATH": os.pathsep.join(["src", "."])},
    )
    lines = [orjson.loads(line) for line in ran.stdout.splitlines()]
    assert len(lines) == len(statements) + len(BY_PYTHON), ran.stderr[-500:]
    for statement, reply in zip(statements, lines, strict=False):
        assert WORD not in reply.get("rows", "") + reply.get("error", ""), statement
        message = reply.get("message", "").replace(secret, "").replace(target, "")
        assert not [path for path in host_paths(tmp_path) if path in message], (statement, message)
        if secret in statement:
            assert "rows" not in reply or "permission" in reply["rows"], statement
    assert all("error" in reply for reply in lines[len(statements) :]), "files, sockets and processes are out of reach"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret.csv"]
