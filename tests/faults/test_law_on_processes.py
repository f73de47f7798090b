"""The law on real processes: twenty views, each edited and refreshed at moments of its own, of a server that is killed.

A case is one view with its own edits and beats; all share a stream, and the moments at which their server dies, often
in the midst of a build or a beat. An answer may be that of any definition that the view has had, as long as it is
right for that; at the end it is right for the last one, before and after a last beat.

`make test-full` runs it (HEADRACE_LAW_PROCESSES = 1); HEADRACE_LAW_SEED chooses another life.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.api.connect import Connection, connect
from headrace.errors import NotReadyError
from headrace.serve.question import HIGHEST_LIMIT
from tests import http
from tests.equivalence.edits import edit_shape
from tests.equivalence.generate import STREAM, make_events, make_shape, to_json
from tests.equivalence.reference import Event, Shape, differences
from tests.waiting import wait_until

from ..server import UpServer

VIEWS = [f"v{number}" for number in range(20)]
ROUNDS = 4
SEED = int(os.environ.get("HEADRACE_LAW_SEED", "0"))


class Life:
    """A workspace, what was sent to it, and every definition that each view has had."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.chance = random.Random(seed)
        self.shapes = {name: [make_shape(self.chance, name, 4)] for name in VIEWS}
        self.coming = make_events(self.chance, 800)
        self.chance.shuffle(self.coming)
        self.sent: list[Event] = []
        self.token = ""
        (folder / "definitions").mkdir()
        (folder / "headrace.toml").write_text("lease_s = 2\nrehearse = false\n")
        self.define()

    def define(self) -> None:
        text = "\n".join([STREAM, *(shapes[-1].sql for shapes in self.shapes.values())])
        (self.folder / "definitions" / "all.sql").write_text(text)

    def post(self, server: UpServer, count: int) -> None:
        """Send this many more events, in requests that are repeated until they are acknowledged."""
        while count > 0 and self.coming:
            events = self.coming[: self.chance.randint(1, 40)]
            body = b"\n".join(to_json(event, self.chance) for event in events)
            headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": f"key-{len(self.sent)}"}
            for _ in range(self.chance.choice([1, 1, 2])):
                reply = http.post(
                    f"{server.url}/v1/streams/events/events", content=body, headers=headers
                ).raise_for_status()
                assert reply.json()["accepted"] == len(events)
            self.token = reply.json()["token"]
            self.sent += events
            self.coming = self.coming[len(events) :]
            count -= len(events)

    def meddle(self, connection: Connection) -> None:
        """Edit some views and move the horizon of others, whatever is running."""
        for name in self.chance.sample(VIEWS, 6):
            self.shapes[name].append(edit_shape(self.chance, self.shapes[name][-1]))
        self.define()
        connection.apply()
        for name in self.chance.sample(VIEWS, 8):
            with suppress(NotReadyError):  # its first version is being built
                connection.refresh(name, full=self.chance.random() < 0.2)

    def check(self, connection: Connection, name: str, shapes: list[Shape]) -> None:
        """The answer of a view is right by one of these definitions."""
        answer = connection.ask(name, limit=HIGHEST_LIMIT)
        assert answer.next_cursor is None
        columns = {column for column, _ in answer.columns} - {"window_start", "window_end", "settled"}
        fitting = [s for s in shapes if columns == {n for n, _ in s.keys} | {o.name for o in s.outputs}]
        rows = [{"window_start": None, **row} for row in answer.rows()]
        problems = [differences(shape, rows, self.sent) for shape in fitting]
        assert any(not wrong for wrong in problems), (
            f"seed {self.seed}, view {name}, version {answer.version}, of {[s.sql for s in shapes]}: "
            f"{[wrong[:3] for wrong in problems]} {connection.versions(name)}"
        )


def wait_for(server: UpServer, what: Callable[[], Any], timeout_s: float = 240) -> None:
    def true() -> bool:
        assert server.process.poll() is None, server.log_tail()
        return bool(what())

    wait_until(true, timeout_s, lambda: (server.get("/v1/views"), server.log_tail()))


@pytest.mark.skipif("HEADRACE_LAW_PROCESSES" not in os.environ, reason="twenty cases on processes: make test-full")
@pytest.mark.timeout(1200)
def test_twenty_views_of_a_server_that_dies(tmp_path: Path) -> None:
    life = Life(tmp_path, SEED)
    for _ in range(ROUNDS):
        server = UpServer(tmp_path).wait_until_ready()
        with connect(server.url) as connection:
            life.post(server, 100)
            server.wait_for_token(life.token)
            for view in connection.views():
                if view.version is not None:
                    life.check(connection, view.name, life.shapes[view.name])
            life.meddle(connection)
            life.post(server, 60)
            time.sleep(life.chance.uniform(0, 4))  # what it does when it dies is left to chance
        server.kill()
    server = UpServer(tmp_path).wait_until_ready()
    with connect(server.url) as connection:
        life.post(server, len(life.coming))
        server.wait_for_token(life.token)
        wait_for(server, lambda: all(not v.building and v.version is not None for v in connection.views()))
        server.wait_for_token(life.token)
        for name in VIEWS:
            life.check(connection, name, life.shapes[name][-1:])
            connection.refresh(name)
        wait_for(server, lambda: all(_all_by_batch(connection, name) for name in VIEWS))
        for name in VIEWS:
            life.check(connection, name, life.shapes[name][-1:])
            assert all(audit.agreed for audit in connection.audits(name))
    assert server.stop() == 0


def _all_by_batch(connection: Connection, name: str) -> bool:
    return not connection.ask(name, limit=1).events["speed"]
