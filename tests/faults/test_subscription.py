"""Members of a subscription are killed, and the server too: every event is acknowledged, none is forgotten.

HEADRACE_SUBSCRIPTION_EVENTS=100000 runs it at full size.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx2

from ..server import UpServer

EVENTS = int(os.environ.get("HEADRACE_SUBSCRIPTION_EVENTS", "6000"))
MEMBERS = 4
KILL_EVERY_S = 2.0 if EVENTS > 20_000 else 0.7
BODY = 1_000
TIMEOUT = "5s"


class Members:
    """Processes that share a subscription; each writes to a file of its own."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._running: list[tuple[subprocess.Popen[bytes], Path]] = []
        self._files: list[Path] = []
        self.kills = 0

    def start(self) -> None:
        path = self._workspace / f"member-{len(self._files)}.ids"
        self._files.append(path)
        command = [sys.executable, "-m", "tests.faults.member", str(self._workspace), "shared", str(path)]
        self._running.append((subprocess.Popen(command, cwd=Path(__file__).parents[2]), path))

    def kill_one(self) -> None:
        """Kill the one that has run longest of those that have processed events, and start another."""
        assert all(process.poll() is None for process, _ in self._running), "a member has ended by itself"
        busy = [each for each in self._running if each[1].exists() and each[1].stat().st_size]
        if not busy:
            return
        process, _ = busy[0]
        process.kill()
        process.wait()
        self._running.remove(busy[0])
        self.kills += 1
        self.start()

    def end(self) -> None:
        for process, _ in self._running:
            process.kill()
            process.wait()

    def ids(self) -> list[int]:
        """All that they have written, killed or not."""
        return [int(line) for path in self._files if path.exists() for line in path.read_text().split()]


def click(number: int) -> dict[str, object]:
    return {"id": number, "who": f"w{number % 7}", "weight": 1, "at": f"2026-03-01T12:{number // 60 % 60:02d}:00Z"}


def send(server: UpServer, first: int) -> None:
    """A body of events, sent until it is acknowledged."""
    events = [click(number) for number in range(first, min(first + BODY, EVENTS))]
    server.post("clicks", events, f"body-{first}")


def test_every_event_is_acknowledged_though_members_and_the_server_are_killed(workspace: Path) -> None:
    server = UpServer(workspace).wait_until_ready()
    terms = {"stream": "clicks", "from": "earliest", "timeout": TIMEOUT}
    server.http.post(f"{server.url}/v1/subscriptions/shared", json=terms).raise_for_status()
    members = Members(workspace)
    began = time.monotonic()
    try:
        for _ in range(MEMBERS):
            members.start()
        first, next_kill, server_kills = 0, began + KILL_EVERY_S, 0
        while first < EVENTS or status(server)["acknowledged"] < EVENTS:
            if first < EVENTS:
                send(server, first)
                first += BODY
            if time.monotonic() >= next_kill:
                members.kill_one()
                next_kill = time.monotonic() + KILL_EVERY_S
            if first >= EVENTS // 2 and not server_kills:
                while not status(server)["acknowledged"]:
                    time.sleep(0.05)
                server.kill()
                server = UpServer(workspace).wait_for_http()
                server_kills += 1
            if first >= EVENTS:
                time.sleep(0.1)
            assert time.monotonic() - began < 600, (status(server), server.log_tail())
        seconds = time.monotonic() - began
        final, ids = status(server), members.ids()
        assert final["acknowledged"] == final["delivered"] == EVENTS
        assert final["in_flight"] == 0
        assert set(ids) == set(range(EVENTS))
        sys.stdout.write(
            f"{EVENTS:,} events, {members.kills} members and {server_kills} server killed, {seconds:.0f} s: all "
            f"acknowledged, {len(ids) - EVENTS:,} processed twice, {final['redelivered']:,} redelivered\n"
        )
        assert members.kills
    finally:
        members.end()


def status(server: UpServer) -> dict[str, int]:
    while True:
        try:
            reply = server.http.get(f"{server.url}/v1/subscriptions/shared")
            reply.raise_for_status()
            return dict(reply.json())
        except httpx2.TransportError:  # the server is starting
            time.sleep(0.1)
