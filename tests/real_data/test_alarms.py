"""An alert on 15,000 alarms of a telecom network: the same incidents for one file as for requests of a hundred."""

from __future__ import annotations

import csv
import io
import json
import tarfile
import urllib.request
from collections import Counter
from datetime import UTC, datetime, timedelta

from tests.waiting import wait_until

SIZE_S, LEAST = 600, 15


def test_alarms_as_one_file_and_in_pieces(data, server, headrace, tmp_path):
    with tarfile.open(data / "telecom_alarms" / "18V_55N_Wireless.tar.gz") as archive:
        text = archive.extractfile("18V_55N_Wireless/Alarm.csv").read().decode()
    rows = sorted(csv.DictReader(io.StringIO(text)), key=lambda row: int(row["start_timestamp"]))[:15_000]
    start = datetime(2026, 1, 1, tzinfo=UTC)
    seconds = [int(row["start_timestamp"]) for row in rows]
    alarms = [
        {"device": int(row["device_id"]), "at": (start + timedelta(seconds=second)).isoformat()}
        for row, second in zip(rows, seconds, strict=True)
    ]
    counts = Counter((alarm["device"], second // SIZE_S) for alarm, second in zip(alarms, seconds, strict=True))
    matching = {window for window, n in counts.items() if n >= LEAST}
    first = [(device, at) for device, at in matching if (device, at - 1) not in matching]
    expected = sorted((device, (start + timedelta(seconds=at * SIZE_S)).isoformat()) for device, at in first)
    assert len(expected) > 3
    file = tmp_path / "alarms.json"
    file.write_text("\n".join(map(json.dumps, alarms)))
    headrace("send", "alarms_whole", str(file), "--wait")
    for at in range(0, len(alarms), 100):
        body = json.dumps(alarms[at : at + 100]).encode()
        url = f"{server.url}/v1/streams/alarms_pieces/events"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as reply:
            token = json.load(reply)["token"]
        if at % 500 == 0:  # these are commits of their own
            with urllib.request.urlopen(f"{server.url}/v1/tokens/{token}?wait=60s") as reply:
                assert json.load(reply)["complete"]
    incidents = {}
    for name in ("alarms_whole", "alarms_pieces"):
        wait_until(lambda name=name: len(found(headrace, name)) == len(expected), details=lambda: expected)
        incidents[name] = found(headrace, name)
        assert [(device, since.replace("Z", "+00:00")) for device, since, *_ in incidents[name]] == expected
    assert incidents["alarms_whole"] == incidents["alarms_pieces"]


def found(headrace, stream):
    (alert,) = json.loads(headrace("alerts", f"many_{stream}", "--json"))
    each = [*alert["incidents"], *alert["resolved"]]
    return sorted((one["key"]["device"], one["since"], one["fired_at"], one["resolved_at"]) for one in each)
