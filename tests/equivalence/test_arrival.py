"""The time of arrival in the expressions of streams that have an event time: both lanes, derived streams, builds."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace.engine.duckdb_relations import refuse_duckdb

from .bench import Bench

STREAM = "CREATE STREAM events (kind STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);"
MEASURES = """count(*) AS n, count(*) FILTER (WHERE _arrived >= at + INTERVAL 1 HOUR) AS late,
  max(_arrived) AS last_arrival, sum(unix_micros(_arrived) - unix_micros(at)) AS lag"""
PLAIN = f"CREATE MATERIALIZED VIEW plain AS SELECT kind, {MEASURES} FROM events e WHERE e._arrived > at GROUP BY kind"
BY_DAY = f"""CREATE MATERIALIZED VIEW by_day AS
SELECT kind, date_trunc('DAY', _arrived) AS day, {MEASURES} FROM events WHERE _arrived > at GROUP BY 1, 2"""
DERIVED = f"""CREATE STREAM behind AS SELECT upper(kind) AS kind, at, NULL AS note FROM events WHERE _arrived > at
UNION ALL SELECT upper(kind), at, kind AS word FROM events WHERE kind IS NULL;
CREATE MATERIALIZED VIEW derived AS
SELECT lower(kind) AS kind, count(note) AS notes, {MEASURES} FROM behind GROUP BY 1"""
BY_ARRIVAL = f"""CREATE STREAM by_arrival (WATERMARK FOR arrived) AS SELECT *, _arrived AS arrived FROM events;
CREATE MATERIALIZED VIEW windows AS SELECT kind, {MEASURES} FROM by_arrival WHERE arrived > at
GROUP BY kind, window(arrived, '1000 days')"""
VIEWS = {"plain": PLAIN, "by_day": BY_DAY, "derived": DERIVED, "windows": BY_ARRIVAL}
NOW = datetime.now(UTC)


def in_lake(bench: Bench) -> dict[str, tuple[int, int, datetime, int]]:
    """What each view says of a kind, computed from the rows of the lake."""
    rows = defaultdict(list)
    for file in bench.table.folder.glob("_dead=false/*.parquet"):
        read = pq.read_table(file, columns=["kind", "at", "_arrived"]).to_pydict()
        for kind, at, arrived in zip(*read.values(), strict=True):
            if arrived > at:
                rows[kind].append((arrived, arrived - at))
    return {
        kind: (
            len(pairs),
            sum(lag >= timedelta(hours=1) for _, lag in pairs),
            max(arrived for arrived, _ in pairs),
            sum((lag // timedelta(microseconds=1) for _, lag in pairs)),
        )
        for kind, pairs in rows.items()
    }


def answered(bench: Bench, view: str) -> dict[str, tuple[int, int, datetime, int]]:
    of_kind = defaultdict(list)
    for row in bench.answer(view).rows():  # one for each kind, or two after midnight
        of_kind[row["kind"]].append((row["n"], row["late"], row["last_arrival"], row["lag"]))
    columns = {kind: tuple(zip(*rows, strict=True)) for kind, rows in of_kind.items()}
    return {kind: (sum(n), sum(late), max(last), sum(lag)) for kind, (n, late, last, lag) in columns.items()}


@pytest.mark.parametrize("view", VIEWS)
def test_the_time_of_arrival_beside_an_event_time(spark: Any, tmp_path: Path, view: str) -> None:
    chance = random.Random(view)
    bench = Bench(spark, tmp_path, STREAM)
    try:
        made = bench.add_view(VIEWS[view])
        is_fused = refuse_duckdb(bench.stream, made) is None
        assert is_fused == (view != "by_day"), "Spark computes keys that are times"
        for number in range(3):
            seconds = [chance.choice([-30, 5, 4_000]) for _ in range(40)]
            events = [{"kind": chance.choice("abc"), "at": (NOW - timedelta(seconds=s)).isoformat()} for s in seconds]
            bench.post([json.dumps(event).encode() for event in events], str(number), keep_bad=False)
            bench.commit()
            while is_fused and bench.fused.run_once():
                pass
            bench.maintain()
        assert not bench.fused.failures
        assert answered(bench, view) == in_lake(bench)
        bench.beat(view)
        assert answered(bench, view) == in_lake(bench)
    finally:
        bench.close()
