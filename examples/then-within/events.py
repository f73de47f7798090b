"""Writes events/alarms.ndjson: a day of 30 devices, the same one each time."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 3, 1, tzinfo=UTC)


def main() -> None:
    """A device that loses its power often loses its link soon afterwards; alarms arrive a little out of order."""
    draw = random.Random(12)
    alarms = []
    for _ in range(600):
        device, at = f"device-{draw.randint(1, 30)}", START + timedelta(seconds=draw.randrange(86000))
        alarm = draw.choice(["power", "link_lost", "fan", "door"])
        alarms.append((at, device, alarm))
        if alarm == "power" and draw.random() < 0.6:
            alarms.append((at + timedelta(seconds=draw.randint(20, 900)), device, "link_lost"))
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    alarms.sort(key=lambda alarm: alarm[0] + timedelta(seconds=draw.uniform(0, 240)))
    with (folder / "alarms.ndjson").open("w") as file:
        for at, device, alarm in alarms:
            file.write(json.dumps({"device": device, "alarm": alarm, "at": at.isoformat()}) + "\n")


if __name__ == "__main__":
    main()
