"""10,000 lines of an Apache log, sent as NDJSON over HTTP: the known answers come back."""

import json
import time
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from typing import Any

import pytest

from headrace.tools.demo.final_check import STATED_ERROR
from tests import http
from tests.real_data.access_lines import hour, read_line
from tests.real_data.conftest import STATUSES

PIECE = 500


@pytest.fixture(scope="module")
def events(data, server, reader):
    """The events, sent and in every view."""
    text = (data / "access_logs" / "elastic_apache_combined.log").read_text(encoding="utf-8", errors="replace")
    events = [read_line(line) for line in text.splitlines()]
    with http.Client(base_url=server.url) as client:
        for start in range(0, len(events), PIECE):
            body = "\n".join(json.dumps(event) for event in events[start : start + PIECE])
            headers = {"content-type": "application/x-ndjson", "idempotency-key": f"log-{start}"}
            for _ in range(2 if start % 2_000 == 0 else 1):  # now and then twice: it adds nothing
                reply = client.post("/v1/streams/access/events", content=body.encode(), headers=headers).json()
                assert (reply["accepted"], reply["refused"]) == (len(events[start : start + PIECE]), [])
    deadline = time.monotonic() + 120
    while not reader.has(reply["token"]):
        assert time.monotonic() < deadline, "the views never had everything"
    return events


def test_status_counts(events, reader):
    rows = {row["status"]: row for row in reader.ask("statuses")["rows"]}
    assert {status: row["hits"] for status, row in rows.items()} == STATUSES
    assert sum(row["hits"] - row["sized"] for row in rows.values()) == 669
    sizes = Counter()
    for event in events:
        sizes[event["status"]] += event["bytes"] or 0
    assert {status: row["bytes"] or 0 for status, row in rows.items()} == dict(sizes)


def test_unique_visitors_of_the_whole_log(events, reader):
    answer = reader.ask("people")
    (row,) = answer["rows"]
    assert len({event["ip"] for event in events}) == 1753
    assert abs(row["ips"] - 1753) <= STATED_ERROR * 1753
    assert "3.3 %" in answer["approximate"]["ips"]
    times = sorted(datetime.fromisoformat(event["at"]) for event in events)
    assert (datetime.fromisoformat(row["first_at"]), datetime.fromisoformat(row["last_at"])) == (times[0], times[-1])


def test_unique_visitors_of_each_hour(events, reader):
    exact = defaultdict(set)
    hits, errors = Counter(), Counter()
    for event in events:
        exact[hour(event)].add(event["ip"])
        hits[hour(event)] += 1
        errors[hour(event)] += event["status"] >= 400
    served = {row["window_start"]: row for row in reader.all_rows("hourly")}
    assert len(served) == len(exact) == 84
    # Fewer than 200 in each hour: a sketch is exact there.
    assert {start: row["ips"] for start, row in served.items()} == {start: len(ips) for start, ips in exact.items()}
    assert {start: row["hits"] for start, row in served.items()} == hits
    assert {start: row["errors"] for start, row in served.items()} == errors
    assert [served[start]["ips"] for start in sorted(served)[:3]] == [22, 31, 38]
    busiest = max(served.values(), key=lambda row: row["ips"])
    assert (busiest["ips"], busiest["window_start"]) == (59, "2015-05-19T04:00:00Z")


def test_sessions_of_each_visitor(events, reader):
    """Nearly all lines are late, by up to a minute: sessions are those of the times in order."""
    gap = timedelta(minutes=10)
    stays: dict[tuple[str, datetime], list[Any]] = {}
    last: dict[str, tuple[datetime, datetime]] = {}  # by address: the start of the session, and the last time
    for event in sorted(events, key=lambda event: event["at"]):
        at, ip = datetime.fromisoformat(event["at"]), event["ip"]
        start, before = last.get(ip, (at, at))
        start = at if at > before + gap else start
        last[ip] = start, at
        stays.setdefault((ip, start), []).append(event)
    served = {(row["ip"], datetime.fromisoformat(row["window_start"])): row for row in reader.all_rows("stays")}
    assert served.keys() == stays.keys()
    for place, members in stays.items():
        row = served[place]
        assert row["hits"] == len(members)
        assert (row["bytes"] or 0) == sum(event["bytes"] or 0 for event in members)
        assert datetime.fromisoformat(row["window_end"]) == datetime.fromisoformat(members[-1]["at"]) + gap


def test_days_are_composed_from_hours(events, reader):
    rows = reader.ask("hourly", window="1d")["rows"]
    exact = defaultdict(set)
    for event in events:
        exact[event["at"][:10]].add(event["ip"])
    assert [row["window_start"][:10] for row in rows] == sorted(exact)
    assert sum(row["hits"] for row in rows) == len(events)
    for row in rows:
        assert row["ips"] == pytest.approx(len(exact[row["window_start"][:10]]), rel=2 * STATED_ERROR)
