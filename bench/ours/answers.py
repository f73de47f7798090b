"""Answers per CPU-second of the server: of keys that are asked for all the time, and of keys never asked for before."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from bench.ours.events import ONE_VIEW, PAGES, STREAM, arrays
from bench.ours.figures import Figure, of_percentile
from bench.ours.load import Connection, in_threads
from bench.ours.measure import PER_POST, Tell, start_empty_server
from headrace.errors import HeadraceError

EVENTS = 200_000
VISITORS = 50_000
CONNECTIONS = 4
BY_VISITOR = """CREATE MATERIALIZED VIEW by_visitor AS
SELECT visitor, count(*) AS hits, sum(bytes) AS bytes FROM visits GROUP BY visitor, window(at, '1 minute');
"""


def answer_rates(tell: Tell, hot: int) -> list[Figure]:
    """Both rates, over open connections, while no events arrive."""
    with start_empty_server(STREAM + ONE_VIEW + BY_VISITOR) as server:
        connection = Connection(server.url)
        new = hot // 4
        for body in arrays(EVENTS, PER_POST):
            token = connection.post("/v1/streams/visits/events", body)["token"]
        connection.wait_for_token(token)
        tell("answers of keys that are asked for all the time")
        pages = [f"traffic?key.page=/p/{number}&window=1h" for number in range(PAGES)]
        _ask(server.url, pages)
        hot_rate = _rate(server.url, server.pid, (pages * (hot // PAGES + 1))[:hot])
        tell("answers of keys never asked for before")
        visitors = [f"by_visitor?key.visitor=u{number}&window=1h" for number in range(VISITORS)]
        _ask(server.url, visitors[-100:])  # the view is asked for the first time
        new_rate = _rate(server.url, server.pid, visitors[:new])
        times = _ask(server.url, visitors[new : new + new // 4], connections=1)
    return [
        Figure("answers of hot keys per CPU-second of the server", *hot_rate, 1_500),
        Figure("answers of keys never asked before per CPU-second of the server", *new_rate, 400),
        of_percentile("point answer of a key never asked before, quiet", times, 0.5, "ms", 3),
    ]


def _rate(url: str, pid: int, questions: Sequence[str]) -> tuple[float, str, str]:
    start, cpu_s = time.monotonic(), process_cpu_s(pid)
    _ask(url, questions)
    used_s, passed_s = process_cpu_s(pid) - cpu_s, time.monotonic() - start
    rate = len(questions) / used_s
    return rate, "answers/s", f"{len(questions):,} answers in {used_s:.2f} CPU-s, {passed_s:.2f} s"


def _ask(url: str, questions: Sequence[str], connections: int = CONNECTIONS) -> list[float]:
    """Milliseconds of each answer."""
    times: list[float] = []

    def act(client: int) -> None:
        connection = Connection(url)
        for question in questions[client::connections]:
            start = time.monotonic()
            answer = connection.get(f"/v1/views/{question}")
            times.append((time.monotonic() - start) * 1000)
            if answer["view"] != question.partition("?")[0]:
                raise HeadraceError(f"the answer to {question} is of view '{answer['view']}'")

    in_threads(connections, act)
    return times


def process_cpu_s(pid: int) -> float:
    """User and system time of one process, without those that it started."""
    # The name of a process is in parentheses and may contain spaces.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
