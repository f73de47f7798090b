"""Writes events/alarms.ndjson: alarms of 20 base stations in four hours, the same ones each time."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 3, 1, 8, tzinfo=UTC)


def main() -> None:
    """Station BS-7 fails at half past nine."""
    draw = random.Random(6)
    alarms = []
    for _ in range(1500):
        second = draw.uniform(0, 4 * 3600)
        station = f"BS-{draw.randint(1, 20)}"
        severity = draw.choices(["minor", "major", "critical"], weights=[80, 17, 3])[0]
        alarms.append((second, station, severity, draw.choice([3, 7, 7, 12, 40])))
    alarms += [(5400 + 20 * n, "BS-7", "critical", 99) for n in range(30)]
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    with (folder / "alarms.ndjson").open("w") as file:
        for second, station, severity, code in sorted(alarms):
            at = (START + timedelta(seconds=second)).isoformat()
            file.write(json.dumps({"station": station, "severity": severity, "code": code, "at": at}) + "\n")


if __name__ == "__main__":
    main()
