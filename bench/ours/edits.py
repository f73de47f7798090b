"""Edits under load: a view is edited twenty times while events and queries arrive; every answer is checked."""

from __future__ import annotations

import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from bench.ours.events import PAGES, arrays
from bench.ours.figures import Figure, of_percentile, percentile
from bench.ours.history import VISITS, extend
from bench.ours.judge import Definition, PageAnswer, wrong_answers
from bench.ours.load import Connection
from bench.ours.measure import start_server
from headrace.api.connect import connect
from headrace.errors import HeadraceError
from headrace.lake.delta_table import LakeTable
from headrace.plan.cost import sum_up
from headrace.tools.demo.shop_server import ShopServer, make_workspace
from headrace.workspace.settings import Workspace

Tell = Callable[[str], None]
HISTORY = 2_000_000
FLOW = 10_000  # events a second
PER_POST = 500
QUERIES = 100  # answers a second
READERS = 4
WARM_S = 40.0  # freshness improves while Java compiles
# The speed of a machine varies, so measurements without edits alternate with those during edits.
IN_A_ROW = 4  # edits, before they pause
QUIET_S = 10.0
SETTLE_S = 15.0  # after an edit, so that its remaining work is not measured as quiet
MOST_S = 120.0  # for one edit
POLL_EVERY_S = 0.1
MOST_FRESHNESS_S = 2.0

FIRST = Definition()
OTHER_NAMES = (("visits", "count(*)"), ("bytes", "sum(bytes)"), ("largest", "max(bytes)"))
SMALLEST = ("smallest", "min(bytes)")
ERRORS = ("errors", "count(*) FILTER (WHERE status >= 500)")


def edits() -> list[tuple[str, Definition]]:
    """Twenty edits in a row, each of the definition before it: every kind, and back again."""
    current = FIRST
    steps = []

    def edit(kind: str, **changes: Any) -> None:
        nonlocal current
        current = replace(current, **changes)
        steps.append((kind, current))

    edit("rename an output", columns=OTHER_NAMES)
    edit("new aggregate", columns=(*OTHER_NAMES, SMALLEST))
    edit("drop an aggregate", columns=(*OTHER_NAMES[:2], SMALLEST))
    edit("filter", where="status <> 304")
    edit("patience", patience="2 MINUTES")
    edit("key", keys=("page", "status"))
    edit("schedule", schedule="SCHEDULE EVERY 2 HOURS")
    edit("window", pane="5 minutes")
    edit("argument", columns=(OTHER_NAMES[0], ("bytes", "sum(bytes + 1)"), SMALLEST))
    edit("key", keys=("page",))
    edit("rename an output", columns=(("hits", "count(*)"), ("bytes", "sum(bytes + 1)"), SMALLEST))
    edit("window", pane="1 minute")
    edit("filter", where="")
    edit("new aggregate", columns=(*current.columns, ERRORS))
    edit("drop an aggregate", columns=(*current.columns[:2], ERRORS))
    edit("patience", patience="1 MINUTE")
    edit("argument", columns=(("hits", "count(*)"), ("bytes", "sum(bytes)"), ERRORS))
    edit("schedule", schedule="")
    edit("filter", where="status = 200")
    edit("new aggregate, filter and window", columns=FIRST.columns, where="", pane="2 minutes")
    return steps


@dataclass
class Observations:
    """What clients measured while events were sent."""

    fresh_s: list[float] = field(default_factory=list)
    answer_ms: list[float] = field(default_factory=list)
    answers: list[PageAnswer] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    posts: int = 0  # acknowledged
    seconds: float = 0.0

    def add(self, other: Observations) -> None:
        """Add other observations."""
        self.fresh_s += other.fresh_s
        self.answer_ms += other.answer_ms
        self.answers += other.answers
        self.failures += other.failures
        self.posts += other.posts
        self.seconds += other.seconds


class Load:
    """Clients that send and query at a constant rate until they are stopped; `record_to` sets the observations."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._bodies = arrays(200_000, PER_POST)
        self._acknowledged: queue.SimpleQueue[tuple[str, float, Observations] | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self.rest = self._observations = Observations()  # outside of `record_to`
        self._error: HeadraceError | None = None
        acts = [self._send, self._wait, *[self._ask] * READERS]
        self._threads = [threading.Thread(target=self._run, args=(act, i), daemon=True) for i, act in enumerate(acts)]
        for thread in self._threads:
            thread.start()

    @contextmanager
    def record_to(self, observations: Observations) -> Iterator[None]:
        """Requests that start in this block are recorded in these observations."""
        self._observations, start = observations, time.monotonic()
        yield
        observations.seconds += time.monotonic() - start
        self._observations = self.rest

    def stop(self) -> None:
        """Stop all clients; raises the error of a client that failed."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        if self._error:
            raise self._error

    def _run(self, act: Callable[[int], None], number: int) -> None:
        try:
            act(number)
        except HeadraceError as error:
            self._error = self._error or error
            self._acknowledged.put(None)

    def _send(self, _: int) -> None:
        connection = Connection(self._url)
        for number, due in _even_times(FLOW / PER_POST, self._stopping):
            body = self._bodies[number % len(self._bodies)]
            observations = self._observations
            token = connection.post("/v1/streams/visits/events", body)["token"]
            self._acknowledged.put((token, due, observations))
            observations.posts += 1
        self._acknowledged.put(None)

    def _wait(self, _: int) -> None:
        # Tokens complete in the order of their posts, so waiting for one after the other is exact.
        connection = Connection(self._url)
        while post := self._acknowledged.get():
            token, since, observations = post
            connection.wait_for_token(token)
            observations.fresh_s.append(time.monotonic() - since)

    def _ask(self, reader: int) -> None:
        connection = Connection(self._url)
        for number, _ in _even_times(QUERIES / READERS, self._stopping):
            page = f"/p/{(number * READERS + reader) % PAGES}"
            observations, start = self._observations, time.monotonic()
            try:
                answer = connection.get(f"/v1/views/traffic?key.page={page}&by=page&window=1h")
            except HeadraceError as error:
                observations.failures.append(str(error))
                continue
            observations.answer_ms.append((time.monotonic() - start) * 1000)
            observations.answers.append(
                PageAnswer(page, answer["version"], answer["as_of"]["commits"]["visits"], tuple(answer["rows"]))
            )


def _even_times(per_second: float, stopping: threading.Event) -> Iterator[tuple[int, float]]:
    """Numbers at a constant rate, each with the time when it was due; a late one comes at once."""
    start, number = time.monotonic(), 0
    while not stopping.wait(max(0.0, (due := start + number / per_second) - time.monotonic())):
        yield number, due
        number += 1


def edits_under_load(tell: Tell) -> list[Figure]:
    """The figures, with a server in its own process."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        make_workspace(folder, FIRST.sql)
        lake = Workspace.open(folder).lake(VISITS.name)
        tell(f"a history of {HISTORY:,} events")
        extend(LakeTable(lake, VISITS, fence=1), HISTORY)
        with start_server(folder) as server:
            (quiet, edited, rest), served, builds = _run(server, tell)
        answers = quiet.answers + edited.answers + rest.answers
        tell(f"{len(answers):,} answers are judged")
        wrong = wrong_answers(LakeTable(lake, VISITS, fence=None), served, answers)
    failures = quiet.failures + edited.failures + rest.failures
    for sentence in (failures + wrong)[:5]:
        tell(sentence)
    ratio = percentile(edited.fresh_s, 0.99) / percentile(quiet.fresh_s, 0.99)
    spread = f"{percentile(quiet.fresh_s, 0.99):.2f} s without edits"
    during = f"while a view is edited {len(served) - 1} times"
    event_rate, answer_rate = edited.posts * PER_POST / edited.seconds, len(edited.answers) / edited.seconds
    return [
        # The load itself has bars: if it was not reached, the other figures mean nothing.
        Figure(f"events taken in {during}", event_rate, "events/s", f"of {FLOW:,} sent", 0.95 * FLOW),
        Figure(f"answers given {during}", answer_rate, "answers/s", f"of {QUERIES} asked", 0.95 * QUERIES),
        Figure(f"answers that failed {during}", len(failures), "", f"of {len(answers):,}", 0, False),
        Figure(f"answers that were not right {during}", len(wrong), "", f"of {len(answers):,}", 0, False),
        of_percentile(f"freshness {during}", edited.fresh_s, 0.99, "s", MOST_FRESHNESS_S),
        Figure(f"freshness {during} against none, p99", ratio, "x", spread, 2, False),
        of_percentile(f"point answer {during}", edited.answer_ms, 0.5, "ms", None),
        of_percentile(f"point answer {during}", edited.answer_ms, 0.99, "ms", None),
        estimates_off_by(builds),
    ]


def estimates_off_by(builds: Iterable[tuple[float, float]]) -> Figure:
    """How far the estimates of plans are from what builds took; `builds` are seconds of both."""
    factors = [max(estimated_s / took_s, took_s / estimated_s) for estimated_s, took_s in builds]
    spread = f"{min(factors):.2f} to {max(factors):.2f} in {len(factors)} builds"
    return Figure("estimate of a plan against what its build took", median(factors), "x", spread, 2, False)


def _run(
    server: ShopServer, tell: Tell
) -> tuple[tuple[Observations, Observations, Observations], dict[int, Definition], list[tuple[float, float]]]:
    """The observations without edits, during edits and in between; the definition of each version; what builds took.

    Of each build: the estimate of its plan and what it took, in seconds.
    """
    number = _wait_for_version(Connection(server.url), None)
    served = {number: FIRST}
    load = Load(server.url)
    time.sleep(WARM_S)
    rounds: list[tuple[Observations, Observations]] = []
    builds: list[tuple[float, float]] = []
    for at, (kind, definition) in enumerate(edits()):
        if at % IN_A_ROW == 0:
            tell(f"{FLOW:,} events/s in, {QUERIES} answers/s out, no edit")
            rounds.append((Observations(), Observations()))
            time.sleep(SETTLE_S)
            with load.record_to(rounds[-1][0]):
                time.sleep(QUIET_S)
        start = time.monotonic()
        with load.record_to(rounds[-1][1]):
            make_workspace(server.folder, definition.sql)
            with connect(str(server.folder)) as client:
                costs = [change.cost for change in client.apply().builds if change.cost]
            number = _wait_for_version(Connection(server.url), number)
        served[number] = definition
        took_s, estimated_s = time.monotonic() - start, sum_up(costs).seconds
        if costs:
            builds.append((estimated_s, took_s))
        plan = f"; the plan said {estimated_s:.1f} s" if costs else ""
        tell(f"edit {at + 1}: {kind}, serves after {took_s:.1f} s{plan}")
    load.stop()
    p99s = [tuple(f"{percentile(observations.fresh_s, 0.99):.2f}" for observations in pair) for pair in rounds]
    tell("freshness of each pause and of the edits after it, p99: " + ", ".join(f"{a} and {b} s" for a, b in p99s))
    quiet, edited = (_sum(parts) for parts in zip(*rounds, strict=True))
    return (quiet, edited, load.rest), served, builds


def _sum(parts: Iterable[Observations]) -> Observations:
    total = Observations()
    for each in parts:
        total.add(each)
    return total


def _wait_for_version(connection: Connection, before: int | None) -> int:
    """Wait until another version of the view serves; returns its number."""
    deadline = time.monotonic() + MOST_S
    while time.monotonic() < deadline:
        (view,) = connection.get("/v1/views")["views"]
        if view["version"] not in (None, before):
            return int(view["version"])
        time.sleep(POLL_EVERY_S)
    raise HeadraceError(f"no version but {before} served within {MOST_S:.0f} s")
