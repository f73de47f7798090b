"""Writes events/readings.ndjson: readings of twelve sensors in an hour, the same ones each time."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def main() -> None:
    """A reading of each sensor every 10 s. Sensor t3 becomes hot after half an hour."""
    draw = random.Random(7)
    sensors = [(f"t{n}", "temperature", 60.0, 6.0) for n in range(1, 7)]
    sensors += [(f"p{n}", "pressure", 4.0, 0.7) for n in range(1, 7)]
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    with (folder / "readings.ndjson").open("w") as file:
        for second in range(0, 3600, 10):
            for sensor, kind, mean, deviation in sensors:
                value = round(draw.gauss(mean, deviation) + (25 if sensor == "t3" and second >= 1800 else 0), 3)
                at = (START + timedelta(seconds=second + draw.uniform(0, 5))).isoformat()
                file.write(json.dumps({"sensor": sensor, "kind": kind, "value": value, "at": at}) + "\n")


if __name__ == "__main__":
    main()
