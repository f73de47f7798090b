"""The Apache log as it is, line by line: visitors per hour, the rate of errors, percentiles of bytes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from headrace.ingest.formats.format_detection import FileLayout, Format
from tests.equivalence.bench import Bench
from tests.real_data.access_lines import hour, read_line

STREAM = r"""CREATE STREAM access (
  value STRING NOT NULL,
  ip STRING AS split_part(value, ' ', 1),
  at TIMESTAMP AS to_timestamp(regexp_extract(value, r'\[([^\]]+)\]', 1), 'dd/MMM/yyyy:HH:mm:ss Z'),
  status INT AS CAST(regexp_extract(value, r'" (\d{3}) ', 1) AS INT),
  bytes BIGINT AS TRY_CAST(regexp_extract(value, r'" \d{3} (\d+)', 1) AS BIGINT),
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE) FORMAT TEXT"""
VIEW = """CREATE MATERIALIZED VIEW hourly AS
SELECT count(*) AS hits, approx_count_distinct(ip) AS visitors,
  100.0 * count_if(status >= 400) / count(*) AS error_rate, approx_percentile(bytes, 0.95) AS p95
FROM access GROUP BY window(at, '1 hour')"""
RANK_ERROR = 0.03  # of a percentile, twice what one sketch states


def test_an_access_log_needs_no_preparation(spark: Any, tmp_path: Path, data: Path) -> None:
    content = (data / "access_logs" / "elastic_apache_combined.log").read_bytes()
    events = [read_line(line) for line in content.decode(errors="replace").splitlines()]
    by_hour = defaultdict(list)
    for event in events:
        by_hour[hour(event)].append(event)
    bench = Bench(spark, tmp_path, STREAM)
    try:
        bench.add_view(VIEW)
        lines = content.splitlines()
        for at in range(0, len(lines), 4_000):
            layout = FileLayout(Format.TEXT)
            body = b"\n".join(lines[at : at + 4_000])
            assert bench.ingest.take(body, layout=layout, key=str(at), keep_bad=True).result().refused == []
            bench.commit()
        bench.maintain()
        rows = {
            row["window_start"].strftime("%Y-%m-%dT%H:00:00Z"): row for row in bench.answer("hourly", limit=1000).rows()
        }
        assert len(rows) == len(by_hour) == 84
        for start, row in rows.items():
            own = by_hour[start]
            assert row["hits"] == len(own)
            assert row["visitors"] == len({event["ip"] for event in own})  # so few that a sketch is exact
            assert float(row["error_rate"]) == pytest.approx(
                100 * sum(event["status"] >= 400 for event in own) / len(own), abs=1e-6
            )
            sizes = sorted(event["bytes"] for event in own if event["bytes"] is not None)
            below, up_to = (sum(size < row["p95"] for size in sizes), sum(size <= row["p95"] for size in sizes))
            assert below / len(sizes) - RANK_ERROR <= 0.95 <= up_to / len(sizes) + RANK_ERROR
    finally:
        bench.close()
