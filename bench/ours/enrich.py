"""Events joined to a large table: their rate beside that of the same events without, and how soon a change is seen."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.ours.events import ONE_VIEW, STREAM, write_file
from bench.ours.figures import Figure, of_percentile, of_runs
from bench.ours.measure import Tell, start_empty_server
from bench.ours.throughput import MOVES
from bench.ours.turn import MOST_S, Files, check_rows, time_files
from bench.sizes import Sizes
from headrace.api.connect import Connection, connect
from headrace.errors import HeadraceError

LEAST_SHARE = 60  # % of the rate without the join
MOST_VISIBLE_S = 2.0
CHANGES = 10
ENRICHED = """CREATE TABLE people (id STRING PRIMARY KEY, plan STRING);
CREATE MATERIALIZED VIEW enriched AS
SELECT page, count(*) AS hits, sum(bytes) AS bytes, max(bytes) AS largest
FROM moves m JOIN people p ON p.id = m.visitor WHERE p.plan <> '' GROUP BY page, window(at, '1 minute');
"""
PLANS = """CREATE MATERIALIZED VIEW plans AS
SELECT p.plan, count(*) AS hits FROM steps s LEFT JOIN people p ON p.id = s.visitor GROUP BY p.plan;
CREATE STREAM steps (visitor STRING);
"""


def enrichment(tell: Tell, sizes: Sizes) -> list[Figure]:
    """The rate with a join as a share of the rate without, in one server by turns; then the age of changes."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        warm, file, people = (Path(name) / f"{each}.ndjson" for each in ("warm", "visits", "people"))
        write_file(warm, sizes.warm_events, seed=9)
        write_file(file, sizes.events)
        with people.open("w") as out:
            out.writelines(f'{{"id":"u{number}","plan":"pro"}}\n' for number in range(sizes.table_rows))
        plain, joined = Files((file,), sizes.events), Files((file,), sizes.events, "moves", "enriched")
        with start_empty_server(STREAM + ONE_VIEW + MOVES + ENRICHED + PLANS) as server:
            with connect(str(server.folder)) as connection:
                tell(f"a table of {sizes.table_rows:,} rows")
                connection.wait(connection.send_files("people", [people]).token, MOST_S)
            for each in (plain, joined):
                time_files(server, replace(each, paths=(warm,), events=sizes.warm_events))
            with connect(str(server.folder)) as connection:
                _wait_for_lane(connection, "enriched")
            pairs = [(time_files(server, plain), time_files(server, joined)) for _ in range(sizes.rounds)]
            with connect(str(server.folder)) as connection:
                check_rows(connection, "enriched", [warm, *[file] * sizes.rounds])
                tell("changes of the table")
                visible_s = [_change(connection, number) for number in range(CHANGES)]
    shares = [100 * with_.rate / without.rate for without, with_ in pairs]
    name = f"file to served answer, joined to a table of {sizes.table_rows:,} rows"
    spread = f"{min(shares):.0f} to {max(shares):.0f} % in {len(shares)} pairs"
    return [
        of_runs(name, [with_.rate for _, with_ in pairs], "events/s"),
        Figure(f"{name}, against no join", median(shares), "%", spread, LEAST_SHARE),
        of_percentile("a change of a table until it is in an answer", visible_s, 0.5, "s", MOST_VISIBLE_S),
    ]


def _wait_for_lane(connection: Connection, view: str) -> None:
    """Until the workers have the table: before, Spark joins."""
    deadline = time.monotonic() + MOST_S
    while time.monotonic() < deadline:
        versions = connection.versions(view)
        if any(version.lane == "fused" for version in versions):
            return
        time.sleep(0.2)
    raise HeadraceError(f"view '{view}' is not computed by the fused lane", found=str(versions[0].lane_reason))


def _change(connection: Connection, number: int) -> float:
    """Seconds from a change until an event that came after it is counted under the new value."""
    start, plan = time.monotonic(), f"plan {number}"
    connection.send("people", [{"id": "u1", "plan": plan}])
    while time.monotonic() < start + MOST_S:
        connection.send("steps", [{"visitor": "u1"}])
        if connection.ask("plans", key={"plan": plan}).rows():
            return time.monotonic() - start
        time.sleep(0.05)
    raise HeadraceError("a change of a table was not seen")
