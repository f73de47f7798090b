"""A steady flow of events with ever new groups, and a view with a schedule: do its speed rows stay bounded?"""

from __future__ import annotations

import threading
from typing import Any

from headrace.bench.events import STREAM, arrays
from headrace.bench.figures import Figure
from headrace.bench.load import Connection, in_threads, paced
from headrace.bench.measure import FLOW, PER_POST, Tell, running
from headrace.errors import HeadraceError

BEAT_S = 10
FLOW_S = 100.0
LOOK_S = 0.5
VIEW = f"""CREATE MATERIALIZED VIEW by_visitor SCHEDULE EVERY {BEAT_S} SECONDS AS
SELECT visitor, count(*) AS hits, sum(bytes) AS bytes, max(bytes) AS largest
FROM visits GROUP BY visitor, window(at, '1 second');
"""


def steady_flow(tell: Tell) -> list[Figure]:
    """Speed rows while nearly every event makes a row of its own."""
    warm, *bodies = arrays(int(FLOW * FLOW_S) + PER_POST, PER_POST)
    with running(STREAM + VIEW) as server:
        connection = Connection(server.url)
        connection.wait_for_token(_post(connection, warm))
        tell(f"speed rows at {FLOW:,} events/s, a beat every {BEAT_S} s")
        seen = _flow(server.url, bodies)
    halves = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    first, second = (max(view["speed_rows"] for view in half) for half in halves)
    if not first:
        raise HeadraceError("no event reached the speed layer in the first half of the flow", expected="rows of it")
    horizons = {view["horizon"] for view in seen}
    alarm = next((view["alarm"] for view in seen if view["alarm"]), None)
    if alarm:
        raise HeadraceError(f"the two layers do not agree: {alarm}")
    return [
        Figure(
            "speed rows under a steady flow, second half against first",
            second / first,
            "x",
            f"at most {first:,} and {second:,}; {seen[-1]['batch_rows']:,} batch rows after {len(horizons) - 1} beats",
            1.25,
            False,
        )
    ]


def _flow(url: str, bodies: list[bytes]) -> list[dict[str, Any]]:
    """The view as it was seen twice a second while events flowed."""
    seen: list[dict[str, Any]] = []
    sent: list[str] = []
    flowed = threading.Event()

    def act(role: int) -> None:
        connection = Connection(url)
        if role == 0:
            paced(FLOW / PER_POST, FLOW_S, lambda n: sent.append(_post(connection, bodies[n])))
            flowed.set()
        else:
            while not flowed.wait(LOOK_S):
                seen.append(connection.get("/v1/views")["views"][0])

    in_threads(2, act)
    return seen


def _post(connection: Connection, body: bytes) -> str:
    return str(connection.post("/v1/streams/visits/events", body)["token"])
