"""Real data with answers that others computed: windows, latest values, distinct counts, sales in London time."""

from __future__ import annotations

import json
import re
import tarfile
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pytest

LINE = re.compile(r'(\S+) .*\[([^\]]+)\].*" (\d{3}) (\S+) ')
LONDON = ZoneInfo("Europe/London")


def send(headrace: Any, stream: str, *files: Path) -> int:
    reply = json.loads(headrace("send", stream, *map(str, files), "--wait", "--json"))
    assert reply["stalled"] == []
    return int(reply["accepted"])


def golden(data: Path, name: str) -> list[dict[str, Any]]:
    lines = (data / "arroyo" / "golden_outputs" / f"{name}.json").read_text().splitlines()
    return [json.loads(line) for line in lines if line]


@pytest.fixture(scope="module")
def arroyo(data, headrace):
    """Both inputs of the suite, sent as they are."""
    send(headrace, "cars", data / "arroyo" / "inputs" / "cars.json")
    send(headrace, "impulse", data / "arroyo" / "inputs" / "impulse.json")


def test_hourly_by_event_type(arroyo, data, reader):
    rows = reader.all_rows("hourly_by_event_type")
    served = {(row["event_type"], row["hour"].rstrip("Z"), row["count"]) for row in rows}
    expected = golden(data, "hourly_by_event_type")
    assert served == {(row["event_type"], row["hour"], row["count"]) for row in expected}


def test_sliding_window_end(arroyo, data, reader):
    rows = reader.all_rows("sliding_window_end")
    names = ("start", "end", "count", "max", "min")
    served = [{name: str(row[name]).rstrip("Z") for name in names} for row in rows]
    expected = [{name: str(row[name]) for name in names} for row in golden(data, "sliding_window_end")]
    assert sorted(map(repr, served)) == sorted(map(repr, expected))


def test_session_window(arroyo, data, reader):
    rows = reader.all_rows("session_window")
    served = [(row["user_id"], time_of(row["window_start"]), time_of(row["window_end"]), row["rows"]) for row in rows]
    expected = golden(data, "session_window")
    assert len(expected) == 91
    assert sorted(served) == sorted(
        (row["user_id"], time_of(row["start"]), time_of(row["end"]), row["rows"]) for row in expected
    )


def time_of(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_grouped_aggregates(arroyo, data, reader):
    served = {row["counter_mod"]: row for row in reader.all_rows("grouped_aggregates")}
    expected = {change["after"]["counter_mod"]: change["after"] for change in golden(data, "grouped_aggregates")}
    assert {key: {name: row[name] for name in expected[key]} for key, row in served.items()} == expected


def test_the_latest_bar_of_each_key(data, headrace, reader):
    google = {}
    for batch in (1, 2):
        send(headrace, "ticks", data / "ticks" / f"hudi_stock_ticks_batch_{batch}.jsonl")
        bars = list(reader.all_rows("bars"))
        assert len(bars) == 197
        latest = {
            row["key"]: (row["volume"], row["open"], row["close"], row["ts"]) for row in reader.all_rows("latest")
        }
        assert latest == {row["key"]: (row["volume"], row["open"], row["close"], row["at"]) for row in bars}
        symbols = {row["symbol"]: row for row in reader.all_rows("latest_symbols")}
        assert len(symbols) == 99
        assert sum(row["hours"] for row in symbols.values()) == 197
        assert sum(row["volume"] for row in symbols.values()) == sum(row["volume"] for row in bars)
        google[batch] = {
            row["at"][11:16]: (row["volume"], row["open"], row["close"]) for row in bars if row["key"][:5] == "GOOG_"
        }
    assert google[1] == {"09:59": (6330, 1230.5, 1230.02), "10:29": (3391, 1230.1899, 1230.085)}
    assert google[2] == {"09:59": (6330, 1230.5, 1230.02), "10:59": (9021, 1227.1993, 1227.215)}


def test_daily_sales_with_returns_in_london_time(data, headrace, reader, tmp_path):
    files = []
    days: dict[str, dict[str, Any]] = defaultdict(
        lambda: {"net": Decimal(0), "returned": Decimal(0), "customers": set(), "lines": 0}
    )
    with tarfile.open(data / "sales" / "online_retail_by_day_to_2011_05.tar.gz") as archive:
        for member in archive.getmembers():
            if not "2011-03-20" <= Path(member.name).stem <= "2011-04-05":  # the clocks change on the 27th
                continue
            content = archive.extractfile(member)
            assert content is not None
            files.append(tmp_path / Path(member.name).name)
            files[-1].write_bytes(content.read())
            for row in duckdb.sql(f"SELECT * FROM read_csv('{files[-1]}', all_varchar = true)").fetchall():
                _, _, _, quantity, sold, price, customer, _ = row
                amount = int(quantity) * Decimal(price).quantize(Decimal("0.001"))
                midnight = datetime.fromisoformat(sold).replace(hour=0, minute=0, second=0, tzinfo=LONDON)
                day = days[midnight.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")]
                day["net"] += amount
                day["returned"] += amount if int(quantity) < 0 else 0
                day["customers"] |= {customer} - {None, ""}
                day["lines"] += 1
    send(headrace, "sales", *files)
    served = {row["day"]: row for row in reader.all_rows("daily_sales")}
    assert set(served) == set(days)
    for day, expected in days.items():
        row = served[day]
        assert Decimal(str(row["net"])) == expected["net"]
        assert Decimal(str(row["returned"] or 0)) == expected["returned"]
        assert (row["customers"], row["lines"]) == (len(expected["customers"]), expected["lines"])


def test_the_access_log_as_it_is(data, headrace, reader):
    log = data / "access_logs" / "elastic_apache_combined.log"
    assert send(headrace, "lines", log) == 10_000
    hours: dict[str, list[tuple[str, int, int | None]]] = defaultdict(list)
    for line in log.read_text().splitlines():
        match = LINE.match(line)
        assert match
        ip, at, status, size = match.groups()
        hour = datetime.strptime(at, "%d/%b/%Y:%H:%M:%S %z").strftime("%Y-%m-%dT%H:00:00Z")
        hours[hour].append((ip, int(status), int(size) if size.isdigit() else None))
    served = {row["hour"]: row for row in reader.all_rows("line_hours")}
    assert set(served) == set(hours)
    for hour, lines in hours.items():
        row = served[hour]
        assert row["visitors"] == len({ip for ip, _, _ in lines})
        errors = sum(status >= 400 for _, status, _ in lines)
        assert float(row["error_rate"]) == pytest.approx(100 * errors / len(lines), rel=1e-9)
        sizes = [size for _, _, size in lines if size is not None]
        below, up_to = (sum(size < row["p95"] for size in sizes), sum(size <= row["p95"] for size in sizes))
        assert below / len(sizes) - 0.03 <= 0.95 <= up_to / len(sizes) + 0.03
