"""Edits under load: a view is edited twenty times while events flow in and answers out; every answer is judged."""

from __future__ import annotations

import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.bench.events import PAGES, arrays
from headrace.bench.figures import Figure, of_percentile, percentile
from headrace.bench.history import VISITS, extend
from headrace.bench.judge import Definition, Said, wrong_answers
from headrace.bench.load import Connection
from headrace.bench.measure import started
from headrace.client.connect import connect
from headrace.demo.server import Server, make_workspace
from headrace.errors import HeadraceError
from headrace.lake.table import LakeTable
from headrace.workspace.settings import Workspace

Tell = Callable[[str], None]
HISTORY = 2_000_000
FLOW = 10_000  # events a second
PER_POST = 500
ASKED = 100  # answers a second
ASKERS = 4
WARM_S = 40.0  # freshness falls for so long while Java compiles
# A machine is quicker at one time than at another, so times without edits lie all along those with them.
IN_A_ROW = 4  # edits, before they pause
QUIET_S = 10.0
SETTLE_S = 15.0  # behind an edit: what it left, in steps and in Java, would be taken for quiet
MOST_S = 120.0  # that one edit may take
LOOK_S = 0.1

FIRST = Definition()
RENAMED = (("visits", "count(*)"), ("bytes", "sum(bytes)"), ("largest", "max(bytes)"))
SMALLEST = ("smallest", "min(bytes)")
ERRORS = ("errors", "count(*) FILTER (WHERE status >= 500)")


def edits() -> list[tuple[str, Definition]]:
    """Twenty edits in a row, each of the definition before it: every kind, and back again."""
    now = FIRST
    found = []

    def edit(kind: str, **changed: Any) -> None:
        nonlocal now
        now = replace(now, **changed)
        found.append((kind, now))

    edit("rename an output", columns=RENAMED)
    edit("new aggregate", columns=(*RENAMED, SMALLEST))
    edit("drop an aggregate", columns=(*RENAMED[:2], SMALLEST))
    edit("filter", where="status <> 304")
    edit("patience", patience="2 MINUTES")
    edit("key", keys=("page", "status"))
    edit("schedule", schedule="SCHEDULE EVERY 2 HOURS")
    edit("window", pane="5 minutes")
    edit("argument", columns=(RENAMED[0], ("bytes", "sum(bytes + 1)"), SMALLEST))
    edit("key", keys=("page",))
    edit("rename an output", columns=(("hits", "count(*)"), ("bytes", "sum(bytes + 1)"), SMALLEST))
    edit("window", pane="1 minute")
    edit("filter", where="")
    edit("new aggregate", columns=(*now.columns, ERRORS))
    edit("drop an aggregate", columns=(*now.columns[:2], ERRORS))
    edit("patience", patience="1 MINUTE")
    edit("argument", columns=(("hits", "count(*)"), ("bytes", "sum(bytes)"), ERRORS))
    edit("schedule", schedule="")
    edit("filter", where="status = 200")
    edit("new aggregate, filter and window", columns=FIRST.columns, where="", pane="2 minutes")
    return found


@dataclass
class Heard:
    """What clients saw while events flowed."""

    fresh_s: list[float] = field(default_factory=list)
    answer_ms: list[float] = field(default_factory=list)
    answers: list[Said] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    posts: int = 0  # acknowledged
    seconds: float = 0.0

    def add(self, other: Heard) -> None:
        """What was heard at another time, too."""
        self.fresh_s += other.fresh_s
        self.answer_ms += other.answer_ms
        self.answers += other.answers
        self.failures += other.failures
        self.posts += other.posts
        self.seconds += other.seconds


class Load:
    """Clients that post and ask at an even rate until told to stop; `heard_by` says whose it is."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._bodies = arrays(200_000, PER_POST)
        self._acknowledged: queue.SimpleQueue[tuple[str, float, Heard] | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self.rest = self._heard = Heard()  # what is heard in between
        self._failed: HeadraceError | None = None
        acts = [self._send, self._wait, *[self._ask] * ASKERS]
        self._threads = [threading.Thread(target=self._run, args=(act, i), daemon=True) for i, act in enumerate(acts)]
        for thread in self._threads:
            thread.start()

    @contextmanager
    def heard_by(self, heard: Heard) -> Iterator[None]:
        """What begins meanwhile counts there."""
        self._heard, began = heard, time.monotonic()
        yield
        heard.seconds += time.monotonic() - began
        self._heard = self.rest

    def stop(self) -> None:
        """Let every client end; raises what ended one before."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        if self._failed:
            raise self._failed

    def _run(self, act: Callable[[int], None], number: int) -> None:
        try:
            act(number)
        except HeadraceError as error:
            self._failed = self._failed or error
            self._acknowledged.put(None)

    def _send(self, _: int) -> None:
        connection = Connection(self._url)
        for number in _even_times(FLOW / PER_POST, self._stopping):
            body = self._bodies[number % len(self._bodies)]
            heard = self._heard
            token = connection.post("/v1/streams/visits/events", body)["token"]
            self._acknowledged.put((token, time.monotonic(), heard))
            heard.posts += 1
        self._acknowledged.put(None)

    def _wait(self, _: int) -> None:
        # Tokens complete in the order of their posts, so waiting for one after the other is exact.
        connection = Connection(self._url)
        while waiting := self._acknowledged.get():
            token, since, heard = waiting
            connection.wait_for_token(token)
            heard.fresh_s.append(time.monotonic() - since)

    def _ask(self, asker: int) -> None:
        connection = Connection(self._url)
        for number in _even_times(ASKED / ASKERS, self._stopping):
            page = f"/p/{(number * ASKERS + asker) % PAGES}"
            heard, began = self._heard, time.monotonic()
            try:
                said = connection.get(f"/v1/views/traffic?key.page={page}&by=page&window=1h")
            except HeadraceError as error:
                heard.failures.append(str(error))
                continue
            heard.answer_ms.append((time.monotonic() - began) * 1000)
            heard.answers.append(Said(page, said["version"], said["as_of"]["commits"]["visits"], tuple(said["rows"])))


def _even_times(per_second: float, stopping: threading.Event) -> Iterator[int]:
    """Numbers at even times; a late one comes at once."""
    began, number = time.monotonic(), 0
    while not stopping.wait(max(0.0, began + number / per_second - time.monotonic())):
        yield number
        number += 1


def edits_under_load(tell: Tell) -> list[Figure]:
    """The figures, over a server in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        make_workspace(folder, FIRST.sql)
        lake = Workspace.open(folder).lake(VISITS.name)
        tell(f"a history of {HISTORY:,} events")
        extend(LakeTable(lake, VISITS, fence=1), HISTORY)
        with started(folder) as server:
            (quiet, edited, rest), served = _run(server, tell)
        answers = quiet.answers + edited.answers + rest.answers
        tell(f"{len(answers):,} answers are judged")
        wrong = wrong_answers(LakeTable(lake, VISITS, fence=None), served, answers)
    failures = quiet.failures + edited.failures + rest.failures
    for sentence in (failures + wrong)[:5]:
        tell(sentence)
    ratio = percentile(edited.fresh_s, 0.99) / percentile(quiet.fresh_s, 0.99)
    spread = f"{percentile(quiet.fresh_s, 0.99):.2f} s without edits"
    during = f"while a view is edited {len(served) - 1} times"
    taken, given = edited.posts * PER_POST / edited.seconds, len(edited.answers) / edited.seconds
    return [
        # The load itself has bars: where it was not reached, the rest says nothing.
        Figure(f"events taken in {during}", taken, "events/s", f"of {FLOW:,} sent", 0.95 * FLOW),
        Figure(f"answers given {during}", given, "answers/s", f"of {ASKED} asked", 0.95 * ASKED),
        Figure(f"answers that failed {during}", len(failures), "", f"of {len(answers):,}", 0, False),
        Figure(f"answers that were not right {during}", len(wrong), "", f"of {len(answers):,}", 0, False),
        of_percentile(f"freshness {during}", edited.fresh_s, 0.99, "s", None),
        Figure(f"freshness {during} against none, p99", ratio, "x", spread, 2, False),
        of_percentile(f"point answer {during}", edited.answer_ms, 0.5, "ms", None),
        of_percentile(f"point answer {during}", edited.answer_ms, 0.99, "ms", None),
    ]


def _run(server: Server, tell: Tell) -> tuple[tuple[Heard, Heard, Heard], dict[int, Definition]]:
    """What was heard without and with edits and in between, and the definition of each version."""
    number = _wait_for_version(Connection(server.url), None)
    served = {number: FIRST}
    load = Load(server.url)
    time.sleep(WARM_S)
    rounds: list[tuple[Heard, Heard]] = []
    for at, (kind, definition) in enumerate(edits()):
        if at % IN_A_ROW == 0:
            tell(f"{FLOW:,} events/s in, {ASKED} answers/s out, no edit")
            rounds.append((Heard(), Heard()))
            time.sleep(SETTLE_S)
            with load.heard_by(rounds[-1][0]):
                time.sleep(QUIET_S)
        began = time.monotonic()
        with load.heard_by(rounds[-1][1]):
            make_workspace(server.folder, definition.sql)
            with connect(str(server.folder)) as client:
                client.apply()
            number = _wait_for_version(Connection(server.url), number)
        served[number] = definition
        tell(f"edit {at + 1}: {kind}, serves after {time.monotonic() - began:.1f} s")
    load.stop()
    p99s = [tuple(f"{percentile(heard.fresh_s, 0.99):.2f}" for heard in pair) for pair in rounds]
    tell("freshness of each pause and of the edits behind it, p99: " + ", ".join(f"{a} and {b} s" for a, b in p99s))
    quiet, edited = (_sum(heard) for heard in zip(*rounds, strict=True))
    return (quiet, edited, load.rest), served


def _sum(heard: Iterable[Heard]) -> Heard:
    whole = Heard()
    for each in heard:
        whole.add(each)
    return whole


def _wait_for_version(connection: Connection, before: int | None) -> int:
    """Until another version of the view serves than the one before; its number."""
    deadline = time.monotonic() + MOST_S
    while time.monotonic() < deadline:
        (view,) = connection.get("/v1/views")["views"]
        if view["version"] not in (None, before):
            return int(view["version"])
        time.sleep(LOOK_S)
    raise HeadraceError(f"no version but {before} served within {MOST_S:.0f} s")
