"""Speed rows under a steady flow of new groups, for a view with a schedule; one module per part of the benchmark."""

from __future__ import annotations

import threading
from typing import Any

from bench.ours.events import STREAM, arrays
from bench.ours.figures import Figure
from bench.ours.load import Connection, at_rate, in_threads
from bench.ours.measure import FLOW, PER_POST, Tell, start_empty_server
from headrace.errors import HeadraceError

BEAT_S = 10
FLOW_S = 100.0
SAMPLE_EVERY_S = 0.5
VIEW = f"""CREATE MATERIALIZED VIEW by_visitor SCHEDULE EVERY {BEAT_S} SECONDS AS
SELECT visitor, count(*) AS hits, sum(bytes) AS bytes, max(bytes) AS largest
FROM visits GROUP BY visitor, window(at, '1 second');
"""


def steady_flow(tell: Tell) -> list[Figure]:
    """Speed rows while nearly every event is a new group."""
    warm, *bodies = arrays(int(FLOW * FLOW_S) + PER_POST, PER_POST)
    with start_empty_server(STREAM + VIEW) as server:
        connection = Connection(server.url)
        connection.wait_for_token(_post(connection, warm))
        tell(f"speed rows at {FLOW:,} events/s, a beat every {BEAT_S} s")
        samples = _flow(server.url, bodies)
    halves = samples[: len(samples) // 2], samples[len(samples) // 2 :]
    first, second = (max(view["speed_rows"] for view in half) for half in halves)
    if not first:
        raise HeadraceError("no event reached the speed layer in the first half of the flow", expected="rows of it")
    horizons = {view["horizon"] for view in samples}
    alarm = next((view["alarm"] for view in samples if view["alarm"]), None)
    if alarm:
        raise HeadraceError(f"the two layers do not agree: {alarm}")
    return [
        Figure(
            "speed rows under a steady flow, second half against first",
            second / first,
            "x",
            f"at most {first:,} and {second:,}; "
            f"{samples[-1]['batch_rows']:,} batch rows after {len(horizons) - 1} beats",
            1.25,
            False,
        )
    ]


def _flow(url: str, bodies: list[bytes]) -> list[dict[str, Any]]:
    """The status of the view twice a second while events are sent."""
    samples: list[dict[str, Any]] = []
    tokens: list[str] = []
    stopping = threading.Event()

    def act(role: int) -> None:
        connection = Connection(url)
        if role == 0:
            for number, _ in at_rate(FLOW / PER_POST, FLOW_S):
                tokens.append(_post(connection, bodies[number]))
            stopping.set()
        else:
            while not stopping.wait(SAMPLE_EVERY_S):
                samples.append(connection.get("/v1/views")["views"][0])

    in_threads(2, act)
    return samples


def _post(connection: Connection, body: bytes) -> str:
    return str(connection.post("/v1/streams/visits/events", body)["token"])
