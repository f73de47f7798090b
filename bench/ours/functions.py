"""Events through a Python function of the workspace: from a file to an answer, in each lane."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.ours.events import STREAM, write_file
from bench.ours.figures import Figure, of_runs
from bench.ours.measure import Tell, start_server
from bench.ours.turn import Files, check_rows, time_files
from bench.sizes import Sizes
from headrace.api.connect import connect
from headrace.errors import HeadraceError
from headrace.tools.demo.shop_server import make_workspace
from headrace.workspace.settings import SETTINGS_FILE

LEAST_RATE = 200_000  # events/s
LANES = {"fused lane": True, "Spark lane": False}
# What it does leaves the values of the benchmark's events as they are, so that answers are compared as those of others.
FUNCTION = """import headrace as hr
import pyarrow as pa
import pyarrow.compute as pc


@hr.udf("page STRING, bytes BIGINT", gives="path STRING, size BIGINT")
def clean(page, bytes):
    path = pc.utf8_rtrim(pc.utf8_lower(page), " /")
    return pa.table({"path": path, "size": pc.max_element_wise(bytes, 0)})
"""
DEFINITIONS = f"""{STREAM}
CREATE STREAM cleaned AS SELECT clean(page, bytes).path AS page, clean(page, bytes).size AS bytes, at FROM visits;
CREATE MATERIALIZED VIEW traffic AS
SELECT page, count(*) AS hits, sum(bytes) AS bytes, max(bytes) AS largest
FROM cleaned GROUP BY page, window(at, '1 minute');
"""


def function_rates(tell: Tell, sizes: Sizes) -> list[Figure]:
    """The rates of the two lanes, each on a server of its own; rows are those that DuckDB computes."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        warm, file = (Path(name) / f"{each}.ndjson" for each in ("warm", "visits"))
        write_file(warm, sizes.warm_events, seed=9)
        write_file(file, sizes.events)
        files = Files((warm,), sizes.warm_events), Files((file,), sizes.events)
        return [_rate(tell, title, fused, *files, sizes.rounds) for title, fused in LANES.items()]


def _rate(tell: Tell, lane: str, fused: bool, warm: Files, file: Files, rounds: int) -> Figure:
    tell(f"a Python function, {lane}")
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        make_workspace(folder, DEFINITIONS)
        (folder / "definitions" / "functions.py").write_text(FUNCTION, encoding="utf-8")
        (folder / SETTINGS_FILE).write_text(f"fused_lane = {str(fused).lower()}\n")
        with start_server(folder) as server:
            time_files(server, warm)
            rates = [time_files(server, file).rate for _ in range(rounds)]
            with connect(str(folder)) as connection:
                (lane_used,) = {version.lane for version in connection.versions("traffic")}
                if lane_used != ("fused" if fused else "spark"):
                    raise HeadraceError(f"the view was computed by the lane '{lane_used}', not by the {lane}")
                check_rows(connection, "traffic", [*warm.paths, *file.paths * rounds])
    return of_runs(f"file to served answer, by a Python function, {lane}", rates, "events/s", LEAST_RATE)
