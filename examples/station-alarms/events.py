"""Writes events/stations.csv and events/alarms.ndjson: four hours of 20 base stations, the same ones each time."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 3, 1, 8, tzinfo=UTC)
LIMITS = {"BS-2": 1, "BS-7": 20, "BS-9": 40}  # of critical alarms in a quarter of an hour; others have none


def main() -> None:
    """BS-2 must not fail at all. BS-7 and BS-9 fail at half past nine; BS-9 is known for it."""
    draw = random.Random(6)
    alarms = []
    for _ in range(1500):
        second = draw.uniform(0, 4 * 3600)
        station = f"BS-{draw.randint(1, 20)}"
        severity = draw.choices(["minor", "major", "critical"], weights=[80, 17, 3])[0]
        alarms.append((second, station, severity, draw.choice([3, 7, 7, 12, 40])))
    alarms += [(5400 + 20 * n, station, "critical", 99) for n in range(30) for station in ("BS-7", "BS-9")]
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    lines = [f"{station},{limit}" for station, limit in LIMITS.items()]
    (folder / "stations.csv").write_text("\n".join(["id,critical_limit", *lines, ""]))
    with (folder / "alarms.ndjson").open("w") as file:
        for second, station, severity, code in sorted(alarms):
            at = (START + timedelta(seconds=second)).isoformat()
            file.write(json.dumps({"station": station, "severity": severity, "code": code, "at": at}) + "\n")


if __name__ == "__main__":
    main()
