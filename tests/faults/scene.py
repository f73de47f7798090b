"""A workspace whose servers die at named points while events flow, views are edited and queried."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from glob import glob
from pathlib import Path
from typing import Any

import httpx2

from headrace.faults import VARIABLE
from headrace.store.duckdb.database import DAMAGED
from headrace.store.open_to_read import open_to_read
from headrace.workspace.settings import Workspace

from ..nursery import SLICE_ROWS
from ..transports import SERVERS, with_clause
from ..waiting import wait_until
from ..warm import Java, WarmServer
from .ledger import LIMITS, Event, Ledger, per_minute, total
from .tally import Tally
from .witness import Witness, total_of

KILLED = -9
IN_WORKERS = ("append.in_worker", "fused.in_worker")  # points that Spark's workers pass, not the server
REACH_S = 300  # on a busy machine, with a cold Java
PAUSE_S = 0.25
RARE = ("load", "fill", "swap", "beat", "retire", "replay")  # points that a server passes rarely
SLICES = 3  # of each build, about
FEWEST_ROWS = 20  # of a slice
VIEWS = ("per_minute", "total")
SETTINGS = """
lease_s = 2
rehearse = false
append_every_ms = 0
upkeep_every_s = 0.3
lake_grace_s = 0
"""
DEFINITIONS = """
CREATE STREAM clicks (id BIGINT NOT NULL, who STRING, weight BIGINT, a {a}, b {b}, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 10 SECONDS) {source};
CREATE MATERIALIZED VIEW per_minute AS
  SELECT who, count(*) AS n, sum(weight) AS weight, approx_count_distinct(id) AS ids{renames} FROM clicks
  WHERE weight < {per_minute} AND id >= -{edits} GROUP BY who, window(at, '1 minute');
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(id) AS ids, max(id) AS last FROM clicks
  WHERE weight < {total} AND id >= -{edits_of_total};
"""


class Scene:
    """One workspace whose server is killed many times."""

    def __init__(self, java: Java, folder: Path, seed: int, tally: Tally) -> None:
        self._java = java
        self._folder = folder
        self._tally = tally
        self._died_at = "the beginning"
        self._chance = random.Random(seed)
        self._ledger = Ledger(seed)
        self._definition: dict[str, Any] = {
            "a": "INT",
            "b": "INT",
            "per_minute": 10,
            "total": 10,
            "edits": 0,
            "edits_of_total": 0,
            "renames": 0,
            "source": with_clause(),
        }
        self._limits = {view: {10} for view in VIEWS}  # which definitions of a view may answer now
        self._slices: dict[str, int] = {}  # that the last server left
        self._unsure = False
        self._posts = 0
        self._waiting: tuple[str, list[Event], list[Event]] | None = None  # key, events, those that count
        self._token = ""  # of the last post
        self._fault = folder / "fault"
        (folder / "definitions").mkdir()
        (folder / "headrace.toml").write_text(SETTINGS)
        self._write()

    def die_at(self, point: str) -> None:
        """A server that starts with the data of the last one, and dies when it reaches this point."""
        kind = point.partition(".")[0]
        passing = 1 if kind in RARE else self._chance.choice((1, 1, 2))
        armed = f"{point}:{passing}"
        at_once = self._chance.random() < 0.3  # it may die while it still recovers
        self._fault.write_text(armed if at_once else "")
        server = self._start(
            may_die=at_once,
            refresh_every_s="1" if kind == "beat" else self._chance.choice(("3", "3600")),
            retire_after_s="0" if kind == "retire" or self._chance.random() < 0.4 else "3600",
            # The points of maintain are those of the other lane, which has little to do beside the fused one.
            fused_lane="false" if kind == "maintain" or (kind != "fused" and self._chance.random() < 0.2) else "true",
        )
        with Witness(server, lambda: self._ledger, lambda: self._limits["total"], self._tally.of(point)):
            if not at_once:
                self.settle(server)
                self.check(server)
                self._fault.write_text(armed)
            act = self._act_for(kind)
            if self._chance.random() < 0.3:
                self._try(server, self._edit)  # so that a build is running
            deadline = time.monotonic() + REACH_S
            while server.process.poll() is None:
                assert time.monotonic() < deadline, f"{armed} was never reached: {server.log_tail()}"
                self._try(server, act)
                if self._chance.random() < 0.7:  # events must not gather faster than a build reads them
                    self._try(server, self._wait_for_lake)
        assert server.process.returncode == KILLED, (armed, server.log_tail())
        self._tally.of(point).kills += 1
        self._died_at = point

    def workers_die(self, point: str) -> None:
        """Spark's workers die again and again; the server continues by itself."""
        self._fault.write_text("")
        server = self._start()
        self._died_at = point
        with Witness(server, lambda: self._ledger, lambda: self._limits["total"], self._tally.of(point)):
            self._java.worker_fault.write_text(f"{point}:2")
            for _ in range(self._chance.randint(2, 5)):
                self._post(server)
            self._java.worker_fault.unlink()
            self.settle(server)
            self.check(server)
        self._tally.of(point).kills += 1
        server.kill()

    def build(self) -> None:
        """A server that edits each view, so that batch tables answer, and dies when nothing is running."""
        self._fault.write_text("")
        server = self._start()
        for _ in range(2):
            self._post(server)
            self._edit(server)
            self.settle(server)
        self._post(server)
        self.settle(server)
        server.kill()

    def survive(self, harm: Callable[[Path], Path]) -> None:
        """A server with a damaged file: no answer is wrong, and it, or the next one, recovers all."""
        harmed = harm(self._folder / "data")
        noted = harmed.with_name(harmed.name + DAMAGED)  # by a reader that found the damage, for the next server
        self._fault.write_text("")
        for _ in range(2):
            server = self._start()
            self._slices = {}
            answers = self._tally.of(self._died_at)
            with Witness(server, lambda: self._ledger, lambda: self._limits["total"], answers, strict=False):
                try:
                    self._post(server)
                    self.settle(server, unless=noted.exists)
                    if not noted.exists():
                        self.check(server)
                        return
                except httpx2.HTTPStatusError as error:
                    message = error.response.text
                    if str(harmed) not in message:
                        raise AssertionError(f"{harmed}: no error names it: {message}") from error
                finally:
                    server.kill()
        raise AssertionError(f"{harmed}: it cannot answer again: {server.log_tail()}")

    def end(self) -> None:
        """A last server has all events, none twice, ends the beats, and leaves no unused files."""
        self._fault.write_text("")
        server = self._start()
        self.settle(server)
        self.check(server)
        deadline = time.monotonic() + REACH_S
        while [*(self._folder / "data" / "builds").glob("*")]:
            assert time.monotonic() < deadline, server.log_tail()
            time.sleep(PAUSE_S)
        assert server.stop() == 0
        self._check_left()

    def _start(self, *, may_die: bool = False, **settings: str) -> WarmServer:
        """A server that accepts events, or that died before it did."""
        self._slices = self._slice_inodes()
        variables = {f"HEADRACE_{name.upper()}": value for name, value in settings.items()}
        variables[SLICE_ROWS] = str(max(FEWEST_ROWS, len(self._ledger.events) // SLICES))
        server = self._java.server(self._folder, **{VARIABLE: f"@{self._fault}", **variables})
        try:
            return server.wait_for_http()
        except AssertionError:
            if may_die and server.process.poll() == KILLED:
                return server
            raise

    # What is done to a server

    def _act_for(self, kind: str) -> Callable[[WarmServer], None]:
        """What brings a server to a point."""
        if kind == "replay":
            return self._replay
        if kind in ("compact", "upkeep"):
            return self._post_alone
        if kind in ("build", "load", "fill", "swap", "retire"):
            return self._post_or_edit
        if kind == "edit":
            return self._rename
        return self._post

    def _try(self, server: WarmServer, act: Callable[[WarmServer], None]) -> None:
        try:
            act(server)
        except httpx2.TransportError:
            time.sleep(PAUSE_S)  # it is dying

    def _post_or_edit(self, server: WarmServer) -> None:
        builds = not self._unsure and any(view["building"] for view in server.get("/v1/views")["views"])
        if builds and self._chance.random() < 0.7:
            time.sleep(PAUSE_S)  # a step for each post would leave a build no core
            return
        self._post(server)
        if not builds:
            self._edit(server)

    def _edit(self, server: WarmServer) -> None:
        """Another definition of a view: the old one answers until the new one has been built."""
        self._wait_for_lake(server)  # over no events, nothing is built
        if not self._unsure:
            view = self._chance.choice(("total", "total", "per_minute"))
            limit = self._chance.choice([limit for limit in LIMITS if limit != self._definition[view]])
            self._definition[view] = limit
            edits = "edits" if view == "per_minute" else "edits_of_total"
            self._definition[edits] += 1  # else an earlier version returns
            self._limits[view] = {*self._limits[view], limit}
            self._write()
        self._apply(server)

    def _rename(self, server: WarmServer) -> None:
        """A free edit: the new version takes over the rows of the one that serves, or of the one being built."""
        self._post(server)
        if not self._unsure:
            self._definition["renames"] += 1
            self._write()
        self._apply(server)

    def _apply(self, server: WarmServer) -> None:
        server.http.post(f"{server.url}/v1/apply").raise_for_status()
        self._unsure = False

    def _post(self, server: WarmServer) -> None:
        """The next events, or again those that were not acknowledged."""
        if self._waiting is None:
            events = self._ledger.make(self._chance.randint(1, 30))
            self._hold(events, events)
        self._send(server)

    def _post_alone(self, server: WarmServer) -> None:
        """Events in a separate commit, so that there are many small files."""
        self._post(server)
        self._wait_for_views(server)

    def _hold(self, events: list[Event], counting: list[Event]) -> None:
        self._posts += 1
        self._waiting = f"post-{self._posts}", events, counting
        self._ledger.intend(counting)

    def _send(self, server: WarmServer) -> None:
        assert self._waiting is not None
        key, events, counting = self._waiting
        while True:
            reply = server.http.post(
                f"{server.url}/v1/streams/clicks/events", params={"keep_bad": "true"}, content=json.dumps(events),
                headers={"content-type": "application/json", "idempotency-key": key},
            )  # fmt: skip
            if not SERVERS or reply.status_code != httpx2.codes.SERVICE_UNAVAILABLE:
                break
            time.sleep(PAUSE_S)  # the broker was slow to answer
        assert not reply.raise_for_status().json()["refused"], reply.text
        self._token = reply.json()["token"]
        self._ledger.count(counting)
        self._waiting = None

    def _replay(self, server: WarmServer) -> None:
        """Dead letters, the schema that can hold them, and their replay."""
        field = next((name for name in ("a", "b") if self._ledger.dead[name]), None)
        if field is None:
            field = next(name for name in ("a", "b") if self._definition[name] == "INT")
            letters = self._ledger.make(self._chance.randint(1, 20), too_heavy=field)
            if self._waiting is not None:
                self._send(server)
            self._hold(letters, [])
            self._ledger.dead[field] = letters
        if self._waiting is not None:
            self._send(server)
        self._wait_for_lake(server)
        self._definition[field] = "BIGINT"
        self._write()
        self._apply(server)
        self._ledger.hope(self._ledger.dead[field])
        self._replay_all(server)

    def _replay_all(self, server: WarmServer) -> None:
        """To the end; what can be read now counts from then on."""
        cursor: dict[str, str] = {}
        while True:
            url = f"{server.url}/v1/streams/clicks/dead-letters/replay"
            reply = server.http.post(url, params=cursor)
            if reply.status_code == httpx2.codes.SERVICE_UNAVAILABLE:
                time.sleep(0.05)
                continue
            reply.raise_for_status()
            if reply.json()["cursor"] is None:
                break
            cursor = {"cursor": reply.json()["cursor"]}
        for field, letters in self._ledger.dead.items():
            if self._definition[field] == "BIGINT":
                self._ledger.count(letters)
                letters.clear()

    def _write(self) -> None:
        (self._folder / "definitions" / "clicks.sql").write_text(DEFINITIONS.format(**self._definition))
        self._unsure = True  # whether the server has it

    # What must hold

    def settle(self, server: WarmServer, unless: Callable[[], bool] = lambda: False) -> None:
        """Wait until all requests to the dead servers are done, unless that cannot be expected."""
        if self._waiting is not None:
            self._send(server)
        if self._unsure:
            self._apply(server)
        if any(self._definition[field] == "BIGINT" and letters for field, letters in self._ledger.dead.items()):
            self._replay_all(server)
        self._wait_for_views(server, unless)

    def _wait_for_lake(self, server: WarmServer) -> None:
        deadline = time.monotonic() + REACH_S
        while server.status_of("clicks")["backlog_bytes"]:
            assert time.monotonic() < deadline, server.log_tail()
            time.sleep(PAUSE_S)

    def _wait_for_views(self, server: WarmServer, unless: Callable[[], bool] = lambda: False) -> None:
        """Wait until every view answers from every commit, with the newest definition."""
        if SERVERS and self._token:  # what a slow broker has committed may not be known as a backlog yet
            wait_until(lambda: server.get(f"/v1/tokens/{self._token}", wait="5s")["complete"], REACH_S, server.log_tail)
        self._wait_for_lake(server)
        deadline = time.monotonic() + REACH_S
        while True:
            views = server.get("/v1/views")["views"]
            self._check_slices()
            if all(view["applied_to"] == view["commits"] and not view["building"] for view in views):
                break
            if unless():
                return
            assert time.monotonic() < deadline, (views, server.log_tail())
            time.sleep(PAUSE_S)
        self._limits = {view: {self._definition[view]} for view in VIEWS}

    def _slice_inodes(self) -> dict[str, int]:
        """The slices that builds and beats have computed so far, with their inode numbers."""
        inodes = {}
        for path in glob(f"{self._folder}/data/builds/*/*-*"):  # Path.glob fails if a folder is deleted meanwhile
            with suppress(FileNotFoundError):  # a build that ends takes its slices with it
                inodes[path] = os.stat(path).st_ino
        return inodes

    def _check_slices(self) -> None:
        """What a dead server has computed is not computed again."""
        again = [path for path, number in self._slice_inodes().items() if self._slices.get(path, number) != number]
        assert not again, again

    def _check_left(self) -> None:
        """No unused file of a batch table, a slice or Spark."""
        data = self._folder / "data"
        store = open_to_read(Workspace.open(self._folder))
        assert store is not None
        with store.snapshot() as snapshot:
            tables = {table.file for version in snapshot.versions() for table in version.batch}
        store.close()
        assert {path.name for path in (data / "batch").glob("*")} == tables
        assert not [*(data / "builds").glob("*"), *(data / "scratch").glob("*")]

    def check(self, server: WarmServer) -> None:
        """Every acknowledged event is in every view, once."""
        events, outcome = self._ledger.events, self._tally.of(self._died_at)
        answer, target = total_of(server.rows("total")), total(events, self._definition["total"])
        rows = {(row["window_start"], row["who"]): (row["n"], row["weight"]) for row in server.rows("per_minute")}
        off = rows.items() ^ per_minute(events, self._definition["per_minute"]).items()
        outcome.lost += max(0, target[0] - answer[0])
        outcome.twice += max(0, answer[0] - target[0])
        outcome.wrong += len({key for key, _ in off}) + (answer != target)
        assert answer == target, self._died_at
        assert not off, self._died_at
        assert not server.get("/v1/status")["warnings"], "the layers disagree"
        stream = server.status_of("clicks")
        assert (stream["events"], stream["dead_letters"]) == (
            len(events),
            sum(map(len, self._ledger.dead.values())),
        )
