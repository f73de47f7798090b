"""A real `headrace up` for tests: started, killed, paused, and queried over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import httpx2

from headrace.workspace.lease_holder import read_holder
from tests import http

from .waiting import wait_until

COMMAND = [sys.executable, "-c", "import sys; from headrace.cli import main; sys.exit(main())"]


class UpServer:
    """One process of the real command, on a free port."""

    started: ClassVar[list[UpServer]] = []  # to be ended if a test fails

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.log = folder / f"up-{time.monotonic_ns()}.log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [*COMMAND, "up", "--port", "0"],
                cwd=folder,
                env={**os.environ, "HEADRACE_REHEARSE": "false", **variables},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._begin()

    def _begin(self) -> None:
        self.url = ""
        self.http = http.Client()  # one for all requests: making one takes 40 ms
        self.started.append(self)

    def wait_for_http(self, timeout_s: float = 240) -> UpServer:
        """Wait until it accepts events; Spark may still be starting."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log_tail()
            holder = read_holder(self.folder / "data" / "lease.json")
            if holder and holder.pid == self.process.pid and holder.url:
                self.url = holder.url
                try:
                    self.http.get(f"{self.url}/health", timeout=30)
                    return self
                except httpx2.HTTPError:
                    pass
            time.sleep(0.05)
        raise AssertionError(f"not up in time: {self.log_tail()}")

    def wait_until_ready(self, timeout_s: float = 300) -> UpServer:
        """Wait until events are processed."""
        self.wait_for_http(timeout_s)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log_tail()
            if self.health()["status"] == "ok":
                return self
            time.sleep(0.05)
        raise AssertionError(f"not ready in time: {self.log_tail()}")

    def health(self) -> dict[str, Any]:
        """Its state, also where that is an error, such as of a stream whose broker was slow to answer."""
        return dict(self.http.get(f"{self.url}/health").json())

    def status_of(self, stream: str) -> dict[str, Any]:
        """The status of one stream."""
        return next(s for s in self.get("/v1/status")["streams"] if s["name"] == stream)

    def post(self, stream: str, events: list[dict[str, Any]], key: str | None) -> dict[str, Any]:
        """One request; raises httpx2.HTTPError if it was not acknowledged."""
        body = json.dumps(events).encode()
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        reply = self.http.post(f"{self.url}/v1/streams/{stream}/events", content=body, headers=headers)
        reply.raise_for_status()
        return dict(reply.json())

    def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        """One answer."""
        reply = self.http.get(f"{self.url}{path}", params=parameters)
        reply.raise_for_status()
        return dict(reply.json())

    def wait_for_token(self, token: str, timeout_s: float = 300) -> None:
        """Wait until every view has it."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            state = self.get(f"/v1/tokens/{token}", wait="10s")
            if state["complete"]:
                return
            assert not state["stalled"], state
        raise AssertionError(f"token not complete in time: {self.get('/v1/status')} {self.log_tail()}")

    def wait_for_views(self, *views: str, timeout_s: float = 300) -> None:
        """Wait until these serve."""

        def serve() -> bool:
            return {view["name"] for view in self.get("/v1/views")["views"] if view["version"]} >= set(views)

        wait_until(serve, timeout_s, self.log_tail)

    def rows(self, view: str) -> list[dict[str, Any]]:
        """All rows of a view."""
        rows: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            page = self.get(f"/v1/views/{view}", limit=10_000, **cursor)
            rows += page["rows"]
            if not page["next_cursor"]:
                return rows
            cursor = {"cursor": page["next_cursor"]}

    def kill(self) -> None:
        """As kill -9 would."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    @classmethod
    def kill_all(cls) -> None:
        """Kill those that still run, and close all connections."""
        for server in cls.started:
            server.kill()
            server.http.close()
        cls.started.clear()

    def stop(self) -> int:
        """As Ctrl-C would; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(300)

    def log_tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3000:]
